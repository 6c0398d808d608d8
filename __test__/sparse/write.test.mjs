// addCsr() and addCoo(): any sparse tensor reads back unchanged, in every format with the layout.
import { readFileSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { openSync } from 'ztensor'
import { f32s, u64s } from '../corpus/zt.mjs'
import { readBtf } from '../helpers/btf-reader.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { toCoo, toCsr } from '../helpers/reference-implementations.mjs'
import { digestOf, sample, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'

const ZT = WRITE_FORMATS.filter(({ zt }) => zt)
const BTF = WRITE_FORMATS.find(({ name }) => name === 'btf')
const COO = [...ZT, BTF]
const INDEX_ARRAYS = [
  Int8Array,
  Uint8Array,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
]
const STORED = [
  { digest: 'crc32c', compression: false },
  { digest: 'sha256', compression: { minSavings: 0 } },
  { digest: false, compression: { level: 1, minSavings: 0 } },
]
const productOf = (shape) => shape.reduce((a, b) => a * b, 1)
const same = (t, actual, expected, what) => {
  t.is(actual.constructor, expected.constructor, what)
  t.true(littleEndian(actual).equals(littleEndian(expected)), what)
}
const indexArray = (Class, numbers) =>
  Class.BYTES_PER_ELEMENT === 8 ? Class.from(numbers, BigInt) : Class.from(numbers)
const asBigInts = (numbers) => BigUint64Array.from(numbers, BigInt)

/** Elements of a dtype selected by their index; complex ones are two numbers each. */
function pickValues(dtype, dense, positions) {
  const per = dtype.startsWith('complex') ? 2 : 1
  const values = new dense.constructor(positions.length * per)
  positions.forEach((position, i) => {
    values.set(dense.subarray(position * per, position * per + per), i * per)
  })
  return values
}

/** A CSR matrix from a sample, with the elements that `keep` selects. */
function csrOf(dtype, shape, keep, seed) {
  const positions = [...keep.keys()]
  const { values: selected, indices, indptr } = toCsr(positions, shape, keep)
  return { shape, dtype, values: pickValues(dtype, sample(dtype, shape, seed), selected), indices, indptr }
}

function cooOf(dtype, shape, keep, seed) {
  const { values: selected, coords } = toCoo([...keep.keys()], shape, keep)
  return { shape, dtype, values: pickValues(dtype, sample(dtype, shape, seed), selected), coords }
}

const some = (shape, seed) => Array.from({ length: productOf(shape) }, (_, i) => (i * 7 + seed) % 3 === 0)

for (const format of ZT) {
  for (const stored of STORED) {
    test(`${format.name}: CSR of every dtype, ${JSON.stringify(stored)}`, async (t) => {
      const shape = [7, 9]
      const matrices = format.dtypes.map((dtype, i) => csrOf(dtype, shape, some(shape, i), i))
      const path = await written({ ...format.options, ...stored }, async (writer) => {
        for (const { indices, indptr, ...rest } of matrices) {
          await writer.addCsr(rest.dtype, {
            ...rest,
            indices: Uint32Array.from(indices),
            indptr: Int32Array.from(indptr),
          })
        }
      })
      const file = openSync(path)
      t.deepEqual(file.warnings, [])
      for (const { dtype, values, indices, indptr } of matrices) {
        const tensor = file.tensor(dtype)
        t.is(tensor.layout, 'sparse_csr')
        t.deepEqual([...tensor.shape], shape)
        for (const csr of [tensor.csr(), await tensor.loadCsr()]) {
          t.is(csr.dtype, dtype)
          same(t, csr.values, values, dtype)
          same(t, csr.indices, asBigInts(indices), dtype)
          same(t, csr.indptr, asBigInts(indptr), dtype)
        }
      }
      const verified = await file.verify()
      t.deepEqual(verified.failures, [])
      t.is(verified.undigested === 0, stored.digest !== false)
      file.close()
    })
  }
}

for (const format of COO) {
  for (const stored of format.zt ? STORED : [{}]) {
    test(`${format.name}: COO of every dtype, ${JSON.stringify(stored)}`, async (t) => {
      const shape = [3, 4, 5]
      const tensors = format.dtypes.map((dtype, i) => cooOf(dtype, shape, some(shape, i), i))
      const path = await written({ ...format.options, ...stored }, async (writer) => {
        for (const [i, tensor] of tensors.entries()) {
          await writer.addCoo(String(i), { ...tensor, coords: Uint16Array.from(tensor.coords) })
        }
      })
      const file = openSync(path)
      t.deepEqual(file.warnings, [])
      for (const [i, { dtype, values, coords }] of tensors.entries()) {
        const tensor = file.tensor(String(i))
        t.is(tensor.layout, 'sparse_coo')
        t.deepEqual([...tensor.shape], shape)
        for (const coo of [tensor.coo(), await tensor.loadCoo()]) {
          t.is(coo.dtype, dtype)
          same(t, coo.values, values, dtype)
          same(t, coo.coords, asBigInts(coords), dtype)
        }
      }
      t.deepEqual((await file.verify()).failures, [])
      file.close()
    })
  }

  test(`${format.name}: COO of any rank, and without entries`, async (t) => {
    const shapes = [[], [6], [3, 4], [2, 1, 3, 2], [1, 2, 1, 3, 1, 2], [0, 4], [4, 0]]
    const tensors = shapes.flatMap((shape, i) => [
      cooOf('float32', shape, some(shape, i), i),
      cooOf('int16', shape, Array(productOf(shape)).fill(false), i),
      cooOf('int64', shape, Array(productOf(shape)).fill(true), i),
    ])
    const path = await written(format.options, async (writer) => {
      for (const [i, tensor] of tensors.entries()) {
        await writer.addCoo(String(i), { ...tensor, coords: Uint8Array.from(tensor.coords) })
      }
    })
    const file = openSync(path)
    for (const [i, { shape, values, coords }] of tensors.entries()) {
      const coo = file.tensor(String(i)).coo()
      t.deepEqual([...coo.shape], shape)
      same(t, coo.values, values, String(i))
      same(t, coo.coords, asBigInts(coords), String(i))
    }
    file.close()
  })
}

test('stores indices of every type as 64-bit integers', async (t) => {
  for (const { options } of ZT) {
    const path = await written(options, async (writer) => {
      for (const Class of INDEX_ARRAYS) {
        await writer.addCsr(`csr ${Class.name}`, {
          shape: [2, 100],
          values: Float32Array.of(1, 2, 3),
          indices: indexArray(Class, [5, 99, 0]),
          indptr: indexArray(Class, [0, 2, 3]),
        })
        await writer.addCoo(`coo ${Class.name}`, {
          shape: [3, 100],
          values: Float32Array.of(1, 2),
          coords: indexArray(Class, [0, 2, 99, 7]),
        })
      }
    })
    const file = openSync(path)
    for (const Class of INDEX_ARRAYS) {
      const csr = file.tensor(`csr ${Class.name}`).csr()
      t.deepEqual(csr.indices, BigUint64Array.of(5n, 99n, 0n))
      t.deepEqual(csr.indptr, BigUint64Array.of(0n, 2n, 3n))
      t.deepEqual(file.tensor(`coo ${Class.name}`).coo().coords, BigUint64Array.of(0n, 2n, 99n, 7n))
    }
    file.close()
  }
})

test('writes the results of csr() and coo() directly', async (t) => {
  const shape = [4, 6]
  const first = openSync(
    await written({ version: '1.2' }, async (writer) => {
      const { indices, indptr, ...csr } = csrOf('bfloat16', shape, some(shape, 1), 1)
      await writer.addCsr('csr', { ...csr, indices: Uint8Array.from(indices), indptr: Uint8Array.from(indptr) })
    }),
  )
  const csr = first.tensor('csr').csr()
  for (const { options } of ZT) {
    const second = openSync(
      await written(options, async (writer) => {
        await writer.addCsr('csr', csr)
        await writer.addCoo('coo', csr.toCoo())
      }),
    )
    t.deepEqual(second.tensor('csr').csr(), csr)
    t.deepEqual(second.tensor('coo').coo().toCsr().toDense(), csr.toDense())
    second.close()
  }
  first.close()
})

test('writes any matrix, as CSR and as COO', async (t) => {
  const matrices = fc.tuple(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 0, max: 6 })).chain(([rows, columns]) =>
    fc.record({
      shape: fc.constant([rows, columns]),
      keep: fc.array(fc.boolean(), { minLength: rows * columns, maxLength: rows * columns }),
      format: fc.constantFrom(...ZT),
      stored: fc.constantFrom(...STORED),
      seed: fc.nat(100),
    }),
  )
  const body = async ({ shape, keep, format, stored, seed }) => {
    const dtype = format.dtypes[seed % format.dtypes.length]
    const csr = csrOf(dtype, shape, keep, seed)
    const coo = cooOf(dtype, shape, keep, seed)
    const path = await written({ ...format.options, ...stored }, async (writer) => {
      await Promise.all([
        writer.addCsr('csr', { ...csr, indices: Int8Array.from(csr.indices), indptr: Int16Array.from(csr.indptr) }),
        writer.addCoo('coo', { ...coo, coords: asBigInts(coo.coords) }),
      ])
    })
    const file = openSync(path)
    same(t, file.tensor('csr').csr().values, csr.values)
    same(t, file.tensor('csr').csr().indptr, asBigInts(csr.indptr))
    same(t, file.tensor('coo').coo().values, coo.values)
    same(t, file.tensor('coo').coo().coords, asBigInts(coo.coords))
    t.true((await file.verify()).ok)
    file.close()
  }
  await fc.assert(fc.asyncProperty(matrices, body), { numRuns: scaled(100) })
})

test('BTF: coordinates are one tuple per entry, by the specification', async (t) => {
  const path = await written(BTF.options, async (writer) => {
    await writer.addCoo('0', {
      shape: [3, 4],
      values: Int8Array.of(7, -8, 9),
      coords: Uint32Array.of(0, 1, 2, 3, 0, 2),
    })
    await writer.add('1', Float64Array.of(1.5))
    await writer.addCoo('2', { shape: [5], values: Float32Array.of(2.5), coords: BigInt64Array.of(4n) })
  })
  t.deepEqual(readBtf(readFileSync(path)), [
    {
      shape: [3, 4],
      layout: 'sparse_coo',
      coords: [
        [0, 3],
        [1, 0],
        [2, 2],
      ],
      values: Int8Array.of(7, -8, 9),
    },
    { shape: [1], layout: 'dense', values: Float64Array.of(1.5) },
    { shape: [5], layout: 'sparse_coo', coords: [[4]], values: Float32Array.of(2.5) },
  ])
})

test('0.1: one blob, CSR as indptr, indices, values; COO as alternating coordinates and values', async (t) => {
  const path = await written({ version: '0.1' }, async (writer) => {
    await writer.addCsr('csr', {
      shape: [2, 4],
      values: Float32Array.of(1, 2, 3),
      indices: Int32Array.of(1, 3, 0),
      indptr: Int32Array.of(0, 2, 3),
    })
    await writer.addCoo('coo', { shape: [2, 4], values: Float32Array.of(5, 6), coords: Uint8Array.of(0, 1, 3, 2) })
  })
  const bytes = readFileSync(path)
  const csr = Buffer.concat([u64s(0, 2, 3), u64s(1, 3, 0), f32s(1, 2, 3)])
  const coo = Buffer.concat([u64s(0, 3), f32s(5), u64s(1, 2), f32s(6)])
  t.true(bytes.subarray(64, 64 + csr.length).equals(csr))
  t.true(bytes.subarray(128, 128 + coo.length).equals(coo))
  const file = openSync(path)
  t.is(file.tensor('csr').components.get('values').digest, digestOf('crc32c', csr))
  t.is(file.tensor('coo').components.get('values').digest, digestOf('crc32c', coo))
  file.close()
})

test('1.0 and 1.2: each array is a separate component', async (t) => {
  for (const version of ['1.0', '1.2']) {
    const path = await written({ version, digest: 'sha256' }, (writer) =>
      writer.addCoo('coo', { shape: [2, 4], values: Float32Array.of(5, 6), coords: Uint8Array.of(0, 1, 3, 2) }),
    )
    const bytes = readFileSync(path)
    const file = openSync(path)
    for (const [role, expected] of Object.entries({ values: f32s(5, 6), coords: u64s(0, 1, 3, 2) })) {
      const { offset, storedLength, digest } = file.tensor('coo').components.get(role)
      t.true(bytes.subarray(offset, offset + storedLength).equals(expected), role)
      t.is(digest, digestOf('sha256', expected))
    }
    t.true(bytes.subarray(64, 72).equals(littleEndian(Float32Array.of(5, 6))))
    file.close()
  }
})

test('writes attributes of a sparse tensor', async (t) => {
  const values = Float32Array.of(1)
  for (const { options } of ZT) {
    const path = await written(options, async (writer) => {
      const indptr = Uint8Array.of(0, 1)
      await writer.addCsr('csr', { shape: [1, 1], values, indices: Uint8Array.of(0), indptr }, { attributes: { a: 1 } })
      await writer.addCoo('coo', { shape: [1], values, coords: Uint8Array.of(0) }, { attributes: { b: 'two' } })
    })
    const file = openSync(path)
    t.deepEqual({ ...file.tensor('csr').attributes }, { a: 1 })
    t.deepEqual({ ...file.tensor('coo').attributes }, { b: 'two' })
    file.close()
  }
})

test('dtype is the type of an array of bits', async (t) => {
  const values = Uint16Array.of(0x3f80)
  const path = await written({}, (writer) =>
    writer.addCoo('x', { shape: [2], dtype: 'bfloat16', values, coords: Uint8Array.of(1) }),
  )
  const file = openSync(path)
  t.is(file.tensor('x').dtype, 'bfloat16')
  t.deepEqual([...file.tensor('x').coo().toFloat32().toDense()], [0, 1])
  file.close()
})
