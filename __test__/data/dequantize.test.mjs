// toFloat32() and load({ as: 'float32' }) of quantized tensors, compared with the gguf package and the formulas of the
// profiles (fixtures/quantized.py).
import { readFileSync } from 'node:fs'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { differing, quantizedCases } from '../helpers/quantized.mjs'
import { written } from '../helpers/sample-files.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const all = quantizedCases(fixturePath('quantized.bin'))
/** zTensor 1.2 names every dtype of these. */
const cases = all.filter(({ components }) =>
  Object.values(components).every(({ dtype }) => dtype !== 'float4_e2m1fn' && dtype !== 'float8_e8m0fnu'),
)
/** zTensor 2 registers no name for these. */
const unregistered = ['gguf.tq1_0/1', 'gguf.tq2_0/1', 'gguf.nvfp4/1']
const named = all.filter(({ layout }) => !unregistered.includes(layout))

const write = (objects, options = { version: '1.2' }) =>
  written(options, async (writer) => {
    for (const [at, { layout, shape, dtype, attributes, components }] of objects.entries()) {
      await writer.addObject(`${at}`, { layout, shape, dtype, attributes, components })
    }
  })

for (const [version, held] of Object.entries({ 1.2: cases, 2: named })) {
  test(`zTensor ${version}: decodes every quantized tensor bit for bit, on this thread and off it`, async (t) => {
    const file = openSync(await write(held, { version }))
    for (const [at, { layout, shape, expected }] of held.entries()) {
      const tensor = file.tensor(`${at}`)
      const what = `${at} ${layout} [${shape}]`
      const floats = tensor.toFloat32()
      t.is(floats.length, tensor.size, what)
      t.is(differing(floats, expected), 0, what)
      t.is(differing(await tensor.load({ as: 'float32' }), expected), 0, what)
    }
    file.close()
  })
}

test('decodes compressed components, and files in memory', async (t) => {
  const path = await write(cases, { version: '1.2', compression: { level: 1, minSavings: 0 } })
  for (const source of [path, readFileSync(path)]) {
    const file = await open(source)
    for (const [at, { expected }] of cases.entries()) {
      t.is(differing(file.tensor(`${at}`).toFloat32(), expected), 0, `${at}`)
      t.is(differing(await file.tensor(`${at}`).load({ as: 'float32' }), expected), 0, `${at}`)
    }
    file.close()
  }
})

test('decodes into an array, slices and shards', async (t) => {
  const file = openSync(await write([all.find(({ layout }) => layout === 'gguf.q4_k/1')]))
  const tensor = file.tensor('0')
  const { expected } = all.find(({ layout }) => layout === 'gguf.q4_k/1')
  const [rows, columns] = tensor.shape
  const into = new Float32Array(tensor.size)
  t.is(tensor.toFloat32({ into }), into)
  t.is(differing(into, expected), 0)
  into.fill(0)
  t.is(await tensor.load({ as: 'float32', into }), into)
  t.is(differing(into, expected), 0)
  const row = await tensor.load({ as: 'float32', slice: [[1, 2]] })
  t.is(differing(row, expected.subarray(columns, 2 * columns)), 0)
  const shard = await tensor.load({ as: 'float32', shard: { dim: 1, rank: 1, worldSize: 4 } })
  const part = Array.from({ length: rows }, (_, at) => [
    ...expected.subarray(at * columns + columns / 4, at * columns + columns / 2),
  ])
  t.is(differing(shard, Float32Array.from(part.flat())), 0)
  isArgumentError(
    t,
    thrownBy(() => tensor.toFloat32({ into: new Float32Array(3) })),
    'into',
  )
  t.is(thrownBy(() => tensor.data)?.code, 'ZT_BAD_LAYOUT')
  t.is((await rejectionOf(() => tensor.load()))?.code, 'ZT_BAD_LAYOUT')
  file.close()
  t.is(thrownBy(() => tensor.toFloat32())?.code, 'ZT_CLOSED')
})

test('decodes slices through the middle of blocks of every type, stored raw and compressed', async (t) => {
  for (const options of [{}, { compression: { level: 1, minSavings: 0 } }]) {
    const file = openSync(await write(cases, { version: '1.2', ...options }))
    for (const [at, { layout, shape, expected }] of cases.entries()) {
      if (shape.length !== 2) continue
      const [rows, columns] = shape
      const cuts = [
        [
          [0, rows],
          [0, columns],
        ],
        [
          [rows - 1, rows],
          [0, columns],
        ],
        [
          [0, rows],
          [Math.max(columns - 33, 0), columns - 1],
        ],
        [
          [1, 2],
          [1, 2],
        ],
        [
          [0, rows],
          [3, 3],
        ],
        [
          [1, 1],
          [0, columns],
        ],
      ]
      for (const [[first, last], [from, to]] of cuts) {
        const picked = []
        for (let row = first; row < last; row++)
          picked.push(...expected.subarray(row * columns + from, row * columns + to))
        const found = await file.tensor(`${at}`).load({
          as: 'float32',
          slice: [
            [first, last],
            [from, to],
          ],
        })
        t.is(differing(found, Float32Array.from(picked)), 0, `${layout} ${first}:${last}, ${from}:${to}`)
      }
    }
    file.close()
  }
})

/** The same tensor repeated along its first dimension, which its groups do not cross. */
function tiled({ expected, components, shape, ...rest }, times) {
  const repeated = (array) => {
    const all = new array.constructor(array.length * times)
    for (let at = 0; at < times; at++) all.set(array, at * array.length)
    return all
  }
  const parts = Object.entries(components).map(([role, { dtype, data }]) => [role, { dtype, data: repeated(data) }])
  return { ...rest, shape: [shape[0] * times, ...shape.slice(1)], components: Object.fromEntries(parts) }
}

test('slices of many groups equal those of all elements', async (t) => {
  const groups = named.filter(({ attributes, shape }) => shape.length > 1 && attributes.axis > 0)
  t.true(groups.length > 8)
  const file = openSync(
    await write(
      groups.map((one) => tiled(one, Math.ceil(600_000 / one.expected.length))),
      { version: '2' },
    ),
  )
  for (const tensor of file.values()) {
    const all = tensor.toFloat32()
    const [rows, ...inner] = tensor.shape
    const row = all.length / rows
    const last = inner.at(-1)
    for (const [from, to] of [
      [0, 1],
      [rows - 1, rows],
      [Math.floor(rows / 2), Math.floor(rows / 2) + 3],
      [rows - 5, rows - 5],
      [1, rows],
    ]) {
      const whole = await tensor.load({ as: 'float32', slice: [[from, to]] })
      t.is(differing(whole, all.subarray(from * row, to * row)), 0, `${tensor.shape} ${from}:${to}`)
    }
    const corner = [[Math.floor((2 * rows) / 3)], ...inner.map((dim) => [dim - 1])]
    const [one] = await tensor.load({ as: 'float32', slice: corner })
    t.is(one, all[corner[0][0] * row + row - 1])
    const middle = await tensor.load({
      as: 'float32',
      slice: [[rows - 2, rows], ...inner.slice(1).map(() => null), [1, last, 2]],
    })
    const expected = Array.from(all.subarray((rows - 2) * row)).filter((_, at) => (at % last) % 2 === 1)
    t.is(differing(middle, Float32Array.from(expected)), 0)
  }
  file.close()
})

test('decodes tensors without elements', async (t) => {
  const data = { dtype: 'uint8', data: new Uint8Array(0) }
  const empty = {
    layout: 'gguf.q8_0/1',
    shape: [0, 32],
    attributes: { elems_per_block: 32, block_bytes: 34 },
    components: { data },
  }
  const file = openSync(await write([empty]))
  t.deepEqual([...file.tensor('0').toFloat32()], [])
  file.close()
})

const q8 = {
  layout: 'gguf.q8_0/1',
  shape: [1, 32],
  attributes: { elems_per_block: 32, block_bytes: 34 },
  components: { data: { dtype: 'uint8', data: new Uint8Array(34) } },
}
const group = {
  layout: 'zt.quant_group/1',
  shape: [2, 8],
  attributes: {
    bits: 4,
    group_size: 4,
    axis: 1,
    packing: { word: 'u32', order: 'lsb_first', per_word: 8 },
    scale_form: 'f32_factors',
    zero_point: { form: 'none' },
  },
  components: {
    data: { dtype: 'uint32', data: new Uint32Array(2) },
    scales: { dtype: 'float32', data: new Float32Array(4) },
  },
}
const changed = (base, attributes, rest = {}) => ({
  ...base,
  ...rest,
  attributes: Object.fromEntries(
    Object.entries({ ...base.attributes, ...attributes }).filter(([, value]) => value !== undefined),
  ),
})
const packing = (change) => ({ packing: { ...group.attributes.packing, ...change } })
const huge = 2n ** 63n

const hostile = [
  ['ggml: no attributes', { ...q8, attributes: {} }, 'ZT_BAD_LAYOUT'],
  ['ggml: attributes of another type', changed(q8, { elems_per_block: '32' }), 'ZT_BAD_LAYOUT'],
  ['ggml: a negative number', changed(q8, { block_bytes: -34 }), 'ZT_BAD_LAYOUT'],
  [
    'ggml: blocks of another size',
    changed(q8, { block_bytes: 35 }, { components: { data: { dtype: 'uint8', data: new Uint8Array(35) } } }),
    'ZT_BAD_LAYOUT',
  ],
  ['ggml: blocks of 0 elements', changed(q8, { elems_per_block: 0 }), 'ZT_BAD_LAYOUT'],
  ['ggml: blocks across rows', changed(q8, {}, { shape: [32, 1] }), 'ZT_BAD_SHAPE'],
  ['ggml: fewer blocks than the shape has', changed(q8, {}, { shape: [2, 32] }), 'ZT_BAD_SHAPE'],
  ['ggml: more elements than a file can hold', changed(q8, {}, { shape: [2 ** 40, 32] }), 'ZT_BAD_SHAPE'],
  ['ggml: no data', changed(q8, {}, { components: { values: q8.components.data } }), 'ZT_BAD_LAYOUT'],
  ['ggml: a type without a decoder', changed(q8, {}, { layout: 'gguf.q8_k/1' }), 'ZT_BAD_LAYOUT'],
  ['another layout', changed(q8, {}, { layout: 'some.thing/1' }), 'ZT_BAD_LAYOUT'],
  ['groups: none', changed(group, { group_size: undefined }), 'ZT_BAD_LAYOUT'],
  ['groups: do not divide', changed(group, { group_size: 3 }), 'ZT_BAD_LAYOUT'],
  ['groups: larger than the axis', changed(group, { group_size: huge }), 'ZT_BAD_LAYOUT'],
  ['groups: no such axis', changed(group, { axis: 2 }), 'ZT_BAD_LAYOUT'],
  ['groups: a huge axis', changed(group, { axis: huge }), 'ZT_BAD_LAYOUT'],
  ['groups: per channel with too few scales', changed(group, { group_size: 0 }), 'ZT_BAD_SHAPE'],
  ['codes: of 3 bits', changed(group, { bits: 3 }), 'ZT_BAD_LAYOUT'],
  ['codes: of no bits', changed(group, { bits: 0 }), 'ZT_BAD_LAYOUT'],
  ['codes: another count a word', changed(group, packing({ per_word: 4 })), 'ZT_BAD_LAYOUT'],
  ['codes: another word', changed(group, packing({ word: 'u16', per_word: 4 })), 'ZT_BAD_DTYPE'],
  ['codes: no such word', changed(group, packing({ word: 'u128' })), 'ZT_BAD_LAYOUT'],
  ['codes: no such order', changed(group, packing({ order: 'awq' })), 'ZT_BAD_LAYOUT'],
  ['codes: the packing is not a map', changed(group, { packing: '8_per_i32' }), 'ZT_BAD_LAYOUT'],
  ['codes: not whole words', changed(group, { group_size: 1 }, { shape: [1, 4] }), 'ZT_BAD_SHAPE'],
  ['scales: another form', changed(group, { scale_form: 'f16_factors' }), 'ZT_BAD_DTYPE'],
  ['scales: no such form', changed(group, { scale_form: 'log' }), 'ZT_BAD_LAYOUT'],
  ['zeros: no form', changed(group, { zero_point: {} }), 'ZT_BAD_LAYOUT'],
  ['zeros: missing', changed(group, { zero_point: { form: 'tensor', packing: 'plain' } }), 'ZT_BAD_LAYOUT'],
  [
    'zeros: packed and missing',
    changed(group, { zero_point: { form: 'tensor', packing: 'same_as_data' } }),
    'ZT_BAD_LAYOUT',
  ],
  ['zeros: implied beyond float32', changed(group, { zero_point: { form: 'implied', value: huge } }), 'ZT_BAD_LAYOUT'],
]

for (const [name, object, code] of hostile) {
  test(`rejects ${name}`, async (t) => {
    const file = openSync(await write([object]))
    const tensor = file.tensor('0')
    for (const error of [thrownBy(() => tensor.toFloat32()), await rejectionOf(() => tensor.load({ as: 'float32' }))]) {
      t.is(error?.code, code, error?.message)
      t.is(error.tensor, '0')
    }
    file.close()
  })
}

test('a group size of 0 also accepts one scale for each index of the axis', async (t) => {
  const channels = changed(group, { group_size: 0, axis: 0 })
  channels.components = {
    data: { dtype: 'uint32', data: Uint32Array.of(0x76543210, 0x76543210) },
    scales: { dtype: 'float32', data: Float32Array.of(1, 0.5) },
  }
  for (const version of ['1.2', '2']) {
    const file = openSync(await write([channels], { version }))
    const row = [0, 1, 2, 3, 4, 5, 6, 7]
    t.deepEqual([...file.tensor('0').toFloat32()], [...row, ...row.map((code) => code / 2)])
    file.close()
  }
})

test('an invalid parameter names the section of its profile', async (t) => {
  const file = openSync(await write([changed(group, packing({ per_word: 4 }))]))
  t.is(thrownBy(() => file.tensor('0').toFloat32())?.rule, 'zt.quant_group/1 packing')
  file.close()
})

test('maxDecodedBytes limits the float32 values of a small file', async (t) => {
  const path = await write([q8])
  const file = openSync(path, { maxDecodedBytes: 100 })
  t.is(thrownBy(() => file.tensor('0').toFloat32())?.code, 'ZT_LIMIT')
  file.close()
})

test('does not decode a damaged component', async (t) => {
  const path = await write([q8])
  const bytes = readFileSync(path)
  const probe = openSync(path)
  bytes[probe.tensor('0').components.get('data').offset] ^= 1
  probe.close()
  const file = openSync(bytes)
  t.is(thrownBy(() => file.tensor('0').toFloat32())?.code, 'ZT_DIGEST_MISMATCH')
  file.close()
})

test('an abort ends decoding', async (t) => {
  const file = openSync(await write([q8]))
  const reason = new Error('enough')
  const error = await rejectionOf(() => file.tensor('0').load({ as: 'float32', signal: AbortSignal.abort(reason) }))
  t.is(error, reason)
  file.close()
})
