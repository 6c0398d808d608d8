// Runs the built `ztensor` command in a child process, and creates the files for its tests.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { littleEndian } from './bytes.mjs'
import { turns } from './turns.mjs'

export const main = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
export const fixture = (name) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))

const folder = mkdtempSync(join(tmpdir(), 'ztensor-cli-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))

/** Writes `bytes` under `name` in a folder of this test run and returns the path. */
export function write(name, bytes) {
  const path = join(folder, name)
  writeFileSync(path, bytes)
  return path
}

/** A path in that folder without a file. */
export const missing = () => join(folder, 'not-there.zt')

/** The environment without variables for color, except those in `env`. */
function environment(env) {
  const { FORCE_COLOR: _, NO_COLOR: __, ...rest } = process.env
  return { ...rest, ...env }
}

/** Starts `ztensor`. */
export function start(args, { env = {}, cwd, stdio = ['ignore', 'pipe', 'pipe'] } = {}) {
  return spawn(process.execPath, [main, ...args], { env: environment(env), cwd, stdio })
}

/** Resolves with the exit code, the signal and the output of a started `ztensor`. */
export function ended(child) {
  return new Promise((resolve, reject) => {
    const output = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        output[name] += text
      })
    }
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, ...output }))
  })
}

/** More processes than processors take memory, and slow each other down. */
const inTurn = turns(availableParallelism())

/**
 * Runs `ztensor` to its end: { code, signal, stdout, stderr }. In CI each run is a process. Elsewhere a thread runs one after the other,
 * since starting Node takes more time than most commands.
 */
export function run(args, options = {}) {
  const { env = {}, ...others } = options
  // Options of Node are for a process.
  if (process.env.CI || 'NODE_OPTIONS' in env || Object.keys(others).length > 0)
    return inTurn(() => ended(start(args, options)))
  return inThread(args, env)
}

/** The thread of this test file. */
let host
const inOrder = turns(1)

const inThread = (args, env) =>
  inOrder(
    () =>
      new Promise((resolve, reject) => {
        host ??= new Worker(new URL('command-host.mjs', import.meta.url), { env: environment({}) })
        const end = (settle) => (value) => {
          for (const event of ['message', 'error', 'exit']) host?.removeAllListeners(event)
          host?.unref()
          settle(value)
        }
        host.ref()
        host.once('message', end(resolve)).once('error', end(reject))
        host.once('exit', (code) => {
          host = undefined
          reject(new Error(`the thread of the command ended with code ${code}`))
        })
        host.postMessage({ args, env })
      }),
  )

/** Runs `ztensor … --json`, asserts success, and returns the document. */
export async function json(t, args) {
  const { code, stdout, stderr } = await run([...args, '--json'])
  t.is(stderr, '')
  t.is(code, 0)
  return JSON.parse(stdout)
}

const widths = {
  F64: 8,
  I64: 8,
  U64: 8,
  C64: 8,
  F32: 4,
  I32: 4,
  F16: 2,
  BF16: 2,
  I16: 2,
  U8: 1,
  I8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F4: 0.5,
}

/**
 * The bytes of a safetensors file. `tensors`: name -> [dtype, shape, typed array or bytes]; without data, zeros.
 * Names are written as JSON strings without checks.
 */
export function safetensors(tensors, metadata) {
  const entries = metadata === undefined ? [] : [`"__metadata__":${JSON.stringify(metadata)}`]
  const data = []
  let end = 0
  for (const [name, [dtype, shape, values]] of Object.entries(tensors)) {
    const length = shape.reduce((product, extent) => product * extent, widths[dtype])
    const bytes = values === undefined ? Buffer.alloc(length) : littleEndian(values).subarray(0, length)
    data.push(bytes)
    entries.push(`${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [end, end + length] })}`)
    end += length
  }
  const header = Buffer.from(`{${entries.join(',')}}`)
  const padding = Buffer.alloc(-header.length & 7, ' ')
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(header.length + padding.length))
  return Buffer.concat([size, header, padding, ...data])
}
