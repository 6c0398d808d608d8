// zTensor 1.1 and 1.2: the footer with the magic, `objects`, component dtypes, logical types and uncompressed lengths.
import { encode, float64, pairs } from './cbor.mjs'
import { f32s, MAGIC_10, SQUARE, square10, square12, TAGGED, zt10, zt12 } from './zt.mjs'
import { frame } from './zstd.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const one = (fields, component) => zt12({ w: square12(fields, component) })
const root = (fields) => zt12({ w: square12() }, { root: fields })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: SQUARE_VALUES }, ...more })
const refused = (name, fields, code, error = { tensor: 'w' }) => ({ name, bytes: one(fields), code, error })
const badComponent = (name, component, code) => ({ name, bytes: one({}, component), code, error: { tensor: 'w', component: 'data' } })
const VALID = one()
const EMPTY = zt12({})

/** A dense tensor of one component, for dtypes and logical types. */
const typed = (component, shape) => zt12({ w: { shape, format: 'dense', components: { data: component } } })

export const cases = [
  // The footer: manifest size, then the magic again
  opens('valid: 1.2.0', VALID),
  opens('valid: 1.1.0', root({ version: '1.1.0' })),
  opens('valid: a later patch of 1.2', root({ version: '1.2.9' })),
  opens('newer minor version 1.3.0', root({ version: '1.3.0' }), { warnings: [{ code: 'ZT_WARN_NEWER_VERSION' }] }),
  { name: 'version 2.0.0', bytes: root({ version: '2.0.0' }), code: 'ZT_UNSUPPORTED_VERSION' },
  { name: 'version absent', bytes: root({ version: undefined }), code: 'ZT_BAD_INDEX' },
  { name: 'version a number', bytes: root({ version: 1.2 }), code: 'ZT_BAD_INDEX' },
  { name: 'version without numbers', bytes: root({ version: 'latest' }), code: 'ZT_BAD_INDEX' },
  { name: 'both magics and nothing between', bytes: Buffer.concat([MAGIC_10, MAGIC_10]), code: 'ZT_TRUNCATED' },
  { name: 'index of no bytes', bytes: zt12({}, { index: Buffer.alloc(0) }), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'] },
  { name: 'index one byte larger than fits', bytes: zt12({}, { size: EMPTY.length - 23 }), code: 'ZT_TRUNCATED' },
  { name: 'index of 1 GiB and one byte in a small file', bytes: zt12({}, { size: (1 << 30) + 1 }), code: 'ZT_TRUNCATED' },
  { name: 'index size of 2^64 - 1 in a small file', bytes: zt12({}, { size: (1n << 64n) - 1n }), code: 'ZT_TRUNCATED' },
  { name: 'index larger than maxIndexBytes', bytes: VALID, options: { maxIndexBytes: 16 }, code: 'ZT_LIMIT' },
  { name: 'footer without its magic', bytes: VALID.subarray(0, -8), code: 'ZT_TRUNCATED' },
  { name: 'footer magic short of one byte', bytes: VALID.subarray(0, -1), code: ['ZT_TRUNCATED', 'ZT_LIMIT'] },
  { name: 'bytes after the footer', bytes: Buffer.concat([VALID, Buffer.alloc(8)]), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'] },
  { name: 'bytes after the root', bytes: zt12({}, { index: Buffer.concat([encode({ version: '1.2.0', objects: {} }), Buffer.from([0xf6])]) }), code: 'ZT_BAD_INDEX' },

  // The root
  ...TAGGED.map(([what, wrap, code]) => {
    const bytes = zt12({ w: square12() }, { wrap })
    return code === undefined ? opens(`valid: root with ${what}`, bytes) : { name: `root with ${what}`, bytes, code }
  }),
  { name: 'objects absent', bytes: root({ objects: undefined }), code: 'ZT_BAD_INDEX' },
  { name: 'objects an array', bytes: root({ objects: [] }), code: 'ZT_BAD_INDEX' },
  { name: 'root of 1.0 inside the footer of 1.1', bytes: root({ version: '1.0', objects: undefined, tensors: {} }), code: 'ZT_BAD_INDEX' },
  { name: 'objects twice', bytes: zt12({}, { index: encode(pairs([['version', '1.2.0'], ['objects', {}], ['objects', {}]])) }), code: 'ZT_BAD_INDEX' },
  { name: 'object name twice', bytes: zt12({}, { index: encode({ version: '1.2.0', objects: pairs([['a', { shape: [0], format: 'dense', components: { data: { dtype: 'f32', offset: 8, length: 0 } } }], ['a', { shape: [0], format: 'dense', components: { data: { dtype: 'f32', offset: 8, length: 0 } } }]]) }) }), code: 'ZT_BAD_INDEX' },
  { name: 'object name a number', bytes: zt12({}, { root: { objects: pairs([[1, {}]]) } }), code: 'ZT_BAD_INDEX' },
  { name: 'object a text', bytes: zt12({}, { root: { objects: { w: 'x' } } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  ...['shape', 'format', 'components'].map((field) => refused(`${field} absent`, { [field]: undefined }, 'ZT_BAD_INDEX')),
  { name: 'attributes a list', bytes: root({ attributes: [1] }), code: 'ZT_BAD_INDEX' },
  opens('valid: attributes', root({ attributes: { note: 'x', count: 3 } })),

  // Components
  badComponent('component dtype absent', { dtype: undefined }, 'ZT_BAD_INDEX'),
  badComponent('component dtype a number', { dtype: 32 }, 'ZT_BAD_INDEX'),
  badComponent('component dtype unknown', { dtype: 'f31' }, 'ZT_BAD_DTYPE'),
  badComponent('logical type a number', { type: 1 }, 'ZT_BAD_INDEX'),
  badComponent('offset absent', { offset: undefined }, 'ZT_BAD_INDEX'),
  badComponent('length a float', { length: float64(16) }, 'ZT_BAD_INDEX'),
  badComponent('data over the magic', { offset: 0 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data over the index', { offset: 72 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data over the footer magic', { offset: VALID.length - 8 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('offset of 2^64 - 16', { offset: (1n << 64n) - 16n }, 'ZT_OUT_OF_BOUNDS'),
  refused('one element too many', { shape: [5] }, 'ZT_BAD_SHAPE'),
  refused('rank 65', { shape: Array(65).fill(1) }, 'ZT_LIMIT'),
  refused('elements past 2^64', { shape: [2 ** 40, 2 ** 40] }, 'ZT_LIMIT'),
  { name: 'dense without data', bytes: zt12({ w: square12({ components: { values: { dtype: 'f32', bytes: SQUARE } } }) }), code: 'ZT_BAD_LAYOUT', error: { tensor: 'w' } },
  opens('offset 4 past a multiple of 64', one({}, { lead: 4 }), { warnings: [{ code: 'ZT_WARN_UNALIGNED', tensor: 'w', component: 'data' }] }),

  // Uncompressed lengths
  opens('valid: zstd with its uncompressed length', one({}, { bytes: frame(SQUARE), encoding: 'zstd', uncompressed_length: 16 })),
  opens('valid: zstd without its uncompressed length', one({}, { bytes: frame(SQUARE), encoding: 'zstd' })),
  badComponent('uncompressed length against the shape', { bytes: frame(SQUARE), encoding: 'zstd', uncompressed_length: 20 }, 'ZT_BAD_SHAPE'),
  badComponent('uncompressed length a text', { bytes: frame(SQUARE), encoding: 'zstd', uncompressed_length: '16' }, 'ZT_BAD_INDEX'),
  badComponent('uncompressed length negative', { bytes: frame(SQUARE), encoding: 'zstd', uncompressed_length: -1 }, 'ZT_BAD_INDEX'),
  badComponent('uncompressed length of 2^60', { bytes: frame(SQUARE), encoding: 'zstd', uncompressed_length: 1n << 60n }, ['ZT_LIMIT', 'ZT_BAD_SHAPE']),
  {
    name: 'zstd frame shorter than its uncompressed length',
    bytes: one({}, { bytes: frame(f32s(1, 2)), encoding: 'zstd', uncompressed_length: 16 }),
    names: ['w'],
    uses: ['data', 'load', 'verify'].map((call) => ({ call, tensor: 'w', code: 'ZT_DECODE', error: { tensor: 'w' } })),
  },

  // Logical types
  { name: 'valid: float8 over u8', bytes: typed({ dtype: 'u8', type: 'f8_e4m3fn', bytes: Buffer.from([1, 2, 3]) }, [3]), names: ['w'], data: { w: [1, 2, 3] } },
  { name: 'valid: complex64 over f32', bytes: typed({ dtype: 'f32', type: 'complex64', bytes: SQUARE }, [2]), names: ['w'], data: { w: SQUARE_VALUES } },
  { name: 'complex64 with the bytes of half its elements', bytes: typed({ dtype: 'f32', type: 'complex64', bytes: SQUARE }, [4]), code: 'ZT_BAD_SHAPE', error: { tensor: 'w' } },
  { name: 'float8 over u16', bytes: typed({ dtype: 'u16', type: 'f8_e5m2', bytes: Buffer.alloc(8) }, [4]), code: 'ZT_BAD_DTYPE', error: { tensor: 'w' } },
  { name: 'complex128 over f32', bytes: typed({ dtype: 'f32', type: 'complex128', bytes: SQUARE }, [1]), code: 'ZT_BAD_DTYPE', error: { tensor: 'w' } },
  {
    name: 'unknown logical type',
    bytes: typed({ dtype: 'u8', type: 'nf4', bytes: Buffer.from([0x12, 0x34]) }, [4]),
    names: ['w'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'w' }],
    uses: [
      { call: 'data', tensor: 'w', code: 'ZT_BAD_DTYPE', error: { tensor: 'w' } },
      { call: 'component', tensor: 'w', role: 'data', value: [0x12, 0x34] },
    ],
  },
  {
    name: 'unknown format',
    bytes: zt12({ q: { shape: [2, 2], format: 'ternary_blocks', components: { packed: { dtype: 'u8', bytes: Buffer.from([7, 8]) } } } }),
    names: ['q'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'q' }],
    uses: [
      { call: 'data', tensor: 'q', code: 'ZT_BAD_LAYOUT', error: { tensor: 'q' } },
      { call: 'component', tensor: 'q', role: 'packed', value: [7, 8] },
    ],
  },
  { name: 'root of 1.2 with the magic of 0.1', bytes: zt12({}, { magic: Buffer.from('ZTEN0001') }), code: ['ZT_TRUNCATED', 'ZT_BAD_INDEX', 'ZT_LIMIT'] },
  opens('valid: 1.0 in addition, for the same tensor', zt10({ w: square10() })),
]
