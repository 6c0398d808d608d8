// Flax' checkpoints (flax.serialization) and the MessagePack that they are made of.
import { array, bin, chunked, ext, ints, map, ndarray, parts, str, uint } from './flax.mjs'
import { SQUARE } from './zt.mjs'
import { lost } from './lost.mjs'

const VALUES = [1, 2, 3, 4]
const W = ndarray([2, 2], 'float32', SQUARE)
const FLAX = { format: 'flax' }
const opens = (name, bytes, more = {}) => ({ name: `valid: ${name}`, bytes, names: ['w'], data: { w: VALUES }, ...more })
const bad = (name, bytes, code = 'ZT_BAD_INDEX', error = { offset: true, rule: true }) => ({
  name,
  bytes,
  code,
  error,
  options: FLAX,
})
const ofArray = (name, body, code = 'ZT_BAD_INDEX') =>
  lost(`one odd tensor refuses the file: array: ${name}`, map(['w', ext(1, body)]), code, { options: FLAX })
const ofComplex = (name, body) =>
  lost(`one odd attribute refuses the file: ${name}`, map(['w', W], ['x', ext(2, body)]), 'ZT_BAD_INDEX', {
    names: ['w'],
    data: { w: VALUES },
    options: FLAX,
  })
const half = [ndarray([2], 'float32', SQUARE.subarray(0, 8)), ndarray([2], 'float32', SQUARE.subarray(8))]
const ofChunks = (name, value, code = 'ZT_BAD_INDEX', names = ['w']) =>
  lost(`one odd tensor refuses the file: chunks: ${name}`, map(['x', value], ['w', W]), code, {
    names,
    data: { w: VALUES },
    options: FLAX,
  })
const nested = (depth, inner) => Buffer.concat([...Array.from({ length: depth }, () => Buffer.from([0x91])), inner])
const byte = (...bytes) => Buffer.from(bytes)

export const cases = [
  opens('an array', map(['w', W])),
  opens('a NumPy scalar', map(['w', ndarray([], 'float32', SQUARE.subarray(4, 8), 3)]), { data: { w: [2] } }),
  opens('a type in bytes', map(['w', ext(1, Buffer.concat([byte(0x93, 0x92, 2, 2), bin(Buffer.from('float32')), bin(SQUARE)]))])),
  opens('a type by its array-protocol string', map(['w', ndarray([2, 2], '<f4', SQUARE)])),
  opens('a type of the other byte order', map(['w', ndarray([2, 2], '>f4', Buffer.from(SQUARE).swap32())])),
  opens('an array of no elements', map(['w', ndarray([0, 3], 'float32', Buffer.alloc(0))]), { data: { w: [] } }),
  opens('in maps and lists', map(['a', array(byte(0xc0), map(['b', W]))]), { names: ['a.1.b'], data: { 'a.1.b': VALUES } }),
  opens('keys of every kind', map([byte(0xff), W], [byte(0xc3), W], [byte(0xc0), W], [Buffer.from('cb444b1ae4d6e2ef50', 'hex'), W], [bin(Buffer.from("it's")), W], [bin(byte(0xff)), W]), {
    names: ['-1', 'True', 'None', '1e+21', `b"it's"`, String.raw`b'\xff'`],
    data: {},
  }),
  opens('a key twice: the later array has another name', map(['w', W], ['w', W]), { names: ['w', 'w~2'], warnings: [{ code: 'ZT_WARN_RENAMED', tensor: 'w~2' }] }),
  opens('an array that is all of the file', W, { names: ['tensor'], data: { tensor: VALUES } }),
  opens('a list as the root', array(W, W), { names: ['0', '1'], data: { 1: VALUES }, options: FLAX }),
  opens('an array in chunks', map(['w', chunked([2, 2], half)])),
  opens('one chunk', map(['w', chunked([2, 2], [ndarray([4], 'float32', SQUARE)])])),
  opens('chunks in another order', map(['w', map(['__msgpack_chunked_array__', byte(0xc3)], ['chunks', map(['1', half[1]], ['0', half[0]])], ['shape', map(['0', uint(4)])])])),
  opens('an extension that is not of Flax', map(['w', W], ['x', ext(9, byte(1))]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),
  opens('a type without a name here', map(['w', W], ['x', ndarray([2], 'int4', byte(1, 2))]), { names: ['w', 'x'], warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'x' }] }),
  opens('a value too long for an attribute', map(['w', W], ['x', bin(Buffer.alloc(2 ** 20 + 1))]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),

  bad('nothing of it is MessagePack', byte(0xc1, 0, 0, 0, 0, 0, 0, 0), 'ZT_BAD_MAGIC', {}),
  bad('a number', byte(1, 2, 3, 4, 5, 6, 7, 8), 'ZT_BAD_MAGIC', {}),
  bad('bytes behind the values', Buffer.concat([map(['w', W]), byte(0xc0)])),
  bad('a marker that nothing has', map(['w', W], ['x', byte(0xc1)])),
  bad('a key without a value', map(['w', W]).fill(3, 2, 3), 'ZT_TRUNCATED'),
  bad('a map of more entries than bytes', Buffer.concat([byte(0xdf), ints(4, 2 ** 32 - 1), str('w'), W]), 'ZT_TRUNCATED'),
  bad('a list of more items than bytes', map(['w', W], ['x', Buffer.concat([byte(0xdd), ints(4, 2 ** 32 - 1)])]), 'ZT_TRUNCATED'),
  bad('a text beyond the end', map(['w', W], ['x', byte(0xda, 0xff, 0xff, 0x61)]), 'ZT_TRUNCATED'),
  bad('a text that is not UTF-8', map(['w', W], ['x', byte(0xa1, 0xff)])),
  bad('a key that is not UTF-8', map(['w', W], [byte(0xa1, 0xff), W])),
  bad('a key that is a list', map([byte(0x91, 1), W])),
  bad('a key that is an array', map([W, W])),
  bad('a key of more than 64 KiB', map([Buffer.concat([byte(0xdb), ints(4, 65537), Buffer.alloc(65537, 'k')]), W]), 'ZT_LIMIT', {}),
  bad('lists in lists, deeper than any', map(['w', nested(200, W)]), 'ZT_LIMIT'),
  bad('lists in lists without end', map(['w', nested(100_000, W)]), 'ZT_LIMIT'),
  ofComplex('a complex number of one part', byte(0x91, 1)),
  ofComplex('a complex number of texts', byte(0x92, 0xa0, 0xa0)),

  ofArray('no list', str('float32')),
  ofArray('of two parts', byte(0x92, 0x90, 0xa0)),
  ofArray('a shape that is no list', Buffer.concat([byte(0x93, 4), str('float32'), bin(SQUARE)])),
  ofArray('a dimension below 0', Buffer.concat([byte(0x93, 0x91, 0xff), str('float32'), bin(SQUARE)])),
  ofArray('a type that is a number', Buffer.concat([byte(0x93, 0x91, 4, 7), bin(SQUARE)])),
  ofArray('without bytes', Buffer.concat([byte(0x93, 0x91, 4), str('float32'), byte(0xc0)])),
  ofArray('more behind its bytes', Buffer.concat([parts([4], 'float32', SQUARE), byte(0)])),
  ofArray('bytes beyond the extension', Buffer.concat([byte(0x93, 0x91, 4), str('float32'), byte(0xc4, 99), SQUARE])),
  ofArray('too few bytes for its shape', parts([5], 'float32', SQUARE), 'ZT_BAD_SHAPE'),
  ofArray('too many bytes for its shape', parts([3], 'float32', SQUARE), 'ZT_BAD_SHAPE'),
  ofArray('more dimensions than an option allows', Buffer.concat([byte(0x93, 0xdc, 0, 65), Buffer.alloc(65, 1), str('float32'), bin(SQUARE.subarray(0, 4))]), 'ZT_LIMIT'),
  ofArray('a shape beyond 2^64', parts([2 ** 31, 2 ** 31, 2 ** 31], 'float32', SQUARE), 'ZT_BAD_SHAPE'),

  ofChunks('none', chunked([2, 2], [])),
  ofChunks('of several types', chunked([2, 2], [half[0], ndarray([2], 'int32', SQUARE.subarray(8))])),
  ofChunks('not flat', chunked([2, 2], [ndarray([2, 2], 'float32', SQUARE)])),
  ofChunks('too few for the shape', chunked([3, 2], half), 'ZT_BAD_SHAPE'),
  ofChunks('too many for the shape', chunked([2], half), 'ZT_BAD_SHAPE'),
  ofChunks('a shape beyond 2^64', chunked([2 ** 31, 2 ** 31, 2 ** 31], half), 'ZT_BAD_SHAPE'),
  ofChunks('one that is not an array', chunked([2, 2], [half[0], uint(1)])),
  ofChunks('one with the number of another', map(['__msgpack_chunked_array__', byte(0xc3)], ['shape', map(['0', uint(4)])], ['chunks', map(['0', half[0]], ['0', half[1]])])),
  ofChunks('one that is missing', map(['__msgpack_chunked_array__', byte(0xc3)], ['shape', map(['0', uint(4)])], ['chunks', map(['0', half[0]], ['2', half[1]])])),
  ofChunks('without a shape', map(['__msgpack_chunked_array__', byte(0xc3)], ['chunks', map(['0', W])])),
  ofChunks('with another key', chunked([2, 2], half, { more: [['x', byte(1)]] })),
  ofChunks('with a value of values', chunked([2, 2], half, { more: [['x', array(map(['y', array(byte(1))]))]] })),
  ofChunks('more dimensions than an option allows', chunked(Array(65).fill(1), [ndarray([1], 'float32', SQUARE.subarray(0, 4))]), 'ZT_LIMIT'),
  ofChunks('the marker behind other keys', map(['x', W], ['__msgpack_chunked_array__', byte(0xc3)]), 'ZT_BAD_INDEX', ['x.x', 'w']),
  bad('chunks: cut off', map(['w', chunked([2, 2], half)]).subarray(0, -4), 'ZT_TRUNCATED', { tensor: undefined, offset: true }),
]
