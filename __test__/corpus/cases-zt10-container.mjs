// zTensor 1.0: magic, footer, the size of the index, and the CBOR around everything. Sections are those of the 1.0 specification.
import {
  encode,
  float64,
  head,
  nestedArrays,
  nestedMaps,
  nestedTags,
  openArray,
  openMap,
  openText,
  pairs,
  raw,
  wide,
} from './cbor.mjs'
import { container, index10, MAGIC_10, SQUARE, square10, u64, zt10 } from './zt.mjs'

const VALID = zt10({ w: square10() })
const ROOT = { version: '1.0', generator: 'corpus', attributes: {}, tensors: {} }
const rootPairs = (...more) => encode(pairs([...Object.entries(ROOT), ...more]))
/** A complete root whose unknown key `x` has the given bytes: the syntax of unused keys is checked too. */
const unknownKey = (...bytes) => index10(rootPairs(['x', raw(...bytes)]))
const text = (bytes) => raw(head(3, bytes.length), bytes)
const component = { offset: 64, length: 16 }
const tensor = { dtype: 'float32', shape: [2, 2], format: 'dense', components: { data: component } }
const withBlob = (index) => container({ magic: MAGIC_10, blobs: [{ offset: 64, bytes: SQUARE }], index: encode(index) })

const SQUARE_VALUES = [1, 2, 3, 4]

export const cases = [
  // §3.1 header and footer
  { name: 'empty file', bytes: Buffer.alloc(0), code: 'ZT_TRUNCATED' },
  { name: 'seven bytes of the magic', bytes: MAGIC_10.subarray(0, 7), code: 'ZT_TRUNCATED' },
  { name: 'the magic alone', bytes: MAGIC_10, code: 'ZT_TRUNCATED' },
  { name: 'magic and half a footer', bytes: Buffer.concat([MAGIC_10, Buffer.alloc(4)]), code: 'ZT_TRUNCATED' },
  { name: 'magic and an index of no bytes', bytes: index10(Buffer.alloc(0)), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'] },
  { name: 'magic of an unknown version', bytes: zt10({}, { magic: Buffer.from('ZTEN9000') }), code: 'ZT_BAD_MAGIC' },
  { name: 'magic in lower case', bytes: zt10({}, { magic: Buffer.from('zten1000') }), code: 'ZT_BAD_MAGIC' },
  { name: 'magic off by its last bit', bytes: zt10({}, { magic: Buffer.from('ZTEN1001') }), code: 'ZT_BAD_MAGIC' },

  // §6 step 2, §7.1: the size of the index. A truncated file ends in bytes that are not a size, so any size beyond
  // the file is ZT_TRUNCATED; open/large.test.mjs has one that fits, and is past the limit.
  { name: 'index one byte larger than fits', bytes: zt10({}, { size: zt10({}).length - 15 }), code: 'ZT_TRUNCATED' },
  { name: 'index as large as the file', bytes: zt10({}, { size: zt10({}).length }), code: 'ZT_TRUNCATED' },
  { name: 'index of exactly 1 GiB in a small file', bytes: zt10({}, { size: 1n << 30n }), code: 'ZT_TRUNCATED' },
  { name: 'index of 1 GiB and one byte in a small file', bytes: zt10({}, { size: (1n << 30n) + 1n }), code: 'ZT_TRUNCATED' },
  { name: 'index size of 2^63 in a small file', bytes: zt10({}, { size: 1n << 63n }), code: 'ZT_TRUNCATED' },
  { name: 'index size of 2^64 - 1 in a small file', bytes: zt10({}, { size: (1n << 64n) - 1n }), code: 'ZT_TRUNCATED' },
  { name: 'index larger than maxIndexBytes', bytes: VALID, options: { maxIndexBytes: 32 }, code: 'ZT_LIMIT' },
  { name: 'valid: index fills the whole file, no tensors', bytes: zt10({}), names: [] },
  { name: 'file that lost its last byte', bytes: VALID.subarray(0, -1), code: ['ZT_TRUNCATED', 'ZT_LIMIT'] },
  { name: 'file that lost its footer', bytes: VALID.subarray(0, -8), code: ['ZT_TRUNCATED', 'ZT_LIMIT'] },
  { name: 'size one too small: starts inside the index', bytes: zt10({}, { size: encode(ROOT).length - 1 }), code: 'ZT_BAD_INDEX' },
  { name: 'bytes after the root', bytes: index10(Buffer.concat([encode(ROOT), Buffer.from([0])])), code: 'ZT_BAD_INDEX' },
  { name: 'a second root', bytes: index10(Buffer.concat([encode(ROOT), encode(ROOT)])), code: 'ZT_BAD_INDEX' },

  // §4: the index is one CBOR map
  ...[
    ['an array, as in 0.1', []],
    ['a number', 7],
    ['a text', 'index'],
    ['null', null],
    ['a byte string', Buffer.from('x')],
  ].map(([what, root]) => ({ name: `root is ${what}`, bytes: index10(encode(root)), code: 'ZT_BAD_INDEX' })),

  // CBOR that is not well-formed, under an unknown key
  { name: 'map that ends before its last value', bytes: index10(encode(raw(head(5, 5), ...Object.entries(ROOT).flat().map(encode)))), code: 'ZT_BAD_INDEX' },
  { name: 'reserved additional information 28', bytes: unknownKey([0x1c]), code: 'ZT_BAD_INDEX', error: { offset: true } },
  { name: 'reserved additional information 30', bytes: unknownKey([0x3e]), code: 'ZT_BAD_INDEX' },
  { name: 'break outside an indefinite item', bytes: unknownKey([0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'break as an item of a definite array', bytes: unknownKey([0x81, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'break between a key and its value', bytes: unknownKey([0xbf, 0x61, 0x6b, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'integer of indefinite length', bytes: unknownKey([0x1f]), code: 'ZT_BAD_INDEX' },
  { name: 'tag of indefinite length', bytes: unknownKey([0xdf, 0x00]), code: 'ZT_BAD_INDEX' },
  { name: 'two-byte form of a simple value below 32', bytes: unknownKey([0xf8, 0x14]), code: 'ZT_BAD_INDEX' },
  { name: 'tag without content', bytes: unknownKey([0xc1]), code: 'ZT_BAD_INDEX' },
  { name: 'text chunk that is a byte string', bytes: unknownKey([0x7f, 0x41, 0x61, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'text chunk that is itself indefinite', bytes: unknownKey([0x7f, 0x7f, 0x61, 0x61, 0xff, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'byte chunk that is a number', bytes: unknownKey([0x5f, 0x01, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'indefinite array that is never closed', bytes: unknownKey([0x9f, 0x01]), code: 'ZT_BAD_INDEX' },
  { name: 'text longer than the index', bytes: unknownKey(head(3, 1000)), code: 'ZT_BAD_INDEX' },
  { name: 'text of 2^64 - 1 bytes', bytes: unknownKey(head(3, (1n << 64n) - 1n)), code: 'ZT_BAD_INDEX' },
  { name: 'byte string of 2^63 bytes', bytes: unknownKey(head(2, 1n << 63n)), code: 'ZT_BAD_INDEX' },
  { name: 'array of 2^32 items in no bytes', bytes: unknownKey(head(4, 1n << 32n)), code: 'ZT_BAD_INDEX' },
  { name: 'array of 2^64 - 1 items in no bytes', bytes: unknownKey(head(4, (1n << 64n) - 1n)), code: 'ZT_BAD_INDEX' },
  { name: 'map of 2^63 pairs in no bytes', bytes: unknownKey(head(5, 1n << 63n)), code: 'ZT_BAD_INDEX' },
  { name: 'root of 2^64 - 1 pairs', bytes: index10(encode(raw(head(5, (1n << 64n) - 1n), ...Object.entries(ROOT).flat().map(encode)))), code: 'ZT_BAD_INDEX' },
  { name: 'shape of 2^40 dimensions in no bytes', bytes: withBlob({ ...ROOT, tensors: { w: { ...tensor, shape: raw(head(4, 1n << 40n)) } } }), code: ['ZT_BAD_INDEX', 'ZT_LIMIT'] },

  // Text is UTF-8
  { name: 'text with a stray continuation byte', bytes: unknownKey([0x61, 0x80]), code: 'ZT_BAD_INDEX' },
  { name: 'text with an overlong form', bytes: unknownKey([0x62, 0xc0, 0xaf]), code: 'ZT_BAD_INDEX' },
  { name: 'text with a surrogate', bytes: unknownKey([0x63, 0xed, 0xa0, 0x80]), code: 'ZT_BAD_INDEX' },
  { name: 'text past U+10FFFF', bytes: unknownKey([0x64, 0xf4, 0x90, 0x80, 0x80]), code: 'ZT_BAD_INDEX' },
  { name: 'text that ends inside a character', bytes: unknownKey([0x62, 0xe5, 0xb1]), code: 'ZT_BAD_INDEX' },
  { name: 'character split between two chunks', bytes: unknownKey([0x7f, 0x61, 0xc3, 0x61, 0xa9, 0xff]), code: 'ZT_BAD_INDEX' },
  { name: 'tensor name that is not UTF-8', bytes: index10(encode({ ...ROOT, tensors: pairs([[text(Buffer.from([0xff])), tensor]]) })), code: 'ZT_BAD_INDEX' },
  { name: 'attribute that is not UTF-8', bytes: zt10({}, { root: { attributes: { a: text(Buffer.from([0xc3])) } } }), code: 'ZT_BAD_INDEX' },

  // Duplicate keys
  { name: 'version twice', bytes: index10(rootPairs(['version', '1.0'])), code: 'ZT_BAD_INDEX', error: { rule: true } },
  { name: 'tensors twice', bytes: index10(rootPairs(['tensors', {}])), code: 'ZT_BAD_INDEX' },
  { name: 'unknown key twice', bytes: index10(rootPairs(['x', 1], ['x', 2])), code: 'ZT_BAD_INDEX' },
  { name: 'tensor name twice', bytes: withBlob({ ...ROOT, tensors: pairs([['w', tensor], ['w', tensor]]) }), code: 'ZT_BAD_INDEX' },
  { name: 'tensor name twice, once in chunks', bytes: withBlob({ ...ROOT, tensors: pairs([['ww', tensor], [openText('w', 'w'), tensor]]) }), code: 'ZT_BAD_INDEX' },
  { name: 'tensor name twice, once with a wide head', bytes: withBlob({ ...ROOT, tensors: pairs([['w', tensor], [wide('w', 8), tensor]]) }), code: 'ZT_BAD_INDEX' },
  { name: 'dtype twice', bytes: withBlob({ ...ROOT, tensors: { w: pairs([...Object.entries(tensor), ['dtype', 'float32']]) } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'role twice', bytes: withBlob({ ...ROOT, tensors: { w: { ...tensor, components: pairs([['data', component], ['data', component]]) } } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'offset twice', bytes: withBlob({ ...ROOT, tensors: { w: { ...tensor, components: { data: pairs([['offset', 64], ['length', 16], ['offset', 64]]) } } } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'attribute twice', bytes: zt10({}, { root: { attributes: pairs([['a', 1], ['a', 2]]) } }), code: 'ZT_BAD_INDEX' },
  { name: 'key twice inside an attribute', bytes: zt10({}, { root: { attributes: { a: pairs([['k', 1], ['k', 1]]) } } }), code: 'ZT_BAD_INDEX' },
  { name: 'number key twice, in heads of different width', bytes: zt10({}, { root: { attributes: { a: pairs([[1, 'x'], [wide(1, 4), 'y']]) } } }), code: 'ZT_BAD_INDEX' },
  { name: 'key twice in an indefinite map', bytes: zt10({}, { root: { attributes: openMap([['a', 1], ['a', 2]]) } }), code: 'ZT_BAD_INDEX' },
  { name: 'key twice below an unknown key', bytes: index10(rootPairs(['x', pairs([['k', 1], ['k', 2]])])), code: 'ZT_BAD_INDEX' },

  // Ordinary CBOR, oddly written
  {
    name: 'valid: indefinite maps, arrays and texts throughout',
    bytes: withBlob(openMap({ ...ROOT, tensors: openMap({ w: openMap({ ...tensor, dtype: openText('flo', '', 'at32'), shape: openArray([2, 2]), components: openMap({ data: openMap(component) }) }) }) })),
    names: ['w'],
    data: { w: SQUARE_VALUES },
  },
  {
    name: 'valid: every head eight bytes wide',
    bytes: withBlob(wide({ version: wide('1.0', 8), tensors: wide({ w: wide({ dtype: wide('float32', 8), shape: wide([wide(2, 8), wide(2, 8)], 8), format: wide('dense', 8), components: { data: { offset: wide(64, 8), length: wide(16, 8) } } }, 8) }, 8) }, 8)),
    names: ['w'],
    data: { w: SQUARE_VALUES },
  },
  {
    name: 'valid: keys in another order',
    bytes: withBlob({ tensors: { w: { components: { data: { length: 16, offset: 64 } }, shape: [2, 2], format: 'dense', dtype: 'float32' } }, attributes: {}, version: '1.0' }),
    names: ['w'],
    data: { w: SQUARE_VALUES },
  },
  {
    name: 'valid: unknown keys everywhere, of every type',
    bytes: withBlob({ ...ROOT, later: [1, -1, float64(0.5), null, undefined, true, Buffer.from('b')], tensors: { w: { ...tensor, later: { a: pairs([[1, 2]]) }, components: { data: { ...component, later: raw([0xf8, 0x20]) } } } } }),
    names: ['w'],
    data: { w: SQUARE_VALUES },
  },
  { name: 'valid: unknown key that is a number', bytes: index10(rootPairs([7, 'seven'])), names: [] },

  // Depth: 64 levels of CBOR
  { name: 'valid: attribute 50 levels deep', bytes: zt10({}, { root: { attributes: { a: nestedArrays(50) } } }), names: [] },
  { name: 'attribute 80 levels deep', bytes: zt10({}, { root: { attributes: { a: nestedArrays(80) } } }), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 arrays deep', bytes: () => unknownKey(encode(nestedArrays(100_000))), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 maps deep', bytes: () => unknownKey(encode(nestedMaps(100_000))), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 tags deep', bytes: () => unknownKey(encode(nestedTags(100_000))), code: 'ZT_LIMIT' },
  { name: 'unknown key 100,000 indefinite arrays deep', bytes: () => unknownKey(Buffer.alloc(100_000, 0x9f)), code: 'ZT_LIMIT' },
  { name: 'size says less than the 8 zero bytes before it', bytes: Buffer.concat([MAGIC_10, Buffer.alloc(64), u64(1)]), code: 'ZT_BAD_INDEX' },
]
