// tensor.nearest(), compared with sums in float64 over all rows.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { DTYPES, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const METRICS = ['dot', 'cosine', 'euclidean']

/** Numbers from -1 to 1 that are the same in each run. */
function numbers(count, state = 1) {
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  })
}

function scoreOf(metric, row, query) {
  let [products, squares, squaredQuery, differences] = [0, 0, 0, 0]
  for (const [at, x] of row.entries()) {
    products += x * query[at]
    squares += x * x
    squaredQuery += query[at] * query[at]
    differences += (x - query[at]) ** 2
  }
  if (metric === 'dot') return products
  return metric === 'cosine' ? products / Math.sqrt(squares * squaredQuery) : Math.sqrt(differences)
}

/** Checks the result for a table: the scores of its rows, and that no other row is nearer. */
async function checkNearest(t, table, query, options, what) {
  const found = await table.nearest(query, options)
  const { k = 10, metric = 'dot' } = options
  const [rows, width] = table.shape
  const values = await table.load({ as: 'float32' })
  const scores = Array.from({ length: rows }, (_, row) =>
    scoreOf(metric, values.subarray(row * width, (row + 1) * width), query),
  )
  const sign = metric === 'euclidean' ? 1 : -1
  const best = scores.filter((score) => !Number.isNaN(score)).sort((a, b) => sign * (a - b))
  t.is(found.length, Math.min(k, best.length), what)
  for (const [at, { row, score }] of found.entries()) {
    const tolerance = 1e-4 * Math.max(1, Math.abs(score))
    t.true(Math.abs(score - scores[row]) <= tolerance, `${what}: row ${row} has ${scores[row]}, found ${score}`)
    t.true(Math.abs(score - best[at]) <= tolerance, `${what}: number ${at} is ${best[at]}, found ${score}`)
  }
  t.is(new Set(found.map(({ row }) => row)).size, found.length, what)
}

const DTYPES_SEARCHED = [
  'float64',
  'float32',
  'float16',
  'bfloat16',
  'int64',
  'int32',
  'int16',
  'int8',
  'uint64',
  'uint32',
  'uint16',
  'uint8',
  'bool',
]

test('finds the nearest rows of each dtype, of plain and of compressed data, by each metric', async (t) => {
  const [rows, width] = [300, 37]
  for (const options of [
    { version: '1.2' },
    { version: '2', canonical: false, compression: { level: 1, minSavings: 0 } },
  ]) {
    const file = openSync(
      await written(options, async (writer) => {
        for (const dtype of DTYPES_SEARCHED) {
          const source = numbers(rows * width)
          const integer = (value) => (dtype.startsWith('u') ? Math.round(value * 50 + 50) : Math.round(value * 100))
          const data = dtype.startsWith('float') || dtype === 'bfloat16' ? source : Float64Array.from(source, integer)
          const make = DTYPES[dtype][0]
          const isHalf = dtype === 'float16' || dtype === 'bfloat16'
          const stored = isHalf ? source : make.from(data, make.name.startsWith('Big') ? BigInt : undefined)
          await writer.add(dtype, {
            dtype,
            shape: [rows, width],
            data: dtype === 'bool' ? stored.map((x) => x & 1) : stored,
          })
        }
      }),
    )
    const query = numbers(width, 7)
    for (const [dtype, table] of file)
      for (const metric of METRICS) await checkNearest(t, table, query, { k: 5, metric }, `${dtype} ${metric}`)
    file.close()
  }
})

test('rows may be shorter and longer than the pieces that are read', async (t) => {
  for (const shape of [
    [1_300_000, 7],
    [3, 3_000_000],
    [1, 9_000_000],
    [65_537, 129],
  ]) {
    const [rows, width] = shape
    const data = Int8Array.from(numbers(rows * width), (value) => Math.round(value * 100))
    const file = openSync(
      await written({ version: '1.2' }, (writer) => writer.add('x', { dtype: 'int8', shape, data })),
    )
    const query = numbers(width, 3)
    const found = await file.tensor('x').nearest(query, { k: 3, metric: 'euclidean' })
    const all = Array.from({ length: rows }, (_, row) => {
      let sum = 0
      for (let column = 0; column < width; column++) sum += (data[row * width + column] - query[column]) ** 2
      return { row, score: Math.sqrt(sum) }
    })
    const best = all.sort((a, b) => a.score - b.score).slice(0, 3)
    t.is(found.length, best.length)
    for (const [at, { score }] of best.entries())
      t.true(Math.abs(found[at].score - score) <= 1e-5 * score, `${shape}: ${found[at].score} and ${score}`)
    file.close()
  }
})

test('sparse and quantized tables, and those in other orders of elements', async (t) => {
  const sparse = openSync(
    await written({ version: '1.2' }, (writer) =>
      writer.addCsr('s', {
        shape: [4, 3],
        values: Float32Array.of(1, 2, -3, 4),
        indices: BigUint64Array.of(0n, 2n, 1n, 2n),
        indptr: BigUint64Array.of(0n, 2n, 2n, 3n, 4n),
      }),
    ),
  )
  t.deepEqual(await sparse.tensor('s').nearest([1, 0, 2], { k: 2 }), [
    { row: 3, score: 8 },
    { row: 0, score: 5 },
  ])
  sparse.close()

  const plain = await written({ version: '1.2' }, (writer) =>
    writer.add('blk.0.attn_q.weight', { dtype: 'float32', shape: [64, 256], data: numbers(64 * 256) }),
  )
  for (const [extension, options] of [
    ['gguf', { quantize: 'q8_0', checkpoint: false }],
    ['npy', { fortranOrder: true }],
    ['safetensors', {}],
  ]) {
    const path = scratchPath(`table.${extension}`)
    const { fortranOrder, ...rest } = options
    await convert(plain, path, rest)
    if (fortranOrder) {
      // The header has room for the longer word: its padding is spaces.
      const bytes = readFileSync(path)
      const header = bytes.toString('latin1').replace("'fortran_order': False", "'fortran_order': True ")
      const file = openSync(Buffer.from(header, 'latin1'))
      const [table] = file.values()
      for (const metric of METRICS) await checkNearest(t, table, numbers(256, 5), { k: 4, metric }, 'Fortran order')
      file.close()
      continue
    }
    const file = openSync(path)
    const [table] = file.values()
    for (const metric of METRICS) await checkNearest(t, table, numbers(256, 5), { k: 4, metric }, extension)
    file.close()
  }
})

test('a file that is read by a ByteSource', async (t) => {
  const bytes = readFileSync(
    await written({ version: '1.2' }, (writer) =>
      writer.add('x', { dtype: 'float32', shape: [100, 8], data: numbers(800) }),
    ),
  )
  const file = await open({ byteLength: bytes.length, read: async (at, length) => bytes.subarray(at, at + length) })
  await checkNearest(t, file.tensor('x'), numbers(8, 2), { k: 3 }, 'a ByteSource')
  file.close()
})

test('equal scores are in the order of the rows, and rows without a score are left out', async (t) => {
  const data = Float32Array.of(1, 0, Number.NaN, 0, 0, 0, 1, 0, 2, 0)
  const file = openSync(
    await written({ version: '1.2' }, async (writer) => {
      await writer.add('x', { dtype: 'float32', shape: [5, 2], data })
      await writer.add('rows', { dtype: 'float32', shape: [0, 2], data: new Float32Array(0) })
      await writer.add('columns', { dtype: 'float32', shape: [3, 0], data: new Float32Array(0) })
    }),
  )
  const table = file.tensor('x')
  t.deepEqual(await table.nearest([1, 0]), [
    { row: 4, score: 2 },
    { row: 0, score: 1 },
    { row: 3, score: 1 },
    { row: 2, score: 0 },
  ])
  t.deepEqual(await table.nearest(Float64Array.of(1, 0), { metric: 'cosine', k: 2 }), [
    { row: 0, score: 1 },
    { row: 3, score: 1 },
  ])
  t.deepEqual(await table.nearest([1, 0], { metric: 'cosine' }), [
    { row: 0, score: 1 },
    { row: 3, score: 1 },
    { row: 4, score: 1 },
  ])
  t.deepEqual(await table.nearest([1, 0], { metric: 'euclidean', k: 3 }), [
    { row: 0, score: 0 },
    { row: 3, score: 0 },
    { row: 2, score: 1 },
  ])
  t.deepEqual(await file.tensor('rows').nearest([1, 0]), [])
  t.deepEqual(await file.tensor('columns').nearest([]), [])
  file.close()
})

test('refuses other queries, counts, metrics and shapes', async (t) => {
  const file = openSync(
    await written({ version: '1.2' }, async (writer) => {
      await writer.add('x', { dtype: 'float32', shape: [2, 2], data: new Float32Array(4) })
      await writer.add('line', new Float32Array(4))
      await writer.add('complex', { dtype: 'complex64', shape: [1, 2], data: new Float32Array(4) })
    }),
  )
  const table = file.tensor('x')
  for (const [call, says] of [
    [() => table.nearest(), /query must be a Float32Array or another array of numbers/],
    [() => table.nearest('ab'), /query must be a Float32Array/],
    [() => table.nearest(new DataView(new ArrayBuffer(8))), /query must be a Float32Array/],
    [() => table.nearest([1]), /query: the table has 2 columns, so a query has as many numbers, got 1/],
    [() => table.nearest([1, '2']), /query\[1\] must be a number/],
    [() => table.nearest([1, undefined]), /query\[1\] must be a number/],
    [() => table.nearest(BigInt64Array.of(1n, 2n)), /query\[0\] must be a number/],
    [() => table.nearest([1, Number.NaN]), /query\[1\]: NaN is not finite as float32/],
    [() => table.nearest([1e39, 1]), /query\[0\]: 1e\+39 is not finite as float32/],
    [() => table.nearest([1, 2], { k: 0 }), /k must be a whole number from 1 to 65536, got 0/],
    [() => table.nearest([1, 2], { k: 1e6 }), /from 1 to 65536/],
    [() => table.nearest([1, 2], { metric: 'l2' }), /metric must be/],
    [
      () => file.tensor('line').nearest([1, 2, 3, 4]),
      /a table has two dimensions, rows and columns, but the shape is \[4\]/,
    ],
  ]) {
    const error = await rejectionOf(call)
    t.is(error?.code, 'ZT_INVALID_ARG')
    t.regex(error.message, says)
  }
  const { code } = await rejectionOf(() => file.tensor('complex').nearest([1, 2]))
  t.is(code, 'ZT_BAD_DTYPE')
  file.close()
})
