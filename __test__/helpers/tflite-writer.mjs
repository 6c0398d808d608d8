// Writes TensorFlow Lite models that no tool writes: tables of FlatBuffers with any fields.
import { littleEndian } from './bytes.mjs'

/** A table: { number of a field: bytes, or the target of an offset }. */
export const table = (fields) => ({ fields })
/** A vector of tables, or of `bytes`. */
export const tables = (...items) => ({ items })
export const vector = (bytes, count = bytes.length) => ({ bytes: Buffer.from(bytes), count })
export const text = (value) => vector(Buffer.from(`${value}\0`), Buffer.byteLength(value))
export const ints = (...values) => vector(littleEndian(Int32Array.from(values)), values.length)
export const floats = (...values) => vector(littleEndian(Float32Array.from(values)), values.length)
export const longs = (...values) => vector(littleEndian(BigInt64Array.from(values, BigInt)), values.length)
export const u8 = (value) => Buffer.of(value)
export const u32 = (value) => littleEndian(Uint32Array.of(value))
export const u64 = (value) => littleEndian(BigUint64Array.of(BigInt(value)))

/** A model of one subgraph: `buffer` is the buffer of each tensor. */
export const model = (tensors, buffers, more = {}) =>
  file(table({ 0: u32(3), 2: tables(table({ 0: tables(...tensors) })), 4: tables(...buffers), ...more }))
export const buffer = (...bytes) => table({ 0: vector(Buffer.from(bytes.flat())) })
export const tensor = ({ name = 'w', type = 0, shape = [2], buffer: of = 1, ...more } = {}) =>
  table({ 0: ints(...shape), 1: u8(type), 2: u32(of), 3: text(name), ...more })

/** A file whose root is that table. */
export function file(root, identifier = 'TFL3') {
  let bytes = Buffer.concat([Buffer.alloc(4), Buffer.from(identifier)])
  const append = (more, alignment = 4) => {
    bytes = Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)])
    const at = bytes.length
    bytes = Buffer.concat([bytes, more])
    return at
  }
  const put = (one) => {
    if (one.items !== undefined) {
      const at = append(Buffer.concat([u32(one.items.length), Buffer.alloc(one.items.length * 4)]))
      for (const [index, item] of one.items.entries()) {
        const position = at + 4 + index * 4
        const led = put(item)
        bytes.writeUInt32LE(led - position, position)
      }
      return at
    }
    if (one.bytes !== undefined) return append(Buffer.concat([u32(one.count), one.bytes]))
    const fields = Object.entries(one.fields).map(([number, value]) => [Number(number), value])
    const slots = fields.reduce((most, [number]) => Math.max(most, number + 1), 0)
    const vtable = Buffer.alloc(4 + slots * 2)
    let length = 4
    for (const [number, value] of fields) {
      vtable.writeUInt16LE(length, 4 + number * 2)
      length += Buffer.isBuffer(value) ? value.length : 4
    }
    vtable.writeUInt16LE(vtable.length, 0)
    vtable.writeUInt16LE(length, 2)
    const described = append(vtable)
    const at = append(Buffer.alloc(length))
    bytes.writeInt32LE(at - described, at)
    let position = at + 4
    for (const [, value] of fields) {
      if (Buffer.isBuffer(value)) value.copy(bytes, position)
      else {
        const led = put(value)
        bytes.writeUInt32LE(led - position, position)
      }
      position += Buffer.isBuffer(value) ? value.length : 4
    }
    return at
  }
  const start = put(root)
  bytes.writeUInt32LE(start, 0)
  return bytes
}
