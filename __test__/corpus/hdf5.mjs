// Builds HDF5 files (HDF5 File Format Specification 3.0): superblock 0 and object headers of version 1, which have no checksums,
// with the links of the root group as messages.
import { f32s } from './zt.mjs'

const u16 = (value) => Buffer.from([value & 255, value >> 8])
const u32 = (value) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value >>> 0)
  return bytes
}
export const u64 = (value) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)))
  return bytes
}
const bytes = (...parts) =>
  Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.from([part]) : Buffer.from(part))))

/** No address. */
export const NONE = -1n
/** The offsets of the root group, the dataset, its index and its data. */
export const ROOT = 96
export const DATASET = 2048
export const INDEX = 3072
export const DATA = 3584

export const VALUES = [1, 2, 3, 4, 5, 6]
export const ELEMENTS = f32s(...VALUES)

/** A message of an object header. */
export const message = (kind, data, { flags = 0, size } = {}) => {
  const padded = Buffer.concat([data, Buffer.alloc((8 - (data.length % 8)) % 8)])
  return bytes(u16(kind), u16(size ?? padded.length), flags, 0, 0, 0, padded)
}

export const header = (messages, { version = 1, size } = {}) => {
  const all = Buffer.concat(messages)
  return bytes(version, 0, u16(messages.length), u32(1), u32(size ?? all.length), u32(0), all)
}

export const link = (name, address) => message(6, bytes(1, 0, name.length, name, u64(address)))
export const softLink = (name, path) => message(6, bytes(1, 8, 1, name.length, name, u16(path.length), path))
export const externalLink = (name, file, path) =>
  message(6, bytes(1, 8, 64, name.length, name, u16(file.length + path.length + 3), 0, `${file}\0${path}\0`))
export const userLink = (name) => message(6, bytes(1, 8, 200, name.length, name, u16(0)))
export const continuation = (address, length) => message(16, bytes(u64(address), u64(length)))

export const space = (...dims) => message(1, bytes(1, dims.length, 0, 0, u32(0), ...dims.map(u64)))
/** A shape, and the shape that it may grow to. */
export const growing = (dims, most) => message(1, bytes(1, dims.length, 1, 0, u32(0), ...dims.map(u64), ...most.map(u64)))
const float = (size, sign, exponent, mantissa, bias, order = 0) =>
  bytes(0x11, 0x20 | order, sign, 0, u32(size), u16(0), u16(size * 8), ...exponent, ...mantissa, u32(bias))
export const TYPES = {
  float32: float(4, 31, [23, 8], [0, 23], 127),
  big: float(4, 31, [23, 8], [0, 23], 127, 1),
  vax: float(4, 31, [23, 8], [0, 23], 127, 0x41),
  bfloat16: float(2, 15, [7, 8], [0, 7], 127),
  e4m3: float(1, 7, [3, 4], [0, 3], 7),
  e5m2: float(1, 7, [2, 5], [0, 2], 15),
  int24: bytes(0x10, 8, 0, 0, u32(3), u16(0), u16(24)),
  twelve: bytes(0x10, 8, 0, 0, u32(2), u16(0), u16(12)),
  nothing: bytes(0x10, 8, 0, 0, u32(0), u16(0), u16(0)),
  bits: bytes(0x14, 0, 0, 0, u32(4), u16(0), u16(32)),
  time: bytes(0x12, 0, 0, 0, u32(4), u16(32)),
  class15: bytes(0x1f, 0, 0, 0, u32(4)),
  complex: bytes(0x5b, 0, 0, 0, u32(8), float(4, 31, [23, 8], [0, 23], 127)),
}
/** Bytes without a meaning. */
export const opaque = (size) => bytes(0x15, 0, 0, 0, u32(size))
/** Arrays in arrays of one element. */
export const nested = (depth) => {
  let type = TYPES.float32
  for (let at = 0; at < depth; at++) type = bytes(0x3a, 0, 0, 0, u32(4), 1, u32(1), type)
  return type
}
/** Arrays in arrays, each of as many dimensions as it can have. */
export const manyDimensions = (depth) => {
  let type = TYPES.float32
  for (let at = 0; at < depth; at++) type = bytes(0x3a, 0, 0, 0, u32(4), 255, ...Array(255).fill(u32(1)), type)
  return type
}
export const arrayOf = (size, ...dims) => bytes(0x3a, 0, 0, 0, u32(size), dims.length, ...dims.map(u32), TYPES.float32)
export const type = (data = TYPES.float32) => message(3, data)
export const fill = (value) => message(5, bytes(2, 1, 0, 1, u32(value.length), value))
export const contiguous = (address = DATA, length = ELEMENTS.length) => message(8, bytes(3, 1, u64(address), u64(length)))
export const compact = (data, length = data.length) => message(8, bytes(3, 0, u16(length), data))
export const chunked = (dims, address = INDEX, size = 4) =>
  message(8, bytes(3, 2, dims.length + 1, u64(address), ...dims.map(u32), u32(size)))
export const chunked4 = (dims, index, address = INDEX, flags = 0) =>
  message(8, bytes(4, 2, flags, dims.length + 1, 4, ...dims.map(u32), u32(4), ...index, u64(address)))
export const layout = (...parts) => message(8, bytes(...parts))
/** Filters by their numbers, each with its parameters. */
export const filters = (...list) =>
  message(
    11,
    bytes(
      2,
      list.length,
      ...list.flatMap(([id, ...parameters]) => [
        u16(id),
        ...(id >= 256 ? [u16(0)] : []),
        u16(1),
        u16(parameters.length),
        ...parameters.map(u32),
      ]),
    ),
  )
export const externalFiles = () => message(7, bytes(1, 0, 0, 0, u16(0), u16(0), u64(NONE)))
/** An attribute of version 3. */
export const attribute = (name, { type: kind = TYPES.float32, shape = bytes(2, 0, 0, 0), data, version = 3 }) =>
  message(12, bytes(version, 0, u16(name.length + 1), u16(kind.length), u16(shape.length), 0, `${name}\0`, kind, shape, data))
/** A text of any length, at an index of a global heap. */
export const TEXTS = bytes(0x19, 1, 0, 0, u32(16), 0x13, 0, 0, 0, u32(1))
export const reference = (length, address, index) => bytes(u32(length), u64(address), u32(index))
export const globalHeap = (...texts) => {
  const objects = texts.map((text, at) => {
    const data = Buffer.concat([Buffer.from(text), Buffer.alloc((8 - (text.length % 8)) % 8)])
    return bytes(u16(at + 1), u16(1), u32(0), u64(text.length), data)
  })
  const all = Buffer.concat(objects)
  return bytes('GCOL', 1, 0, 0, 0, u64(all.length + 16), all)
}

/** A node of a B-tree of chunks: { offsets, address, size, mask }. */
export const tree = (rank, children, { level = 0, signature = 'TREE', kind = 1 } = {}) => {
  const key = ({ offsets = Array(rank).fill(0), size = 0, mask = 0 }) =>
    bytes(u32(size), u32(mask), ...offsets.map(u64), u64(0))
  const entries = children.map((child) => bytes(key(child), u64(child.address)))
  return bytes(signature, kind, level, u16(children.length), u64(NONE), u64(NONE), ...entries, key({}))
}

export const superblock = ({ version = 0, sizes = [8, 8], root = ROOT, end = 0 } = {}) =>
  bytes(
    '\x89HDF\r\n\x1a\n'.split('').map((one) => one.charCodeAt(0)),
    [version, 0, 0, 0, 0, ...sizes, 0],
    u16(4),
    u16(16),
    u32(0),
    // Entries of a node of an index of chunks, which version 0 leaves at 32.
    ...(version === 1 ? [u16(32), u16(0)] : []),
    ...[0, NONE, end, NONE].map(u64),
    u64(0),
    u64(root),
    u32(0),
    u32(0),
    Buffer.alloc(16),
  )

/** The messages of a dataset of six float32, or of the given ones. */
export const dataset = ({ dims = [2, 3], kind, layout = contiguous(), more = [] } = {}) =>
  header([space(...dims), type(kind), layout, ...more])

/** A file: its parts at their offsets, with zeros between them. */
export function hdf5({
  root = header([link('w', DATASET)]),
  block = superblock(),
  data = ELEMENTS,
  at = {},
  ...own
} = {}) {
  const parts = { 0: block, [ROOT]: root, [DATASET]: own.header ?? dataset(own), [DATA]: data, ...at }
  const length = Math.max(...Object.entries(parts).map(([start, part]) => Number(start) + part.length))
  const file = Buffer.alloc(length)
  for (const [start, part] of Object.entries(parts)) part.copy(file, Number(start))
  return file
}

const summed = (part) => bytes(part, u32(lookup3(part)))
/** The header of a fixed array of the addresses of chunks, whose data block is at `block`. */
export const fixedHeader = (count, block, pageBits = 10) => summed(bytes('FAHD', 0, 0, 8, pageBits, u64(count), u64(block)))
/** Its data block: addresses, or the bits of written pages. */
export const fixedBlock = (header, ...rest) => summed(bytes('FADB', 0, 0, u64(header), ...rest))

/** The checksum of indexes: Bob Jenkins' lookup3. */
export function lookup3(bytes) {
  const rotate = (value, by) => (value << by) | (value >>> (32 - by))
  const word = (at) => [0, 1, 2, 3].reduce((value, byte) => value | ((bytes[at + byte] ?? 0) << (8 * byte)), 0)
  // Three numbers. Each step uses the next of them as `a`.
  const state = new Uint32Array(3).fill(0xdeadbeef + bytes.length)
  let at = 0
  const take = () => {
    for (let nth = 0; nth < 3; nth++) state[nth] += word(at + 4 * nth)
    at += 12
  }
  for (; bytes.length - at > 12; ) {
    take()
    for (const [nth, by] of [4, 6, 8, 16, 19, 4].entries()) {
      const [a, b, c] = [nth % 3, (nth + 1) % 3, (nth + 2) % 3]
      state[a] -= state[c]
      state[a] ^= rotate(state[c], by)
      state[c] += state[b]
    }
  }
  if (bytes.length === 0) return state[2]
  take()
  for (const [nth, by] of [14, 11, 25, 16, 4, 14, 24].entries()) {
    const [a, b] = [(nth + 2) % 3, (nth + 1) % 3]
    state[a] ^= state[b]
    state[a] -= rotate(state[b], by)
  }
  return state[2]
}
