// zTensor 0.1: an array of maps after the blobs. Its page has no numbered sections.
import { encode, float64, head, nestedArrays, openArray, openMap, openText, pairs, raw, wide } from './cbor.mjs'
import { container, f32s, index01, MAGIC_01, SQUARE, square01, TAGGED, u64s, zt01 } from './zt.mjs'
import { frame } from './zstd.mjs'

const SQUARE_VALUES = [1, 2, 3, 4]
const one = (fields) => zt01([square01(fields)])
const opens = (name, bytes, more = {}) => ({ name, bytes, names: ['w'], data: { w: SQUARE_VALUES }, ...more })
const refused = (name, fields, code, error = { tensor: 'w' }) => ({ name, bytes: one(fields), code, error })
const VALID = one()
const ENTRY = { name: 'w', offset: 64, size: 16, dtype: 'float32', shape: [2, 2], encoding: 'raw', layout: 'dense' }
const withBlob = (index) => container({ magic: MAGIC_01, blobs: [{ offset: 64, bytes: SQUARE }], index: encode(index) })

const swapped = Buffer.from(SQUARE).swap32()

// Sparse. [[10, 0, 20], [0, 0, 30]] as the crate stores it: one blob of u64 indices and values.
const CSR_BLOB = Buffer.concat([u64s(0, 2, 3), u64s(0, 2, 2), f32s(10, 20, 30)])
const COO_BLOB = Buffer.concat([u64s(0, 0), f32s(10), u64s(0, 2), f32s(20), u64s(1, 2), f32s(30)])
const DENSE = [10, 0, 20, 0, 0, 30]
const sparse = (fields) => zt01([{ name: 'm', dtype: 'float32', shape: [2, 3], ...fields }])
const csrBlob = (fields) => sparse({ layout: 'sparsecsr', bytes: CSR_BLOB, ...fields })
const cooBlob = (fields) => sparse({ layout: 'sparsecoo', bytes: COO_BLOB, ...fields })
const csrInline = (fields) => sparse({ layout: 'sparse', sparse_format: 'csr', bytes: f32s(10, 20, 30), indptr: [0, 2, 3], indices: [0, 2, 2], ...fields })
const cooInline = (fields) => sparse({ layout: 'sparse', sparse_format: 'coo', shape: [6], bytes: f32s(10, 20, 30), coords: [0, 2, 5], ...fields })
const dense = (name, bytes, call) => ({ name, bytes, names: ['m'], uses: [{ call: 'toDense', tensor: 'm', as: call, value: DENSE }] })
const IN_M = { tensor: 'm' }
const brokenSparse = (name, bytes, call) => ({
  name,
  bytes,
  names: ['m'],
  uses: [
    { call, tensor: 'm', code: 'ZT_BAD_SPARSE', error: IN_M },
    { call: `load${call[0].toUpperCase()}${call.slice(1)}`, tensor: 'm', code: 'ZT_BAD_SPARSE', error: IN_M },
    { call: 'verify', code: 'ZT_BAD_SPARSE', error: IN_M },
  ],
})

export const cases = [
  opens('valid: one float32 tensor', VALID),
  ...TAGGED.map(([what, wrap, code]) => {
    const bytes = zt01([square01()], { wrap })
    return code === undefined ? opens(`valid: root with ${what}`, bytes) : { name: `root with ${what}`, bytes, code }
  }),
  { name: 'valid: no tensors, 17 bytes', bytes: zt01([]), names: [] },

  // Magic and size
  { name: 'seven bytes of the magic', bytes: MAGIC_01.subarray(0, 7), code: 'ZT_TRUNCATED' },
  { name: 'the magic alone', bytes: MAGIC_01, code: 'ZT_TRUNCATED' },
  { name: 'magic and half a footer', bytes: Buffer.concat([MAGIC_01, Buffer.alloc(4)]), code: 'ZT_TRUNCATED' },
  { name: 'magic of 0.2', bytes: zt01([], { magic: Buffer.from('ZTEN0002') }), code: 'ZT_BAD_MAGIC' },
  { name: 'index of no bytes', bytes: index01(Buffer.alloc(0)), code: ['ZT_BAD_INDEX', 'ZT_TRUNCATED'] },
  { name: 'index one byte larger than fits', bytes: zt01([], { size: 2 }), code: 'ZT_TRUNCATED' },
  { name: 'index of 1 GiB and one byte in a small file', bytes: zt01([], { size: (1 << 30) + 1 }), code: 'ZT_TRUNCATED' },
  { name: 'index size of 2^64 - 1 in a small file', bytes: zt01([], { size: (1n << 64n) - 1n }), code: 'ZT_TRUNCATED' },
  { name: 'index larger than maxIndexBytes', bytes: VALID, options: { maxIndexBytes: 16 }, code: 'ZT_LIMIT' },
  { name: 'file that lost its footer', bytes: VALID.subarray(0, -8), code: ['ZT_TRUNCATED', 'ZT_LIMIT'] },
  { name: 'bytes after the array', bytes: index01(Buffer.from([0x80, 0x80])), code: 'ZT_BAD_INDEX' },

  // The array
  { name: 'root a map, as in 1.0', bytes: index01(encode({ version: '1.0', tensors: {} })), code: 'ZT_BAD_INDEX' },
  { name: 'root a text', bytes: index01(encode('index')), code: 'ZT_BAD_INDEX' },
  { name: 'root null', bytes: index01(encode(null)), code: 'ZT_BAD_INDEX' },
  { name: 'array shorter than it says', bytes: index01(Buffer.concat([head(4, 2), encode({ ...ENTRY, shape: [0], offset: 8, size: 0 })])), code: 'ZT_BAD_INDEX' },
  { name: 'array of 2^64 - 1 entries', bytes: index01(head(4, (1n << 64n) - 1n)), code: 'ZT_BAD_INDEX' },
  { name: 'entry a number', bytes: zt01([7]), code: 'ZT_BAD_INDEX' },
  { name: 'entry an array', bytes: zt01([[]]), code: 'ZT_BAD_INDEX' },
  { name: 'reserved additional information', bytes: one({ x: raw([0x1d]) }), code: 'ZT_BAD_INDEX' },
  { name: 'unknown key 100,000 arrays deep', bytes: () => one({ x: nestedArrays(100_000) }), code: 'ZT_LIMIT' },
  opens('valid: indefinite lengths, as 0.1.4 writes', withBlob(openArray([openMap({ ...ENTRY, shape: openArray([2, 2]), dtype: openText('float', '32') })]))),
  opens('valid: wide heads and another order of keys', withBlob(wide([wide({ layout: 'dense', encoding: wide('raw', 4), shape: wide([wide(2, 8), 2], 2), dtype: 'float32', size: wide(16, 8), offset: wide(64, 4), name: wide('w', 8) }, 4)], 8))),
  opens('valid: unknown keys', one({ later: { a: [1, { b: null }] }, 7: 'seven' })),

  // Names and keys
  { name: 'name twice', bytes: zt01([square01(), square01()]), code: 'ZT_BAD_INDEX', error: { tensor: 'w', rule: true } },
  { name: 'name twice, once in chunks', bytes: zt01([square01({ name: 'ab' }), square01({ name: openText('a', 'b') })]), code: 'ZT_BAD_INDEX' },
  { name: 'name a number', bytes: one({ name: 7 }), code: 'ZT_BAD_INDEX' },
  { name: 'name a byte string', bytes: one({ name: Buffer.from('w') }), code: 'ZT_BAD_INDEX' },
  { name: 'name not UTF-8', bytes: one({ name: raw([0x61, 0xff]) }), code: 'ZT_BAD_INDEX' },
  { name: 'offset twice', bytes: withBlob([pairs([...Object.entries(ENTRY), ['offset', 64]])]), code: 'ZT_BAD_INDEX' },
  { name: 'unknown key twice', bytes: withBlob([pairs([...Object.entries(ENTRY), ['x', 1], ['x', 1]])]), code: 'ZT_BAD_INDEX' },

  // Required fields
  { name: 'name absent', bytes: one({ name: undefined }), code: 'ZT_BAD_INDEX' },
  ...['offset', 'size', 'dtype', 'shape', 'encoding'].map((field) => refused(`${field} absent`, { [field]: undefined }, 'ZT_BAD_INDEX')),
  refused('offset negative', { offset: -1 }, 'ZT_BAD_INDEX'),
  refused('offset a float', { offset: float64(64) }, 'ZT_BAD_INDEX'),
  refused('size a text', { size: '16' }, 'ZT_BAD_INDEX'),
  refused('dtype a number', { dtype: 1 }, 'ZT_BAD_INDEX'),
  refused('dtype unknown', { dtype: 'float31' }, 'ZT_BAD_DTYPE'),
  refused('shape a number', { shape: 4 }, 'ZT_BAD_INDEX'),
  refused('dimension negative', { shape: [-4] }, 'ZT_BAD_INDEX'),
  refused('dimension a float', { shape: [float64(4)] }, 'ZT_BAD_INDEX'),
  refused('encoding a number', { encoding: 1 }, 'ZT_BAD_INDEX'),
  refused('layout a number', { layout: 1 }, 'ZT_BAD_INDEX'),
  refused('data_endianness unknown', { data_endianness: 'middle' }, 'ZT_BAD_INDEX'),
  refused('data_endianness a number', { data_endianness: 0 }, 'ZT_BAD_INDEX'),

  // Shape, size, bounds
  refused('one element too many', { shape: [5] }, 'ZT_BAD_SHAPE'),
  refused('size not a whole number of elements', { size: 15 }, 'ZT_BAD_SHAPE'),
  refused('rank 65', { shape: Array(65).fill(1) }, 'ZT_LIMIT'),
  refused('elements past 2^64', { shape: [2 ** 33, 2 ** 33] }, 'ZT_LIMIT'),
  refused('dimension of 2^64 - 1', { shape: [(1n << 64n) - 1n] }, 'ZT_LIMIT'),
  { name: 'data past the end of the file', bytes: one({ shape: [1000], size: 4000 }), code: 'ZT_OUT_OF_BOUNDS', error: { tensor: 'w' } },
  refused('offset of 2^64 - 16: the sum wraps to 0', { offset: (1n << 64n) - 16n }, 'ZT_OUT_OF_BOUNDS'),
  refused('data over the magic', { offset: 0 }, 'ZT_OUT_OF_BOUNDS'),
  refused('data over the index', { offset: 72 }, 'ZT_OUT_OF_BOUNDS'),
  opens('offset 4 past a multiple of 64', one({ lead: 4 }), { warnings: [{ code: 'ZT_WARN_UNALIGNED', tensor: 'w' }] }),
  { name: 'valid: empty tensor at the offset of another', bytes: zt01([{ name: 'e', dtype: 'float32', shape: [0], offset: 64, size: 0 }, square01()]), names: ['e', 'w'], data: { e: [], w: SQUARE_VALUES } },

  // Byte order
  opens('valid: big-endian', one({ bytes: swapped, data_endianness: 'big' }), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  // The page has data_endianness only for raw data, and 0.1.4 reads a compressed tensor that states it without swapping.
  opens('valid: big-endian says nothing about compressed data', one({ bytes: frame(SQUARE), encoding: 'zstd', data_endianness: 'big' }), { uses: [{ call: 'load', tensor: 'w', value: SQUARE_VALUES }] }),
  opens('valid: explicit little-endian', one({ data_endianness: 'little' })),
  { name: 'valid: big-endian bytes have no order', bytes: zt01([{ name: 'w', dtype: 'uint8', shape: [4], bytes: Buffer.from([1, 2, 3, 4]), data_endianness: 'big' }]), names: ['w'], data: { w: SQUARE_VALUES } },

  // Checksums and encodings
  refused('checksum without a value', { checksum: 'crc32c:' }, 'ZT_BAD_DIGEST'),
  refused('checksum that is not hexadecimal', { checksum: 'crc32c:0xGGGGGGGG' }, 'ZT_BAD_DIGEST'),
  refused('checksum sha256 of 63 digits', { checksum: `sha256:${'0'.repeat(63)}` }, 'ZT_BAD_DIGEST'),
  refused('checksum a number', { checksum: 1 }, 'ZT_BAD_INDEX'),
  opens('checksum of an unknown algorithm', one({ checksum: 'adler32:0x00000001' }), { warnings: [{ code: 'ZT_WARN_UNKNOWN_DIGEST', tensor: 'w' }] }),
  opens('checksum of other bytes', one({ checksum: `sha256:${'0'.repeat(64)}` }), {
    uses: [
      { call: 'load', tensor: 'w', code: 'ZT_DIGEST_MISMATCH', error: { tensor: 'w' } },
      { call: 'verify', code: 'ZT_DIGEST_MISMATCH', error: { tensor: 'w' } },
      { call: 'openVerify', code: 'ZT_DIGEST_MISMATCH', error: { tensor: 'w' } },
    ],
  }),
  {
    name: 'encoding unknown',
    bytes: one({ encoding: 'lz4' }),
    names: ['w'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_ENCODING', tensor: 'w' }],
    uses: [{ call: 'data', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' }, { call: 'load', tensor: 'w', code: 'ZT_UNSUPPORTED_ENCODING' }],
  },
  {
    name: 'zstd that decodes to too little',
    bytes: one({ bytes: frame(f32s(1, 2, 3)), encoding: 'zstd' }),
    names: ['w'],
    uses: ['data', 'load', 'verify'].map((call) => ({ call, tensor: 'w', code: 'ZT_DECODE' })),
  },

  // Layouts
  {
    name: 'layout unknown',
    bytes: zt01([{ name: 'q', dtype: 'uint8', shape: [4, 4], layout: 'quantized', bytes: Buffer.from([1, 2]) }]),
    names: ['q'],
    warnings: [{ code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'q' }],
    uses: [{ call: 'data', tensor: 'q', code: 'ZT_BAD_LAYOUT' }],
  },
  dense('valid: csr in one blob', csrBlob(), 'csr'),
  dense('valid: coo in one blob', cooBlob(), 'coo'),
  dense('valid: csr in one blob, compressed', csrBlob({ bytes: frame(CSR_BLOB), encoding: 'zstd' }), 'csr'),
  dense('valid: coo in one blob, compressed', cooBlob({ bytes: frame(COO_BLOB), encoding: 'zstd' }), 'coo'),
  dense('valid: layout sparse, format csr, in one blob', csrBlob({ layout: 'sparse', sparse_format: 'csr' }), 'csr'),
  dense('valid: layout sparse, format coo, in one blob', cooBlob({ layout: 'sparse', sparse_format: 'coo' }), 'coo'),
  dense('valid: csr with index arrays in the index', csrInline(), 'csr'),
  dense('valid: coo with its coordinates in the index', cooInline(), 'coo'),
  { name: 'csr of rank 1', bytes: csrBlob({ shape: [6] }), code: 'ZT_BAD_LAYOUT', error: IN_M },
  { name: 'csr blob too short for its row pointers', bytes: csrBlob({ bytes: CSR_BLOB.subarray(0, 16) }), code: 'ZT_BAD_SPARSE', error: IN_M },
  { name: 'csr blob of a broken last entry', bytes: csrBlob({ bytes: CSR_BLOB.subarray(0, -1) }), code: 'ZT_BAD_SPARSE', error: IN_M },
  { name: 'coo blob of a broken last entry', bytes: cooBlob({ bytes: COO_BLOB.subarray(0, -1) }), code: 'ZT_BAD_SPARSE', error: IN_M },
  { name: 'csr of 2^64 - 1 rows: rows + 1 wraps', bytes: csrBlob({ shape: [(1n << 64n) - 1n, 1] }), code: ['ZT_BAD_SPARSE', 'ZT_LIMIT'], error: IN_M },
  { name: 'coo whose shape overflows 2^64', bytes: cooBlob({ shape: [2 ** 40, 2 ** 40] }), code: 'ZT_BAD_SHAPE', error: IN_M },
  { name: 'sparse without its format', bytes: sparse({ layout: 'sparse', bytes: CSR_BLOB }), code: ['ZT_BAD_LAYOUT', 'ZT_BAD_INDEX'], error: IN_M },
  { name: 'indptr in the index a text', bytes: csrInline({ indptr: '023' }), code: 'ZT_BAD_INDEX', error: IN_M },
  { name: 'indptr in the index with a negative number', bytes: csrInline({ indptr: [0, -2, 3] }), code: ['ZT_BAD_INDEX', 'ZT_BAD_SPARSE'], error: IN_M },
  { name: 'indices in the index one too few', bytes: csrInline({ indices: [0, 2] }), code: 'ZT_BAD_SPARSE', error: IN_M },
  { name: 'indptr in the index one too many', bytes: csrInline({ indptr: [0, 2, 3, 3] }), code: 'ZT_BAD_SPARSE', error: IN_M },
  { name: 'coords in the index one too few', bytes: cooInline({ coords: [0, 2] }), code: 'ZT_BAD_SPARSE', error: IN_M },
  brokenSparse('csr blob whose pointers go down', csrBlob({ bytes: Buffer.concat([u64s(0, 4, 3), u64s(0, 2, 2), f32s(1, 2, 3)]) }), 'csr'),
  brokenSparse('csr blob with a column past the end', csrBlob({ bytes: Buffer.concat([u64s(0, 2, 3), u64s(0, 3, 2), f32s(1, 2, 3)]) }), 'csr'),
  brokenSparse('coo blob with a row past the end', cooBlob({ bytes: Buffer.concat([u64s(2, 0), f32s(1)]) }), 'coo'),
  brokenSparse('csr in the index with a column past the end', csrInline({ indices: [0, 2, 3] }), 'csr'),
  brokenSparse('coo in the index with a coordinate past the end', cooInline({ coords: [0, 2, 6] }), 'coo'),
]
