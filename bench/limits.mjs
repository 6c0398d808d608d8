// What the machine can do, measured in the same run by crates/core/examples/limits.rs.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Bytes per second of each bound; empty where there is no Rust to build the measurement with. */
export function machineLimits(model, weights) {
  const cargo = ['run', '--quiet', '--profile', 'limits', '-p', 'ztensor-core', '--example', 'limits', '--']
  try {
    return JSON.parse(execFileSync('cargo', [...cargo, model, weights], { cwd: root, encoding: 'utf8' }))
  } catch (error) {
    console.log(`The machine's limits were not measured: ${String(error.message).split('\n')[0]}`)
    return {}
  }
}
