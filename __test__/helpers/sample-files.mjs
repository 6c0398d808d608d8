// Helpers of the tests of writing: the written formats and their dtypes, bytes to write, and folders.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { create } from 'ztensor'
import { numbersOf } from './bytes.mjs'
import { scratchPath } from './scratch.mjs'

/** dtype -> the array of its data and the bits of an element. */
export const DTYPES = {
  float64: [Float64Array, 64],
  float32: [Float32Array, 32],
  float16: [Uint16Array, 16],
  bfloat16: [Uint16Array, 16],
  int64: [BigInt64Array, 64],
  int32: [Int32Array, 32],
  int16: [Int16Array, 16],
  int8: [Int8Array, 8],
  uint64: [BigUint64Array, 64],
  uint32: [Uint32Array, 32],
  uint16: [Uint16Array, 16],
  uint8: [Uint8Array, 8],
  bool: [Uint8Array, 8],
  float8_e4m3fn: [Uint8Array, 8],
  float8_e5m2: [Uint8Array, 8],
  float8_e4m3fnuz: [Uint8Array, 8],
  float8_e5m2fnuz: [Uint8Array, 8],
  float8_e8m0fnu: [Uint8Array, 8],
  float6_e2m3fn: [Uint8Array, 6],
  float6_e3m2fn: [Uint8Array, 6],
  float4_e2m1fn: [Uint8Array, 4],
  complex64: [Float32Array, 64],
  complex128: [Float64Array, 128],
}

const all = Object.keys(DTYPES)
const plain = all.slice(0, 13)
const logical = ['float8_e4m3fn', 'float8_e5m2', 'float8_e4m3fnuz', 'float8_e5m2fnuz', 'complex64', 'complex128']

/**
 * The containers and versions that the tests of writing share, and the dtypes that their specifications have. zTensor 2, GGUF and NumPy
 * have separate tests.
 */
export const WRITE_FORMATS = [
  { name: '0.1', options: { version: '0.1' }, dtypes: plain, zt: true },
  { name: '1.0', options: { version: '1.0' }, dtypes: plain, zt: true },
  { name: '1.2', options: { version: '1.2' }, dtypes: [...plain, ...logical], zt: true },
  { name: 'safetensors', options: { format: 'safetensors' }, dtypes: all.filter((d) => d !== 'complex128') },
  { name: 'btf', options: { format: 'btf' }, dtypes: ['int8', 'int16', 'int32', 'int64', 'float32', 'float64'] },
]

/** Bytes without a pattern, the same for the same seed. */
export function noise(length, seed) {
  const bytes = new Uint8Array(length)
  let state = (seed * 2654435761 + 1) >>> 0
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    bytes[i] = state >>> 24
  }
  return bytes
}

/** Any bits of a dtype, in its array; booleans are 0 and 1. With a `period`, the bytes repeat. */
export function sample(dtype, shape, seed, period) {
  const [Class, bits] = DTYPES[dtype]
  const length = (shape.reduce((product, size) => product * size, 1) * bits) / 8
  const bytes = noise(length, seed)
  if (period !== undefined) for (let i = period; i < length; i++) bytes[i] = bytes[i - period]
  if (dtype === 'bool') for (let i = 0; i < bytes.length; i++) bytes[i] &= 1
  return numbersOf(Class, bytes)
}

/** Writes a file with the options, at a new path. Returns the path. */
export async function written(options, add, path = scratchPath('written.zt')) {
  const writer = await create(path, options)
  await add(writer)
  await writer.finish()
  return path
}

/** A Writable that copies its chunks; `each` returns when it accepts more. */
export function collecting(each = (done) => done()) {
  const chunks = []
  const stream = new Writable({
    write(chunk, _, done) {
      chunks.push(Buffer.from(chunk))
      each(done)
    },
  })
  return { stream, chunks, bytes: () => Buffer.concat(chunks) }
}

/** Writes into a stream with the options. Returns its bytes. */
export async function bytesWritten(options, add) {
  const { stream, bytes } = collecting()
  await written(options, add, stream)
  return bytes()
}

/** A matrix of two rows and as many values, and a vector of one value. */
export const twoRows = (first, second) => ({
  shape: [2, 3],
  values: Float32Array.of(first, second),
  indices: Uint32Array.of(0, 2),
  indptr: Uint32Array.of(0, 1, 2),
})
export const oneCell = (value) => ({ shape: [4], values: Float32Array.of(value), coords: BigUint64Array.of(2n) })

/** A new folder. */
export function scratchFolder() {
  const folder = scratchPath('folder')
  mkdirSync(folder)
  return { folder, names: () => readdirSync(folder).sort(), path: (name) => join(folder, name) }
}

const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

/** CRC-32C (RFC 3720, appendix B.4), the slow way. */
export function crc32c(bytes) {
  let crc = 0xffffffff
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff] ^ (crc >>> 8)
  return (crc ^ 0xffffffff) >>> 0
}

/** The digest of these bytes as zTensor spells it. */
export const digestOf = (algorithm, bytes) =>
  algorithm === 'crc32c'
    ? `crc32c:0x${crc32c(bytes).toString(16).padStart(8, '0').toUpperCase()}`
    : `sha256:${createHash('sha256').update(bytes).digest('hex')}`

/** Ends a stream with these chunks; resolves when the writer has them all, rejects with its error. */
export function streamed(writable, chunks) {
  return new Promise((resolve, reject) => {
    writable.on('error', reject).on('close', resolve)
    for (const chunk of chunks) writable.write(chunk)
    writable.end()
  })
}
