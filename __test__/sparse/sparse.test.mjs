// CsrTensor and CooTensor: their contents, and toDense(), toCsr(), toCoo(), compared with a naive implementation.
import test from 'ava'
import fc from 'fast-check'
import { CooTensor, CsrTensor, openSync, ZTensorError } from 'ztensor'
import { btf, coo as btfCoo } from '../corpus/btf.mjs'
import { frame } from '../corpus/zstd.mjs'
import { f32s, u64s, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { toCoo, toCsr } from '../helpers/reference-implementations.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

const productOf = (shape) => shape.reduce((a, b) => a * b, 1)
const part = (bytes, packed) => (packed ? { bytes: frame(bytes), encoding: 'zstd' } : { bytes })

// 1.0 dtype -> the array of its values
const KINDS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  uint8: Uint8Array,
  bool: Uint8Array,
  uint64: BigUint64Array,
}
const make = (Class, numbers) =>
  Class === BigInt64Array || Class === BigUint64Array ? Class.from(numbers, BigInt) : Class.from(numbers)
const bytesOf = (array) => littleEndian(array)

const csrFile = (dtype, shape, { values, indices, indptr }, packed) =>
  zt10({
    m: {
      dtype,
      shape,
      format: 'sparse_csr',
      components: {
        values: part(bytesOf(make(KINDS[dtype], values)), packed),
        indices: part(u64s(...indices), packed),
        indptr: part(u64s(...indptr), packed),
      },
    },
  })
const cooFile = (dtype, shape, { values, coords }, packed) =>
  zt10({
    m: {
      dtype,
      shape,
      format: 'sparse_coo',
      components: { values: part(bytesOf(make(KINDS[dtype], values)), packed), coords: part(u64s(...coords), packed) },
    },
  })

/** A tensor of a shape, and which of its elements are stored. */
const sampleOf = (shape) =>
  fc
    .record({
      dtype: fc.constantFrom(...Object.keys(KINDS)),
      keep: fc.array(fc.boolean(), { minLength: productOf(shape), maxLength: productOf(shape) }),
      packed: fc.boolean(),
    })
    .map((more) => ({
      ...more,
      shape,
      dense: Array.from({ length: productOf(shape) }, (_, i) => (more.keep[i] ? (i % 100) + 1 : 0)),
    }))
const matrices = fc.tuple(fc.integer({ min: 0, max: 7 }), fc.integer({ min: 0, max: 7 })).chain(sampleOf)
const tensors = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 4 }).chain(sampleOf)

test('any CSR matrix: parts, dense and COO are correct', async (t) => {
  await fc.assert(
    fc.asyncProperty(matrices, async ({ dtype, shape, dense, keep, packed }) => {
      const parts = toCsr(dense, shape, keep)
      const expected = make(KINDS[dtype], dense)
      const file = openSync(csrFile(dtype, shape, parts, packed))
      for (const csr of [file.tensor('m').csr(), await file.tensor('m').loadCsr()]) {
        t.true(csr instanceof CsrTensor)
        t.is(csr.dtype, dtype)
        t.deepEqual([...csr.shape], shape)
        t.is(csr.nnz, parts.values.length)
        t.deepEqual(csr.values, make(KINDS[dtype], parts.values))
        t.deepEqual(csr.indices, BigUint64Array.from(parts.indices, BigInt))
        t.deepEqual(csr.indptr, BigUint64Array.from(parts.indptr, BigInt))
        t.deepEqual(csr.toDense(), expected)
        const coo = csr.toCoo()
        t.true(coo instanceof CooTensor)
        t.is(coo.nnz, csr.nnz)
        t.deepEqual(Array.from(coo.coords, Number), toCoo(dense, shape, keep).coords)
        t.deepEqual(coo.toDense(), expected)
        t.deepEqual(coo.toCsr().toDense(), expected)
      }
      file.close()
    }),
    { numRuns: scaled(200) },
  )
})

test('any COO tensor: parts and dense are correct', async (t) => {
  await fc.assert(
    fc.asyncProperty(tensors, async ({ dtype, shape, dense, keep, packed }) => {
      const parts = toCoo(dense, shape, keep)
      const file = openSync(cooFile(dtype, shape, parts, packed))
      for (const coo of [file.tensor('m').coo(), await file.tensor('m').loadCoo()]) {
        t.true(coo instanceof CooTensor)
        t.deepEqual([...coo.shape], shape)
        t.is(coo.nnz, parts.values.length)
        t.deepEqual(coo.values, make(KINDS[dtype], parts.values))
        t.deepEqual(coo.coords, BigUint64Array.from(parts.coords, BigInt))
        t.deepEqual(coo.toDense(), make(KINDS[dtype], dense))
        if (shape.length === 2) {
          const csr = coo.toCsr()
          const expected = toCsr(dense, shape, keep)
          t.deepEqual(Array.from(csr.indptr, Number), expected.indptr)
          t.deepEqual(Array.from(csr.indices, Number), expected.indices)
          t.deepEqual(csr.values, make(KINDS[dtype], expected.values))
        }
      }
      file.close()
    }),
    { numRuns: scaled(200) },
  )
})

test('COO in any order becomes ordered CSR', (t) => {
  const file = openSync(cooFile('float32', [3, 3], { values: [5, 1, 4, 2, 3], coords: [2, 0, 1, 0, 0, 2, 0, 1, 1, 2] }))
  const csr = file.tensor('m').coo().toCsr()
  t.deepEqual(Array.from(csr.indptr, Number), [0, 3, 4, 5])
  t.deepEqual(Array.from(csr.indices, Number), [0, 1, 2, 1, 2])
  t.deepEqual([...csr.values], [1, 2, 3, 4, 5])
  file.close()
})

test('index arrays keep their stored dtype', (t) => {
  for (const [dtype, Class] of [
    ['i32', Int32Array],
    ['u32', Uint32Array],
    ['i64', BigInt64Array],
    ['u8', Uint8Array],
    ['i16', Int16Array],
    ['u16', Uint16Array],
    ['i8', Int8Array],
  ]) {
    const csr = {
      values: { dtype: 'f32', bytes: f32s(1, 2) },
      indices: { dtype, bytes: bytesOf(make(Class, [1, 0])) },
      indptr: { dtype, bytes: bytesOf(make(Class, [0, 1, 2])) },
    }
    const coo = {
      values: { dtype: 'f32', bytes: f32s(1, 2) },
      coords: { dtype, bytes: bytesOf(make(Class, [0, 1, 1, 0])) },
    }
    const file = openSync(
      zt12({
        m: { shape: [2, 2], format: 'sparse_csr', components: csr },
        k: { shape: [2, 2], format: 'sparse_coo', components: coo },
      }),
    )
    t.is(file.tensor('m').csr().indices.constructor, Class)
    t.is(file.tensor('m').csr().indptr.constructor, Class)
    t.is(file.tensor('k').coo().coords.constructor, Class)
    t.deepEqual([...file.tensor('m').csr().toDense()], [0, 1, 2, 0])
    t.deepEqual([...file.tensor('k').coo().toDense()], [0, 1, 2, 0])
    t.deepEqual([...file.tensor('m').csr().toCoo().toDense()], [0, 1, 2, 0])
    file.close()
  }
})

test('loaded arrays outlive close()', async (t) => {
  const file = openSync(
    scratchFile(csrFile('float32', [2, 3], { values: [10, 20, 30], indices: [0, 2, 2], indptr: [0, 2, 3] })),
  )
  const csr = await file.tensor('m').loadCsr()
  file.close()
  t.deepEqual([...csr.toDense()], [10, 0, 20, 0, 0, 30])
})

test('returns the tuples of 0.1 and BTF by dimension', (t) => {
  const tuples = Buffer.concat([u64s(0, 2), f32s(20), u64s(1, 0), f32s(30)])
  const files = [
    zt01([{ name: '0', dtype: 'float32', shape: [2, 3], layout: 'sparsecoo', bytes: tuples }]),
    btf([
      btfCoo({
        dims: [2, 3],
        indices: { dims: [2, 2], data: u64s(0, 2, 1, 0) },
        values: { dims: [2], data: f32s(20, 30) },
      }),
    ]),
  ]
  for (const bytes of files) {
    const file = openSync(bytes)
    const tensor = file.tensor('0')
    t.is(tensor.layout, 'sparse_coo')
    t.is(tensor.dtype, 'float32')
    t.deepEqual(Array.from(tensor.coo().coords, Number), [0, 1, 2, 0])
    t.deepEqual([...tensor.coo().values], [20, 30])
    file.close()
  }
})

test('checks indices again that JavaScript changes after the check', (t) => {
  const csrBytes = csrFile('float32', [2, 3], { values: [10, 20, 30], indices: [0, 2, 2], indptr: [0, 2, 3] })
  const cooBytes = cooFile('float32', [2, 3], { values: [10, 20, 30], coords: [0, 0, 1, 0, 2, 2] })
  const changes = {
    'a column past the end': (csr) => {
      csr.indices[1] = 3n
    },
    'a huge column': (csr) => {
      csr.indices[1] = (1n << 63n) + 1n
    },
    'a pointer past nnz': (csr) => {
      csr.indptr[1] = 1_000_000_000n
    },
    'a huge pointer': (csr) => {
      csr.indptr[2] = (1n << 64n) - 1n
    },
    'descending pointers': (csr) => {
      csr.indptr[0] = 3n
    },
  }
  for (const [what, change] of Object.entries(changes)) {
    const file = openSync(scratchFile(csrBytes))
    const csr = file.tensor('m').csr()
    change(csr)
    for (const use of [() => csr.toDense(), () => csr.toCoo()]) {
      const error = thrownBy(use)
      t.true(error instanceof ZTensorError, `${what}: ${error}`)
      t.is(error?.code, 'ZT_BAD_SPARSE', what)
    }
    file.close()
  }
  for (const at of [0, 5]) {
    const file = openSync(scratchFile(cooBytes))
    const coo = file.tensor('m').coo()
    coo.coords[at] = (1n << 62n) + 5n
    for (const use of [() => coo.toDense(), () => coo.toCsr()]) t.is(thrownBy(use)?.code, 'ZT_BAD_SPARSE', String(at))
    file.close()
  }
})

test('arrays of a closed file never read past their end', (t) => {
  const file = openSync(
    scratchFile(csrFile('float32', [2, 3], { values: [10, 20, 30], indices: [0, 2, 2], indptr: [0, 2, 3] })),
  )
  const csr = file.tensor('m').csr()
  file.close()
  const error = thrownBy(() => {
    const dense = csr.toDense()
    // if the runtime copied, the arrays outlive the file
    t.deepEqual([...dense], [10, 0, 20, 0, 0, 30])
  })
  if (error !== undefined) t.true(['ZT_CLOSED', 'ZT_BAD_SPARSE'].includes(error.code), String(error))
})

test('toDense({ maxBytes }) limits the memory for a file', (t) => {
  const file = openSync(cooFile('float64', [1000, 1000], { values: [7], coords: [999, 999] }))
  const coo = file.tensor('m').coo()
  t.is(thrownBy(() => coo.toDense({ maxBytes: 7_999_999 }))?.code, 'ZT_LIMIT')
  t.is(coo.toDense({ maxBytes: 8_000_000 })[999_999], 7)
  for (const maxBytes of [-1, Number.NaN, '8', 1.5, null])
    isArgumentError(
      t,
      thrownBy(() => coo.toDense({ maxBytes })),
      'maxBytes',
    )
  file.close()
  const wide = openSync(cooFile('float32', [2 ** 26, 2 ** 26], { values: [7], coords: [1, 1] }))
  t.is(thrownBy(() => wide.tensor('m').coo().toDense())?.code, 'ZT_LIMIT')
  wide.close()
})

test('rejects CSR of COO with other than two dimensions', (t) => {
  for (const shape of [[6], [1, 2, 3]]) {
    const file = openSync(cooFile('float32', shape, { values: [7], coords: shape.map(() => 0) }))
    const error = thrownBy(() => file.tensor('m').coo().toCsr())
    t.true(error instanceof ZTensorError, String(error))
    t.is(error?.code, 'ZT_BAD_LAYOUT')
    file.close()
  }
})

test('csr() and coo() of a dense tensor: ZT_BAD_LAYOUT', async (t) => {
  const file = openSync(vector('zt101-shapes.zt').path)
  const tensor = file.tensor('odd')
  for (const error of [
    thrownBy(() => tensor.csr()),
    thrownBy(() => tensor.coo()),
    await rejectionOf(() => tensor.loadCsr()),
    await rejectionOf(() => tensor.loadCoo()),
  ]) {
    t.is(error?.code, 'ZT_BAD_LAYOUT')
    t.is(error?.tensor, 'odd')
  }
  file.close()
})

test('moves complex values as a whole', (t) => {
  const file = openSync(
    zt12({
      m: {
        shape: [1, 3],
        format: 'sparse_csr',
        components: {
          values: { dtype: 'f32', type: 'complex64', bytes: f32s(1, 2, 3, 4) },
          indices: { dtype: 'u64', bytes: u64s(0, 2) },
          indptr: { dtype: 'u64', bytes: u64s(0, 2) },
        },
      },
    }),
  )
  t.is(file.tensor('m').dtype, 'complex64')
  t.is(file.tensor('m').csr().nnz, 2)
  t.deepEqual([...file.tensor('m').csr().toDense()], [1, 2, 0, 0, 3, 4])
  file.close()
})
