// TFLite models (fixtures/tflite-files.py) in which a part was changed.
import { readFileSync } from 'node:fs'
import { fixturePath } from '../vectors.mjs'

const read = (name) => readFileSync(fixturePath(`tflite/${name}.tflite`))
const plain = read('plain')
const behind = read('behind')
const options = { format: 'tflite' }
const refused = (name, bytes, code, more = {}) => ({ name, bytes, code, options: { ...options, ...more } })
const u32 = (number) => Buffer.from(Uint32Array.of(number).buffer)
const changed = (bytes, offset, others) => {
  const copy = Buffer.from(bytes)
  copy.set(others, offset)
  return copy
}
const root = plain.readUInt32LE(0)

export const cases = [
  refused('another identifier', changed(plain, 4, Buffer.from('TFL2')), 'ZT_BAD_MAGIC'),
  refused('a root beyond the file', changed(plain, 0, u32(2 ** 30)), 'ZT_TRUNCATED'),
  refused('a root of no offset', changed(plain, 0, u32(0)), 'ZT_BAD_INDEX'),
  refused('a vtable before the file', changed(plain, root, u32(2 ** 30)), 'ZT_BAD_INDEX'),
  refused('a vtable beyond the file', changed(plain, root, u32(-(2 ** 30) >>> 0)), 'ZT_TRUNCATED'),
  refused('the beginning alone', plain.subarray(0, 64), 'ZT_TRUNCATED'),
  refused('buffers behind a model that is cut off', behind.subarray(0, -1), 'ZT_TRUNCATED'),
  refused('an index over the limit', plain, 'ZT_LIMIT', { maxIndexBytes: 100 }),
]
