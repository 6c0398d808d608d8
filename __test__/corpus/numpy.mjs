// Builds NumPy's .npy and the zip archives that .npz are, field by field.
import { crc32, deflateRawSync } from 'node:zlib'

const u16 = (value) => Buffer.from([value & 0xff, (value >> 8) & 0xff])
const u32 = (value) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value >>> 0)
  return bytes
}
const u64 = (value) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** An array whose header is `text`. `length` overrides the stated length of the header. */
export function npyOf(text, data, { version = [1, 0], length, magic = '\x93NUMPY' } = {}) {
  const body = Buffer.from(text, version[0] === 3 ? 'utf8' : 'latin1')
  const size = length ?? body.length
  return Buffer.concat([
    Buffer.from(magic, 'latin1'),
    Buffer.from(version),
    version[0] === 1 ? u16(size) : u32(size),
    body,
    data,
  ])
}

/** An array of these elements. */
export const npy = (descr, shape, data, { fortran = 'False', ...more } = {}) =>
  npyOf(`{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }\n`, data, more)

/**
 * An archive of members `{ name, data, deflate?, method?, stored?, crc?, size?, flags?, local?, described?, zip64?, offset? }`.
 * `local` overrides fields of the local header alone, `described` is the data descriptor, `zip64` an extra field; `count`,
 * `at` and `size` override fields of the end of the archive, `between` are bytes before the directory, `comment` those after it.
 */
export function zip(members, { count, at, size, between = Buffer.alloc(0), comment = Buffer.alloc(0), commentLength } = {}) {
  const parts = []
  let length = 0
  const push = (...bytes) => {
    for (const part of bytes) {
      parts.push(part)
      length += part.length
    }
  }
  const header = ({ flags, method, crc, stored, size, name, extra }) =>
    Buffer.concat([u16(20), u16(flags), u16(method), u32(0), u32(crc), u32(stored), u32(size), u16(name.length), u16(extra.length)])
  const records = members.map((member) => {
    const content = member.stored ?? (member.deflate ? deflateRawSync(member.data) : member.data)
    const fields = {
      name: Buffer.from(member.name),
      flags: (member.flags ?? 0) | (member.described ? 8 : 0),
      method: member.method ?? (member.deflate ? 8 : 0),
      crc: member.crc ?? crc32(member.data),
      stored: member.storedSize ?? content.length,
      size: member.size ?? member.data.length,
      extra: member.extra ?? Buffer.alloc(0),
    }
    const offset = length
    const local = { ...fields, ...(member.described ? { crc: 0, stored: 0, size: 0 } : {}), ...member.local }
    push(Buffer.from(member.signature ?? 'PK\x03\x04'), header(local), local.name, local.extra, content)
    if (member.described) push(member.described)
    return Buffer.concat([
      Buffer.from('PK\x01\x02'),
      u16(20),
      header(fields),
      Buffer.alloc(10),
      u32(member.offset ?? offset),
      fields.name,
      fields.extra,
    ])
  })
  push(between)
  const directory = Buffer.concat(records)
  const start = length
  push(directory, Buffer.from('PK\x05\x06\0\0\0\0', 'latin1'))
  push(u16(count ?? members.length), u16(count ?? members.length), u32(size ?? directory.length), u32(at ?? start))
  push(u16(commentLength ?? comment.length), comment)
  return Buffer.concat(parts)
}

/** A data descriptor, with signature and sizes of 32 bits by default. */
export const descriptor = (crc, stored, size, { signature = true, wide = false } = {}) =>
  Buffer.concat([
    signature ? Buffer.from('PK\x07\x08') : Buffer.alloc(0),
    u32(crc),
    ...[stored, size].map(wide ? u64 : u32),
  ])

/** The extra field of 64-bit sizes. */
export const zip64 = (...values) => Buffer.concat([u16(1), u16(8 * values.length), ...values.map(u64)])

/** The extra field that has a name in UTF-8, of the name `of` in the header. */
export const unicodePath = (of, name) =>
  Buffer.concat([u16(0x7075), u16(5 + Buffer.byteLength(name)), Buffer.from([1]), u32(crc32(Buffer.from(of))), Buffer.from(name)])
