// Builds zTensor 0.1, 1.0 and 1.1-1.2 containers part by part, so that a case can break exactly one of them.
import { encode, raw, selfDescribed, tag } from './cbor.mjs'

export const MAGIC_01 = Buffer.from('ZTEN0001')
export const MAGIC_10 = Buffer.from('ZTEN1000')

/** An unsigned 64-bit little-endian number. */
export function u64(value) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** Several of them in a row. */
export const u64s = (...values) => Buffer.concat(values.map(u64))

/** float32 values as their little-endian bytes. */
export function f32s(...values) {
  const bytes = Buffer.alloc(values.length * 4)
  values.forEach((value, i) => {
    bytes.writeFloatLE(value, i * 4)
  })
  return bytes
}

/**
 * Puts the parts of a container together: magic, blobs at 64-byte offsets (or right where `at` says), index, its size,
 * and for 1.1+ the magic again. `size` overrides the stated size of the index, `index` its bytes.
 */
export function container({ magic, blobs = [], index, size, endMagic = false, gap = 0 }) {
  const parts = [magic]
  let end = magic.length
  for (const { offset, bytes } of blobs) {
    parts.push(Buffer.alloc(offset - end), bytes)
    end = offset + bytes.length
  }
  parts.push(Buffer.alloc(gap), index, u64(size ?? index.length))
  if (endMagic) parts.push(MAGIC_10)
  return Buffer.concat(parts)
}

/** Sets the offset of each component, 64-byte aligned unless it has one, and removes its bytes. */
function locate(components) {
  const blobs = []
  let end = 8
  const located = components.map(({ bytes, lead = 0, ...fields }) => {
    if (bytes === undefined) return fields
    const offset = Math.ceil(end / 64) * 64 + lead
    blobs.push({ offset, bytes })
    end = offset + bytes.length
    return { offset, length: bytes.length, ...fields }
  })
  return { located, blobs }
}

/** Drops the fields that a case set to undefined. */
const present = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

function placeTensors(tensors) {
  const flat = []
  for (const tensor of Object.values(tensors)) {
    if (!isPlain(tensor) || !isPlain(tensor.components)) continue
    for (const component of Object.values(tensor.components)) if (isPlain(component)) flat.push(component)
  }
  const { located, blobs } = locate(flat)
  const at = new Map(flat.map((component, i) => [component, present(located[i])]))
  const placed = Object.entries(tensors).map(([name, tensor]) => {
    if (!isPlain(tensor)) return [name, tensor]
    if (!isPlain(tensor.components)) return [name, present(tensor)]
    const components = Object.entries(tensor.components).map(([role, c]) => [role, at.get(c) ?? c])
    return [name, present({ ...tensor, components: new Map(components) })]
  })
  return { entries: new Map(placed), blobs }
}

const isPlain = (value) => value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype

/**
 * A 1.0 file. `tensors`: name -> { dtype, shape, format, components: { role: { bytes, ...overrides } } }; a field set to
 * undefined is left out. `root` overrides or removes the root's keys, `wrap` transforms it before encoding, `file` overrides the
 * container's parts.
 */
export function zt10(tensors, { root = {}, wrap = (item) => item, ...file } = {}) {
  const { entries, blobs } = placeTensors(tensors)
  const index = encode(wrap(present({ version: '1.0', generator: 'corpus', attributes: {}, tensors: entries, ...root })))
  return container({ magic: MAGIC_10, blobs, index, ...file })
}

/** A 1.1 or 1.2 file: the same, with `objects`, dtypes on the components, and the magic at the end. */
export function zt12(objects, { root = {}, wrap = (item) => item, ...file } = {}) {
  const { entries, blobs } = placeTensors(objects)
  const index = encode(wrap(present({ version: '1.2.0', objects: entries, ...root })))
  return container({ magic: MAGIC_10, blobs, index, endMagic: true, ...file })
}

/** A 0.1 file: an array of maps. `tensors`: [{ name, dtype, shape, bytes, ...overrides }]. */
export function zt01(tensors, { wrap = (item) => item, ...file } = {}) {
  const blobs = []
  let end = 8
  const entries = tensors.map((tensor) => {
    if (!isPlain(tensor)) return tensor
    const { name, bytes, lead = 0, ...fields } = tensor
    const offset = Math.ceil(end / 64) * 64 + lead
    if (bytes !== undefined) {
      blobs.push({ offset, bytes })
      end = offset + bytes.length
    }
    const located = { name, offset, size: bytes?.length ?? 0, encoding: 'raw', layout: 'dense', ...fields }
    return present(located)
  })
  return container({ magic: MAGIC_01, blobs, index: encode(wrap(entries)), ...file })
}

export const SQUARE = f32s(1, 2, 3, 4)

/** The tensor that most cases break: float32 [2, 2] in 16 bytes. */
export const square10 = (fields = {}, component = {}) => ({
  dtype: 'float32',
  shape: [2, 2],
  format: 'dense',
  components: { data: { bytes: SQUARE, ...component } },
  ...fields,
})
/** A CSR matrix `m` and a COO vector `k`, of one element each. */
export const sparse10 = () => ({
  m: {
    dtype: 'float32',
    shape: [1, 1],
    format: 'sparse_csr',
    components: { values: { bytes: f32s(1) }, indices: { bytes: u64s(0) }, indptr: { bytes: u64s(0, 1) } },
  },
  k: {
    dtype: 'float32',
    shape: [1],
    format: 'sparse_coo',
    components: { values: { bytes: f32s(1) }, coords: { bytes: u64s(0) } },
  },
})
export const square12 = (fields = {}, component = {}) => ({
  shape: [2, 2],
  format: 'dense',
  components: { data: { dtype: 'f32', bytes: SQUARE, ...component } },
  ...fields,
})
export const square01 = (fields = {}) => ({ name: 'w', dtype: 'float32', shape: [2, 2], bytes: SQUARE, ...fields })

/** A complete 1.0 or 1.2 file around the bytes of an index: for indexes that `encode` cannot write. */
export const index10 = (bytes, file = {}) => container({ magic: MAGIC_10, index: bytes, ...file })
export const index12 = (bytes, file = {}) => container({ magic: MAGIC_10, index: bytes, endMagic: true, ...file })
export const index01 = (bytes, file = {}) => container({ magic: MAGIC_01, index: bytes, ...file })

/** Tagged roots, as [what, the root's wrapping, the code of the rejection]: ztensor 0.1.4, 1.0.1 and 1.2.3 read all of them. */
export const TAGGED = [
  ['the tag of CBOR', (root) => selfDescribed(root)],
  ['the tag of CBOR twice', (root) => selfDescribed(root, 2)],
  ['the tag of CBOR in 8 bytes', (root) => tag(55799, root, 8)],
  ['the tag of CBOR 64 times', (root) => selfDescribed(root, 64)],
  ['the tag of CBOR 65 times', (root) => selfDescribed(root, 65), 'ZT_LIMIT'],
  ['the tag of CBOR and nothing', () => selfDescribed(raw()), 'ZT_BAD_INDEX'],
  ['another tag', (root) => tag(42, root), 'ZT_BAD_INDEX'],
  ['another tag behind that of CBOR', (root) => selfDescribed(tag(42, root)), 'ZT_BAD_INDEX'],
]
