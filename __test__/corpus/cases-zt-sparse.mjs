// Sparse layouts of zTensor 1.0 (§5.2, §5.3) and 1.1 to 1.2: roles, lengths, and the rules for their data.
import { f32s, u64s, zt10, zt12 } from './zt.mjs'
import { bomb, frame } from './zstd.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

// [[10, 0, 20], [0, 0, 30]]
const CSR = { values: f32s(10, 20, 30), indices: u64s(0, 2, 2), indptr: u64s(0, 2, 3) }
const CSR_DENSE = [10, 0, 20, 0, 0, 30]
// the same, as coordinates: all rows, then all columns
const COO = { values: f32s(10, 20, 30), coords: u64s(0, 0, 1, 0, 2, 2) }

const components = (parts, overrides = {}) =>
  Object.fromEntries(
    Object.entries(parts)
      .filter(([, bytes]) => bytes !== undefined)
      .map(([role, bytes]) => [role, { bytes, ...overrides[role] }]),
  )
const csr10 = (parts = {}, { shape = [2, 3], dtype = 'float32', overrides } = {}) =>
  zt10({ m: { dtype, shape, format: 'sparse_csr', components: components({ ...CSR, ...parts }, overrides) } })
const coo10 = (parts = {}, { shape = [2, 3], overrides } = {}) =>
  zt10({ m: { dtype: 'float32', shape, format: 'sparse_coo', components: components({ ...COO, ...parts }, overrides) } })

const DTYPES = { values: { dtype: 'f32' }, indices: { dtype: 'u64' }, indptr: { dtype: 'u64' }, coords: { dtype: 'u64' } }
const typed12 = (format, parts, overrides, shape = [2, 3]) => {
  const fields = Object.fromEntries(Object.entries(DTYPES).map(([role, f]) => [role, { ...f, ...overrides?.[role] }]))
  return zt12({ m: { shape, format, components: components(parts, fields) } })
}
const csr12 = (parts = {}, overrides = {}, shape) => typed12('sparse_csr', { ...CSR, ...parts }, overrides, shape)
const coo12 = (parts = {}, overrides = {}, shape) => typed12('sparse_coo', { ...COO, ...parts }, overrides, shape)

const IN_M = { tensor: 'm' }
const refused = (name, bytes, code, error = IN_M) => ({ name, bytes, code, error })
const dense = (name, bytes, call, value = CSR_DENSE) => ({ name, bytes, names: ['m'], uses: [{ call: 'toDense', tensor: 'm', as: call, value }] })
/** Opens, and every way of reading it as sparse finds the broken rule; its components stay readable. */
const broken = (name, bytes, calls, role) => ({
  name,
  bytes,
  names: ['m'],
  uses: [
    ...calls.map((call) => ({ call, tensor: 'm', code: 'ZT_BAD_SPARSE', error: IN_M })),
    { call: 'verify', code: 'ZT_BAD_SPARSE', error: IN_M },
    { call: 'component', tensor: 'm', role },
  ],
})
const brokenCsr = (name, bytes, role) => broken(name, bytes, ['csr', 'loadCsr'], role)
const brokenCoo = (name, bytes) => broken(name, bytes, ['coo', 'loadCoo'], 'coords')
const HUGE = (1n << 63n) + 1n
const i32s = (...values) => littleEndian(Int32Array.from(values))

export const cases = [
  dense('valid: csr', csr10(), 'csr'),
  dense('valid: coo', coo10(), 'coo'),
  dense('valid: csr of 1.2', csr12(), 'csr'),
  dense('valid: coo of 1.2', coo12(), 'coo'),
  dense('valid: csr of 1.2 with int32 indices', csr12({ indices: i32s(0, 2, 2), indptr: i32s(0, 2, 3) }, { indices: { dtype: 'i32' }, indptr: { dtype: 'i32' } }), 'csr'),
  dense('valid: coo of 1.2 with uint8 coordinates', coo12({ coords: Buffer.from([0, 0, 1, 0, 2, 2]) }, { coords: { dtype: 'u8' } }), 'coo'),
  dense('valid: csr without a value', csr10({ values: Buffer.alloc(0), indices: Buffer.alloc(0), indptr: u64s(0, 0, 0) }), 'csr', [0, 0, 0, 0, 0, 0]),
  dense('valid: coo without a value', coo10({ values: Buffer.alloc(0), coords: Buffer.alloc(0) }), 'coo', [0, 0, 0, 0, 0, 0]),
  dense('valid: csr without rows', csr10({ values: Buffer.alloc(0), indices: Buffer.alloc(0), indptr: u64s(0) }, { shape: [0, 3] }), 'csr', []),
  dense('valid: csr whose first row is empty', csr10({ indices: u64s(0, 1, 2), indptr: u64s(0, 0, 3) }), 'csr', [0, 0, 0, 10, 20, 30]),
  dense('valid: coo in no order', coo10({ values: f32s(30, 10, 20), coords: u64s(1, 0, 0, 2, 0, 2) }), 'coo'),
  dense('valid: coo of one dimension', coo10({ coords: u64s(4, 0, 2) }, { shape: [5] }), 'coo', [20, 0, 30, 0, 10]),
  dense('valid: coo of three dimensions', coo10({ coords: u64s(0, 1, 1, 0, 0, 1, 0, 1, 0) }, { shape: [2, 2, 2] }), 'coo', [10, 0, 0, 0, 0, 20, 30, 0]),
  dense('valid: csr, all three compressed', csr10({ values: frame(CSR.values), indices: frame(CSR.indices), indptr: frame(CSR.indptr) }, { overrides: { values: { encoding: 'zstd' }, indices: { encoding: 'zstd' }, indptr: { encoding: 'zstd' } } }), 'csr'),
  dense('valid: coo, both compressed', coo10({ values: frame(COO.values), coords: frame(COO.coords) }, { overrides: { values: { encoding: 'zstd' }, coords: { encoding: 'zstd' } } }), 'coo'),
  { name: 'valid: coo of more elements than 2^53, fewer than 2^64', bytes: coo10({}, { shape: [2 ** 31, 2 ** 31] }), names: ['m'], uses: [{ call: 'coo', tensor: 'm' }, { call: 'toDense', tensor: 'm', as: 'coo', code: 'ZT_LIMIT' }] },

  // roles
  ...['values', 'indices', 'indptr'].map((role) => refused(`csr without ${role}`, csr10({ [role]: undefined }), 'ZT_BAD_LAYOUT', { tensor: 'm', rule: true })),
  ...['values', 'coords'].map((role) => refused(`coo without ${role}`, coo10({ [role]: undefined }), 'ZT_BAD_LAYOUT', { tensor: 'm', rule: true })),
  refused('csr of 1.2 without indptr', csr12({ indptr: undefined }), 'ZT_BAD_LAYOUT'),
  refused('coo of 1.2 without coords', coo12({ coords: undefined }), 'ZT_BAD_LAYOUT'),
  refused('csr with the roles of coo', zt10({ m: { dtype: 'float32', shape: [2, 3], format: 'sparse_csr', components: components(COO) } }), 'ZT_BAD_LAYOUT'),
  refused('csr of rank 0', csr10({}, { shape: [] }), 'ZT_BAD_LAYOUT'),
  refused('csr of rank 1', csr10({}, { shape: [6] }), 'ZT_BAD_LAYOUT'),
  refused('csr of rank 3', csr10({}, { shape: [1, 2, 3] }), 'ZT_BAD_LAYOUT'),
  refused('csr of unknown dtype', csr10({}, { dtype: 'float31' }), 'ZT_BAD_DTYPE'),

  // lengths that are known without decoding
  refused('csr with one index too few', csr10({ indices: u64s(0, 2) }), 'ZT_BAD_SPARSE'),
  refused('csr with one index too many', csr10({ indices: u64s(0, 2, 2, 2) }), 'ZT_BAD_SPARSE'),
  refused('csr with half an index', csr10({ indices: Buffer.alloc(20) }), 'ZT_BAD_SPARSE'),
  refused('csr with one value too many', csr10({ values: f32s(1, 2, 3, 4) }), 'ZT_BAD_SPARSE'),
  refused('csr with half a value', csr10({ values: Buffer.alloc(10) }), 'ZT_BAD_SPARSE'),
  refused('csr with one row pointer too few', csr10({ indptr: u64s(0, 3) }), 'ZT_BAD_SPARSE'),
  refused('csr with one row pointer too many', csr10({ indptr: u64s(0, 2, 3, 3) }), 'ZT_BAD_SPARSE'),
  refused('csr with no row pointer', csr10({ indptr: Buffer.alloc(0) }), 'ZT_BAD_SPARSE'),
  refused('csr of 2^53 rows', csr10({}, { shape: [2 ** 53, 3] }), ['ZT_BAD_SPARSE', 'ZT_LIMIT']),
  refused('csr of 2^64 - 1 rows: rows + 1 wraps', csr10({}, { shape: [(1n << 64n) - 1n, 1] }), ['ZT_BAD_SPARSE', 'ZT_LIMIT']),
  refused('coo with a coordinate too few', coo10({ coords: u64s(0, 0, 1, 0, 2) }), 'ZT_BAD_SPARSE'),
  refused('coo with the coordinates of one dimension', coo10({ coords: u64s(0, 0, 1) }), 'ZT_BAD_SPARSE'),
  refused('coo with half a value', coo10({ values: Buffer.alloc(11) }), 'ZT_BAD_SPARSE'),
  refused('coo whose shape overflows 2^64', coo10({}, { shape: [2 ** 40, 2 ** 40] }), 'ZT_BAD_SHAPE'),
  refused('csr of 1.2 whose indices are floats', csr12({}, { indices: { dtype: 'f64' } }), ['ZT_BAD_DTYPE', 'ZT_BAD_SPARSE', 'ZT_BAD_LAYOUT']),
  refused('coo of 1.2 whose coordinates are booleans', coo12({ coords: Buffer.alloc(6) }, { coords: { dtype: 'bool' } }), ['ZT_BAD_DTYPE', 'ZT_BAD_SPARSE', 'ZT_BAD_LAYOUT']),
  refused('csr component past the end of the file', csr10({}, { overrides: { indices: { offset: 1 << 20 } } }), 'ZT_OUT_OF_BOUNDS', { tensor: 'm', component: 'indices' }),
  refused('coo component over the magic', coo10({}, { overrides: { coords: { offset: 0 } } }), 'ZT_OUT_OF_BOUNDS', { tensor: 'm', component: 'coords' }),

  // the data's rules
  brokenCsr('csr whose pointers do not begin at 0', csr10({ indptr: u64s(1, 2, 3) }), 'indptr'),
  brokenCsr('csr whose pointers go down', csr10({ indptr: u64s(0, 4, 3) }), 'indptr'),
  brokenCsr('csr whose last pointer falls short of nnz', csr10({ indptr: u64s(0, 1, 2) }), 'indptr'),
  brokenCsr('csr whose last pointer passes nnz', csr10({ indptr: u64s(0, 2, 4) }), 'indptr'),
  brokenCsr('csr with a pointer of 2^63 + 1', csr10({ indptr: u64s(0, HUGE, 3) }), 'indptr'),
  brokenCsr('csr with a column equal to the columns', csr10({ indices: u64s(0, 3, 2) }), 'indices'),
  brokenCsr('csr with a column of 2^63 + 1', csr10({ indices: u64s(0, HUGE, 2) }), 'indices'),
  brokenCsr('csr with a column of 2^64 - 1', csr10({ indices: u64s(0, (1n << 64n) - 1n, 2) }), 'indices'),
  brokenCsr('csr with a value in no columns', csr10({}, { shape: [2, 0] }), 'indices'),
  brokenCsr('csr of 1.2 with a negative column', csr12({ indices: i32s(0, -1, 2) }, { indices: { dtype: 'i32' } }), 'indices'),
  brokenCsr('csr of 1.2 with a negative pointer', csr12({ indptr: i32s(0, -2, 3) }, { indptr: { dtype: 'i32' } }), 'indptr'),
  brokenCoo('coo with a row equal to the rows', coo10({ coords: u64s(0, 2, 1, 0, 2, 2) })),
  brokenCoo('coo with a column equal to the columns', coo10({ coords: u64s(0, 0, 1, 0, 3, 2) })),
  brokenCoo('coo with a coordinate of 2^63 + 1', coo10({ coords: u64s(0, HUGE, 1, 0, 2, 2) })),
  brokenCoo('coo of 1.2 with a negative coordinate', coo12({ coords: i32s(0, 0, -1, 0, 2, 2) }, { coords: { dtype: 'i32' } })),

  // compressed: decoding reveals the lengths
  ...[
    ['indptr', u64s(0, 3)],
    ['indptr', Buffer.alloc(0)],
    ['indices', u64s(0, 2)],
    ['values', f32s(1, 2)],
    ['values', f32s(1, 2, 3, 4)],
  ].map(([role, content]) => ({
    name: `csr whose compressed ${role} decodes to ${content.length} bytes`,
    bytes: csr10({ [role]: frame(content) }, { overrides: { [role]: { encoding: 'zstd' } } }),
    names: ['m'],
    uses: [
      { call: 'csr', tensor: 'm', code: ['ZT_BAD_SPARSE', 'ZT_DECODE'], error: IN_M },
      { call: 'loadCsr', tensor: 'm', code: ['ZT_BAD_SPARSE', 'ZT_DECODE'], error: IN_M },
      { call: 'verify', code: ['ZT_BAD_SPARSE', 'ZT_DECODE'], error: IN_M },
    ],
  })),
  {
    name: 'coo whose compressed coordinates are a bomb',
    bytes: coo10({ coords: bomb(1 << 24) }, { overrides: { coords: { encoding: 'zstd' } } }),
    names: ['m'],
    uses: [{ call: 'coo', tensor: 'm', code: ['ZT_BAD_SPARSE', 'ZT_DECODE'] }, { call: 'loadCoo', tensor: 'm', code: ['ZT_BAD_SPARSE', 'ZT_DECODE'] }],
  },
  {
    name: 'csr whose compressed values are garbage',
    bytes: csr10({ values: Buffer.from('garbage') }, { overrides: { values: { encoding: 'zstd' } } }),
    names: ['m'],
    uses: [{ call: 'csr', tensor: 'm', code: 'ZT_DECODE', error: { tensor: 'm', component: 'values' } }, { call: 'verify', code: 'ZT_DECODE' }],
  },

  // calls for the wrong layout
  { name: 'valid: csr has no dense data', bytes: csr10(), names: ['m'], uses: [{ call: 'data', tensor: 'm', code: 'ZT_BAD_LAYOUT', error: IN_M }] },
]
