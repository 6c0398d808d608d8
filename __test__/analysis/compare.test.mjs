// compare(): two tensors by value.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { compare, diff, openSync } from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { DTYPES, noise, sample, written } from '../helpers/sample-files.mjs'

async function opened(add, options = { version: '1.2' }) {
  return openSync(await written(options, add))
}

const holding = (tensors, options) =>
  opened(async (writer) => {
    for (const [name, tensor] of Object.entries(tensors)) await writer.add(name, tensor)
  }, options)

const SAME = {
  identical: true,
  equal: true,
  differing: 0,
  firstDifference: undefined,
  unmatchedNaN: 0,
  maxAbsolute: 0,
  maxRelative: 0,
}

test('a tensor is identical in every format, compressed or not', async (t) => {
  const tensors = Object.fromEntries(
    ['float32', 'bfloat16', 'int64', 'uint8', 'bool'].map((dtype, seed) => {
      return [dtype, { dtype, shape: [50, 1400], data: sample(dtype, [50, 1400], seed) }]
    }),
  )
  const first = await holding(tensors)
  for (const options of [
    { version: '0.1' },
    { version: '1.0', compression: { level: 1 } },
    { version: '2' },
    { format: 'safetensors' },
  ]) {
    const second = await holding(tensors, options)
    for (const name of Object.keys(tensors)) {
      t.deepEqual(await compare(first.tensor(name), second.tensor(name)), { ...SAME, elements: 70_000 }, name)
    }
    second.close()
  }
  first.close()
})

test('numbers whose difference exceeds float64 differ, also complex ones', async (t) => {
  const complex = (...data) => ({ dtype: 'complex128', shape: [data.length / 2], data: Float64Array.from(data) })
  const file = await holding({
    a: Float64Array.of(1.5e308, 1),
    b: Float64Array.of(-1.5e308, 1),
    c: complex(1.7e308, 1.7e308, Infinity, 1),
    d: complex(1.7e308, 1e308, Infinity, 2),
  })
  const found = async (a, b, options) => {
    const { equal, differing, maxAbsolute, maxRelative } = await compare(file.tensor(a), file.tensor(b), options)
    return [equal, differing, maxAbsolute, maxRelative]
  }
  t.deepEqual(await found('a', 'b'), [false, 1, Infinity, 2])
  t.deepEqual(await found('a', 'b', { rtol: 2 }), [true, 0, Infinity, 2])
  t.deepEqual((await found('c', 'd')).slice(0, 3), [false, 2, 1.7e308 - 1e308])
  file.close()
})

test('finds differences at any position, and measures them', async (t) => {
  const count = 5_000_000 // more than one unit of work
  const data = new Float32Array(count).map((_, i) => (i % 1000) + 1)
  const changed = Float32Array.from(data)
  changed[70_000] += 0.5
  changed[4_700_000] *= 2
  changed[4_999_999] = NaN
  const file = await holding({ data, changed })
  const found = await compare(file.tensor('data'), file.tensor('changed'))
  t.deepEqual(found, {
    ...{ identical: false, equal: false, elements: count, differing: 3, firstDifference: 70_000, unmatchedNaN: 1 },
    ...{ maxAbsolute: 1, maxRelative: 0.5 },
  })
  const forgiving = await compare(file.tensor('data'), file.tensor('changed'), { atol: 0.25, rtol: 0.3 })
  t.is(forgiving.differing, 2)
  t.is(forgiving.firstDifference, 4_700_000)
  file.close()
})

test('compares different dtypes by value', async (t) => {
  const file = await holding({
    bf16: { dtype: 'bfloat16', shape: [3], data: Uint16Array.of(0x3f80, 0xc000, 0x7fc0) },
    f32: Float32Array.of(1, -2, NaN),
    f64: Float64Array.of(1, -2, 5),
    i8: Int8Array.of(1, -2, 3),
    i64: BigInt64Array.of(1n, -2n, 2n ** 53n + 1n),
    u64: BigUint64Array.of(1n, 2n ** 64n - 2n, 2n ** 53n),
    c64: { dtype: 'complex64', shape: [3], data: Float32Array.of(1, 0, 3, 4, 0, 0) },
    zero: { dtype: 'complex64', shape: [3], data: Float32Array.of(1, 0, 0, 0, 0, 0) },
  })
  const of = (a, b) => compare(file.tensor(a), file.tensor(b))
  t.deepEqual(await of('bf16', 'f32'), { ...SAME, identical: false, elements: 3 })
  t.like(await of('f32', 'f64'), { identical: false, differing: 1, unmatchedNaN: 1, firstDifference: 2 })
  t.like(await of('i8', 'f64'), { differing: 1, maxAbsolute: 2, maxRelative: 0.4 })
  // Exactly: as float64 the last two would be equal, and -2 is not a huge number.
  t.like(await of('i64', 'u64'), { differing: 2, maxAbsolute: 2 ** 64, firstDifference: 1 })
  t.like(await of('i8', 'i64'), { differing: 1, firstDifference: 2 })
  t.like(await of('c64', 'zero'), { differing: 1, maxAbsolute: 5, maxRelative: 1 })
  t.is((await rejectionOf(() => of('c64', 'f32')))?.code, 'ZT_BAD_DTYPE')
  file.close()
})

test('signed zeros are equal and not identical', async (t) => {
  const file = await holding({ a: Float32Array.of(0), b: Float32Array.of(-0) })
  t.like(await compare(file.tensor('a'), file.tensor('b')), { identical: false, equal: true })
  file.close()
})

test('compares sparse tensors by value if the pattern is the same, otherwise by all elements', async (t) => {
  const csr = { shape: [2, 3], indices: Uint32Array.of(0, 2), indptr: Uint32Array.of(0, 1, 2) }
  const file = await opened(async (writer) => {
    await writer.addCsr('a', { ...csr, values: Float32Array.of(1, 2) })
    await writer.addCsr('b', { ...csr, values: Float32Array.of(1, 2.5) })
    await writer.addCsr('moved', { ...csr, values: Float32Array.of(1, 2), indices: Uint32Array.of(1, 2) })
    await writer.addCoo('coo', { shape: [2, 3], values: Float32Array.of(1, 2), coords: Uint32Array.of(0, 1, 0, 2) })
    await writer.add('dense', { dtype: 'float32', shape: [2, 3], data: Float32Array.of(1, 0, 0, 0, 0, 2) })
  })
  const of = (a, b) => compare(file.tensor(a), file.tensor(b))
  t.like(await of('a', 'b'), { elements: 2, differing: 1, firstDifference: 1, maxAbsolute: 0.5 })
  t.like(await of('a', 'moved'), { elements: 6, differing: 2, firstDifference: 0 })
  t.like(await of('a', 'coo'), { elements: 6, equal: true })
  t.like(await of('coo', 'dense'), { elements: 6, equal: true, identical: true })
  file.close()
})

test('rejects a sparse tensor that is too large to expand, unless the patterns agree', async (t) => {
  const big = (column) => ({
    shape: [2 ** 20, 2 ** 20],
    values: Float32Array.of(1),
    coords: BigUint64Array.of(0n, column),
  })
  const file = await opened(async (writer) => {
    await writer.addCoo('a', big(0n))
    await writer.addCoo('b', big(1n))
  })
  t.true((await compare(file.tensor('a'), file.tensor('a'))).identical)
  t.is((await rejectionOf(() => compare(file.tensor('a'), file.tensor('b'))))?.code, 'ZT_LIMIT')
  file.close()
})

test('compares quantized tensors by their decoded values, components by their bytes', async (t) => {
  const block = new Uint8Array(34).fill(2)
  block.set([0x00, 0x40]) // 2.0 as float16
  const other = Uint8Array.from(block)
  other[10] = 3
  const attributes = { elems_per_block: 32, block_bytes: 34 }
  const file = await opened(async (writer) => {
    for (const [name, data] of Object.entries({ block, other })) {
      const components = { data: { dtype: 'uint8', data } }
      await writer.addObject(name, { layout: 'gguf.q8_0/1', shape: [32], attributes, components })
    }
    await writer.add('four', new Float32Array(32).fill(4))
  })
  t.true((await compare(file.tensor('block'), file.tensor('four'))).equal)
  t.like(await compare(file.tensor('block'), file.tensor('other')), {
    differing: 1,
    firstDifference: 8,
    maxAbsolute: 2,
  })
  const data = (name) => file.tensor(name).components.get('data')
  t.like(await compare(data('block'), data('other')), { elements: 34, differing: 1, firstDifference: 10 })
  file.close()
})

test('every dtype: equal bits are identical', async (t) => {
  const shape = [4, 24]
  for (const [dtype, [Class, bits]] of Object.entries(DTYPES)) {
    if (dtype === 'complex128') continue
    const data = new Class(noise((96 * bits) / 8, 3).buffer)
    if (dtype === 'bool') data.fill(1)
    const file = await holding({ a: { dtype, shape, data }, b: { dtype, shape, data } }, { format: 'safetensors' })
    t.deepEqual(await compare(file.tensor('a'), file.tensor('b')), { ...SAME, elements: 96 }, dtype)
    file.close()
  }
})

test('compares elements of an unknown type by their bytes only', async (t) => {
  const unknown = async (last) => {
    const data = Uint8Array.of(1, 2, last)
    const path = await written({ version: '1.2' }, (writer) =>
      writer.add('x', { dtype: 'float8_e4m3fn', shape: [3], data }),
    )
    const bytes = readFileSync(path)
    bytes.write('f8_e4m3xx', bytes.indexOf('f8_e4m3fn'))
    return openSync(bytes).tensor('x')
  }
  const [a, b] = [await unknown(3), await unknown(4)]
  t.is(a.dtype, undefined)
  t.is((await rejectionOf(() => compare(a, b)))?.code, 'ZT_BAD_DTYPE')
  t.is((await rejectionOf(() => a.stats()))?.code, 'ZT_BAD_DTYPE')
  const found = await compare(a.components.get('data'), b.components.get('data'))
  t.like(found, { elements: 3, differing: 1, firstDifference: 2 })
})

test('accepts files in memory, and rejects aborts, closed files and bad arguments', async (t) => {
  const path = await written({ version: '1.2' }, async (writer) => {
    await writer.add('x', Float32Array.of(1, 2))
    await writer.add('y', Float32Array.of(1))
  })
  const [file, memory] = [openSync(path), openSync(readFileSync(path))]
  const [x, inMemory] = [file.tensor('x'), memory.tensor('x')]
  t.true((await compare(inMemory, x)).identical)
  t.true((await compare(x, inMemory)).identical)
  t.is((await rejectionOf(() => compare(x, file.tensor('y'))))?.code, 'ZT_BAD_SHAPE')
  const reason = new Error('enough')
  t.is(await rejectionOf(() => compare(x, inMemory, { signal: AbortSignal.abort(reason) })), reason)
  isArgumentError(t, await rejectionOf(() => compare(x, 7)), 'b')
  isArgumentError(t, await rejectionOf(() => compare(x, x, { atol: -1 })), 'atol')
  isArgumentError(t, await rejectionOf(() => compare(x, x, { rtol: NaN })), 'rtol')
  isArgumentError(t, await rejectionOf(() => compare(x, x, { rtol: '1' })), 'rtol')
  memory.close()
  t.is((await rejectionOf(() => compare(x, inMemory)))?.code, 'ZT_CLOSED')
  t.is((await rejectionOf(() => compare(inMemory, x)))?.code, 'ZT_CLOSED')
  file.close()
})

test('norms: how much a tensor changed, and in which direction, as float64 computes it', async (t) => {
  const length = 70_000
  const a = noise(length, 1)
  const b = noise(length, 2)
  const [before, after] = [Float32Array.from(a), Float32Array.from(b)]
  before[3] = Number.NaN
  after[4] = Number.POSITIVE_INFINITY
  let [product, aSquared, bSquared, difference] = [0, 0, 0, 0]
  for (let at = 0; at < length; at++) {
    if (!Number.isFinite(before[at] - after[at])) continue
    product += before[at] * after[at]
    aSquared += before[at] ** 2
    bSquared += after[at] ** 2
    difference += (before[at] - after[at]) ** 2
  }
  for (const options of [{ version: '1.2' }, { version: '1.2', compression: { level: 1 } }]) {
    const [first, second] = [await holding({ x: before }, options), await holding({ x: after }, options)]
    const { relativeChange, cosine } = await compare(first.tensor('x'), second.tensor('x'), { norms: true })
    t.true(Math.abs(relativeChange / Math.sqrt(difference / aSquared) - 1) < 1e-9, `${relativeChange}`)
    t.true(Math.abs(cosine - product / Math.sqrt(aSquared * bSquared)) < 1e-9, `${cosine}`)
    const same = await compare(first.tensor('x'), first.tensor('x'), { norms: true })
    t.deepEqual([same.relativeChange, same.cosine], [0, 1])
    t.false('relativeChange' in (await compare(first.tensor('x'), second.tensor('x'))))
    first.close()
    second.close()
  }
})

test('norms of zero, of other dtypes and of pairs that are compared together', async (t) => {
  const file = await holding({
    zero: new Float32Array(2),
    one: Float32Array.of(3, 4),
    twice: Float64Array.of(6, 8),
    opposite: Int8Array.of(-3, -4),
    complex: { dtype: 'complex64', shape: [1], data: Float32Array.of(4, -3) },
    other: { dtype: 'complex64', shape: [1], data: Float32Array.of(3, 4) },
  })
  const pairs = [
    ['zero', 'one', Number.POSITIVE_INFINITY, undefined],
    ['one', 'zero', 1, undefined],
    ['one', 'twice', 1, 1],
    ['one', 'opposite', 2, -1],
    ['other', 'complex', Math.SQRT2, 0],
  ]
  const found = await Promise.all(pairs.map(([a, b]) => compare(file.tensor(a), file.tensor(b), { norms: true })))
  for (const [at, [a, b, change, cosine]] of pairs.entries())
    t.deepEqual([found[at].relativeChange, found[at].cosine], [change, cosine], `${a} ${b}`)
  file.close()
})

test('diff compares tensors under new names, and rejects two of one name and a pattern without a match', async (t) => {
  const a = await holding({ 'model.x': Float32Array.of(1), 'model.y': Float32Array.of(2), old: Float32Array.of(3) })
  const b = await holding({ 'm.x': Float32Array.of(1), 'm.y': Float32Array.of(4), new: Float32Array.of(5) })
  for (const rename of [{ 'model.*': 'm.*' }, (name) => name.replace('model.', 'm.')]) {
    const { added, removed, changed, unchanged } = await diff(a, b, { rename, norms: true })
    t.deepEqual(
      [added, removed].map((list) => list.map(({ name }) => name)),
      [['new'], ['old']],
    )
    t.is(unchanged, 1)
    t.is(changed.length, 1)
    t.like(changed[0], { name: 'model.y', renamed: 'm.y', values: { comparison: { differing: 1, relativeChange: 1 } } })
  }
  await t.throwsAsync(diff(a, b, { rename: { 'model.*': 'm' } }), {
    code: 'ZT_BAD_INDEX',
    message: /would both be called/,
  })
  await t.throwsAsync(diff(a, b, { rename: { 'z*': 'm' } }), { code: 'ZT_INVALID_ARG', message: /matches no tensor/ })
  a.close()
  b.close()
})

test('diff says of data that it cannot read that it cannot, not that it differs', async (t) => {
  const path = await written({ version: '1.2', compression: true }, (writer) =>
    writer.add('x', new Float32Array(10_000)),
  )
  const limited = () => openSync(path, { maxDecodedBytes: 1000 })
  const [a, b] = [limited(), limited()]
  const error = await rejectionOf(() => diff(a, b))
  t.deepEqual([error.code, error.tensor], ['ZT_LIMIT', 'x'])
  a.close()
  b.close()
  const whole = openSync(path)
  t.true((await diff(whole, whole)).same)
  whole.close()
})
