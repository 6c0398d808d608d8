// Selecting tensors of a file by names, globs or a filter. And loading all of them as float32.
import test from 'ava'
import { create, open, openSync } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const NAMES = ['h.0.weight', 'h.0.bias', 'h.1.weight', 'h.1.bias', 'head', 'odd*name']
const path = scratchPath('selected.zt')
test.before(async () => {
  const writer = await create(path, { version: '2', canonical: false })
  for (const [at, name] of NAMES.entries()) await writer.add(name, Int16Array.of(at, at + 1))
  await writer.add('z', { dtype: 'complex64', shape: [1], data: Float32Array.of(1, 2) })
  await writer.addCsr('graph', {
    shape: [2, 2],
    values: Int32Array.of(1, 2),
    indices: Uint32Array.of(0, 1),
    indptr: Uint32Array.of(0, 1, 2),
  })
  await writer.finish()
})

/** A selection, and its names in order. */
const SELECTIONS = [
  [{ names: ['h.1.bias', 'h.0.*'] }, ['h.1.bias', 'h.0.bias', 'h.0.weight']],
  [{ names: ['odd*name'] }, ['odd*name']],
  [{ names: ['h.?.bias', 'h.0.bias'] }, ['h.0.bias', 'h.1.bias']],
  [{ names: [] }, []],
  [{ filter: 'h.*' }, ['h.0.weight', 'h.0.bias', 'h.1.weight', 'h.1.bias']],
  [{ filter: ['h.*', '!*.bias'] }, ['h.0.weight', 'h.1.weight']],
  [{ filter: '!h.*' }, ['head', 'odd*name', 'z', 'graph']],
  [{ filter: ({ name, dtype }) => dtype === 'int16' && name.endsWith('bias') }, ['h.0.bias', 'h.1.bias']],
]

test('names, globs and filters select the same tensors in load, prefetch and evict', async (t) => {
  const file = openSync(path)
  for (const [selection, expected] of SELECTIONS) {
    const loaded = await file.load(selection)
    t.deepEqual([...loaded.keys()].sort(), [...expected].sort(), JSON.stringify(selection))
    if (selection.names !== undefined) t.deepEqual([...loaded.keys()], expected)
    await t.notThrowsAsync(file.prefetch(selection))
    t.notThrows(() => file.evict(selection))
  }
  t.deepEqual([...(await file.load(['h.1.*'], { concurrency: 1 })).keys()], ['h.1.bias', 'h.1.weight'])
  file.close()
})

test('rejects a glob that matches nothing, names with a filter, and invalid filters', async (t) => {
  const file = openSync(path)
  for (const call of [
    (given) => file.load(given),
    (given) => file.prefetch(given),
    async (given) => file.evict(given),
  ]) {
    t.is((await rejectionOf(() => call({ names: ['none.*'] }))).code, 'ZT_NOT_FOUND')
    for (const given of [
      { names: ['head'], filter: '*' },
      { filter: 'nothing' },
      { filter: ['h.*', 'nothing'] },
      { filter: 7 },
      { filter: [7] },
      { filter: {} },
      { names: 'head' },
    ])
      t.is((await rejectionOf(() => call(given))).code, 'ZT_INVALID_ARG', JSON.stringify(given))
  }
  const thrown = new Error('mine')
  const throws = () => {
    throw thrown
  }
  t.is(await rejectionOf(() => file.load({ filter: throws })), thrown)
  t.is(
    thrownBy(() => file.evict({ filter: throws })),
    thrown,
  )
  file.close()
})

test('load({ as: float32 }) loads each tensor as float32, and keeps tensors without such values', async (t) => {
  const file = openSync(path)
  const floats = await file.load({ as: 'float32' })
  for (const [at, name] of NAMES.entries()) {
    const { kind, dtype, shape, data } = floats.get(name)
    t.deepEqual({ kind, dtype, shape: [...shape], data }, { kind: 'dense', dtype: 'float32', shape: [2], data: Float32Array.of(at, at + 1) }) // biome-ignore format: one claim
  }
  t.deepEqual(
    [floats.get('z').dtype, floats.get('graph').kind, floats.get('graph').dtype],
    ['complex64', 'csr', 'int32'],
  )
  t.is((await rejectionOf(() => file.load({ as: 'float64' }))).code, 'ZT_INVALID_ARG')
  const plan = file.plan({ rank: 1, worldSize: 2, rules: { 'h.*': { dim: 0 }, '*': 'replicate' } })
  const part = (await file.load({ filter: 'h.0.weight', as: 'float32', plan })).get('h.0.weight')
  t.deepEqual([[...part.shape], part.data], [[1], Float32Array.of(1)])
  file.close()
})

test('load({ as: float32 }) widens the same dtypes as a single tensor', async (t) => {
  for (const name of ['st-dtypes.safetensors', 'st-new-dtypes.safetensors', 'zt12h-logical.zt']) {
    const file = await open(fixturePath(name))
    const floats = await file.load({ as: 'float32' })
    for (const tensor of file.values()) {
      const own = tensor.load({ as: 'float32' })
      const isWidened = (await rejectionOf(() => own)) === undefined
      const { dtype, data } = floats.get(tensor.name)
      t.is(dtype, isWidened ? 'float32' : tensor.dtype, tensor.name)
      if (isWidened) sameBytes(t, data, await own, tensor.name)
    }
    file.close()
  }
})

test('load({ as: float32 }) decodes quantized tensors', async (t) => {
  const file = await open(fixturePath('gguf/types.gguf'))
  const floats = await file.load({ as: 'float32' })
  let quantized = 0
  for (const tensor of file.values()) {
    const { kind, shape, dtype, data } = floats.get(tensor.name)
    if (kind !== 'dense' || dtype !== 'float32') continue
    t.deepEqual([...shape], [...tensor.shape])
    sameBytes(t, data, await tensor.load({ as: 'float32' }), tensor.name)
    if (tensor.kind === 'object') quantized += 1
  }
  t.true(quantized > 5, String(quantized))
  file.close()
})
