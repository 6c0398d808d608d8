// Arrow files and streams of pyarrow (fixtures/arrow-files.py) with one changed part.
import { readFileSync } from 'node:fs'
import { fixturePath } from '../helpers/vectors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

const read = (name) => readFileSync(fixturePath(`arrow/${name}.arrow`))
const whole = read('numbers')
const stream = read('numbers-stream')
const options = { format: 'arrow' }
const refused = (name, bytes, code) => ({ name, bytes, code, options })

/** Replaces bytes from an offset on. A negative offset counts from the end. */
function changed(bytes, offset, others) {
  const copy = Buffer.from(bytes)
  copy.set(others, offset < 0 ? copy.length + offset : offset)
  return copy
}

const i32 = (number) => littleEndian(Int32Array.of(number))
/** The offset of the footer. */
const footer = whole.length - 10 - whole.readInt32LE(whole.length - 10)
/** The offset of the first batch of the stream. */
const batch = stream.readInt32LE(4) + 8

export const cases = [
  { name: 'Feather 1', bytes: Buffer.from('FEA1____________FEA1'), code: 'ZT_UNSUPPORTED_VERSION' },
  refused('nothing behind the magic', whole.subarray(0, 8), 'ZT_TRUNCATED'),
  refused('no magic at the end', whole.subarray(0, -1), 'ZT_TRUNCATED'),
  refused('a footer of no bytes', changed(whole, -10, i32(0)), 'ZT_BAD_INDEX'),
  refused('a footer of -1 bytes', changed(whole, -10, i32(-1)), 'ZT_BAD_INDEX'),
  refused('a footer longer than the file', changed(whole, -10, i32(whole.length)), 'ZT_BAD_INDEX'),
  refused('a root beyond the footer', changed(whole, footer, i32(2 ** 30)), 'ZT_TRUNCATED'),
  refused('a root of no offset', changed(whole, footer, i32(0)), 'ZT_BAD_INDEX'),
  refused('a table before the footer', changed(whole, footer + whole.readInt32LE(footer), i32(2 ** 30)), 'ZT_BAD_INDEX'),
  refused('a stream that ends in a length', stream.subarray(0, 6), 'ZT_TRUNCATED'),
  refused('a stream cut off in its schema', stream.subarray(0, 40), 'ZT_TRUNCATED'),
  refused('a stream cut off in a body', stream.subarray(0, batch + 600), 'ZT_TRUNCATED'),
  refused('a message of -2 bytes', changed(stream, batch + 4, i32(-2)), 'ZT_BAD_INDEX'),
  refused('a message longer than the file', changed(stream, batch + 4, i32(stream.length)), 'ZT_TRUNCATED'),
  refused('a batch without a schema', stream.subarray(batch), 'ZT_BAD_INDEX'),
  refused('a second schema', Buffer.concat([stream.subarray(0, batch), stream]), 'ZT_BAD_INDEX'),
  { name: 'an index of 100 bytes', bytes: whole, code: 'ZT_LIMIT', options: { ...options, maxIndexBytes: 100 } },
]
