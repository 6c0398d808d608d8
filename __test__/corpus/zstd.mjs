// Zstandard frames (RFC 8878) made of raw and run-length blocks only, so that a test sets every field of the frame
// without a compressor.
import { xxh64 } from './xxhash.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

const MAGIC = Buffer.from('28b52ffd', 'hex')
const u32 = (...values) => littleEndian(Uint32Array.from(values))

function block(type, size, content, last) {
  const header = Buffer.alloc(3)
  header.writeUIntLE((size << 3) | (type << 1) | (last ? 1 : 0), 0, 3)
  return Buffer.concat([header, content])
}

/**
 * `declared`: the content size that the header states; undefined leaves it out, as the peers' streaming encoders do. `window`:
 * the logarithm of the window; without one and with a content size the frame is one segment. `dictionary`: an ID of one byte.
 */
function frameHeader({ declared, window = declared === undefined ? 20 : undefined, dictionary }) {
  const descriptor = (declared === undefined ? 0 : 0xc0) | (window === undefined ? 0x20 : 0) | (dictionary === undefined ? 0 : 1)
  const fields = [descriptor, ...(window === undefined ? [] : [(window - 10) << 3]), ...(dictionary === undefined ? [] : [dictionary])]
  const size = Buffer.alloc(declared === undefined ? 0 : 8)
  if (declared !== undefined) size.writeBigUInt64LE(BigInt(declared))
  return Buffer.concat([MAGIC, Buffer.from(fields), size])
}

/** A frame that decodes to `content`, in one raw block. */
export function frame(content, header = {}) {
  return Buffer.concat([frameHeader(header), block(0, content.length, content, true)])
}

/** A frame that decoders skip (RFC 8878 §3.1.2), of any of the sixteen kinds. */
export function skippable(content, kind = 0) {
  return Buffer.concat([u32(0x184d2a50 + kind, content.length), content])
}

/** A frame of run-length blocks that decodes to `size` times `byte`: 131,072 bytes out of every four. */
export function bomb(size, byte = 0, header = {}) {
  const parts = [frameHeader(header)]
  for (let left = size; left > 0; left -= 131072) {
    const run = Math.min(left, 131072)
    parts.push(block(1, run, Buffer.from([byte]), left <= 131072))
  }
  return Buffer.concat(parts)
}

/** A frame with a content checksum (RFC 8878 §3.1.1.1.1.5). */
export function sealedFrame(content) {
  const bytes = frame(content, { declared: content.length })
  bytes[4] |= 0x04
  return Buffer.concat([bytes, u32(Number(xxh64(content) & 0xffffffffn))])
}

/**
 * A stream of zt.zstd-seekable/1: a frame for each of `contents`, then the seek table. `sealed: false` leaves the frames'
 * checksums out, `damage` changes that byte; `sizes`, `frames` and `descriptor` override fields of the table.
 */
export function seekable(contents, { sealed = true, damage, sizes, frames = contents.length, descriptor, checksums = false } = {}) {
  const parts = contents.map((content) => (sealed ? sealedFrame(content) : frame(content, { declared: content.length })))
  const entries = parts.map((bytes, i) => u32(bytes.length, (sizes ?? contents.map((c) => c.length))[i], ...(checksums ? [0] : [])))
  const table = Buffer.concat([...entries, u32(frames), Buffer.from([descriptor ?? (checksums ? 0x80 : 0)]), u32(0x8f92eab1)])
  const stream = Buffer.concat([...parts, u32(0x184d2a5e, table.length), table])
  if (damage !== undefined) stream[damage] ^= 1
  return stream
}
