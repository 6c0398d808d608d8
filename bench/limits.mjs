// What the machine can do, measured in the same run by native programs: crates/core/examples/limits.rs and parse.rs.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const CARGO = ['run', '--quiet', '--profile', 'bench', '-p', 'ztensor-core', '--example']

/** The output of a program of crates/core/examples; undefined without Rust. */
function printed(program, ...args) {
  try {
    return JSON.parse(execFileSync('cargo', [...CARGO, program, '--', ...args], { cwd: root, encoding: 'utf8' }))
  } catch (error) {
    console.log(`The machine's limits were not measured: ${String(error.message).split('\n')[0]}`)
    return undefined
  }
}

/** Bytes per second of each limit, or of the named ones. */
export const machineLimits = (model, weights, ...names) =>
  printed('limits', model, weights, ...(names.length > 0 ? [names.join(',')] : [])) ?? {}

/** The time of reading a file into fresh memory in a new native process, in ms: of the first read and of later ones. */
export function firstRead(model) {
  const [first, again] = printed('limits', '--first', model) ?? []
  return { first, again }
}

/** The time of reading each index without JavaScript, in ms. */
export const parsed = (paths) => printed('parse', ...paths) ?? []

/** The time of building only a table of the names in each safetensors header, in ms. */
export const named = (paths) => printed('parse', '--names', ...paths) ?? []
