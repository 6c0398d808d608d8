// tensor.stats(), compared with NumPy (fixtures/stats.py).
import { readFileSync } from 'node:fs'
import test from 'ava'
import { openSync } from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { DTYPES, written } from '../helpers/sample-files.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const { count, bins, found } = JSON.parse(readFileSync(fixturePath('stats.json'), 'utf8'))
const formulas = {
  float64: (s) => s * 0.001 - 5,
  float32: (s) => s * 0.001 - 5,
  float16: (s) => 0x2c00 + (s % 4096) + ((s & 1) << 15),
  bfloat16: (s) => 0x3c00 + (s % 1024) + ((s & 1) << 15),
  int64: (s) => BigInt(s) * 10n ** 12n - 5n * 10n ** 15n,
  int32: (s) => s * 200_000 - 1e9,
  int16: (s) => s * 3 - 15_000,
  int8: (s) => (s % 256) - 128,
  uint64: (s) => BigInt(s) * 10n ** 11n,
  uint32: (s) => s * 400_000,
  uint16: (s) => s * 6,
  uint8: (s) => s % 256,
  bool: (s) => Number(s % 3 === 0),
  float8_e4m3fn: (s) => (s % 120) + ((s & 1) << 7),
  float8_e5m2: (s) => (s % 120) + ((s & 1) << 7),
}

async function opened(tensors, options = { version: '1.2' }) {
  const add = async (writer) => {
    for (const [name, tensor] of Object.entries(tensors)) await writer.add(name, tensor)
  }
  return openSync(await written(options, add))
}

const tensors = Object.fromEntries(
  Object.entries(formulas).map(([dtype, formula]) => {
    const data = DTYPES[dtype][0].from({ length: count }, (_, i) => formula((i * 7919 + 13) % 10007))
    return [dtype, { dtype, shape: [count], data }]
  }),
)

const close = (t, a, b, what) =>
  t.true(Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b), 1e-9), `${what}: ${a} and ${b}`)

test("every dtype: counts, extremes, mean, deviation and histogram equal NumPy's", async (t) => {
  for (const options of [{ version: '1.2' }, { version: '1.2', compression: { level: 1 } }]) {
    const file = await opened(tensors, options)
    for (const [dtype, expected] of Object.entries(found)) {
      const stats = await file.tensor(dtype).stats({ bins })
      t.is(stats.count, count, dtype)
      t.is(stats.nan + stats.positiveInfinite + stats.negativeInfinite, 0, dtype)
      for (const exact of ['zeros', 'min', 'max']) t.is(stats[exact], expected[exact], `${dtype} ${exact}`)
      close(t, stats.mean, expected.mean, `${dtype} mean`)
      close(t, stats.std, expected.std, `${dtype} std`)
      t.is(stats.histogram.edges.length, bins + 1)
      for (const [at, edge] of expected.edges.entries())
        close(t, stats.histogram.edges[at], edge, `${dtype} edge ${at}`)
      t.deepEqual(stats.histogram.counts, expected.counts, dtype)
      t.deepEqual(await file.tensor(dtype).stats(), { ...stats, histogram: undefined })
    }
    file.close()
  }
})

test('counts 16-bit elements by bit pattern, with the same result as their float32 values', async (t) => {
  const length = 300_001
  const bits = Uint16Array.from({ length }, (_, s) => 0x3c00 + ((s * 7919) % 700) + ((s & 1) << 15))
  // Two NaN patterns, both infinities, both zeros, the smallest and the largest.
  for (const [at, pattern] of [0x7fc0, 0xffff, 0x7f80, 0xff80, 0xff80, 0, 0, 0x8000, 1, 0xff7f].entries()) {
    bits[at * 29_999] = pattern
  }
  const floats = new Float32Array(Uint32Array.from(bits, (pattern) => pattern << 16).buffer)
  const half = Uint16Array.from(bits, (pattern) => 0x3000 + (pattern & 0x8fff))
  const file = await opened({
    bits: { dtype: 'bfloat16', shape: [length], data: bits },
    floats,
    half: { dtype: 'float16', shape: [length], data: half },
    constant: { dtype: 'bfloat16', shape: [length], data: new Uint16Array(length).fill(0x3dcd) },
  })
  for (const options of [{}, { bins: 50 }, { bins: 7, range: [-1, 0.5] }]) {
    const counted = await file.tensor('bits').stats(options)
    const { mean, std, ...exact } = await file.tensor('floats').stats(options)
    close(t, counted.mean, mean, 'mean')
    close(t, counted.std, std, 'std')
    t.deepEqual({ ...counted, mean, std }, { ...exact, mean, std })
  }
  const { nan, positiveInfinite, negativeInfinite, zeros } = await file.tensor('bits').stats()
  t.deepEqual([nan, positiveInfinite, negativeInfinite, zeros], [2, 1, 2, 3])
  const values = await file.tensor('half').load({ as: 'float32' })
  const found = await file.tensor('half').stats()
  const total = values.reduce((sum, value) => sum + value, 0)
  close(t, found.mean, total / length, 'mean of float16')
  t.is(
    found.min,
    values.reduce((least, value) => Math.min(least, value)),
  )
  t.is(
    found.max,
    values.reduce((most, value) => Math.max(most, value)),
  )
  const { std } = await file.tensor('constant').stats()
  t.is(std, 0)
  file.close()
})

test('a histogram with a range omits values outside of it', async (t) => {
  const file = await opened({ x: Float32Array.of(-2, -1, -0.5, 0, 0.5, 1, 1.5, NaN, Infinity) })
  const { histogram } = await file.tensor('x').stats({ bins: 2, range: [-1, 1] })
  t.deepEqual(histogram, { edges: [-1, 0, 1], counts: [2, 3] })
  file.close()
})

test('handles NaN, infinities, zeros, a single value and no values', async (t) => {
  const file = await opened({
    mixed: Float64Array.of(NaN, 1, Infinity, -Infinity, -Infinity, 3, 0, -0),
    none: Float32Array.of(NaN, NaN),
    one: Float32Array.of(7),
    empty: new Float32Array(0),
  })
  const mixed = await file.tensor('mixed').stats()
  t.deepEqual(mixed, {
    ...{ count: 8, nan: 1, positiveInfinite: 1, negativeInfinite: 2, zeros: 2 },
    ...{ min: 0, max: 3, mean: 1, std: Math.sqrt(1.5), histogram: undefined },
  })
  const none = await file.tensor('none').stats({ bins: 3 })
  t.deepEqual([none.nan, none.min, none.max, none.mean, none.std], [2, NaN, NaN, NaN, NaN])
  t.deepEqual(none.histogram.counts, [0, 0, 0])
  const one = await file.tensor('one').stats({ bins: 1 })
  t.deepEqual([one.min, one.max, one.mean, one.std, one.histogram], [7, 7, 7, 0, { edges: [6.5, 7.5], counts: [1] }])
  const empty = await file.tensor('empty').stats({ bins: 2 })
  t.deepEqual([empty.count, empty.mean, empty.histogram.counts], [0, NaN, [0, 0]])
  file.close()
})

test('computes mean, deviation and bins of numbers whose squares exceed float64', async (t) => {
  const digits = Array.from({ length: 3000 }, (_, at) => ((at * 7919) % 1009) - 504)
  const of = async (factor) => {
    const file = await opened({ x: Float64Array.from(digits, (digit) => digit * factor) })
    const { histogram, ...found } = await file.tensor('x').stats({ bins: 10 })
    file.close()
    return { ...found, edges: histogram.edges, counts: histogram.counts }
  }
  const plain = await of(1)
  for (const exponent of [1014, 700, 520, -520, -700, -1010]) {
    const factor = 2 ** exponent
    const [min, max, mean, std] = [plain.min, plain.max, plain.mean, plain.std].map((value) => value * factor)
    const edges = plain.edges.map((edge) => edge * factor)
    const found = await of(factor)
    t.deepEqual(found, { ...plain, min, max, mean: found.mean, std: found.std, edges }, `2^${exponent}`)
    for (const [name, expected] of Object.entries({ mean, std })) {
      t.true(Math.abs(found[name] / expected - 1) < 1e-12, `${name} of 2^${exponent}: ${found[name]}, not ${expected}`)
    }
  }
})

test('uses the stored values of sparse tensors and the decoded values of quantized ones', async (t) => {
  const path = await written({ version: '1.2' }, async (writer) => {
    const csr = { values: Float32Array.of(2, 4), indices: Uint32Array.of(0, 2), indptr: Uint32Array.of(0, 1, 2) }
    await writer.addCsr('m', { shape: [2, 3], ...csr })
    const block = new Uint8Array(34).fill(2)
    block.set([0x00, 0x40]) // 2.0 as float16
    const attributes = { elems_per_block: 32, block_bytes: 34 }
    const components = { data: { dtype: 'uint8', data: block } }
    await writer.addObject('q', { layout: 'gguf.q8_0/1', shape: [32], attributes, components })
  })
  const file = openSync(path)
  const m = await file.tensor('m').stats()
  t.deepEqual([m.count, m.zeros, m.min, m.max, m.mean], [2, 0, 2, 4, 3])
  const q = await file.tensor('q').stats()
  t.deepEqual([q.count, q.min, q.max, q.mean, q.std], [32, 4, 4, 4, 0])
  file.close()
})

test('accepts files in memory and complex numbers, and rejects aborts, closed files and bad arguments', async (t) => {
  const path = await written({ version: '1.2' }, async (writer) => {
    await writer.add('x', Float32Array.of(1, 2))
    await writer.add('c', { dtype: 'complex64', shape: [1], data: Float32Array.of(1, 2) })
  })
  const file = openSync(readFileSync(path))
  const tensor = file.tensor('x')
  t.is((await tensor.stats()).mean, 1.5)
  t.is((await rejectionOf(() => file.tensor('c').stats()))?.code, 'ZT_BAD_DTYPE')
  const reason = new Error('enough')
  t.is(await rejectionOf(() => tensor.stats({ signal: AbortSignal.abort(reason) })), reason)
  const bad = [
    [{ bins: 0 }, 'bins'],
    [{ bins: 5000 }, 'bins'],
    [{ bins: '3' }, 'bins'],
    [{ bins: 3, range: [1] }, 'range'],
    [{ bins: 3, range: [2, 1] }, 'range'],
    [{ bins: 3, range: [0, Infinity] }, 'range'],
    [{ range: [0, 1] }, 'range'],
    [{ signal: 7 }, 'signal'],
    [7, 'options'],
  ]
  for (const [given, name] of bad) isArgumentError(t, await rejectionOf(() => tensor.stats(given)), name)
  file.close()
  t.is((await rejectionOf(() => tensor.stats()))?.code, 'ZT_CLOSED')
})

test('progress counts the bytes of each pass, and ends at the total', async (t) => {
  for (const options of [{ version: '1.2' }, { version: '1.2', compression: { level: 1 } }]) {
    const file = await opened({ w: { dtype: 'float32', shape: [count], data: tensors.float32.data } }, options)
    const tensor = file.tensor('w')
    for (const [given, passes] of [
      [{}, 1],
      [{ bins: 4 }, 2],
      [{ bins: 4, range: [0, 1] }, 1],
    ]) {
      const seen = []
      const plain = await tensor.stats(given)
      t.deepEqual(await tensor.stats({ ...given, onProgress: (progress) => seen.push(progress) }), plain)
      const { copyReason, storedLength } = tensor.components.get('data')
      const bytes = passes * tensor.byteLength + (copyReason === undefined ? 0 : storedLength)
      t.like(seen.at(-1), { bytes, totalBytes: bytes, tensors: 1, totalTensors: 1, remainingMs: 0 })
    }
    isArgumentError(t, await rejectionOf(() => tensor.stats({ onProgress: 1 })), 'onProgress')
    file.close()
  }
})
