// An encoder of CBOR (RFC 8949) that can write what an ordinary encoder rejects: duplicate keys, heads wider than
// needed, indefinite lengths, and forms that are not well-formed. Offsets in comments are to that RFC.

/** Bytes that are written unchanged. */
class Verbatim {
  constructor(bytes) {
    this.bytes = bytes
  }
}

/** The head of an item: its major type and argument. `width` (1, 2, 4, 8 bytes) forces a head wider than needed. */
export function head(major, argument, width) {
  const value = BigInt(argument)
  const forced = width ?? (value < 24n ? 0 : value < 1n << 8n ? 1 : value < 1n << 16n ? 2 : value < 1n << 32n ? 4 : 8)
  if (forced === 0) return Buffer.from([(major << 5) | Number(value)])
  const bytes = Buffer.alloc(1 + forced)
  bytes[0] = (major << 5) | (24 + Math.log2(forced))
  for (let i = 0; i < forced; i++) bytes[forced - i] = Number((value >> BigInt(8 * i)) & 0xffn)
  return bytes
}

export const raw = (...bytes) => new Verbatim(Buffer.concat(bytes.map((b) => Buffer.from(typeof b === 'number' ? [b] : b))))

/** A map from pairs, so that keys may repeat and may be of any type. */
export const pairs = (entries) => raw(head(5, entries.length), ...entries.flat().map(encode))

/** The same items with an indefinite length, closed by a break. */
export const openArray = (items) => raw(0x9f, ...items.map(encode), 0xff)
export const openMap = (entries) => raw(0xbf, ...toPairs(entries).flat().map(encode), 0xff)
export const openText = (...chunks) => raw(0x7f, ...chunks.map(encode), 0xff)
export const openBytes = (...chunks) => raw(0x5f, ...chunks.map(encode), 0xff)

/** An integer, text, array or map whose head takes `width` bytes of argument. */
export function wide(value, width) {
  if (typeof value === 'string') return raw(head(3, Buffer.byteLength(value), width), Buffer.from(value))
  if (Array.isArray(value)) return raw(head(4, value.length, width), ...value.map(encode))
  if (typeof value === 'object') {
    const entries = toPairs(value)
    return raw(head(5, entries.length, width), ...entries.flat().map(encode))
  }
  return value < 0 ? raw(head(1, -1n - BigInt(value), width)) : raw(head(0, value, width))
}

export const tag = (number, value, width) => raw(head(6, number, width), encode(value))
/** `depth` tags that mark the following item as CBOR (RFC 8949 §3.4.6). */
export const selfDescribed = (value, depth = 1) => raw(...Array(depth).fill(head(6, 55799)), encode(value))
/** A bignum: tag 2 (or 3, negative) on a byte string. */
export function bignum(value) {
  const magnitude = value < 0n ? -1n - value : value
  const hex = magnitude.toString(16)
  return tag(value < 0n ? 3 : 2, Buffer.from(hex.length % 2 ? `0${hex}` : hex, 'hex'))
}
export const float16 = (bits) => raw(0xf9, bits >> 8, bits & 0xff)
export function float32(value) {
  const bytes = Buffer.alloc(5)
  bytes[0] = 0xfa
  bytes.writeFloatBE(value, 1)
  return raw(bytes)
}
export function float64(value) {
  const bytes = Buffer.alloc(9)
  bytes[0] = 0xfb
  bytes.writeDoubleBE(value, 1)
  return raw(bytes)
}

/** `depth` arrays inside each other, innermost empty. */
export const nestedArrays = (depth) => raw(Buffer.alloc(depth - 1, 0x81), 0x80)
/** `depth` maps inside each other under the key "k", innermost empty. */
export const nestedMaps = (depth) => raw(Buffer.from('a1616b'.repeat(depth - 1), 'hex'), 0xa0)
/** `depth` tags around a zero. */
export const nestedTags = (depth) => raw(Buffer.alloc(depth, 0xc1), 0x00)

const toPairs = (value) => (Array.isArray(value) ? value : value instanceof Map ? [...value] : Object.entries(value))

/** Encodes a JS value: bigint and integral numbers as integers, other numbers as float64, objects and Maps as maps. */
export function encode(value) {
  if (value instanceof Verbatim) return value.bytes
  if (value === false) return Buffer.from([0xf4])
  if (value === true) return Buffer.from([0xf5])
  if (value === null) return Buffer.from([0xf6])
  if (value === undefined) return Buffer.from([0xf7])
  if (typeof value === 'bigint' || Number.isInteger(value)) {
    return value < 0 ? head(1, -1n - BigInt(value)) : head(0, value)
  }
  if (typeof value === 'number') return float64(value).bytes
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(encode)])
  const entries = toPairs(value)
  return Buffer.concat([head(5, entries.length), ...entries.flat().map(encode)])
}
