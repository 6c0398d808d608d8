// What the machine can do, measured in the same run by native programs: crates/core/examples/limits.rs and parse.rs.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const CARGO = ['run', '--quiet', '--profile', 'quick', '-p', 'ztensor-core', '--example']

/** What a program of crates/core/examples prints; undefined where there is no Rust to build it with. */
function printed(program, ...args) {
  try {
    return JSON.parse(execFileSync('cargo', [...CARGO, program, '--', ...args], { cwd: root, encoding: 'utf8' }))
  } catch (error) {
    console.log(`The machine's limits were not measured: ${String(error.message).split('\n')[0]}`)
    return undefined
  }
}

/** Bytes per second of each bound, or of those that are named. */
export const machineLimits = (model, weights, ...names) =>
  printed('limits', model, weights, ...(names.length > 0 ? [names.join(',')] : [])) ?? {}

/** What reading a file into fresh memory takes in a process that does nothing else, in ms: the first time, and again. */
export function firstRead(model) {
  const [first, again] = printed('limits', '--first', model) ?? []
  return { first, again }
}

/** What the indexes of files take without JavaScript, in ms each. */
export const parsed = (paths) => printed('parse', ...paths) ?? []

/** What a table of the names in headers of safetensors takes, with nothing else, in ms each. */
export const named = (paths) => printed('parse', '--names', ...paths) ?? []
