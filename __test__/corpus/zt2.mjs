// Builds zTensor 2 containers part by part, so that a case can break exactly one of them.
import { encode, pairs } from './cbor.mjs'
import { xxh3 } from './xxhash.mjs'
import { u64 } from './zt.mjs'

export const MAGIC = Buffer.from('895a54320d0a1a0a', 'hex')
const PAGE = 4096

/** The footer of 40 bytes; each field may be given. */
export function footer({ offset = 0, length = 0, hash = 0, version = 2, reserved = 0, magic = MAGIC } = {}) {
  const numbers = Buffer.alloc(8)
  numbers.writeUInt32LE(version, 0)
  numbers.writeUInt32LE(reserved, 4)
  return Buffer.concat([u64(offset), u64(length), u64(hash), numbers, magic])
}

/** Deterministic CBOR of plain values: map keys in the order of their bytes. Values of `cbor.mjs` are written unchanged. */
export function deterministic(value) {
  return encode(ordered(value))
}

function ordered(value) {
  if (Array.isArray(value)) return value.map(ordered)
  const entries =
    value instanceof Map
      ? [...value]
      : value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype
        ? Object.entries(value)
        : undefined
  if (entries === undefined) return value
  const sorted = entries
    .filter(([, item]) => item !== undefined)
    .map(([key, item]) => [encode(key), key, ordered(item)])
    .sort(([a], [b]) => Buffer.compare(a, b))
  return pairs(sorted.map(([, key, item]) => [key, item]))
}

/**
 * A whole file. `blobs`: offset -> bytes. `manifest`: the value to encode, or bytes. It is after the blobs
 * unless `at` is set. Fields of the footer may be given, `header` is the magic at the beginning.
 */
export function file({ blobs = {}, manifest, at, header = MAGIC, ...fields }) {
  const bytes = Buffer.isBuffer(manifest) ? manifest : deterministic(manifest)
  const ends = Object.entries(blobs).map(([offset, blob]) => Number(offset) + blob.length)
  const offset = at ?? Math.max(PAGE, Math.ceil(Math.max(0, ...ends) / PAGE) * PAGE)
  const body = Buffer.alloc(Math.max(offset + bytes.length, ...ends))
  for (const [start, blob] of Object.entries(blobs)) blob.copy(body, Number(start))
  bytes.copy(body, offset)
  header.copy(body, 0)
  return Buffer.concat([body, footer({ offset, length: bytes.length, hash: xxh3(bytes), ...fields })])
}

/** A part whose blob is at `offset`; further fields, or `undefined` to leave one out. */
export const part = (dtype, offset, length, more = {}) => ({ dtype, blob: [offset, length], ...more })

export const object = (shape, layout, parts, more = {}) => ({ shape, layout, parts, ...more })

/** A dense object whose only part is at `offset`. */
export const dense = (dtype, shape, offset, length, more) => object(shape, 'dense', { data: part(dtype, offset, length, more) })

/** A file of one tensor `t`, its parts' bytes one after the other on pages from 4096 on. */
export function lone(shape, layout, parts, more = {}, root = {}) {
  const blobs = {}
  let next = PAGE
  const placed = Object.entries(parts).map(([role, { bytes, ...fields }]) => {
    const offset = next
    blobs[offset] = bytes
    next += Math.max(PAGE, Math.ceil(bytes.length / PAGE) * PAGE)
    return [role, { blob: [offset, bytes.length], ...fields }]
  })
  const objects = { t: object(shape, layout, Object.fromEntries(placed), more) }
  return file({ blobs, manifest: { objects, ...root } })
}

/** `xxh3:…` of bytes. */
export const digestOf = (bytes) => `xxh3:${xxh3(bytes).toString(16).padStart(16, '0')}`

/** The sections of the specification, as errors name them. */
export const RULE = {
  file: 'zTensor 2 §2.1 File structure',
  magic: 'zTensor 2 §2.2 Magic',
  footer: 'zTensor 2 §2.3 Footer',
  blobs: 'zTensor 2 §2.4 Blobs and alignment',
  encoding: 'zTensor 2 §3.1 Encoding',
  root: 'zTensor 2 §3.2 Root schema',
  object: 'zTensor 2 §3.3 Object',
  part: 'zTensor 2 §3.4 Part',
  names: 'zTensor 2 §3.5 Names',
  storage: 'zTensor 2 §4.1 Storage types',
  logical: 'zTensor 2 §4.2 Logical types',
  dense: 'zTensor 2 §5.1 Core layout: dense',
  layouts: 'zTensor 2 §5.2 Layout profiles',
  shards: 'zTensor 2 §7.1 Shard table',
  dataShards: 'zTensor 2 §7.2 Data shards',
  elements: 'zTensor 2 Appendix A: Registered logical types',
  csr: 'zt.sparse_csr/1 Validation',
  coo: 'zt.sparse_coo/1 Validation',
  zstd: 'zt.zstd-seekable/1 Rules',
}
