// zTensor 2: layouts and their profiles, logical types, encodings; at open and on the data.
import { f32s } from './zt.mjs'
import { lone, RULE } from './zt2.mjs'
import { seekable } from './zstd.mjs'
import { littleEndian } from '../helpers/bytes.mjs'

const IN_T = { tensor: 't' }
const u32s = (...values) => littleEndian(Uint32Array.from(values))
const u64s = (...values) => littleEndian(BigUint64Array.from(values, BigInt))
const zeros = (length) => Buffer.alloc(length)
const within = (role) => ({ tensor: 't', component: role })
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['t'], ...more })
const refused = (name, bytes, code, rule, error = IN_T) => ({ name, bytes, code, error: { rule, ...error } })
/** The file opens, and each of these calls rejects its data. */
const broken = (name, bytes, code, rule, calls, error = IN_T) => ({
  name,
  bytes,
  names: ['t'],
  uses: calls.map((call) => ({ call, tensor: 't', role: 'data', code, error: { rule, ...error } })),
})

const typed = (dtype, type, shape, bytes) => lone(shape, 'dense', { data: { dtype, type, bytes } })

const csr = (parts = {}, shape = [2, 3]) =>
  lone(shape, 'zt.sparse_csr/1', {
    indices: { dtype: 'u32', bytes: u32s(0, 2, 1) },
    indptr: { dtype: 'u32', bytes: u32s(0, 2, 3) },
    values: { dtype: 'f32', bytes: f32s(1, 2, 3) },
    ...parts,
  })
const indices = (...values) => ({ indices: { dtype: 'u32', bytes: u32s(...values) } })
const indptr = (...values) => ({ indptr: { dtype: 'u32', bytes: u32s(...values) } })
const CSR_CALLS = ['csr', 'loadCsr', 'verify', 'openVerify']

const coo = (parts = {}, shape = [3, 4]) =>
  lone(shape, 'zt.sparse_coo/1', {
    coords: { dtype: 'u64', bytes: u64s(0, 2, 1, 3) },
    values: { dtype: 'u8', bytes: Buffer.from([5, 6]) },
    ...parts,
  })
const coords = (...values) => ({ coords: { dtype: 'u64', bytes: u64s(...values) } })
const COO_CALLS = ['coo', 'loadCoo', 'verify', 'openVerify']

const PACKING = { word: 'u32', order: 'lsb_first', per_word: 8 }
const GROUP = { bits: 4, group_size: 8, axis: 1, packing: PACKING, scale_form: 'f32_factors', zero_point: { form: 'none' } }
const group = (attributes = {}, parts = {}, shape = [2, 16]) =>
  lone(
    shape,
    'zt.quant_group/1',
    { data: { dtype: 'u32', bytes: zeros(16) }, scales: { dtype: 'f32', bytes: zeros(16) }, ...parts },
    { attributes: { ...GROUP, ...attributes } },
  )
const quant = (kind) => `zt.quant_group/1 ${kind}`

const MX = { block_size: 32, scale_form: 'e8m0_exponent' }
const mx = (attributes = {}, parts = {}, shape = [2, 64]) =>
  lone(
    shape,
    'zt.mx/1',
    {
      data: { dtype: 'u8', type: 'f4_e2m1', bytes: zeros(64) },
      scales: { dtype: 'u8', type: 'f8_e8m0', bytes: zeros(4) },
      ...parts,
    },
    { attributes: { ...MX, ...attributes } },
  )

const gguf = (attributes = {}, parts = { data: { dtype: 'u8', bytes: zeros(36) } }, layout = 'gguf.q4_0/1') =>
  lone([2, 32], layout, parts, { attributes: { elems_per_block: 32, block_bytes: 18, ...attributes } })

const FRAME = Buffer.from(Array.from({ length: 40 }, (_, i) => i))
const zipped = (bytes, more = {}) =>
  lone([40], 'dense', { data: { dtype: 'u8', bytes, encoding: 'zt.zstd-seekable/1', decoded_length: 40, ...more } })
const ZIPPED_CALLS = ['data', 'load', 'verify']

export const cases = [
  // dense
  refused('dense with another part', lone([1], 'dense', { data: { dtype: 'u8', bytes: zeros(1) }, more: { dtype: 'u8', bytes: zeros(1) } }), 'ZT_BAD_LAYOUT', RULE.dense),
  refused('dense with a part of another name', lone([1], 'dense', { values: { dtype: 'u8', bytes: zeros(1) } }), 'ZT_BAD_LAYOUT', RULE.dense, within('data')),
  refused('dense with a byte too few', typed('f32', undefined, [2], zeros(7)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('dense with a byte too many', typed('u8', undefined, [2], zeros(3)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('a scalar without bytes', typed('f32', undefined, [], zeros(0)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('dense of more bytes than 2^64', typed('f64', undefined, [2n ** 53n - 1n, 2000], zeros(8)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('f4 with the bytes of whole elements', typed('u8', 'f4_e2m1', [5], zeros(5)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('complex64 with the bytes of half its elements', typed('f32', 'complex64', [2], zeros(8)), 'ZT_BAD_SHAPE', RULE.dense, within('data')),
  refused('decoded_length against the shape', zipped(seekable([FRAME]), { decoded_length: 41 }), 'ZT_BAD_SHAPE', RULE.dense, within('data')),

  // Logical types
  opens('valid: bool', typed('u8', 'bool', [3], Buffer.from([0, 1, 1])), { data: { t: [0, 1, 1] } }),
  broken('a bool of 2', typed('u8', 'bool', [3], Buffer.from([0, 2, 1])), 'ZT_BAD_DTYPE', RULE.elements, ['load', 'loadComponent', 'verify', 'openVerify'], within('data')),
  opens('a bool of 2, as bytes', typed('u8', 'bool', [3], Buffer.from([0, 2, 1])), { uses: [{ call: 'data', tensor: 't', value: [0, 2, 1] }] }),
  opens('valid: five elements of f4', typed('u8', 'f4_e2m1', [5], Buffer.from([0x21, 0x43, 0x05])), { data: { t: [0x21, 0x43, 0x05] } }),
  broken('the half byte behind five elements of f4', typed('u8', 'f4_e2m1', [5], Buffer.from([0x21, 0x43, 0x15])), 'ZT_BAD_DTYPE', RULE.elements, ['load', 'verify'], within('data')),
  ...['f8_e4m3fn', 'f8_e5m2', 'f8_e4m3fnuz', 'f8_e5m2fnuz', 'f8_e8m0'].map((type) => opens(`valid: ${type}`, typed('u8', type, [2], Buffer.from([1, 255])), { data: { t: [1, 255] } })),
  opens('valid: complex128', typed('f64', 'complex128', [1], zeros(16)), { data: { t: [0, 0] } }),
  opens('an unknown logical type', typed('u8', 'x.future/1', [999], Buffer.from([7, 8])), {
    warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 't', component: 'data' }],
    uses: [
      { call: 'data', tensor: 't', code: 'ZT_BAD_DTYPE', error: IN_T },
      { call: 'component', tensor: 't', role: 'data', value: [7, 8] },
      { call: 'verify', undigested: 1 },
    ],
  }),
  opens('a storage type as the logical type', typed('u8', 'u8', [2], Buffer.from([7, 8])), { warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE' }], uses: [{ call: 'verify' }] }),

  // Unknown layouts and encodings
  ...['x.custom/1', 'zt.sparse_csr/2', 'gguf.f32/1', 'gguf.Q4_0/1', 'DENSE'].map((layout) =>
    opens(`an unknown layout: ${layout}`, lone([7], layout, { packed: { dtype: 'u8', bytes: Buffer.from([7, 8]) } }), {
      warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 't' }],
      uses: [
        { call: 'data', tensor: 't', code: 'ZT_BAD_LAYOUT', error: IN_T },
        { call: 'component', tensor: 't', role: 'packed', value: [7, 8] },
      ],
    }),
  ),
  opens('an unknown encoding', lone([8], 'dense', { data: { dtype: 'u8', bytes: zeros(5), encoding: 'x.z/1', decoded_length: 8, digest: 'xxh3:0011223344556677' } }), {
    warnings: [{ code: 'ZT_WARN_UNKNOWN_ENCODING', tensor: 't', component: 'data' }],
    uses: [
      ...['data', 'load', 'component', 'loadComponent'].map((call) => ({ call, tensor: 't', role: 'data', code: 'ZT_UNSUPPORTED_ENCODING', error: IN_T })),
      { call: 'verify', undigested: 1 },
    ],
  }),

  // zt.sparse_csr/1
  opens('valid: csr', csr(), { uses: [{ call: 'toDense', tensor: 't', as: 'csr', value: [1, 0, 2, 0, 3, 0] }, { call: 'verify' }] }),
  opens('valid: csr of u64', csr({ indices: { dtype: 'u64', bytes: u64s(0, 2, 1) }, indptr: { dtype: 'u64', bytes: u64s(0, 2, 3) } })),
  opens('valid: csr of three f4', csr({ values: { dtype: 'u8', type: 'f4_e2m1', bytes: Buffer.from([0x21, 0x03]) } })),
  broken('csr of three f4 and a half byte', csr({ values: { dtype: 'u8', type: 'f4_e2m1', bytes: Buffer.from([0x21, 0x13]) } }), 'ZT_BAD_DTYPE', RULE.elements, ['loadCsr', 'verify'], within('values')),
  opens('csr values of an unknown type', csr({ values: { dtype: 'u8', type: 'x.y/1', bytes: zeros(2) } }), { warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', component: 'values' }], uses: [{ call: 'csr', tensor: 't', code: 'ZT_BAD_DTYPE', error: IN_T }, { call: 'verify' }] }),
  refused('csr of rank 3', csr({}, [1, 2, 3]), 'ZT_BAD_LAYOUT', RULE.csr),
  refused('csr without indptr', lone([2, 3], 'zt.sparse_csr/1', { indices: { dtype: 'u32', bytes: u32s(0) }, values: { dtype: 'u8', bytes: zeros(1) } }), 'ZT_BAD_LAYOUT', RULE.csr, within('indptr')),
  refused('csr with another part', csr({ more: { dtype: 'u8', bytes: zeros(1) } }), 'ZT_BAD_LAYOUT', RULE.csr),
  ...['i32', 'i64', 'u16', 'f32'].map((dtype) => refused(`csr indices of ${dtype}`, csr({ indices: { dtype, bytes: zeros(24) } }), 'ZT_BAD_DTYPE', RULE.csr, within('indices'))),
  refused('csr indices of a logical type', csr({ indices: { dtype: 'u32', type: 'x.y/1', bytes: u32s(0, 2, 1) } }), 'ZT_BAD_DTYPE', RULE.csr, within('indices')),
  refused('csr indptr wider than indices', csr({ indptr: { dtype: 'u64', bytes: u64s(0, 2, 3) } }), 'ZT_BAD_DTYPE', RULE.csr, within('indptr')),
  refused('csr indices of broken bytes', csr({ indices: { dtype: 'u32', bytes: zeros(13) } }), 'ZT_BAD_SPARSE', RULE.csr, within('indices')),
  refused('csr with a pointer too few', csr(indptr(0, 3)), 'ZT_BAD_SPARSE', RULE.csr, within('indptr')),
  refused('csr of 2^53 - 1 rows', csr({}, [2 ** 53 - 1, 1]), 'ZT_BAD_SPARSE', RULE.csr, within('indptr')),
  refused('csr with a value too few', csr({ values: { dtype: 'f32', bytes: f32s(1, 2) } }), 'ZT_BAD_SPARSE', RULE.csr, within('values')),
  broken('csr pointers from 1', csr(indptr(1, 2, 3)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),
  broken('csr pointers that fall', csr(indptr(0, 3, 2)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),
  broken('csr pointers short of nnz', csr(indptr(0, 1, 2)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),
  broken('csr column out of range', csr(indices(0, 3, 1)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),
  broken('csr columns that fall', csr(indices(2, 0, 1)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),
  broken('csr column twice in a row', csr(indices(1, 1, 1)), 'ZT_BAD_SPARSE', RULE.csr, CSR_CALLS),

  // zt.sparse_coo/1
  opens('valid: coo', coo(), { uses: [{ call: 'toDense', tensor: 't', as: 'coo', value: [0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6] }, { call: 'verify' }] }),
  opens('valid: coo in any order', coo(coords(2, 0, 3, 1)), { uses: [{ call: 'verify' }] }),
  opens('valid: coo without elements', coo({ ...coords(), values: { dtype: 'u8', bytes: zeros(0) } }, [3, 4])),
  refused('coo of a scalar', coo({}, []), 'ZT_BAD_LAYOUT', RULE.coo),
  refused('coo with another part', coo({ more: { dtype: 'u8', bytes: zeros(1) } }), 'ZT_BAD_LAYOUT', RULE.coo),
  refused('coo of i64', coo({ coords: { dtype: 'i64', bytes: u64s(0, 2, 1, 3) } }), 'ZT_BAD_DTYPE', RULE.coo, within('coords')),
  refused('coo with a coordinate too many', coo(coords(0, 2, 1, 3, 0)), 'ZT_BAD_SPARSE', RULE.coo, within('coords')),
  refused('coo with a value too many', coo({ values: { dtype: 'u8', bytes: zeros(3) } }), 'ZT_BAD_SPARSE', RULE.coo, within('values')),
  broken('coo coordinate out of range', coo(coords(0, 3, 1, 3)), 'ZT_BAD_SPARSE', RULE.coo, COO_CALLS),
  broken('coo cell twice', coo(coords(2, 2, 3, 3)), 'ZT_BAD_SPARSE', RULE.coo, COO_CALLS),

  // zt.quant_group/1
  opens('valid: groups', group()),
  opens('valid: signed words', group({}, { data: { dtype: 'i32', bytes: zeros(16) } })),
  opens('valid: an implied zero point below 0', group({ zero_point: { form: 'implied', value: -8 } })),
  opens('valid: packed zeros', group({ axis: 0, group_size: 1, zero_point: { form: 'tensor', packing: 'same_as_data' } }, { scales: { dtype: 'f32', bytes: zeros(128) }, zeros: { dtype: 'u32', bytes: zeros(16) } })),
  opens('valid: plain zeros', group({ zero_point: { form: 'tensor', packing: 'plain' } }, { zeros: { dtype: 'u8', bytes: zeros(4) } })),
  opens('valid: a scale for each index of the axis', group({ group_size: 0, bits: 8, axis: 0, packing: { word: 'u8', order: 'msb_first', per_word: 1 } }, { data: { dtype: 'u8', bytes: zeros(32) }, scales: { dtype: 'f16', bytes: zeros(4) } })),
  opens('valid: exponents', group({ scale_form: 'e8m0_exponent' }, { scales: { dtype: 'u8', type: 'f8_e8m0', bytes: zeros(4) } })),
  ...Object.keys(GROUP).map((key) => refused(`groups without ${key}`, group({ [key]: undefined }), 'ZT_BAD_LAYOUT', true)),
  ...[0, 1, 7, 16, '4', -4].map((bits) => refused(`${JSON.stringify(bits)} bits`, group({ bits }), 'ZT_BAD_LAYOUT', quant('Attributes'))),
  refused('3 bits, which fill no word', group({ bits: 3, packing: { ...PACKING, per_word: 10 } }), 'ZT_BAD_LAYOUT', quant('packing')),
  refused('an axis beyond the rank', group({ axis: 2 }), 'ZT_BAD_LAYOUT', quant('Attributes')),
  refused('groups that do not divide the axis', group({ group_size: 5 }), 'ZT_BAD_LAYOUT', quant('Validation')),
  ...[['word', 'u128'], ['word', 'f32'], ['order', 'big'], ['per_word', 4], ['per_word', undefined]].map(([key, value]) =>
    refused(`packing ${key} ${value}`, group({ packing: { ...PACKING, [key]: value } }), 'ZT_BAD_LAYOUT', quant('packing')),
  ),
  refused('packing a text', group({ packing: 'u32' }), 'ZT_BAD_LAYOUT', quant('packing')),
  refused('an unknown form of scales', group({ scale_form: 'bf16_factors' }), 'ZT_BAD_LAYOUT', quant('scale_form')),
  ...[{ form: 'maybe' }, {}, { form: 'implied' }, { form: 'implied', value: 'x' }, { form: 'tensor' }, { form: 'tensor', packing: 'odd' }].map((zero_point) =>
    refused(`zero point ${JSON.stringify(zero_point)}`, group({ zero_point }), 'ZT_BAD_LAYOUT', quant('zero_point')),
  ),
  refused('groups without scales', lone([2, 16], 'zt.quant_group/1', { data: { dtype: 'u32', bytes: zeros(16) } }, { attributes: GROUP }), 'ZT_BAD_LAYOUT', quant('Parts'), within('scales')),
  refused('zeros that no form asks for', group({}, { zeros: { dtype: 'u8', bytes: zeros(4) } }), 'ZT_BAD_LAYOUT', quant('Parts')),
  refused('a zero tensor without zeros', group({ zero_point: { form: 'tensor', packing: 'plain' } }), 'ZT_BAD_LAYOUT', quant('Parts'), within('zeros')),
  refused('data of another word', group({}, { data: { dtype: 'u64', bytes: zeros(16) } }), 'ZT_BAD_DTYPE', quant('Validation'), within('data')),
  refused('scales that are integers', group({}, { scales: { dtype: 'i32', bytes: zeros(16) } }), 'ZT_BAD_DTYPE', quant('Validation'), within('scales')),
  refused('exponents without their type', group({ scale_form: 'e8m0_exponent' }, { scales: { dtype: 'u8', bytes: zeros(4) } }), 'ZT_BAD_DTYPE', quant('Validation'), within('scales')),
  ...['data', 'scales'].map((role) => refused(`${role} of another size`, group({}, { [role]: { dtype: role === 'data' ? 'u32' : 'f32', bytes: zeros(20) } }), 'ZT_BAD_SHAPE', quant('Sizes'), within(role))),
  refused('plain zeros of another size', group({ zero_point: { form: 'tensor', packing: 'plain' } }, { zeros: { dtype: 'u16', bytes: zeros(4) } }), 'ZT_BAD_SHAPE', quant('Sizes'), within('zeros')),
  refused('packed zeros that fill no word', group({ zero_point: { form: 'tensor', packing: 'same_as_data' } }, { zeros: { dtype: 'u32', bytes: zeros(4) } }), 'ZT_BAD_SHAPE', quant('Sizes'), within('zeros')),

  // zt.mx/1
  opens('valid: mxfp4', mx()),
  opens('valid: mxfp8 along another axis', mx({ axis: 0 }, { data: { dtype: 'u8', type: 'f8_e5m2', bytes: zeros(64) }, scales: { dtype: 'u8', type: 'f8_e8m0', bytes: zeros(2) } }, [32, 2])),
  opens('valid: mxint8', mx({}, { data: { dtype: 'i8', bytes: zeros(128) } })),
  opens('mx elements of an unknown type', mx({}, { data: { dtype: 'u8', type: 'f6_e3m2', bytes: zeros(96) } }), { warnings: [{ code: 'ZT_WARN_UNKNOWN_TYPE', component: 'data' }] }),
  refused('mx elements of a known, invalid type', mx({}, { data: { dtype: 'u8', bytes: zeros(128) } }), 'ZT_BAD_DTYPE', 'zt.mx/1 Element types', within('data')),
  ...[0, 1, 24, '32'].map((block_size) => refused(`blocks of ${JSON.stringify(block_size)}`, mx({ block_size }), 'ZT_BAD_LAYOUT', 'zt.mx/1 Attributes')),
  refused('mx without its form of scales', mx({ scale_form: undefined }), 'ZT_BAD_LAYOUT', 'zt.mx/1 Attributes'),
  refused('mx with factors', mx({ scale_form: 'f32_factors' }), 'ZT_BAD_LAYOUT', 'zt.mx/1 Attributes'),
  refused('mx with an axis beyond the rank', mx({ axis: 2 }), 'ZT_BAD_LAYOUT', 'zt.mx/1 Attributes'),
  refused('mx of a scalar', mx({}, {}, []), 'ZT_BAD_LAYOUT', 'zt.mx/1 Attributes'),
  refused('mx scales without their type', mx({}, { scales: { dtype: 'u8', bytes: zeros(4) } }), 'ZT_BAD_DTYPE', 'zt.mx/1 Parts', within('scales')),
  refused('mx with another part', mx({}, { zeros: { dtype: 'u8', bytes: zeros(4) } }), 'ZT_BAD_LAYOUT', 'zt.mx/1 Parts'),
  refused('mx scales of another size', mx({}, { scales: { dtype: 'u8', type: 'f8_e8m0', bytes: zeros(5) } }), 'ZT_BAD_SHAPE', 'zt.mx/1 Sizes', within('scales')),
  refused('mx data of another size', mx({}, { data: { dtype: 'u8', type: 'f4_e2m1', bytes: zeros(128) } }), 'ZT_BAD_SHAPE', 'zt.mx/1 Sizes', within('data')),

  // gguf.<type>/1
  opens('valid: ggml blocks', gguf()),
  refused('ggml blocks without their elements', gguf({ elems_per_block: undefined }), 'ZT_BAD_LAYOUT', 'gguf.<type>/1 Validation'),
  ...[{ elems_per_block: 0 }, { elems_per_block: 48 }, { block_bytes: 0 }, { block_bytes: -18 }].map((fields) => refused(`ggml blocks of ${JSON.stringify(fields)}`, gguf(fields), 'ZT_BAD_LAYOUT', 'gguf.<type>/1 Validation')),
  refused('ggml blocks of i8', gguf({}, { data: { dtype: 'i8', bytes: zeros(36) } }), 'ZT_BAD_DTYPE', 'gguf.<type>/1 Parts', within('data')),
  refused('ggml blocks and scales', gguf({}, { data: { dtype: 'u8', bytes: zeros(36) }, scales: { dtype: 'f32', bytes: zeros(8) } }), 'ZT_BAD_LAYOUT', 'gguf.<type>/1 Parts'),
  refused('ggml blocks of another size', gguf({ block_bytes: 20 }), 'ZT_BAD_SHAPE', 'gguf.<type>/1 Sizes', within('data')),

  // zt.zstd-seekable/1
  opens('valid: one frame', zipped(seekable([FRAME])), { data: { t: [...FRAME] } }),
  opens('valid: three frames', zipped(seekable([FRAME.subarray(0, 16), FRAME.subarray(16, 32), FRAME.subarray(32)])), { data: { t: [...FRAME] } }),
  opens('valid: checksums in the table', zipped(seekable([FRAME.subarray(0, 20), FRAME.subarray(20)], { checksums: true })), { data: { t: [...FRAME] } }),
  opens('valid: no frames', lone([0], 'dense', { data: { dtype: 'u8', bytes: seekable([]), encoding: 'zt.zstd-seekable/1', decoded_length: 0 } }), { data: { t: [] } }),
  broken('no seek table', zipped(FRAME), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('no bytes', zipped(zeros(0)), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a frame without a checksum', zipped(seekable([FRAME], { sealed: false })), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('frames of several sizes', zipped(seekable([FRAME.subarray(0, 10), FRAME.subarray(10, 30), FRAME.subarray(30)])), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('frames of fewer bytes than the index says', zipped(seekable([FRAME.subarray(0, 39)])), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a table of more frames than there are', zipped(seekable([FRAME], { frames: 0xffffffff })), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a table that says another size', zipped(seekable([FRAME], { sizes: [41] })), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a frame of more than 16 MiB', lone([17, 1 << 20], 'dense', { data: { dtype: 'u8', bytes: seekable([FRAME], { sizes: [17 << 20] }), encoding: 'zt.zstd-seekable/1', decoded_length: 17 << 20 } }), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('reserved bits in the table', zipped(seekable([FRAME], { descriptor: 4 })), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('bytes before the frames', zipped(Buffer.concat([zeros(3), seekable([FRAME])])), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a damaged frame', zipped(seekable([FRAME], { damage: 12 })), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a frame that holds less than the table says', lone([41], 'dense', { data: { dtype: 'u8', bytes: seekable([FRAME], { sizes: [41] }), encoding: 'zt.zstd-seekable/1', decoded_length: 41 } }), 'ZT_DECODE', RULE.zstd, ZIPPED_CALLS, within('data')),
  broken('a digest of the stored bytes', zipped(seekable([FRAME]), { digest: 'xxh3:0011223344556677' }), 'ZT_DIGEST_MISMATCH', RULE.part, ZIPPED_CALLS, within('data')),
  broken('a compressed bool of 2', lone([40], 'dense', { data: { dtype: 'u8', type: 'bool', bytes: seekable([FRAME]), encoding: 'zt.zstd-seekable/1', decoded_length: 40 } }), 'ZT_BAD_DTYPE', RULE.elements, ZIPPED_CALLS, within('data')),
]
