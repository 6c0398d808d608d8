// The index of a TensorFlow checkpoint: a table (tsl/lib/io/format.cc), and the messages in it (tensor_bundle.proto). Its data is in
// other files, which are missing.
import { bytes, f32s, int } from '../helpers/onnx-writer.mjs'
import { block, checkpoint, dims, entry, header, MAGIC, masked, part, snappy, TYPES, table, tensor } from '../helpers/tensorflow-writer.mjs'

const W = tensor()
const HEAD = ['', header()]
const GONE = { code: 'ZT_WARN_INCOMPLETE_SET' }
const refused = (name, of, code, error, options) => ({ name, bytes: of, code, error, options })
const opens = (name, of, { names = ['w'], warnings = [GONE], uses = [] } = {}) => ({
  name,
  bytes: of,
  names,
  warnings,
  uses: [
    ...names.map((tensor) => ({ call: 'load', tensor, code: 'ZT_IO' })),
    ...uses,
  ],
})
const untyped = (name, of) => ({
  name: `no dtype: ${name}`,
  bytes: checkpoint({ w: tensor(of) }),
  names: ['w'],
  warnings: [GONE, { code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'w' }],
  uses: [
    { call: 'load', tensor: 'w', code: 'ZT_BAD_DTYPE' },
    { call: 'loadComponent', tensor: 'w', role: 'data', code: 'ZT_IO' },
  ],
})
const skipped = (name, ...entries) => ({
  name: `skipped: ${name}`,
  bytes: checkpoint(entries),
  names: [],
  warnings: [{ code: 'ZT_WARN_SKIPPED' }],
})
/** A tensor of two parts, with the given keys and entries. */
const parts = (shape, slices, own) => checkpoint([...own, ['w', tensor({ shape, slices })]])
const half = (at, of) => [part('w', [[at, 1]]), tensor({ shape: [1], data: f32s(1), offset: 4 * at, ...of })]
const notAssembled = (name, shape, slices, own) => ({
  name: `parts: ${name}`,
  bytes: parts(shape, slices, own),
  names: ['w'],
  warnings: [GONE, { code: 'ZT_WARN_UNKNOWN_ENCODING', tensor: 'w' }],
  uses: [
    { call: 'load', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' },
    { call: 'data', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' },
  ],
})
const plain = checkpoint({ w: W })
const changed = (at, byte) => {
  const of = Buffer.from(plain)
  of[at < 0 ? of.length + at : at] = byte
  return of
}
/** An index without a valid entry. */
const odd = (name, of, code, error) => refused(`nothing but a damaged entry: ${name}`, of, code, error)
const one = (name, of, code, error) => odd(name, checkpoint({ w: of }), code, { tensor: 'w', ...error })
const damagedEntry = (name, of) => ({
  name: `a damaged entry next to another: ${name}`,
  bytes: checkpoint({ v: W, w: of }),
  names: ['v'],
  warnings: [GONE, { code: 'ZT_WARN_DAMAGED', tensor: 'w' }],
  uses: [{ call: 'load', tensor: 'v', code: 'ZT_IO' }],
})

export const cases = [
  // Indexes that open without their data
  opens('one tensor', plain),
  { name: 'no tensor', bytes: checkpoint({}), names: [] },
  opens('two blocks', table([block([HEAD, ['v', W]]), block([['w', tensor({ offset: 8 })]])]), { names: ['v', 'w'] }),
  opens('a block without entries', table([block([HEAD, ['v', W]]), block([]), block([['w', tensor({ offset: 8 })]])]), { names: ['v', 'w'] }),
  opens('keys that share their beginnings', table([block([HEAD, ['model/a', W], entry('b', tensor({ offset: 8 }), { shared: 6 })])]), {
    names: ['model/a', 'model/b'],
  }),
  opens('blocks of Snappy', table([{ contents: snappy(block([HEAD, ['w', W]])), kind: 1 }], { index: (contents) => ({ contents: snappy(contents), kind: 1 }) })),
  opens('no version of the least reader, and fields that are not known', checkpoint({ w: tensor({ more: [int(90, 1), bytes(91, 'x')] }) }, { head: header({ more: [bytes(9, 'x')] }) })),
  opens('a big-endian file', checkpoint({ w: W }, { head: header({ endianness: 1 }) })),
  opens('two files of data', checkpoint({ v: tensor({ shard: 1 }), w: W }, { head: header({ shards: 2 }) }), { names: ['v', 'w'], warnings: [GONE, GONE] }),
  opens('a name of any characters', checkpoint({ 'größe /\u0001"': W }), { names: ['größe /\u0001"'] }),
  opens('two parts', parts([2], [[[0, 1]], [[1, 1]]], [half(0), half(1)])),
  opens('two tensors that overlap', checkpoint({ v: W, w: tensor({ offset: 4 }) }), { names: ['v', 'w'], warnings: [GONE, { code: 'ZT_WARN_OVERLAP', tensor: 'w' }] }),
  untyped('a quantized type', { type: TYPES.qint8, data: Buffer.from([1, 2]) }),
  untyped('integers of four bits, a byte each', { type: TYPES.int4, data: Buffer.from([1, 2]) }),
  untyped('a type that is not known', { type: 99, data: Buffer.from([1, 2, 3]) }),
  skipped('texts', ['w', tensor({ type: TYPES.string })]),
  skipped('a resource', ['w', tensor({ type: TYPES.resource })]),
  skipped('a part of no tensor', half(0)),
  notAssembled('along two dimensions', [2, 2], [[[0, 1], [0, 1]], [[1, 1], [1, 1]]], [
    [part('w', [[0, 1], [0, 1]]), tensor({ shape: [1, 1], data: f32s(1) })],
    [part('w', [[1, 1], [1, 1]]), tensor({ shape: [1, 1], data: f32s(1), offset: 4 })],
  ]),
  notAssembled('one is missing in between', [3], [[[0, 1]], [[2, 1]]], [half(0), half(2)]),
  notAssembled('the last is missing', [3], [[[0, 1]], [[1, 1]]], [half(0), half(1)]),
  notAssembled('they overlap', [2], [[[0, 2]], [[1, 1]]], [[part('w', [[0, 2]]), W], half(1)]),

  // Detected by its bytes
  refused('cut off before the magic', plain.subarray(0, -4), ['ZT_BAD_MAGIC', 'ZT_TRUNCATED']),
  refused('cut off in the first block', plain.subarray(0, 30), 'ZT_TRUNCATED'),
  refused('another magic', table([block([HEAD])], { magic: Buffer.from('notmagic') }), 'ZT_BAD_MAGIC'),
  refused('a table of something else', table([block([['key', Buffer.from('value')]])]), 'ZT_BAD_MAGIC'),
  refused('asked for: a table of something else', table([block([['key', Buffer.from('value')]])]), 'ZT_BAD_MAGIC', { rule: true }, { format: 'tensorflow' }),
  refused('asked for: a table without entries', table([]), 'ZT_BAD_MAGIC', {}, { format: 'tensorflow' }),
  refused('asked for: the magic alone', MAGIC, 'ZT_TRUNCATED', {}, { format: 'tensorflow' }),
  refused('format given: a text', Buffer.from('no table, not even a short table; this is simply a line of text'), 'ZT_BAD_MAGIC', {}, { format: 'tensorflow' }),
  refused('a header without a version', checkpoint({}, { head: int(1, 1) }), 'ZT_BAD_MAGIC'),
  refused('the first format', checkpoint({}, { head: bytes(1, [bytes(1, 'w')]) }), 'ZT_UNSUPPORTED_VERSION', { rule: true }),
  refused('a later version', checkpoint({}, { head: header({ producer: 7, least: 2 }) }), 'ZT_UNSUPPORTED_VERSION', { rule: true, offset: true }),
  refused('an unknown endianness', checkpoint({}, { head: header({ endianness: 2 }) }), 'ZT_BAD_INDEX', { rule: true }),
  refused('a negative number of files', checkpoint({}, { head: header({ shards: -1 }) }), 'ZT_BAD_INDEX', { rule: true }),

  // LevelDB table format: Footer
  refused('handles that fill the footer', Buffer.concat([plain.subarray(0, -48), Buffer.alloc(40, 0xff), MAGIC]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('a block list beyond the file', Buffer.concat([plain.subarray(0, -48), Buffer.from([0, 0, 0xff, 0xff, 0x7f, 1]), Buffer.alloc(34), MAGIC]), 'ZT_TRUNCATED', { rule: true }),

  // LevelDB table format: block
  refused('a block that is damaged', changed(12, 0x55), 'ZT_DIGEST_MISMATCH', { rule: true, offset: 0 }),
  refused('a block with another checksum', table([{ contents: block([HEAD]), crc: 0 }]), 'ZT_DIGEST_MISMATCH', { rule: true, offset: 0 }),
  refused('a block compressed in another way', table([{ contents: block([HEAD]), kind: 2 }]), 'ZT_UNSUPPORTED_ENCODING', { rule: true }),
  refused('invalid Snappy', table([{ contents: Buffer.from([20, 0xff, 0xff]), kind: 1 }]), 'ZT_DECODE', { rule: true, offset: 0 }, { format: 'tensorflow' }),
  refused('Snappy that claims gigabytes', table([{ contents: Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0]), kind: 1 }]), 'ZT_DECODE', { rule: true }, { format: 'tensorflow' }),
  refused('a block of less than a number', table([Buffer.from([1])]), 'ZT_BAD_INDEX', { rule: true }, { format: 'tensorflow' }),
  refused('more restarts than bytes', table([Buffer.from([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])]), 'ZT_BAD_INDEX', { rule: true }, { format: 'tensorflow' }),
  refused('a value beyond its block', table([block([HEAD, entry('w', W, { length: 1 << 20 })])]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('more of the last key than it has', table([block([HEAD, entry('w', W, { shared: 2 })])]), 'ZT_BAD_INDEX', { rule: true }),
  refused('keys out of order', table([block([HEAD, ['w', W], ['v', W]])]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('a key that appears twice', table([block([HEAD, ['w', W], ['w', W]])]), 'ZT_BAD_INDEX', { rule: true }),
  refused('keys out of order in two blocks', table([block([HEAD, ['w', W]]), block([['v', W]])]), 'ZT_BAD_INDEX', { rule: true }),
  refused('a block that appears twice', table([block([HEAD, ['w', W]])], { handles: ([first]) => [first, first] }), 'ZT_BAD_INDEX', { rule: true }),
  refused('the handle of a block is no handle', table([block([HEAD])], { handles: () => [Buffer.from([0])] }), 'ZT_BAD_INDEX', { rule: true }),
  refused('the handle of a block and more bytes', table([block([HEAD])], { handles: () => [Buffer.from([0, 9, 1])] }), 'ZT_BAD_INDEX', { rule: true }),
  refused('a block beyond the file', table([block([HEAD])], { handles: ([first]) => [first, { offset: 2 ** 40, size: 9 }] }), 'ZT_TRUNCATED', { rule: true, offset: 2 ** 40 }),
  refused('a block of all bytes', table([block([HEAD])], { handles: ([first]) => [first, { offset: 20, size: 2n ** 64n - 1n }] }), ['ZT_TRUNCATED', 'ZT_BAD_INDEX'], { rule: true }),
  refused('more than is allowed', plain, 'ZT_LIMIT', {}, { maxIndexBytes: 100 }),

  // tensor_bundle.proto: BundleEntryProto
  odd('a name that is not UTF-8', checkpoint([[Buffer.from([0xff]), W]]), 'ZT_BAD_INDEX', { tensor: '\ufffd' }),
  one('an invalid message', Buffer.from([0x0f]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  one('a shape beyond its message', Buffer.concat([int(1, 1), bytes(2, Buffer.from([0x12, 9]))]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  one('a negative dimension', tensor({ shape: [-1] }), 'ZT_BAD_SHAPE', { offset: true }),
  one('a huge dimension', tensor({ shape: [2 ** 60] }), 'ZT_LIMIT'),
  one('a shape beyond 64 bits', tensor({ shape: [2 ** 40, 2 ** 40] }), 'ZT_LIMIT'),
  one('too many dimensions', tensor({ shape: Array(65).fill(1) }), 'ZT_LIMIT'),
  one('no rank', Buffer.concat([int(1, 1), bytes(2, [int(3, 1)])]), 'ZT_BAD_SHAPE', { offset: true }),
  one('too few bytes', tensor({ size: 7 }), 'ZT_BAD_SHAPE', { tensor: 'w', rule: true, offset: true }),
  one('too many bytes', tensor({ size: 9 }), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  one('no bytes', Buffer.concat([int(1, 1), dims([2])]), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  one('too many bytes of four bits each', tensor({ type: TYPES.int4, shape: [2], data: Buffer.alloc(1) }), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  one('an end beyond 2^53', tensor({ offset: 2n ** 63n - 1n }), 'ZT_LIMIT'),
  one('a negative offset', tensor({ offset: -1 }), 'ZT_LIMIT'),
  one('a file that there is not', tensor({ shard: 1 }), 'ZT_BAD_INDEX', { tensor: 'w', rule: true, offset: true }),
  one('a negative file', tensor({ shard: -1 }), 'ZT_BAD_INDEX', { tensor: 'w' }),

  damagedEntry('an invalid message', Buffer.from([0x0f])),
  damagedEntry('a shape beyond 64 bits', tensor({ shape: [2 ** 40, 2 ** 40] })),
  damagedEntry('a file that there is not', tensor({ shard: 1 })),
  damagedEntry('a part that there is not', tensor({ shape: [2], slices: [[[0, 1]], [[1, 1]]] })),

  // tensor_slice.proto
  odd('parts: an entry that there is not', parts([2], [[[0, 1]], [[1, 1]]], [half(0)]), 'ZT_BAD_INDEX'),
  odd('parts: one that appears twice', parts([2], [[[0, 1]], [[0, 1]]], [half(0)]), 'ZT_BAD_INDEX'),
  odd('parts: of another shape', parts([2], [[[0, 1]], [[1, 1]]], [half(0), half(1, { shape: [2], data: f32s(1, 2) })]), 'ZT_BAD_INDEX'),
  odd('parts: of another type', parts([2], [[[0, 1]], [[1, 1]]], [half(0), half(1, { type: TYPES.int32 })]), 'ZT_BAD_INDEX'),
  odd('parts: of another rank', parts([2, 1], [[[0, 1]], [[1, 1]]], [half(0), half(1)]), 'ZT_BAD_INDEX'),
  odd('parts: in the same bytes', parts([2], [[[0, 1]], [[1, 1]]], [half(0), half(1, { offset: 0 })]), 'ZT_BAD_INDEX'),
  odd('parts: of parts', parts([2], [[[0, 1]], [[1, 1]]], [half(0), half(1, { slices: [[[0, 1]]] })]), 'ZT_BAD_INDEX'),
  odd('parts: a checksum of none', checkpoint({ w: tensor({ slices: [[[0, 2]]], crc: masked(f32s(1)) }) }), 'ZT_BAD_INDEX'),
]
