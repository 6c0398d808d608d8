// Zstandard frames (RFC 8878) made of raw and run-length blocks only, so that a test decides every field of the frame
// without a compressor at hand.

const MAGIC = Buffer.from('28b52ffd', 'hex')

function block(type, size, content, last) {
  const header = Buffer.alloc(3)
  header.writeUIntLE((size << 3) | (type << 1) | (last ? 1 : 0), 0, 3)
  return Buffer.concat([header, content])
}

/** `declared`: the content size that the header states; undefined leaves it out, as the peers' streaming encoders do. */
function frameHeader(declared) {
  // Without a content size there must be a window descriptor: exponent 10, that is 1 MiB.
  if (declared === undefined) return Buffer.concat([MAGIC, Buffer.from([0x00, 10 << 3])])
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(declared))
  return Buffer.concat([MAGIC, Buffer.from([0xe0]), size])
}

/** A frame that decodes to `content`, in one raw block. */
export function frame(content, { declared } = {}) {
  return Buffer.concat([frameHeader(declared), block(0, content.length, content, true)])
}

/** A frame of run-length blocks that decodes to `size` times `byte`: 131,072 bytes out of every four. */
export function bomb(size, byte = 0, { declared } = {}) {
  const parts = [frameHeader(declared)]
  for (let left = size; left > 0; left -= 131072) {
    const run = Math.min(left, 131072)
    parts.push(block(1, run, Buffer.from([byte]), left <= 131072))
  }
  return Buffer.concat(parts)
}
