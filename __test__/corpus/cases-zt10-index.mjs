// zTensor 1.0: the root, tensors and components. Sections are those of the 1.0 specification.
import { bignum, float64, nestedArrays, pairs, raw, selfDescribed, tag } from './cbor.mjs'
import { f32s, SQUARE, square10, TAGGED, zt10 } from './zt.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const root = (fields) => zt10({ w: square10() }, { root: fields })
const one = (fields, component) => zt10({ w: square10(fields, component) })
const refused = (name, fields, code, error = { tensor: 'w' }) => ({ name, bytes: one(fields), code, error })
const badComponent = (name, component, code, error = { tensor: 'w', component: 'data' }) => ({
  name,
  bytes: one({}, component),
  code,
  error,
})
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: SQUARE_VALUES }, ...more })
const VALID = one()
const FIRST = 64

export const cases = [
  opens('valid: one float32 tensor', VALID),

  // §4.1 root
  ...[
    ['absent', undefined],
    ['a number', 1],
    ['a float', float64(1.5)],
    ['null', null],
    ['empty', ''],
    ['not a number', 'one.zero'],
    ['without its minor number', '1.'],
    ['with a negative minor number', '1.-1'],
    ['with a prefix', 'v1.0'],
    ['with a space', ' 1.0'],
    ['an array', [1, 0]],
  ].map(([what, version]) => ({ name: `version ${what}`, bytes: root({ version }), code: 'ZT_BAD_INDEX' })),
  { name: 'version 2.0', bytes: root({ version: '2.0' }), code: 'ZT_UNSUPPORTED_VERSION', error: { rule: true } },
  { name: 'version 0.9', bytes: root({ version: '0.9' }), code: 'ZT_UNSUPPORTED_VERSION' },
  { name: 'version 10.0', bytes: root({ version: '10.0' }), code: 'ZT_UNSUPPORTED_VERSION' },
  opens('newer minor version 1.9', root({ version: '1.9' }), { warnings: [{ code: 'ZT_WARN_NEWER_VERSION' }] }),
  ...TAGGED.map(([what, wrap, code]) => {
    const bytes = zt10({ w: square10() }, { wrap })
    return code === undefined ? opens(`valid: root with ${what}`, bytes) : { name: `root with ${what}`, bytes, code }
  }),
  { name: 'another major version behind the tag of CBOR', bytes: zt10({}, { root: { version: '3.0', tensors: 7 }, wrap: selfDescribed }), code: 'ZT_UNSUPPORTED_VERSION' },
  { name: 'the tag of CBOR at the map of tensors', bytes: root({ tensors: selfDescribed({}) }), code: 'ZT_BAD_INDEX' },
  { name: 'the tag of CBOR at a tensor', bytes: root({ tensors: { w: selfDescribed({}) } }), code: 'ZT_BAD_INDEX' },
  { name: 'tensors absent', bytes: root({ tensors: undefined }), code: 'ZT_BAD_INDEX' },
  { name: 'tensors an array', bytes: root({ tensors: [] }), code: 'ZT_BAD_INDEX' },
  { name: 'tensors null', bytes: root({ tensors: null }), code: 'ZT_BAD_INDEX' },
  { name: 'root of 1.1 without the footer of 1.1', bytes: root({ tensors: undefined, objects: {} }), code: 'ZT_TRUNCATED' },
  { name: 'generator a number', bytes: root({ generator: 7 }), code: 'ZT_BAD_INDEX' },
  { name: 'attributes an array', bytes: root({ attributes: [] }), code: 'ZT_BAD_INDEX' },
  { name: 'attributes a text', bytes: root({ attributes: 'x' }), code: 'ZT_BAD_INDEX' },
  { name: 'more attribute values than maxAttributeValues', bytes: root({ attributes: { a: [1, 2, 3, 4] } }), options: { maxAttributeValues: 3 }, code: 'ZT_LIMIT' },
  { name: 'attribute values one past the default limit', bytes: () => root({ attributes: { a: raw([0x9a, 0x01, 0x00, 0x00, 0x01], Buffer.alloc(16_777_217)) } }), code: 'ZT_LIMIT' },
  opens('valid: neither generator nor attributes', root({ generator: undefined, attributes: undefined })),
  opens('valid: attributes of every type', root({ attributes: { text: 'x', number: -5, float: 0.5, yes: true, nothing: null, bytes: Buffer.from('b'), list: [1, 'two'], map: { a: 1 } } })),

  // §4.2 tensors
  { name: 'tensor name a number', bytes: zt10({}, { root: { tensors: pairs([[1, { dtype: 'float32' }]]) } }), code: 'ZT_BAD_INDEX' },
  { name: 'tensor name a byte string', bytes: zt10({}, { root: { tensors: pairs([[Buffer.from('w'), { dtype: 'float32' }]]) } }), code: 'ZT_BAD_INDEX' },
  { name: 'tensor an array', bytes: zt10({}, { root: { tensors: { w: [] } } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  { name: 'tensor null', bytes: zt10({}, { root: { tensors: { w: null } } }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  ...['dtype', 'shape', 'format', 'components'].map((field) => refused(`${field} absent`, { [field]: undefined }, 'ZT_BAD_INDEX')),
  refused('dtype a number', { dtype: 4 }, 'ZT_BAD_INDEX'),
  refused('dtype null', { dtype: null }, 'ZT_BAD_INDEX'),
  refused('dtype unknown', { dtype: 'float31' }, 'ZT_BAD_DTYPE'),
  refused('dtype in capitals', { dtype: 'FLOAT32' }, 'ZT_BAD_DTYPE'),
  refused('dtype empty', { dtype: '' }, 'ZT_BAD_DTYPE'),
  refused('shape a number', { shape: 4 }, 'ZT_BAD_INDEX'),
  refused('shape a map', { shape: { 0: 2 } }, 'ZT_BAD_INDEX'),
  refused('shape a byte string', { shape: Buffer.from([2, 2]) }, 'ZT_BAD_INDEX'),
  refused('dimension negative', { shape: [-2, -2] }, 'ZT_BAD_INDEX'),
  refused('dimension a float', { shape: [float64(2), 2] }, 'ZT_BAD_INDEX'),
  refused('dimension a text', { shape: ['2', 2] }, 'ZT_BAD_INDEX'),
  refused('dimension null', { shape: [null, 2] }, 'ZT_BAD_INDEX'),
  refused('dimension a boolean', { shape: [true, 4] }, 'ZT_BAD_INDEX'),
  refused('dimension an array', { shape: [[2], 2] }, 'ZT_BAD_INDEX'),
  refused('dimension a bignum of 2^64', { shape: [bignum(1n << 64n)] }, 'ZT_BAD_INDEX'),
  refused('dimension a tagged text', { shape: [tag(0, '2'), 2] }, 'ZT_BAD_INDEX'),
  refused('format a number', { format: 1 }, 'ZT_BAD_INDEX'),
  refused('components an array', { components: [] }, 'ZT_BAD_INDEX'),
  refused('components null', { components: null }, 'ZT_BAD_INDEX'),
  { name: 'role a number', bytes: zt10({ w: square10({ components: pairs([[0, { offset: 64, length: 16 }]]) }) }, { gap: 72 }), code: 'ZT_BAD_INDEX', error: { tensor: 'w' } },
  opens('valid: tensor named like a property of every object', zt10({ w: square10(), constructor: square10() }), { names: ['w', 'constructor'] }),

  // §4.2, §5.1: shape against length
  refused('rank 65', { shape: Array(65).fill(1) }, 'ZT_LIMIT'),
  { name: 'rank above maxRank', bytes: VALID, options: { maxRank: 1 }, code: 'ZT_LIMIT', error: { tensor: 'w' } },
  { name: 'valid: rank 64', bytes: zt10({ w: square10({ shape: [2, 2, ...Array(62).fill(1)] }) }), names: ['w'], data: { w: SQUARE_VALUES } },
  refused('dimension of 2^53 + 1', { shape: [2 ** 53 + 2] }, 'ZT_LIMIT'),
  refused('dimension of 2^64 - 1', { shape: [(1n << 64n) - 1n] }, 'ZT_LIMIT'),
  refused('elements past 2^53', { shape: [2 ** 27, 2 ** 27] }, 'ZT_LIMIT'),
  refused('elements of exactly 2^64', { shape: [2 ** 32, 2 ** 32] }, 'ZT_LIMIT'),
  refused('elements of 2^64 + 4, which wraps to 4', { shape: [(1n << 62n) + 1n, 4] }, 'ZT_LIMIT'),
  refused('bytes past 2^53', { dtype: 'float64', shape: [2 ** 51] }, 'ZT_LIMIT'),
  refused('shape of many more elements than bytes', { shape: [2 ** 40] }, 'ZT_BAD_SHAPE'),
  refused('one element too many', { shape: [5] }, 'ZT_BAD_SHAPE'),
  refused('one element too few', { shape: [3] }, 'ZT_BAD_SHAPE'),
  refused('right count, other width', { dtype: 'float64' }, 'ZT_BAD_SHAPE'),
  refused('empty shape with bytes', { shape: [0, 4] }, 'ZT_BAD_SHAPE'),
  refused('scalar with the bytes of four', { shape: [] }, 'ZT_BAD_SHAPE'),
  badComponent('length not a whole number of elements', { length: 15 }, 'ZT_BAD_SHAPE', { tensor: 'w' }),
  badComponent('length 0 for four elements', { length: 0 }, 'ZT_BAD_SHAPE', { tensor: 'w' }),

  // §4.3 components
  { name: 'component a number', bytes: zt10({ w: square10({ components: { data: 64 } }) }), code: 'ZT_BAD_INDEX', error: { tensor: 'w', component: 'data' } },
  { name: 'component an array', bytes: zt10({ w: square10({ components: { data: [64, 16] } }) }), code: 'ZT_BAD_INDEX', error: { tensor: 'w', component: 'data' } },
  badComponent('offset absent', { offset: undefined }, 'ZT_BAD_INDEX'),
  badComponent('length absent', { length: undefined }, 'ZT_BAD_INDEX'),
  badComponent('offset negative', { offset: -64 }, 'ZT_BAD_INDEX'),
  badComponent('offset a float', { offset: float64(64) }, 'ZT_BAD_INDEX'),
  badComponent('offset a text', { offset: '64' }, 'ZT_BAD_INDEX'),
  badComponent('length negative', { length: -1 }, 'ZT_BAD_INDEX'),
  badComponent('length an array', { length: [16] }, 'ZT_BAD_INDEX'),
  badComponent('encoding a number', { encoding: 0 }, 'ZT_BAD_INDEX'),
  badComponent('digest a number', { digest: 7 }, 'ZT_BAD_INDEX'),

  // §7.1: offset + length <= FILE_SIZE, and nothing overlaps magic, index or footer
  { name: 'data past the end of the file', bytes: zt10({ w: square10({ shape: [1000] }, { length: 4000 }) }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'w', component: 'data', rule: true } },
  badComponent('offset at the end of the file', { offset: VALID.length }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('offset of 2^64 - 16: the sum wraps to 0', { offset: (1n << 64n) - 16n }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('offset of 2^64 - 1', { offset: (1n << 64n) - 1n }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('offset of 2^63', { offset: 1n << 63n }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data over the magic', { offset: 0 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data over the last byte of the magic', { offset: 7 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data over the first byte of the index', { offset: FIRST + 1 }, 'ZT_OUT_OF_BOUNDS'),
  badComponent('data inside the index', { offset: FIRST + 32 }, 'ZT_OUT_OF_BOUNDS'),
  { name: 'data over the footer', bytes: zt10({ w: square10({}, { offset: VALID.length - 16 }) }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'w' } },
  { name: 'compressed length of 2^60', bytes: one({}, { length: 1n << 60n, encoding: 'zstd' }), code: ['ZT_OUT_OF_BOUNDS', 'ZT_LIMIT'], error: { tensor: 'w' } },
  { name: 'empty tensor past the end of the file', bytes: zt10({ e: { dtype: 'float32', shape: [0], format: 'dense', components: { data: { offset: 1 << 20, length: 0 } } } }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'e' } },

  // Near misses of the bounds
  {
    name: 'valid: empty components share an offset with data',
    bytes: zt10({
      e: { dtype: 'float32', shape: [0], format: 'dense', components: { data: { offset: 64, length: 0 } } },
      f: { dtype: 'float64', shape: [3, 0], format: 'dense', components: { data: { offset: 64, length: 0 } } },
      w: square10(),
    }),
    names: ['e', 'f', 'w'],
    data: { e: [], f: [], w: SQUARE_VALUES },
  },
  {
    name: 'valid: two tensors over the same bytes',
    bytes: zt10({ w: square10(), tied: { dtype: 'float32', shape: [4], format: 'dense', components: { data: { offset: 64, length: 16 } } } }),
    names: ['w', 'tied'],
    data: { w: SQUARE_VALUES, tied: SQUARE_VALUES },
  },
  {
    name: 'valid: two tensors overlap by half',
    bytes: zt10({ w: square10(), half: { dtype: 'float32', shape: [2], format: 'dense', components: { data: { offset: 72, length: 8 } } } }),
    names: ['w', 'half'],
    data: { w: SQUARE_VALUES, half: [3, 4] },
    warnings: [
      { code: 'ZT_WARN_UNALIGNED', tensor: 'half' },
      { code: 'ZT_WARN_OVERLAP', tensor: 'half', component: 'data' },
    ],
  },
  { name: 'valid: scalar', bytes: zt10({ s: { dtype: 'float32', shape: [], format: 'dense', components: { data: { bytes: f32s(7) } } } }), names: ['s'], data: { s: [7] } },

  // §2 alignment
  ...[1, 2, 4, 8].map((lead) => opens(`offset ${lead} past a multiple of 64`, one({}, { lead }), { warnings: [{ code: 'ZT_WARN_UNALIGNED', tensor: 'w', component: 'data' }] })),

  // §7.3 unknown formats are listed
  {
    name: 'unknown format',
    bytes: zt10({ q: { dtype: 'uint8', shape: [4, 4], format: 'quantized_4bit', components: { data: { bytes: Buffer.from([1, 2, 3, 4, 5, 6, 7, 8]) }, scale: { bytes: f32s(0.5) } } } }),
    names: ['q'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'q' }],
    uses: [
      { call: 'data', tensor: 'q', code: 'ZT_BAD_LAYOUT', error: { tensor: 'q' } },
      { call: 'component', tensor: 'q', role: 'data', value: [1, 2, 3, 4, 5, 6, 7, 8] },
      { call: 'loadComponent', tensor: 'q', role: 'scale', value: [...f32s(0.5)] },
    ],
  },
  { name: 'unknown format, component out of bounds', bytes: zt10({ q: { dtype: 'uint8', shape: [4], format: 'other', components: { data: { offset: 64, length: 4096 } } } }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'q' } },
  { name: 'unknown format, component over the magic', bytes: zt10({ q: { dtype: 'uint8', shape: [4], format: 'other', components: { data: { offset: 0, length: 4 } } } }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'q' } },

  // §5.1 dense needs `data`
  { name: 'dense without data', bytes: zt10({ w: square10({ components: { values: { bytes: SQUARE } } }) }), code: 'ZT_BAD_LAYOUT', error: { tensor: 'w', rule: true } },
  { name: 'dense without any component', bytes: zt10({ w: square10({ components: {} }) }), code: 'ZT_BAD_LAYOUT', error: { tensor: 'w' } },
  { name: 'attribute deeper than the limit in a tensor that is otherwise fine', bytes: zt10({ w: square10({ extra: nestedArrays(200) }) }), code: 'ZT_LIMIT' },
]

