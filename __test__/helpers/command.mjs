// Runs the built `ztensor` command as a process of its own, and makes the files that its tests look into.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
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

/** A path in that folder where nothing is. */
export const missing = () => join(folder, 'not-there.zt')

/** The environment without what decides about colour, but for `env`. */
function environment(env) {
  const { FORCE_COLOR: _, NO_COLOR: __, ...rest } = process.env
  return { ...rest, ...env }
}

/** Starts `ztensor`. */
export function start(args, { env = {}, cwd, stdio = ['ignore', 'pipe', 'pipe'] } = {}) {
  return spawn(process.execPath, [main, ...args], { env: environment(env), cwd, stdio })
}

/** Resolves with what a started `ztensor` said, once it has ended. */
export function ended(child) {
  return new Promise((resolve, reject) => {
    const said = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        said[name] += text
      })
    }
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, ...said }))
  })
}

/** A process that has no processor takes memory, and makes the others slower. */
const inTurn = turns(availableParallelism())

/** Runs `ztensor` to its end: { code, signal, stdout, stderr }. */
export const run = (args, options) => inTurn(() => ended(start(args, options)))

/** Runs `ztensor … --json` and returns the document, having checked that it ended well. */
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
 * Names go in as JSON has them, whatever they are.
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
