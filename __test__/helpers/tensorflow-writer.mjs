// Writes TensorFlow checkpoints block by block, including malformed ones that TensorFlow does not write.
import { Buffer } from 'node:buffer'
import { littleEndian } from './bytes.mjs'
import { bytes, f32s, int, varint } from './onnx-writer.mjs'
import { crc32c } from './sample-files.mjs'

export const MAGIC = Buffer.from([0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb])
export const TYPES = {
  float: 1,
  double: 2,
  int32: 3,
  uint8: 4,
  string: 7,
  complex64: 8,
  qint8: 11,
  bfloat16: 14,
  int16: 5,
  resource: 20,
  int4: 29,
}

/** The checksum of bytes, masked as in LevelDB. */
export function masked(of) {
  const crc = crc32c(of)
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0
}
const u32 = (value) => littleEndian(Uint32Array.of(value))
const fixed32 = (number, value) => Buffer.concat([varint(number * 8 + 5), u32(value)])
export const handle = ({ offset, size }) => Buffer.concat([varint(offset), varint(size)])

/** An entry of a block: `shared` bytes are those of the key before it. */
export const entry = (key, value, { shared = 0, length } = {}) =>
  Buffer.concat([
    varint(shared),
    varint(Buffer.from(key).length),
    varint(length ?? value.length),
    Buffer.from(key),
    value,
  ])

/** The contents of a block of `[key, value]` or encoded entries. */
export function block(entries, { restarts = [0] } = {}) {
  const all = entries.map((one) => (Buffer.isBuffer(one) ? one : entry(...one)))
  return Buffer.concat([...all, ...restarts.map(u32), u32(restarts.length)])
}

/** Bytes in Snappy's raw format, of literals alone. */
export function snappy(of) {
  const parts = [varint(of.length)]
  for (let at = 0; at < of.length; at += 60) {
    const part = of.subarray(at, at + 60)
    parts.push(Buffer.from([(part.length - 1) << 2]), part)
  }
  return Buffer.concat(parts)
}

/**
 * A table of blocks, each the contents or { contents, kind, crc }. `handles` changes the list of handles, `tail` the bytes after
 * the last block, `index` how the list of blocks is stored.
 */
export function table(blocks, { handles = (all) => all, index = (contents) => contents, magic = MAGIC } = {}) {
  const parts = []
  let offset = 0
  const add = (one) => {
    const { contents, kind = 0, crc } = Buffer.isBuffer(one) ? { contents: one } : one
    const trailer = Buffer.from([kind])
    parts.push(contents, trailer, u32(crc ?? masked(Buffer.concat([contents, trailer]))))
    const found = { offset, size: contents.length }
    offset += contents.length + 5
    return found
  }
  const list = handles(blocks.map(add))
  const meta = add(block([]))
  const root = add(
    index(
      block(list.map((one, at) => [`\xff${String(at).padStart(6, '0')}`, Buffer.isBuffer(one) ? one : handle(one)])),
    ),
  )
  const footer = Buffer.concat([handle(meta), handle(root)])
  return Buffer.concat([...parts, footer, Buffer.alloc(40 - footer.length), magic])
}

/** BundleHeaderProto. */
export const header = ({ shards = 1, endianness, producer = 1, least, more = [] } = {}) =>
  Buffer.concat([
    int(1, shards),
    ...(endianness === undefined ? [] : [int(2, endianness)]),
    bytes(3, [int(1, producer), ...(least === undefined ? [] : [int(2, least)])]),
    ...more,
  ])

export const dims = (shape) =>
  bytes(
    2,
    shape.map((dim) => bytes(2, [int(1, dim)])),
  )
/** TensorSliceProto: [start, length] of each dimension, or null for all of it. */
export const slice = (extents) =>
  bytes(
    7,
    extents.map((extent) => bytes(1, extent === null ? [] : [int(1, extent[0]), int(2, extent[1])])),
  )

/** BundleEntryProto. `data` determines the size and the checksum. */
export const tensor = ({
  type = TYPES.float,
  shape = [2],
  shard,
  offset,
  data = f32s(1, 2),
  size,
  crc,
  slices,
  more = [],
} = {}) =>
  Buffer.concat([
    int(1, type),
    dims(shape),
    ...(shard === undefined ? [] : [int(3, shard)]),
    ...(offset === undefined ? [] : [int(4, offset)]),
    ...(slices === undefined ? [int(5, size ?? data.length), fixed32(6, crc ?? masked(data))] : slices.map(slice)),
    ...more,
  ])

/** The key of a part: of numbers below 64 alone, which take a byte. */
export const part = (name, extents) =>
  Buffer.concat([
    Buffer.from([0]),
    Buffer.from(name),
    Buffer.from([0, 1, 1, extents.length]),
    ...extents.map((extent) => Buffer.from(extent === null ? [0x80, 0x7f] : extent.map((number) => 0x80 | number))),
  ])

/** An index of entries `{ name: value }` in one block, or of encoded ones. */
export const checkpoint = (entries, { head = header(), ...of } = {}) =>
  table([block([['', head], ...(Array.isArray(entries) ? entries : Object.entries(entries))])], of)
