// How objects print themselves for users, JSON and test runners: their properties, never their data.
import { inspect, isDeepStrictEqual } from 'node:util'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const filled = (value) =>
  written({ version: '1.0', metadata: { license: 'MIT', epoch: 3n } }, async (w) => {
    const values = new Float32Array(1000).fill(value)
    await w.add('a', values)
    await w.add('b', values)
    const indices = Int32Array.from(values, (_, at) => at)
    await w.addCsr('m', { shape: [1, 1000], values, indices, indptr: Int32Array.of(0, 1000) })
    await w.addCoo('k', { shape: [1000], values, coords: indices })
  })

test('objects of different files are not equal, those of one are', async (t) => {
  const [one, other] = [openSync(await filled(7)), openSync(await filled(8))]
  const plan = (file, dim) => file.plan({ rank: 0, worldSize: 2, rules: { a: { dim: 0 }, '*': dim } })
  const KINDS = {
    tensor: (file) => file.tensor('a'),
    component: (file) => file.tensor('a').components.get('data'),
    slice: (file) => file.tensor('a').slice([[0, 2]]),
    csr: (file) => file.tensor('m').csr(),
    coo: (file) => file.tensor('k').coo(),
    plan: (file) => plan(file, 'replicate'),
    file: (file) => file,
  }
  for (const [kind, make] of Object.entries(KINDS)) {
    t.false(isDeepStrictEqual(make(one), make(other)), kind)
    t.true(isDeepStrictEqual(make(one), make(one)), kind)
  }
  t.false(isDeepStrictEqual(one.tensor('a'), one.tensor('b')))
  t.notDeepEqual(one.tensor('a'), other.tensor('a'))
  one.close()
  other.close()
})

test('their inspected form is short, and has no data', async (t) => {
  const file = openSync(await filled(777))
  const writer = await create(scratchPath('shown'))
  const loaded = await file.load()
  const all = {
    Tensor: file.tensor('a'),
    Component: file.tensor('a').components.get('data'),
    TensorSlice: file.tensor('a').slice([[0, 2]]),
    CsrTensor: file.tensor('m').csr(),
    CooTensor: file.tensor('k').coo(),
    LoadedTensor: loaded.get('a'),
    Plan: file.plan({ rank: 0, worldSize: 2, rules: { a: { dim: 0 }, '*': 'replicate' } }),
    TensorFile: file,
    TensorWriter: writer,
  }
  for (const [name, object] of Object.entries(all)) {
    t.is(Object.prototype.toString.call(object), `[object ${name}]`)
    const shown = inspect(object)
    t.true(shown.startsWith(`${name} {`), shown)
    t.true(shown.split('\n').length < 12, shown)
    for (const text of [shown, JSON.stringify(object)]) t.false(text.includes('777'), text)
    t.is(typeof JSON.parse(JSON.stringify(object)), 'object')
  }
  await writer.abort()
  file.close()
})

test('metadata is one frozen object with all values', async (t) => {
  const file = openSync(await filled(1))
  t.is(file.metadata.license, 'MIT')
  t.deepEqual({ ...file.metadata }, { license: 'MIT', epoch: 3 })
  t.is(file.metadata, file.metadata)
  t.is(file.metadata.toString, undefined)
  t.true(Object.isFrozen(file.metadata))
  file.close()
  t.throws(() => file.metadata, { code: 'ZT_CLOSED' })
})
