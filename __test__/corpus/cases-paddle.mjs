// Files of PaddlePaddle: pickles (paddle.framework.io) and parameters in one file (DenseTensorToStream).
import { ndarray, parameter, saved, split } from './paddle.mjs'
import { call, cat, dict, int, list, NONE, TRUE, text, tuple } from './pytorch.mjs'
import { SQUARE } from './zt.mjs'

const VALUES = [1, 2, 3, 4]
const PADDLE = { format: 'paddle' }
const W = ndarray([2, 2], 'f4', SQUARE)
const halves = [ndarray([2], 'f4', SQUARE.subarray(0, 8)), ndarray([2], 'f4', SQUARE.subarray(8))]
const BIG = 'UnpackBigParamInfor@@'
const opens = (name, value, more = {}) => ({ name: `valid: ${name}`, bytes: Buffer.isBuffer(value) ? value : saved(value), names: ['w'], data: { w: VALUES }, ...more })
const bad = (name, file, code = 'ZT_BAD_INDEX', error = { rule: true }) => ({ name, bytes: file, code, error, options: PADDLE })
const divided = (name, slices, info, code = 'ZT_BAD_INDEX') =>
  bad(`slices: ${name}`, saved(dict(...slices, [text(BIG), info])), code)
const of = (...names) => names.map((name, at) => [text(name), halves[at]])
const ONE = parameter(5, [2, 2], SQUARE)
const INCOMPLETE = { warnings: [{ code: 'ZT_WARN_INCOMPLETE_SET' }] }
const one = (name, file, more = {}) => opens(`in one file: ${name}`, file, { names: ['0'], data: { 0: VALUES }, ...INCOMPLETE, ...more })
const badOne = (name, file, code = 'ZT_BAD_INDEX') => bad(`in one file: ${name}`, cat(ONE, file), code)

export const cases = [
  opens('a dict of arrays', saved(dict([text('w'), W]))),
  opens('a tensor with its name', saved(dict([text('w'), call('builtins', 'tuple', tuple(text('linear.w_0'), W))]))),
  opens('a tensor without a name', saved(dict([text('w'), call('builtins', 'eval', text('data'), dict([text('data'), W]))]))),
  opens('in the order of columns', saved(dict([text('w'), ndarray([2, 2], 'f4', cat(SQUARE.subarray(0, 4), SQUARE.subarray(8, 12), SQUARE.subarray(4, 8), SQUARE.subarray(12)), { fortran: TRUE })]))),
  opens('of the other byte order', saved(dict([text('w'), ndarray([2, 2], 'f4', Buffer.from(SQUARE).swap32(), { order: '>' })]))),
  opens('an array that is all of the file', saved(W), { names: ['tensor'], data: { tensor: VALUES }, options: PADDLE }),
  opens('in a list', saved(list(NONE, W)), { names: ['1'], data: { 1: VALUES } }),
  opens('in a pair that is not a tensor', saved(dict([text('w'), call('builtins', 'tuple', tuple(int(1), W))])), { names: ['w.1'], data: { 'w.1': VALUES } }),
  opens('eval of something else', saved(dict([text('w'), W], [text('x'), call('builtins', 'eval', text('data2'), dict([text('data'), W]))])), {
    names: ['w', 'x.1.data'],
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  }),
  opens('eval of more names', saved(dict([text('w'), W], [text('x'), call('builtins', 'eval', text('data'), dict([text('data'), W], [text('more'), NONE]))])), {
    names: ['w', 'x.1.data'],
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  }),
  opens('uint16', saved(dict([text('w'), ndarray([2], 'u2', Buffer.from([1, 0, 2, 0]))])), { data: { w: [1, 2] }, warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'w' }] }),
  opens('what follows the pickle is not read', cat(saved(dict([text('w'), W])), Buffer.from('rest'))),
  opens('slices of an array', saved(dict(...of('w@@.0', 'w@@.1'), [text(BIG), dict([text('w'), split([2, 2], ['w@@.0', 'w@@.1'])])]))),
  opens('slices in another order', saved(dict([text('w@@.1'), halves[1]], [text('w@@.0'), halves[0]], [text(BIG), dict([text('w'), split([2, 2], ['w@@.0', 'w@@.1'])])]))),
  opens('a long array, twice', saved(dict([text('w'), W], [text('a'), cat(ndarray([1200], 'u1', Buffer.alloc(1200, 1)), 'q\x05')], [text('b'), 'h\x05'])), { names: ['w', 'a', 'b'] }),

  bad('a pickle that does not end', saved(dict([text('w'), W])).subarray(0, -1), 'ZT_TRUNCATED'),
  bad('an array beyond the end', saved(dict([text('w'), ndarray([2, 2], 'f4', SQUARE)])).subarray(0, -8), 'ZT_TRUNCATED'),
  bad('an unknown opcode', saved(cat(Buffer.from([0xff])))),
  bad('a byte string of more bytes than the file', saved(dict([text('v'), W], [text('w'), cat('B', Buffer.from([255, 255, 255, 127]), 'x')])), 'ZT_TRUNCATED'),
  bad('a pickle of protocol 9', Buffer.from([0x80, 9, 0x4e, 0x2e, 0, 0, 0, 0]), 'ZT_BAD_MAGIC', {}),
  bad('too few bytes for the shape', saved(dict([text('w'), ndarray([5], 'f4', SQUARE)])), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  bad('too many bytes for the shape', saved(dict([text('w'), ndarray([3], 'f4', SQUARE)])), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  bad('a long array of too few bytes', saved(dict([text('w'), ndarray([5000], 'f4', Buffer.alloc(2000))])), 'ZT_BAD_SHAPE', { tensor: 'w' }),
  bad('a shape beyond 2^64', saved(dict([text('w'), ndarray([2 ** 40, 2 ** 40], 'f4', SQUARE)])), 'ZT_BAD_SHAPE', { tensor: 'w' }),

  divided('one is missing', of('w@@.0'), dict([text('w'), split([2, 2], ['w@@.0', 'w@@.1'])])),
  divided('none', [[text('x'), W]], dict([text('w'), split([2, 2], [])])),
  divided('one of two arrays', of('a', 'b'), dict([text('w'), split([2], ['a', 'b'])], [text('v'), split([2], ['b'])])),
  divided('one twice', of('a'), dict([text('w'), split([2, 2], ['a', 'a'])])),
  divided('not flat', [[text('a'), W]], dict([text('w'), split([2, 2], ['a'])])),
  divided('of several types', [[text('a'), halves[0]], [text('b'), ndarray([2], 'i4', SQUARE.subarray(8))]], dict([text('w'), split([2, 2], ['a', 'b'])])),
  divided('too few for the shape', of('a', 'b'), dict([text('w'), split([5], ['a', 'b'])]), 'ZT_BAD_SHAPE'),
  divided('a shape beyond 2^64', of('a', 'b'), dict([text('w'), split([2 ** 40, 2 ** 40], ['a', 'b'])]), 'ZT_BAD_SHAPE'),
  divided('no dict', of('a', 'b'), list()),
  divided('without a shape', of('a', 'b'), dict([text('w'), dict([text('slices'), list(text('a'))])])),
  divided('invalid names', of('a', 'b'), dict([text('w'), cat('}(', text('OriginShape'), tuple(int(4)), text('slices'), list(int(1)), 'u')])),
  divided('a dimension below 0', of('a', 'b'), dict([text('w'), split([-4], ['a', 'b'])])),

  one('a parameter', ONE),
  one('two of them', cat(ONE, parameter(3, [1], Buffer.from([7, 0, 0, 0, 0, 0, 0, 0]))), { names: ['0', '1'], data: { 0: VALUES, 1: [7] } }),
  one('a scalar', parameter(5, [], SQUARE.subarray(4, 8)), { data: { 0: [2] } }),
  one('packed dimensions', parameter(5, [], SQUARE, { desc: Buffer.from([8, 5, 0x12, 2, 2, 2]) })),
  one('levels of details', parameter(5, [2, 2], SQUARE, { levels: [Buffer.alloc(16)] })),
  one('of no type of zTensor', cat(ONE, parameter(19, [1], Buffer.alloc(8))), {
    names: ['0', '1'],
    warnings: [{ code: 'ZT_WARN_INCOMPLETE_SET' }, { code: 'ZT_WARN_UNKNOWN_TYPE', tensor: '1' }],
  }),
  bad('in one file: nothing', Buffer.alloc(0), 'ZT_BAD_MAGIC', {}),
  bad('in one file: zeros', Buffer.alloc(64), 'ZT_BAD_MAGIC', {}),
  badOne('another version', parameter(5, [2, 2], SQUARE, { version: 1 })),
  badOne('a tensor of another version', parameter(5, [2, 2], SQUARE, { inner: 1 })),
  badOne('levels without end', parameter(5, [2, 2], SQUARE, { levels: Array.from({ length: 65 }, () => Buffer.alloc(0)) })),
  badOne('a level beyond the end', cat(Buffer.from([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), Buffer.alloc(8, 0xff)), 'ZT_TRUNCATED'),
  badOne('a description beyond the end', parameter(5, [2, 2], SQUARE, { length: 4000 }), 'ZT_TRUNCATED'),
  badOne('a description without end', parameter(5, [2, 2], SQUARE, { length: 2 ** 31 - 1 })),
  badOne('a description without a type', parameter(5, [2, 2], SQUARE, { desc: Buffer.from([16, 4]) })),
  badOne('a description with another field', parameter(5, [2, 2], SQUARE, { desc: Buffer.from([8, 5, 24, 4]) })),
  badOne('a description that is cut off', parameter(5, [2, 2], SQUARE, { desc: Buffer.from([8, 5, 16]) })),
  badOne('a type that no tensor has', parameter(9, [2, 2], SQUARE)),
  badOne('fewer bytes than its shape', parameter(5, [2, 3], SQUARE), 'ZT_TRUNCATED'),
  badOne('a shape beyond 2^64', parameter(5, [2 ** 40, 2 ** 40], SQUARE)),
  badOne('a dimension below 0', parameter(5, [2n ** 64n - 1n], SQUARE)),
]
