// NumPy's .npy (numpy.lib.format) and .npz, which are zip archives (APPNOTE 6.3.10).
import { crc32, deflateRawSync } from 'node:zlib'
import { descriptor, npy, npyOf, unicodePath, zip, zip64 } from './numpy.mjs'
import { f32s, SQUARE } from './zt.mjs'

const VALUES = [1, 2, 3, 4]
const F4 = "'<f4'"
const W = npy(F4, '(2, 2)', SQUARE)
const CRC = crc32(W)
const member = (more = {}) => ({ name: 'w.npy', data: W, ...more })
const refused = (name, bytes, code, error) => ({ name, bytes, code, error })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['arr_0'], data: { arr_0: VALUES }, ...more })
const holds = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: VALUES }, ...more })
const header = (name, text, code, more) => refused(`header: ${name}`, npyOf(text, SQUARE, more), code)
const dict = ({ descr = F4, fortran = 'False', shape = '(2, 2)' } = {}) =>
  `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }`
const local = (name, fields, code = 'ZT_BAD_INDEX') =>
  refused(`npz: the local header has ${name}`, zip([member({ local: fields })]), code, { rule: true, offset: true })
const UNKNOWN = [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'arr_0' }]
const untyped = (name, descr, shape, data, options) => ({
  name: `no dtype: ${name}`,
  bytes: npy(descr, shape, data, options),
  names: ['arr_0'],
  warnings: UNKNOWN,
  uses: [
    { call: 'component', tensor: 'arr_0', role: 'data', value: [...data] },
    { call: 'loadComponent', tensor: 'arr_0', role: 'data', value: [...data] },
    { call: 'data', tensor: 'arr_0', code: 'ZT_BAD_DTYPE' },
    { call: 'load', tensor: 'arr_0', code: 'ZT_BAD_DTYPE' },
  ],
})
const damaged = (name, bytes, code) => ({
  name,
  bytes,
  names: ['w'],
  uses: [
    { call: 'load', tensor: 'w', code, error: { tensor: 'w' } },
    { call: 'verify', code, error: { tensor: 'w' } },
    { call: 'openVerify', code },
  ],
})
const DAMAGED = { code: 'ZT_WARN_DAMAGED' }
/** A damaged archive whose other arrays are read. */
const spared = (name, bytes, code, more = {}) => ({
  name,
  bytes,
  names: ['w'],
  data: { w: VALUES },
  warnings: [DAMAGED],
  uses: [
    { call: 'load', tensor: 'w', value: VALUES },
    { call: 'verify', code },
    { call: 'openVerify', code },
  ],
  ...more,
})
const twoWays = (name, members) => refused(`a name of two readings: ${name}`, zip(members), 'ZT_BAD_INDEX', { rule: true, offset: true })
const E_ACUTE = Buffer.from([0xc3, 0xa9, 0x2e, 0x6e, 0x70, 0x79])
const ENCRYPTED = member({ name: 'x.npy', flags: 1 })
const DEFLATED = deflateRawSync(W)
// 40 KiB of zeros after a header: a member that claims much more than it stores.
const ZEROS = npy("'|u1'", '(40960,)', Buffer.alloc(40960))

/** The locator of a 64-bit end at `at`. */
function locator(at) {
  const bytes = Buffer.alloc(20)
  bytes.write('PK\x06\x07', 'latin1')
  bytes.writeUInt32LE(at, 8)
  bytes.writeUInt32LE(1, 16)
  return bytes
}
/** An archive with a 64-bit end that equals its end. */
function withLongEnd(archive) {
  const [before, end] = [archive.subarray(0, -22), archive.subarray(-22)]
  const record = Buffer.alloc(56)
  record.write('PK\x06\x06', 'latin1')
  record.writeUInt32LE(44, 4)
  for (const at of [24, 32]) record.writeUInt32LE(end.readUInt16LE(8), at)
  record.writeUInt32LE(end.readUInt32LE(12), 40)
  record.writeUInt32LE(end.readUInt32LE(16), 48)
  return Buffer.concat([before, record, locator(before.length), end])
}
/** An archive whose directory ends like the locator of `record`, which no reader accepts as a 64-bit end. */
function withFalseLocator(record, more) {
  const name = 'w.npy'
  const extra = Buffer.concat([Buffer.from([0x99, 0x99, 20, 0]), locator(30 + name.length + 24 + W.length)])
  return zip([member({ name, extra })], { between: record, ...more })
}

export const cases = [
  opens('valid: C order', W),
  opens('valid: Fortran order', npy(F4, '(2, 2)', f32s(1, 3, 2, 4), { fortran: 'True' })),
  opens('valid: big-endian', npy("'>f4'", '(4,)', Buffer.from(SQUARE).swap32())),
  opens('valid: native order', npy("'=f4'", '(4,)', SQUARE)),
  opens('valid: no order', npy("'f4'", '(4,)', SQUARE)),
  opens('valid: version 2.0', npy(F4, '(2, 2)', SQUARE, { version: [2, 0] })),
  opens('valid: version 3.0', npy(F4, '(2, 2)', SQUARE, { version: [3, 0] })),
  opens('valid: keys in another order, double quotes', npyOf('{"shape":(2,2),"descr":"<f4","fortran_order":False}', SQUARE)),
  opens('valid: no padding', npyOf(dict(), SQUARE)),
  opens('valid: much padding', npyOf(`\t ${dict()}${' '.repeat(5000)}\n`, SQUARE)),
  opens('valid: long integers of Python 2', npyOf(dict({ shape: '(2L, 2L)' }), SQUARE)),
  opens('valid: a scalar', npy(F4, '()', f32s(1)), { data: { arr_0: [1] } }),
  opens('valid: empty', npy(F4, '(3, 0)', Buffer.alloc(0)), { data: { arr_0: [] } }),
  opens('valid: empty in Fortran order', npy(F4, '(3, 0, 2)', Buffer.alloc(0), { fortran: 'True' }), { data: { arr_0: [] } }),
  opens('valid: bytes behind the array', npy(F4, '(2,)', SQUARE), {
    data: { arr_0: [1, 2] },
    warnings: [{ code: 'ZT_WARN_SKIPPED', tensor: 'arr_0' }],
  }),
  untyped('objects', "'|O'", '(2,)', Buffer.from('this is no data.')),
  untyped('a structure', "[('a', '<i4'), ('b', [('c', '<f4', (2,))])]", '(1,)', Buffer.alloc(12, 7)),
  untyped('characters', "'<U2'", '(1,)', Buffer.alloc(8, 7)),
  untyped('dates', "'<M8[ns]'", '(1,)', Buffer.alloc(8, 7)),
  untyped('what may be bfloat16', "'<V2'", '(2,)', Buffer.from([1, 2, 3, 4])),
  untyped('long double', "'<f16'", '(1,)', Buffer.alloc(16, 7)),

  // numpy.lib.format: Format Version 1.0
  refused('seven bytes', W.subarray(0, 7), 'ZT_TRUNCATED'),
  refused('only magic and version', W.subarray(0, 8), 'ZT_TRUNCATED'),
  refused('an invalid magic', npy(F4, '(2, 2)', SQUARE, { magic: '\x93NUMPX' }), 'ZT_BAD_MAGIC'),
  refused('version 4.0', npy(F4, '(2, 2)', SQUARE, { version: [4, 0] }), 'ZT_UNSUPPORTED_VERSION', { rule: true, offset: 6 }),
  refused('version 1.1', npy(F4, '(2, 2)', SQUARE, { version: [1, 1] }), 'ZT_UNSUPPORTED_VERSION'),
  refused('a header that ends behind the file', npy(F4, '(2, 2)', SQUARE, { length: 60000 }), 'ZT_TRUNCATED', { rule: true }),
  refused('a header of 4 GiB', npy(F4, '(2, 2)', SQUARE, { version: [2, 0], length: 0xffffffff }), 'ZT_LIMIT'),
  refused('a byte too few', npy(F4, '(2, 2)', SQUARE.subarray(1)), 'ZT_TRUNCATED', { tensor: 'arr_0' }),
  refused('2^60 elements', npy(F4, '(1152921504606846976,)', SQUARE), 'ZT_LIMIT'),
  refused('a shape beyond a u64', npy(F4, '(18446744073709551616,)', SQUARE), 'ZT_LIMIT'),
  refused('a product beyond a u64', npy(F4, '(4503599627370496, 4503599627370496)', SQUARE), 'ZT_LIMIT'),
  refused('2^52 elements of 16 bytes in no bytes', npy("'<c16'", '(4503599627370496,)', SQUARE), 'ZT_LIMIT'),
  refused('65 dimensions', npy(F4, `(${'1, '.repeat(65)})`, SQUARE), 'ZT_LIMIT'),
  refused('a negative dimension', npy(F4, '(-1, 2)', SQUARE), 'ZT_BAD_SHAPE'),
  refused('a shape that is a list', npy(F4, '[2, 2]', SQUARE), 'ZT_BAD_SHAPE'),
  refused('a shape that is a number', npy(F4, '(4)', SQUARE), 'ZT_BAD_SHAPE'),
  refused('a dimension that is a text', npy(F4, "('2',)", SQUARE), 'ZT_BAD_SHAPE'),
  refused('a nonsense type and 2^32 elements in 24 bytes', npy("'<V99'", '(4294967295,)', Buffer.alloc(24)), 'ZT_TRUNCATED', { tensor: 'arr_0' }),
  refused('characters that lack bytes', npy("'<U2'", '(4,)', Buffer.alloc(24)), 'ZT_TRUNCATED'),
  refused('dates that lack bytes', npy("'<M8[ns]'", '(4,)', Buffer.alloc(24)), 'ZT_TRUNCATED'),
  refused('long doubles that lack bytes', npy("'<f16'", '(2,)', Buffer.alloc(24)), 'ZT_TRUNCATED'),
  refused('a structure with missing bytes', npy("[('a', '<i4'), ('b', [('c', '<f4', (2,))])]", '(3,)', Buffer.alloc(24)), 'ZT_TRUNCATED'),
  refused('a type with a shape, with missing bytes', npy("('<f4', (2, 2))", '(2,)', Buffer.alloc(24)), 'ZT_TRUNCATED'),
  ...["'<f3'", "'<c7'", "'<M4[s]'", "'<M8[]'", "'|O3'", "'|S99999999999'", "'<U2147483647'", "'<V-1'", "'<f16[ns]'", "[('a',)]", "['a']", "[('a', '<q4')]", "('<f4',)", "[('a', '<f4', 'x')]", "[(1, '<f4')]"].map((descr) =>
    refused(`no type of NumPy: ${descr}`, npy(descr, '(0,)', Buffer.alloc(24)), 'ZT_BAD_DTYPE'),
  ),
  untyped('a structure with padding and a title', "[('a', '<i4'), ('', '|V4'), (('t', 'b'), '<f8')]", '(1,)', Buffer.alloc(16, 7)),
  untyped('a structure with objects', "[('a', '<i4'), ('o', '|O')]", '(1000,)', Buffer.from('pickled')),
  untyped('a type with a shape', "('<f4', (2,))", '(1,)', Buffer.alloc(8, 7)),
  refused('an unknown type', npy("'<q4'", '(4,)', SQUARE), 'ZT_BAD_DTYPE'),
  refused('integers of 3 bytes', npy("'<i3'", '(4,)', SQUARE), 'ZT_BAD_DTYPE'),
  refused('an empty type', npy("''", '(4,)', SQUARE), 'ZT_BAD_DTYPE'),
  refused('a type that is a number', npy('4', '(4,)', SQUARE), 'ZT_BAD_DTYPE'),
  header('empty', '', 'ZT_BAD_INDEX'),
  header('a tuple', '(1, 2)', 'ZT_BAD_INDEX'),
  header('a call', "__import__('os').system('true')", 'ZT_BAD_INDEX'),
  header('a key is missing', "{'descr': '<f4', 'shape': (2, 2)}", 'ZT_BAD_INDEX'),
  header('a key is one too many', `${dict().slice(0, -1)}'x': 1}`, 'ZT_BAD_INDEX'),
  header('a key appears twice', `${dict().slice(0, -1)}'shape': (4,)}`, 'ZT_BAD_INDEX'),
  header('a key is a number', '{1: 2}', 'ZT_BAD_INDEX'),
  header('the order is a number', dict({ fortran: '0' }), 'ZT_BAD_INDEX'),
  header('something follows', `${dict()} 1`, 'ZT_BAD_INDEX'),
  header('a text does not end', "{'descr", 'ZT_BAD_INDEX'),
  header('nested too deep', '['.repeat(50000), 'ZT_LIMIT'),
  header('no UTF-8 in 3.0', Buffer.from([0x7b, 0xff]).toString('latin1'), 'ZT_BAD_INDEX', { version: [3, 0] }),

  holds('npz: stored', zip([member()])),
  holds('npz: deflated', zip([member({ deflate: true })])),
  holds('npz: zip64 sizes', zip([member({ size: 0xffffffff, storedSize: 0xffffffff, extra: zip64(W.length, W.length) })])),
  holds('npz: a data descriptor', zip([member({ described: descriptor(CRC, W.length, W.length) })])),
  holds('npz: a data descriptor without signature', zip([member({ described: descriptor(CRC, W.length, W.length, { signature: false }) })])),
  holds('npz: a data descriptor of 64 bits', zip([member({ described: descriptor(CRC, W.length, W.length, { wide: true }) })])),
  holds('npz: an array that is all of a deflated block', zip([member({ stored: DEFLATED, method: 8 })])),
  holds('npz: a comment', zip([member()], { comment: Buffer.from('of the archive') })),
  holds('npz: a gap before the directory', zip([member()], { between: Buffer.alloc(100) })),
  holds('npz: a folder, and what is not an array', zip([member(), { name: 'notes/', data: Buffer.alloc(0) }, { name: 'notes/x.txt', data: Buffer.from('x') }]), {
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  }),
  holds('npz: an encrypted member', zip([member(), member({ name: 'x.npy', flags: 1 })]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),
  holds('npz: bzip2', zip([member(), member({ name: 'x.npy', method: 12 })]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),
  { name: 'npz: nothing', bytes: zip([]), names: [] },
  { name: 'npz: an array in a folder', bytes: zip([member({ name: 'a/b.c/w.npy' })]), names: ['a/b.c/w'], data: { 'a/b.c/w': VALUES } },
  { name: 'npz: an empty name', bytes: zip([member({ name: '.npy' })]), names: [''], data: { '': VALUES } },
  { name: 'npz: a name of code page 437', bytes: zip([member({ name: Buffer.from([0x81, 0x2e, 0x6e, 0x70, 0x79]) })]), names: ['ü'], data: { ü: VALUES } },
  {
    name: 'npz: objects do not hide the others',
    bytes: zip([member({ name: 'o.npy', data: npy("'|O'", '(2,)', Buffer.from('pickle')) }), member()]),
    names: ['o', 'w'],
    data: { w: VALUES },
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'o' }],
  },

  // The directory (APPNOTE 4.3.12 and 4.3.16)
  refused('npz: no end of central directory', zip([member()]).subarray(0, -22), 'ZT_TRUNCATED', { rule: true }),
  refused('npz: cut off in its end', zip([member()]).subarray(0, -3), 'ZT_TRUNCATED'),
  refused('npz: a comment that ends behind the file', zip([member()], { commentLength: 9 }), 'ZT_TRUNCATED'),
  refused('npz: a member more than there are', zip([member()], { count: 2 }), 'ZT_BAD_INDEX', { rule: true }),
  refused('npz: a member less than there are', zip([member(), member({ name: 'x.npy' })], { count: 1 }), 'ZT_BAD_INDEX'),
  refused('npz: the same name twice', zip([member(), member()]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('npz: no UTF-8 in a name that says so', zip([member({ name: Buffer.from([0xff, 0x2e, 0x6e, 0x70, 0x79]), flags: 0x800 })]), 'ZT_BAD_INDEX'),
  refused('npz: a member that begins in another', zip([member(), member({ name: 'x.npy', offset: 0 })]), 'ZT_BAD_INDEX'),
  refused('npz: a member that is another', zip([member(), member({ offset: 0 })]), 'ZT_BAD_INDEX'),
  refused('npz: a member whose bytes another has, too', zip([member({ storedSize: W.length + 20, size: W.length + 20 }), member({ name: 'x.npy' })]), 'ZT_BAD_INDEX'),
  refused('npz: a member that begins behind the file', zip([member({ offset: 0x7fffffff })]), 'ZT_TRUNCATED'),
  refused('npz: a member that goes into the directory', zip([member({ storedSize: W.length + 1, size: W.length + 1 })]), 'ZT_TRUNCATED'),
  refused('npz: stored in fewer bytes than it has', zip([member({ size: W.length + 1 })]), 'ZT_BAD_INDEX'),
  refused('npz: deflated by more than deflate can', zip([member({ deflate: true, size: 0x70000000 })]), 'ZT_BAD_INDEX'),
  refused('npz: a zip64 size beyond 2^53', zip([member({ size: 0xffffffff, storedSize: 0xffffffff, extra: zip64(2n ** 63n, 2n ** 63n) })]), 'ZT_LIMIT'),
  refused('npz: a directory that begins behind its end', zip([member()], { at: 0x7fffffff, size: 46 }), ['ZT_BAD_INDEX', 'ZT_TRUNCATED']),
  refused('npz: no local header', zip([member({ signature: 'PK\x03\x05' }), member({ name: 'x.npy' })]), ['ZT_BAD_INDEX', 'ZT_BAD_MAGIC']),
  local('another name', { name: Buffer.from('x.npy') }),
  local('another method', { method: 8 }),
  local('another size', { size: W.length - 1 }),
  local('another CRC-32', { crc: 1 }),
  local('a data descriptor that the directory has not', { flags: 8 }),
  refused('npz: a data descriptor that lies', zip([member({ described: descriptor(CRC ^ 1, W.length, W.length) })]), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('npz: a missing data descriptor', zip([member({ described: Buffer.from([]) }), member({ name: 'x.npy' })]), 'ZT_BAD_INDEX'),

  // The contents of the members
  refused('npz: a member that is not an array', zip([member({ data: Buffer.from('no array, and long enough to be one') })]), 'ZT_BAD_MAGIC', { tensor: 'w' }),
  refused('npz: an array that is cut off', zip([member({ data: W.subarray(0, -1) })]), 'ZT_TRUNCATED', { tensor: 'w' }),
  refused('npz: a damaged deflate stream', zip([member({ stored: Buffer.alloc(100, 7), method: 8 })]), 'ZT_DECODE', { tensor: 'w' }),
  refused('npz: an empty deflate stream', zip([member({ stored: Buffer.from([3, 0]), method: 8 })]), 'ZT_DECODE', { tensor: 'w' }),
  damaged('npz: another CRC-32 of stored bytes', zip([member({ crc: 1 })]), 'ZT_DIGEST_MISMATCH'),
  damaged('npz: another CRC-32 of deflated bytes', zip([member({ deflate: true, crc: 1 })]), 'ZT_DIGEST_MISMATCH'),
  damaged('npz: deflated to less than the stated size', zip([member({ data: ZEROS, stored: deflateRawSync(ZEROS.subarray(0, -1)), method: 8 })]), 'ZT_DECODE'),
  damaged('npz: deflated to more than the stated size', zip([member({ data: ZEROS, stored: deflateRawSync(Buffer.concat([ZEROS, Buffer.alloc(1)])), method: 8 })]), 'ZT_DECODE'),
  damaged('npz: bytes behind the deflate stream', zip([member({ stored: Buffer.concat([DEFLATED, Buffer.alloc(1)]), method: 8 })]), 'ZT_DECODE'),
  {
    name: 'npz: a member that decodes to more than allowed',
    bytes: zip([member({ data: ZEROS, deflate: true })]),
    options: { maxDecodedBytes: 4096 },
    names: ['w'],
    uses: [{ call: 'load', tensor: 'w', code: 'ZT_LIMIT' }, { call: 'data', tensor: 'w', code: 'ZT_LIMIT' }],
  },

  // Names that zip readers interpret differently
  twoWays('a NUL, at which some end it', [member({ name: 'w.npy\0x.npy' })]),
  twoWays('a NUL behind it', [member({ name: 'w.npy\0' }), member({ name: 'x.npy' })]),
  twoWays('two members, one with a NUL', [member(), member({ name: 'w.npy\0' })]),
  twoWays('a member and its array, both called w', [member(), member({ name: 'w' })]),
  twoWays('the same in the other order', [member({ name: 'w', data: Buffer.from('text') }), member()]),
  twoWays('a member that is the key of another', [member(), member({ name: 'w.npy.npy' })]),
  twoWays('a backslash and a slash', [member({ name: 'a/w.npy' }), member({ name: 'a\\w.npy' })]),
  twoWays('a folder `.`', [member(), member({ name: './w.npy' })]),
  twoWays('an empty folder in a path', [member({ name: 'a/w.npy' }), member({ name: 'a//w.npy' })]),
  twoWays('a slash in front', [member(), member({ name: '/w.npy' })]),
  twoWays('another name in the extra field of Unicode names', [member({ extra: unicodePath('w.npy', 'x.npy') })]),
  twoWays('another name in that field of the local header alone', [member({ local: { extra: unicodePath('w.npy', 'x.npy') } })]),
  twoWays('the same bytes, one marked as UTF-8', [member({ name: E_ACUTE, flags: 0x800 }), member({ name: E_ACUTE })]),
  twoWays('marked as UTF-8 in one header of two', [member({ name: E_ACUTE, flags: 0x800, local: { flags: 0 } })]),
  holds('npz: the same name in the extra field of Unicode names', zip([member({ extra: unicodePath('w.npy', 'w.npy') })])),
  holds('npz: a Unicode name of another name, which readers ignore', zip([member({ extra: unicodePath('y.npy', 'x.npy') })])),
  { name: 'npz: names that differ in case', bytes: zip([member(), member({ name: 'W.npy' })]), names: ['w', 'W'], data: { w: VALUES, W: VALUES } },

  // Members as NumPy writes them
  holds('npz: a member without .npy is an array', zip([member({ name: 'w' })])),
  holds('npz: a deflated member without .npy is an array', zip([member({ name: 'w', deflate: true })])),
  { name: 'npz: a member of another ending is an array', bytes: zip([member({ name: 'w.bin' }), member()]), names: ['w.bin', 'w'], data: { 'w.bin': VALUES, w: VALUES } },
  { name: 'npz: an array called like a folder', bytes: zip([member({ name: 'w/' })]), names: ['w/'], data: { 'w/': VALUES } },
  holds('npz: a text without .npy is a warning', zip([member(), { name: 'README', data: Buffer.from('a text') }]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),
  holds('npz: an empty member without .npy is a warning', zip([member(), { name: 'README', data: Buffer.alloc(0) }]), { warnings: [{ code: 'ZT_WARN_SKIPPED' }] }),
  refused('npz: all members are encrypted', zip([ENCRYPTED, member({ name: 'y.npy', flags: 1 })]), 'ZT_UNSUPPORTED_ENCODING', { offset: true }),
  refused('npz: all members are bzip2', zip([member({ method: 12 })]), 'ZT_UNSUPPORTED_ENCODING', { offset: true }),
  refused('npz: a text and encrypted members', zip([{ name: 'README', data: Buffer.from('a text') }, ENCRYPTED]), 'ZT_UNSUPPORTED_ENCODING'),

  // One damaged member does not hide the others, and verify names it
  spared('npz: an array, and a member that is not an array', zip([member(), member({ name: 'x.npy', data: Buffer.from('no array, and long enough to be one') })]), 'ZT_BAD_MAGIC', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),
  spared('npz: an array, and one that is cut off', zip([member(), member({ name: 'x.npy', data: W.subarray(0, -1) })]), 'ZT_TRUNCATED', { warnings: [{ code: 'ZT_WARN_TRUNCATED', tensor: 'x' }] }),
  spared('npz: an array, and a damaged deflate stream', zip([member(), member({ name: 'x.npy', stored: Buffer.alloc(100, 7), method: 8 })]), 'ZT_DECODE', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),
  spared('npz: an array, and an invalid type', zip([member(), member({ name: 'x.npy', data: npy("'<q4'", '(4,)', SQUARE) })]), 'ZT_BAD_DTYPE', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),
  spared('npz: an array, and a dimension of more than 2^53', zip([member(), member({ name: 'x.npy', data: npy("'<f4'", '(9007199254740993,)', SQUARE) })]), 'ZT_LIMIT', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),
  spared('npz: an array, and a shape of more than 2^53 elements', zip([member(), member({ name: 'x.npy', data: npy("'<f4'", '(1073741824, 1073741824)', SQUARE) })]), 'ZT_LIMIT', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),
  spared('npz: an array, and one of 65 dimensions', zip([member(), member({ name: 'x.npy', data: npy("'<f4'", `(${'1, '.repeat(65)})`, SQUARE) })]), 'ZT_LIMIT', { warnings: [{ ...DAMAGED, tensor: 'x' }] }),

  // The fields of the directory in the end of an archive
  holds('npz: a 64-bit end', withLongEnd(zip([member()]))),
  holds('npz: an extra field that ends as the locator of a 64-bit end', withFalseLocator(Buffer.alloc(56, 7))),
  spared('npz: an end that is wrong, and what is no 64-bit end and would be right', withFalseLocator(Buffer.alloc(56), { size: 10 }), 'ZT_BAD_INDEX'),
  spared('npz: a directory that has less bytes than the end says', zip([member()], { size: 1000 }), 'ZT_BAD_INDEX'),
  spared('npz: a directory that has more bytes than the end says', zip([member()], { size: 10 }), 'ZT_BAD_INDEX'),
  spared('npz: a directory of no bytes, as the end says', zip([member()], { size: 0 }), 'ZT_BAD_INDEX'),
  refused('npz: an end that leads to another directory', zip([member(), member({ name: 'x.npy' })], { size: 46 + 5 }), 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('a zip archive without arrays', zip([{ name: 'x.txt', data: Buffer.from('x') }]), 'ZT_BAD_MAGIC'),
]
