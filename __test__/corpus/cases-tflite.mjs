// TFLite models (fixtures/tflite-files.py) with one changed part, and some that no tool writes.
import { readFileSync } from 'node:fs'
import { lost } from './lost.mjs'
import { buffer, file, floats, ints, longs, model, table, tables, tensor, text, u8, u32 as uint, u64, vector } from '../helpers/tflite-writer.mjs'
import { fixturePath } from '../helpers/vectors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

const read = (name) => readFileSync(fixturePath(`tflite/${name}.tflite`))
const plain = read('plain')
const behind = read('behind')
const options = { format: 'tflite' }
const refused = (name, bytes, code, more = {}) => ({ name, bytes, code, options: { ...options, ...more } })
const u32 = (number) => littleEndian(Uint32Array.of(number))
const changed = (bytes, offset, others) => {
  const copy = Buffer.from(bytes)
  copy.set(others, offset)
  return copy
}
const root = plain.readUInt32LE(0)

const DATA = [...littleEndian(Float32Array.of(1, 2))]
const BUFFERS = [table({}), buffer(DATA)]
const BYTES = [table({}), buffer([1, 2])]
const wrong = (name, bytes, code) => lost(`one odd tensor refuses the file: ${name}`, bytes, code, { options })
/** The tensors of the model in `behind`. */
const MODEL = [
  ...['FLOAT32', 'FLOAT16', 'INT32', 'UINT8', 'INT64', 'BOOL', 'INT16', 'COMPLEX64', 'INT8', 'FLOAT64', 'COMPLEX128'],
  ...['UINT64', 'UINT32', 'UINT16'],
].map((name) => `model/${name}`)
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], ...more })
const quantized = (fields, more = {}) => model([tensor({ type: 9, 4: table(fields), ...more })], BYTES)
const behind64 = (offset) => model([tensor()], [table({}), table({ 1: u64(offset), 2: u64(8) })])
/** A level of int32 segments and uint8 indices. */
const COMPRESSED = { 0: u8(1), 2: u8(1), 3: table({ 0: ints(0, 1) }), 4: u8(3), 5: table({ 0: vector([0]) }) }
const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
const sparse = (level) =>
  model([tensor({ type: 9, 6: table({ 0: ints(0), 2: tables(table(given(level))) }) })], BYTES)
const OTHER = { warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'w' }] }

export const cases = [
  opens('a tensor', model([tensor()], BUFFERS), { data: { w: [1, 2] } }),
  opens('a field of a later schema', model([tensor({ 15: uint(7) })], BUFFERS), { data: { w: [1, 2] } }),
  opens('a range and no scale', quantized({ 0: floats(0), 1: floats(1), 3: ints() }), { data: { w: [1, 2] } }),
  opens('float8_e4m3fn', model([tensor({ type: 21, shape: [8] })], BUFFERS), { warnings: [] }),
  opens('float8_e5m2', model([tensor({ type: 22, shape: [8] })], BUFFERS), { warnings: [] }),
  opens('quantized in a custom way', quantized({ 4: u8(1), 5: table({}) }), OTHER),
  opens('quantized by blocks', quantized({ 4: u8(2), 5: table({ 0: uint(0), 2: uint(32) }) }), OTHER),
  opens('quantized by blocks, without scales', quantized({ 4: u8(2), 5: table({ 0: uint(9) }) }), OTHER),
  opens('quantized by blocks of an unknown size', quantized({ 4: u8(2) }), OTHER),
  opens('a sparse level', sparse(COMPRESSED), OTHER),
  opens('quantized along several dimensions', quantized({ 4: u8(3), 5: table({}) }), OTHER),
  { name: 'no data', bytes: model([tensor({ buffer: 0 }), tensor({ buffer: 2 })], [...BUFFERS, table({})]), names: [] },
  { name: 'an offset that was not filled in', bytes: behind64(1), names: [] },
  { name: 'no subgraphs', bytes: file(table({ 0: uint(3), 4: tables(table({})) })), names: [] },
  {
    name: 'an external buffer',
    bytes: model([tensor({ 10: uint(1) })], BUFFERS),
    names: [],
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  },
  {
    name: 'names that stand twice',
    bytes: model([tensor(), tensor({ name: 'w~2' }), tensor()], BUFFERS),
    names: ['w', 'w~2', 'w~3'],
    warnings: [{ code: 'ZT_WARN_RENAMED', tensor: 'w~3' }],
  },
  wrong('more bytes than the shape', model([tensor({ shape: [1] })], BUFFERS), 'ZT_BAD_SHAPE'),
  wrong('fewer bytes than the shape', model([tensor({ shape: [3] })], BUFFERS), 'ZT_BAD_SHAPE'),
  wrong('int4 of too few bytes', model([tensor({ type: 17, shape: [5] })], BYTES), 'ZT_BAD_SHAPE'),
  wrong('a negative dimension', model([tensor({ shape: [-1] })], BUFFERS), 'ZT_BAD_SHAPE'),
  wrong('a missing buffer', model([tensor({ buffer: 9 })], BUFFERS), 'ZT_BAD_INDEX'),
  wrong('data beyond the end', behind64(4000), 'ZT_TRUNCATED'),
  wrong('data at 2^64', behind64(2n ** 64n - 4n), 'ZT_TRUNCATED'),
  wrong('two scales of one index', quantized({ 2: floats(1, 2), 3: longs(0, 0) }, { shape: [1, 2] }), 'ZT_BAD_SHAPE'),
  wrong('a sparse level without segments', sparse({ ...COMPRESSED, 2: undefined, 3: undefined }), 'ZT_BAD_LAYOUT'),
  wrong('missing segments', sparse({ ...COMPRESSED, 3: undefined }), 'ZT_BAD_LAYOUT'),
  wrong('segments without numbers', sparse({ ...COMPRESSED, 3: table({}) }), 'ZT_BAD_LAYOUT'),
  wrong('a sparse level without indices', sparse({ ...COMPRESSED, 4: undefined, 5: undefined }), 'ZT_BAD_LAYOUT'),
  wrong('indices of an unknown type', sparse({ ...COMPRESSED, 4: u8(4) }), 'ZT_BAD_LAYOUT'),
  wrong('three zero points of two scales', quantized({ 2: floats(1, 2), 3: longs(0, 0, 0) }), 'ZT_BAD_SHAPE'),
  refused('a name that is not UTF-8', model([tensor({ 3: vector([0xff, 0xfe]) })], BUFFERS), 'ZT_BAD_INDEX'),
  refused('another version', model([tensor()], BUFFERS, { 0: uint(4) }), 'ZT_UNSUPPORTED_VERSION'),
  refused('no version', file(table({ 4: tables(table({})) })), 'ZT_UNSUPPORTED_VERSION'),
  refused('another identifier', changed(plain, 4, Buffer.from('TFL2')), 'ZT_BAD_MAGIC'),
  refused('a root beyond the file', changed(plain, 0, u32(2 ** 30)), 'ZT_TRUNCATED'),
  refused('a root of no offset', changed(plain, 0, u32(0)), 'ZT_BAD_INDEX'),
  refused('a vtable before the file', changed(plain, root, u32(2 ** 30)), 'ZT_BAD_INDEX'),
  refused('a vtable beyond the file', changed(plain, root, u32(-(2 ** 30) >>> 0)), 'ZT_TRUNCATED'),
  refused('the beginning alone', plain.subarray(0, 64), 'ZT_TRUNCATED'),
  lost('a truncated file passes: buffers behind a model', behind.subarray(0, -1), 'ZT_TRUNCATED', {
    options,
    names: [...MODEL, 'bf16', 'scalar', 'packed', 'scalar~2', 'decode.scalar'],
    warnings: ['TRUNCATED', 'UNKNOWN_TYPE', 'SKIPPED', 'RENAMED'].map((code) => ({ code: `ZT_WARN_${code}` })),
  }),
  refused('an index over the limit', plain, 'ZT_LIMIT', { maxIndexBytes: 100 }),
]
