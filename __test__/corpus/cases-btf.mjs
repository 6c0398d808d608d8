// Binary Tensor Format. The format has no magic: with `{ format: 'btf' }`, the error of a broken file names the rule that it
// breaks; without the option detection may also reject the same file (hostile/reject.test.mjs tries both).
import { btf, coo, dense, FLOAT32, FLOAT64, INT16, INT64, INT8, recordHeader } from './btf.mjs'
import { f32s, SQUARE, u64, u64s } from './zt.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const W = dense({ data: SQUARE })
const VALID = btf([W])
const TWO = btf([W, W])
const asked = { format: 'btf' }
const refused = (name, bytes, code, error) => ({ name, bytes, options: asked, code, error })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['0'], data: { 0: SQUARE_VALUES }, ...more })
const IN_0 = { tensor: '0' }

// [[10, 0, 20], [0, 0, 30]]: (N, RANK) row-major, that is one pair for each value
const PARTS = { indices: { dims: [3, 2], data: u64s(0, 0, 0, 2, 1, 2) }, values: { dims: [3], data: f32s(10, 20, 30) } }
const SPARSE = coo(PARTS)
const sparse = (indices, values, more) => btf([coo({ indices: { ...PARTS.indices, ...indices }, values: { ...PARTS.values, ...values }, ...more })])
const broken = (name, bytes) => ({
  name,
  bytes,
  names: ['0'],
  uses: [
    { call: 'coo', tensor: '0', code: 'ZT_BAD_SPARSE', error: IN_0 },
    { call: 'loadCoo', tensor: '0', code: 'ZT_BAD_SPARSE', error: IN_0 },
    { call: 'verify', code: 'ZT_BAD_SPARSE', error: IN_0 },
  ],
})
const toDense = (name, bytes, value = [10, 0, 20, 0, 0, 30], tensor = '0') => ({ name, bytes, names: ['0'], uses: [{ call: 'toDense', tensor, as: 'coo', value }] })

export const cases = [
  opens('valid: one float32 tensor', VALID),
  opens('valid: asked for', VALID, { options: asked }),
  opens('valid: two tensors', TWO, { names: ['0', '1'], data: { 0: SQUARE_VALUES, 1: SQUARE_VALUES } }),
  { name: 'valid: last record without its padding', bytes: btf([dense({ dtype: INT8, dims: [3], data: Buffer.from([1, 2, 3]) })], { padLast: false }), names: ['0'], data: { 0: [1, 2, 3] } },
  { name: 'valid: last record with its padding', bytes: btf([dense({ dtype: INT8, dims: [3], data: Buffer.from([1, 2, 3]) })]), names: ['0'], data: { 0: [1, 2, 3] } },
  { name: 'valid: scalar', bytes: btf([dense({ dtype: INT16, dims: [], data: Buffer.from([1, 2]) })]), names: ['0'], data: { 0: [513] } },
  { name: 'valid: empty tensor', bytes: btf([dense({ dtype: FLOAT64, dims: [2, 0, 3], data: Buffer.alloc(0) })]), names: ['0'], data: { 0: [] } },
  { name: 'valid: no tensors, asked for', bytes: u64(0), options: asked, names: [] },
  toDense('valid: coo', btf([SPARSE])),
  toDense('valid: coo without values', sparse({ dims: [0, 2], data: Buffer.alloc(0) }, { dims: [0], data: Buffer.alloc(0) }), [0, 0, 0, 0, 0, 0]),
  toDense('valid: coo in no order', sparse({ data: u64s(1, 2, 0, 0, 0, 2) }, { data: f32s(30, 10, 20) })),
  { name: 'valid: dense and coo side by side', bytes: btf([W, SPARSE, W]), names: ['0', '1', '2'], data: { 0: SQUARE_VALUES, 2: SQUARE_VALUES } },

  // FILE_HEADER
  refused('empty file', Buffer.alloc(0), 'ZT_TRUNCATED'),
  refused('seven bytes', Buffer.alloc(7), 'ZT_TRUNCATED'),
  refused('no tensors, but bytes', Buffer.concat([u64(0), u64(0)]), 'ZT_BAD_INDEX'),
  { name: '64 zero bytes are no BTF', bytes: Buffer.alloc(64), code: 'ZT_BAD_MAGIC' },
  refused('more offsets than bytes', btf([W], { count: 1000 }), 'ZT_TRUNCATED'),
  refused('2^61 tensors: the table wraps to 8 bytes', btf([W], { count: 1n << 61n }), ['ZT_TRUNCATED', 'ZT_LIMIT']),
  refused('2^64 - 1 tensors', btf([W], { count: (1n << 64n) - 1n }), ['ZT_TRUNCATED', 'ZT_LIMIT']),
  refused('the header alone', VALID.subarray(0, 8), 'ZT_TRUNCATED'),
  refused('header and half an offset', VALID.subarray(0, 12), 'ZT_TRUNCATED'),
  refused('one tensor fewer than records', btf([W, W], { count: 1 }), 'ZT_BAD_INDEX'),
  refused('first offset inside the table', btf([W, W], { offsets: ([, b]) => [16, b] }), 'ZT_BAD_INDEX'),
  refused('first offset 0', btf([W], { offsets: () => [0] }), 'ZT_BAD_INDEX'),
  refused('first offset leaves a gap of 8', Buffer.concat([u64s(1, 24), u64(0), W]), 'ZT_BAD_INDEX'),
  refused('offset that is no multiple of 8', btf([W, W], { offsets: ([a, b]) => [a, b + 4] }), 'ZT_BAD_INDEX'),
  refused('offsets that go down', btf([W, W], { offsets: ([a, b]) => [b, a] }), 'ZT_BAD_INDEX'),
  refused('offsets twice the same', btf([W, W], { offsets: ([a]) => [a, a] }), 'ZT_BAD_INDEX'),
  refused('second offset inside the first record', btf([W, W], { offsets: ([a, b]) => [a, b - 8] }), ['ZT_BAD_INDEX', 'ZT_LIMIT']),
  refused('offset past the end of the file', btf([W, W], { offsets: ([a]) => [a, 1 << 20] }), ['ZT_TRUNCATED', 'ZT_OUT_OF_BOUNDS', 'ZT_BAD_INDEX']),
  refused('offset of 2^64 - 8', btf([W], { offsets: () => [(1n << 64n) - 8n] }), ['ZT_TRUNCATED', 'ZT_OUT_OF_BOUNDS', 'ZT_BAD_INDEX']),
  refused('offset at the end of the file', btf([W, W], { offsets: ([a]) => [a, TWO.length] }), ['ZT_TRUNCATED', 'ZT_BAD_INDEX']),
  refused('ninth byte after the last record', Buffer.concat([VALID, Buffer.alloc(9)]), 'ZT_BAD_INDEX'),
  refused('eight zero bytes after the last record', Buffer.concat([VALID, Buffer.alloc(8)]), 'ZT_BAD_INDEX'),
  { name: 'bytes after the last record, not asked for', bytes: Buffer.concat([VALID, Buffer.alloc(8)]), code: 'ZT_BAD_MAGIC' },

  // TENSOR_HEADER
  refused('record header cut off', VALID.subarray(0, 16 + 12), 'ZT_TRUNCATED', IN_0),
  refused('dimensions cut off', VALID.subarray(0, 16 + 16 + 12), 'ZT_TRUNCATED', IN_0),
  refused('data short of one byte', VALID.subarray(0, -1), 'ZT_TRUNCATED', IN_0),
  refused('data missing', VALID.subarray(0, 16 + 32), 'ZT_TRUNCATED', IN_0),
  refused('dtype 6', btf([dense({ dtype: 6, data: SQUARE })]), 'ZT_BAD_DTYPE', IN_0),
  refused('dtype 255 of the second tensor', btf([W, dense({ dtype: 255, data: SQUARE })]), 'ZT_BAD_DTYPE', { tensor: '1' }),
  refused('layout 1', btf([dense({ layout: 1, data: SQUARE })]), 'ZT_BAD_LAYOUT', IN_0),
  refused('layout 255', btf([dense({ layout: 255, data: SQUARE })]), 'ZT_BAD_LAYOUT', IN_0),
  ...[0, 3, 5].map((at) => {
    const reserved = Buffer.alloc(6)
    reserved[at] = 1
    return refused(`byte ${at} of the reserved space not 0`, btf([dense({ data: SQUARE, reserved })]), 'ZT_BAD_INDEX', { tensor: '0' })
  }),
  refused('reserved space of a coo record not 0', btf([coo({ ...PARTS, reserved: Buffer.alloc(6, 9) })]), 'ZT_BAD_INDEX', IN_0),
  refused('padding not 0', Buffer.concat([btf([dense({ dtype: INT8, dims: [3], data: Buffer.from([1, 2, 3]) })], { padLast: false }), Buffer.alloc(5, 1)]), 'ZT_BAD_INDEX', { offset: true }),
  refused('rank 65', btf([dense({ dims: Array(65).fill(1), data: f32s(1) })]), 'ZT_LIMIT', IN_0),
  refused('rank of 2^61: its dimensions wrap to 0 bytes', btf([dense({ rank: 1n << 61n, data: SQUARE })]), 'ZT_LIMIT', IN_0),
  refused('rank of 2^64 - 1', btf([dense({ rank: (1n << 64n) - 1n, data: SQUARE })]), 'ZT_LIMIT', IN_0),
  { name: 'rank above maxRank', bytes: VALID, options: { ...asked, maxRank: 1 }, code: 'ZT_LIMIT', error: IN_0 },
  refused('rank one too large: data read as a dimension', btf([dense({ rank: 3, data: SQUARE })]), ['ZT_TRUNCATED', 'ZT_LIMIT', 'ZT_BAD_INDEX'], IN_0),
  refused('rank one too small', btf([dense({ rank: 1, data: SQUARE })]), 'ZT_BAD_INDEX'),
  refused('dimension of 2^64 - 1', btf([dense({ dims: [(1n << 64n) - 1n], data: SQUARE })]), 'ZT_LIMIT', IN_0),
  refused('elements of 2^64 + 4, which wraps to 4', btf([dense({ dims: [(1n << 62n) + 1n, 4], data: SQUARE })]), 'ZT_LIMIT', IN_0),
  refused('bytes past 2^53', btf([dense({ dtype: INT64, dims: [2 ** 51], data: SQUARE })]), 'ZT_LIMIT', IN_0),
  refused('dimension larger than the data', btf([dense({ dims: [5], data: SQUARE })]), 'ZT_TRUNCATED', IN_0),
  refused('dimension larger than the record, more records follow', btf([dense({ dims: [5], data: SQUARE }), W]), ['ZT_BAD_INDEX', 'ZT_BAD_SHAPE'], { offset: true }),
  refused('dimension smaller than the data', btf([dense({ dims: [1], data: SQUARE })]), 'ZT_BAD_INDEX'),
  refused('a record of a header alone', btf([recordHeader(1, FLOAT32, 0)]), 'ZT_TRUNCATED', IN_0),

  // COO_TENSOR_PAYLOAD
  refused('coo with indices of another rank', sparse({ dims: [3, 3], data: Buffer.alloc(72) }), 'ZT_BAD_SPARSE', IN_0),
  refused('coo with indices of rank 1 written as (N, 1)', sparse({ dims: [3, 1], data: u64s(0, 0, 1) }), 'ZT_BAD_SPARSE', IN_0),
  refused('coo with fewer indices than values', sparse({ dims: [2, 2], data: u64s(0, 0, 0, 2) }), 'ZT_BAD_SPARSE', IN_0),
  refused('coo with fewer values than indices', sparse({}, { dims: [2], data: f32s(10, 20) }), 'ZT_BAD_SPARSE', IN_0),
  refused('coo that ends inside its indices', btf([SPARSE]).subarray(0, 16 + 16 + 16 + 16 + 20), 'ZT_TRUNCATED', IN_0),
  refused('coo that ends inside its values', btf([SPARSE], { padLast: false }).subarray(0, -1), 'ZT_TRUNCATED', IN_0),
  refused('coo of 2^62 indices: their bytes wrap', sparse({ dims: [1n << 62n, 2] }), ['ZT_LIMIT', 'ZT_TRUNCATED', 'ZT_BAD_SPARSE'], IN_0),
  refused('coo whose shape overflows 2^64', sparse({}, {}, { dims: [2 ** 40, 2 ** 40] }), 'ZT_BAD_SHAPE', IN_0),
  refused('coo of dtype 9', sparse({}, {}, { dtype: 9 }), 'ZT_BAD_DTYPE', IN_0),
  broken('coo with a row equal to the rows', sparse({ data: u64s(0, 0, 0, 2, 2, 2) })),
  broken('coo with a column equal to the columns', sparse({ data: u64s(0, 0, 0, 3, 1, 2) })),
  broken('coo with a coordinate of 2^63 + 1', sparse({ data: u64s(0, 0, (1n << 63n) + 1n, 2, 1, 2) })),
]
