// slice() and shard(), and load() of a slice or shard, compared with a naive implementation.
import test from 'ava'
import fc from 'fast-check'
import { openSync } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { frame } from '../corpus/zstd.mjs'
import { u64s, zt10 } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { canMap, isCopied, isMapped } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { pick, shardRanges, sliceIndices, sliceShape } from '../helpers/reference-implementations.mjs'
import { scratchFile } from '../helpers/scratch.mjs'

// safetensors dtype -> [array, array elements per element]
const KINDS = {
  U8: [Uint8Array, 1],
  BOOL: [Uint8Array, 1],
  I16: [Int16Array, 1],
  F16: [Uint16Array, 1],
  F32: [Float32Array, 1],
  I64: [BigInt64Array, 1],
  F64: [Float64Array, 1],
  C64: [Float32Array, 2],
}
const productOf = (shape) => shape.reduce((a, b) => a * b, 1)

/** A file of one tensor "x" whose every element differs from its neighbors. */
function sample(kind, shape, pad = 0) {
  const [Class, per] = KINDS[kind]
  const big = Class === BigInt64Array
  const array = Class.from({ length: productOf(shape) * per }, (_, i) =>
    big ? BigInt(i * 7 + 1) : (i * 7 + 1) & (Class.BYTES_PER_ELEMENT === 1 ? 0xff : 0xfff),
  )
  const bytes = littleEndian(array)
  const header = JSON.stringify({ x: { dtype: kind, shape, data_offsets: [0, bytes.length] } })
  return { array, per, bytes: safetensors(header.padEnd(Math.ceil(header.length / 8) * 8 + pad), bytes) }
}

const shapes = fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 0, maxLength: 5 })
const rangesOf = (shape) =>
  fc.tuple(
    ...shape.map((length) =>
      fc.option(
        fc
          .tuple(fc.integer({ min: 0, max: length }), fc.integer({ min: 0, max: length }))
          .map(([a, b]) => [Math.min(a, b), Math.max(a, b)]),
        { freq: 3 },
      ),
    ),
  )
const cuts = fc
  .record({ kind: fc.constantFrom(...Object.keys(KINDS)), shape: shapes, pad: fc.constantFrom(0, 1) })
  .chain((sampled) => rangesOf(sampled.shape).map((ranges) => ({ ...sampled, ranges })))

test('slices of any shape equal a naive implementation', async (t) => {
  await fc.assert(
    fc.asyncProperty(cuts, async ({ kind, shape, pad, ranges }) => {
      const { array, per, bytes } = sample(kind, shape, pad)
      const file = openSync(bytes)
      const tensor = file.tensor('x')
      const expected = pick(array, sliceIndices(shape, ranges), per)
      const cut = tensor.slice(ranges)
      t.deepEqual([...cut.shape], sliceShape(shape, ranges))
      t.is(cut.dtype, tensor.dtype)
      t.deepEqual(cut.data, expected)
      t.deepEqual(await tensor.load({ slice: ranges }), expected)
      file.close()
    }),
    { numRuns: scaled(400) },
  )
})

const shards = fc
  .record({
    kind: fc.constantFrom(...Object.keys(KINDS)),
    shape: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
    worldSize: fc.integer({ min: 1, max: 4 }),
  })
  .chain(({ kind, shape, worldSize }) =>
    fc
      .record({ dim: fc.integer({ min: 0, max: shape.length - 1 }), rank: fc.integer({ min: 0, max: worldSize - 1 }) })
      .map(({ dim, rank }) => {
        const even = shape.map((length, d) => (d === dim ? length * worldSize : length))
        return { kind, shape: even, spec: { dim, rank, worldSize } }
      }),
  )

test('even shards equal a naive implementation', async (t) => {
  await fc.assert(
    fc.asyncProperty(shards, async ({ kind, shape, spec }) => {
      const { array, per, bytes } = sample(kind, shape)
      const file = openSync(bytes)
      const tensor = file.tensor('x')
      const ranges = shardRanges(shape, spec)
      const expected = pick(array, sliceIndices(shape, ranges), per)
      const cut = tensor.shard(spec)
      t.deepEqual([...cut.shape], sliceShape(shape, ranges))
      t.deepEqual(cut.data, expected)
      t.deepEqual(await tensor.load({ shard: spec }), expected)
      file.close()
    }),
    { numRuns: scaled(200) },
  )
})

test('the shards of a tensor concatenate to the tensor', (t) => {
  const { array, bytes } = sample('F32', [8, 3])
  const file = openSync(bytes)
  const parts = Array.from({ length: 4 }, (_, rank) => [...file.tensor('x').shard({ dim: 0, rank, worldSize: 4 }).data])
  t.deepEqual(parts.flat(), [...array])
  file.close()
})

test('slices of whole rows alias the file, other slices are copied', (t) => {
  const { bytes } = sample('F32', [6, 5, 4])
  const file = openSync(scratchFile(bytes))
  const tensor = file.tensor('x')
  for (const rows of [
    [[1, 4], null, null],
    [null, null, null],
    [[2, 3], [1, 3], null],
    [
      [0, 1],
      [0, 1],
      [1, 3],
    ],
  ]) {
    isMapped(t, tensor.slice(rows), 4, JSON.stringify(rows))
  }
  for (const packed of [
    [null, [0, 2], null],
    [null, null, [0, 3]],
    [
      [0, 2],
      [1, 2],
      [0, 1],
    ],
  ]) {
    isCopied(t, tensor.slice(packed), 'packed')
  }
  isMapped(t, tensor.shard({ dim: 0, rank: 1, worldSize: 3 }), 4)
  isCopied(t, tensor.shard({ dim: 1, rank: 1, worldSize: 5 }), 'packed')
  if (canMap(4)) {
    tensor.slice([[1, 2], null, null]).data[0] = -5
    t.is(tensor.data[20], -5)
  }
  file.close()
})

test('slices compressed, big-endian and misaligned tensors', async (t) => {
  const array = Float32Array.from({ length: 24 }, (_, i) => i)
  const bytes = littleEndian(array)
  const file = openSync(
    scratchFile(
      zt10({
        z: {
          dtype: 'float32',
          shape: [4, 6],
          format: 'dense',
          components: { data: { bytes: frame(bytes), encoding: 'zstd' } },
        },
        m: { dtype: 'float32', shape: [4, 6], format: 'dense', components: { data: { bytes, lead: 2 } } },
      }),
    ),
  )
  for (const [name, reason] of [
    ['z', 'encoded'],
    ['m', 'misaligned'],
  ]) {
    const tensor = file.tensor(name)
    const rows = tensor.slice([[1, 3], null])
    t.deepEqual([...rows.data], [...array.subarray(6, 18)])
    isCopied(t, rows, reason, 'packed')
    t.deepEqual([...tensor.slice([null, [2, 4]]).data], [2, 3, 8, 9, 14, 15, 20, 21])
    t.deepEqual([...(await tensor.load({ slice: [null, [2, 4]] }))], [2, 3, 8, 9, 14, 15, 20, 21])
  }
  file.close()
})

test('a loaded slice is a copy that outlives close()', async (t) => {
  const { array, bytes } = sample('F32', [4, 4])
  const file = openSync(scratchFile(bytes))
  const rows = await file.tensor('x').load({ slice: [[0, 2], null] })
  file.close()
  t.deepEqual([...rows], [...array.subarray(0, 8)])
})

test('widens a slice', async (t) => {
  const { array, bytes } = sample('I16', [4, 6])
  const file = openSync(bytes)
  t.deepEqual(
    await file.tensor('x').load({
      as: 'float32',
      slice: [
        [1, 3],
        [2, 5],
      ],
    }),
    Float32Array.from(
      pick(
        array,
        sliceIndices(
          [4, 6],
          [
            [1, 3],
            [2, 5],
          ],
        ),
      ),
    ),
  )
  t.deepEqual(
    await file.tensor('x').load({ as: 'float32', shard: { dim: 1, rank: 2, worldSize: 3 } }),
    Float32Array.from(pick(array, sliceIndices([4, 6], [null, [4, 6]]))),
  )
  file.close()
})

const badRanges = {
  'not an array': 'all',
  'a number': 3,
  'more than dimensions': [null, null, null],
  'a range past the end': [[0, 5], null],
  'a range that starts past the end': [[5, 5], null],
  'a range that goes backwards': [[3, 1], null],
  'a negative start': [[-1, 2], null],
  'an end before the beginning': [[0, -5], null],
  'a fraction': [[0, 1.5], null],
  'not a number': [[0, Number.NaN], null],
  infinity: [[0, Infinity], null],
  'a bigint': [[0n, 1n], null],
  texts: [['0', '1'], null],
  'no number': [[], null],
  'an index past the end': [[4], null],
  'four numbers': [[0, 4, 2, 1], null],
  'a step of 0': [[0, 4, 0], null],
  'a step backwards': [[0, 4, -1], null],
  'a number for a range': [1, null],
}
for (const [what, ranges] of Object.entries(badRanges)) {
  test(`slice rejects ${what}`, async (t) => {
    const file = openSync(sample('F32', [4, 6]).bytes)
    isArgumentError(
      t,
      thrownBy(() => file.tensor('x').slice(ranges)),
      'ranges',
    )
    isArgumentError(t, await rejectionOf(() => file.tensor('x').load({ slice: ranges })), 'slice')
    file.close()
  })
}

const badShards = {
  'an uneven dimension': { dim: 1, rank: 0, worldSize: 4 },
  'a missing dimension': { dim: 2, rank: 0, worldSize: 2 },
  'a negative dimension': { dim: -1, rank: 0, worldSize: 2 },
  'a missing rank': { dim: 0, rank: 2, worldSize: 2 },
  'a negative rank': { dim: 0, rank: -1, worldSize: 2 },
  'a world size of 0': { dim: 0, rank: 0, worldSize: 0 },
  'a fractional rank': { dim: 0, rank: 0.5, worldSize: 2 },
  'no rank': { dim: 0, worldSize: 2 },
  texts: { dim: '0', rank: '0', worldSize: '2' },
  null: null,
}
for (const [what, spec] of Object.entries(badShards)) {
  test(`shard rejects ${what}`, async (t) => {
    const file = openSync(sample('F32', [4, 6]).bytes)
    for (const error of [
      thrownBy(() => file.tensor('x').shard(spec)),
      await rejectionOf(() => file.tensor('x').load({ shard: spec })),
    ]) {
      t.true(error instanceof TypeError || error instanceof RangeError, String(error?.stack))
      t.is(error?.code, 'ZT_INVALID_ARG')
    }
    file.close()
  })
}

test('rejects slice with shard', async (t) => {
  const file = openSync(sample('F32', [4, 6]).bytes)
  const error = await rejectionOf(() =>
    file.tensor('x').load({ slice: [null, null], shard: { dim: 0, rank: 0, worldSize: 2 } }),
  )
  t.is(error?.code, 'ZT_INVALID_ARG')
  file.close()
})

test('only dense tensors have slices', async (t) => {
  const file = openSync(
    zt10({
      m: {
        dtype: 'float32',
        shape: [1, 1],
        format: 'sparse_csr',
        components: { values: { bytes: Buffer.alloc(4) }, indices: { bytes: u64s(0) }, indptr: { bytes: u64s(0, 1) } },
      },
    }),
  )
  const tensor = file.tensor('m')
  for (const error of [
    thrownBy(() => tensor.slice([null, null])),
    thrownBy(() => tensor.shard({ dim: 0, rank: 0, worldSize: 1 })),
    await rejectionOf(() => tensor.load({ slice: [null, null] })),
  ]) {
    t.is(error?.code, 'ZT_BAD_LAYOUT')
    t.is(error?.tensor, 'm')
  }
  file.close()
})
