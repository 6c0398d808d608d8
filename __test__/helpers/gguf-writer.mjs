// Writes GGUF files byte by byte, including malformed ones that the gguf package does not write.
import { Buffer } from 'node:buffer'

const KINDS = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
}
const WRITES = {
  u8: [1, (view, value, little) => view.setUint8(0, value, little)],
  i8: [1, (view, value) => view.setInt8(0, value)],
  u16: [2, (view, value, little) => view.setUint16(0, value, little)],
  i16: [2, (view, value, little) => view.setInt16(0, value, little)],
  u32: [4, (view, value, little) => view.setUint32(0, value, little)],
  i32: [4, (view, value, little) => view.setInt32(0, value, little)],
  f32: [4, (view, value, little) => view.setFloat32(0, value, little)],
  bool: [1, (view, value) => view.setUint8(0, value)],
  u64: [8, (view, value, little) => view.setBigUint64(0, BigInt(value), little)],
  i64: [8, (view, value, little) => view.setBigInt64(0, BigInt(value), little)],
  f64: [8, (view, value, little) => view.setFloat64(0, value, little)],
}

/**
 * metadata: [key, kind, value], where the value of an array is [kind of its items, items, claimed count].
 * tensors: { name, shape (outermost first), type, data, offset, dims (in stored order) }. All but the name have defaults.
 */
export function gguf({
  magic = 'GGUF',
  version = 3,
  big = false,
  metadata = [],
  tensors = [],
  alignment = 32,
  tensorCount = tensors.length,
  metadataCount = metadata.length,
  tail = 0,
} = {}) {
  const number = (kind, value) => {
    const [width, set] = WRITES[kind]
    const bytes = Buffer.alloc(width)
    set(new DataView(bytes.buffer, bytes.byteOffset, width), value, !big)
    return bytes
  }
  const count = (value) => number(version === 1 ? 'u32' : 'u64', value)
  const string = (text) => {
    const bytes = Buffer.from(text)
    return Buffer.concat([count(bytes.length), bytes])
  }
  const code = (kind) => number('u32', typeof kind === 'number' ? kind : KINDS[kind])
  const value = (kind, held) => {
    if (Buffer.isBuffer(held)) return held
    if (kind === 'string') return string(held)
    if (kind !== 'array') return number(kind, held)
    const [of, items, claimed = items.length] = held
    return Buffer.concat([code(of), count(claimed), ...items.map((item) => value(of, item))])
  }
  const parts = [Buffer.from(magic), number('u32', version), count(tensorCount), count(metadataCount)]
  for (const [key, kind, held] of metadata) parts.push(string(key), code(kind), value(kind, held))
  const bodies = []
  let at = 0
  for (const { name, shape = [1], type = 0, data = Buffer.alloc(4), offset = at, dims } of tensors) {
    const listed = dims ?? [...shape].reverse()
    parts.push(string(name), number('u32', listed.length), ...listed.map(count), number('u32', type))
    parts.push(number('u64', offset))
    const padded = Buffer.concat([data, Buffer.alloc((alignment - (data.length % alignment)) % alignment)])
    bodies.push(padded)
    at += padded.length
  }
  const index = Buffer.concat(parts)
  const padding = tensors.length > 0 ? (alignment - (index.length % alignment)) % alignment : 0
  return Buffer.concat([index, Buffer.alloc(padding), ...bodies, Buffer.alloc(tail)])
}
