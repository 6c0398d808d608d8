// What the machine can do, measured in the same run by crates/core/examples/limits.rs.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const CARGO = ['run', '--quiet', '--profile', 'limits', '-p', 'ztensor-core', '--example', 'limits', '--']

/** What the program prints; undefined where there is no Rust to build it with. */
function limits(...args) {
  try {
    return JSON.parse(execFileSync('cargo', [...CARGO, ...args], { cwd: root, encoding: 'utf8' }))
  } catch (error) {
    console.log(`The machine's limits were not measured: ${String(error.message).split('\n')[0]}`)
    return undefined
  }
}

/** Bytes per second of each bound, or of those that are named. */
export const machineLimits = (model, weights, ...names) =>
  limits(model, weights, ...(names.length > 0 ? [names.join(',')] : [])) ?? {}

/** What reading a file into fresh memory takes in a process that does nothing else, in ms: the first time, and again. */
export function firstRead(model) {
  const [first, again] = limits('--first', model) ?? []
  return { first, again }
}
