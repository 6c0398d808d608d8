// load({ as }) and cast of integers: converted if all of them fit.
import { existsSync } from 'node:fs'
import test from 'ava'
import { convert, create, open, openSync } from 'ztensor'
import { run } from '../helpers/command.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const COUNT = 2_500_000
const TENSORS = {
  fits: BigInt64Array.from({ length: COUNT }, (_, at) => BigInt(at) - 5n),
  beyond: BigInt64Array.from({ length: COUNT }, (_, at) => (at === 2_100_007 ? 2n ** 40n : BigInt(at))),
  bytes: Uint8Array.of(1, 200),
  floats: Float32Array.of(1),
}

async function written(options) {
  const path = scratchPath('integers.zt')
  const writer = await create(path, options)
  for (const [name, data] of Object.entries(TENSORS)) await writer.add(name, data)
  await writer.finish()
  return path
}

for (const options of [{ version: '1.0' }, { version: '1.2', compression: true }])
  test(`loads integers as a narrower type if they fit: ${JSON.stringify(options)}`, async (t) => {
    const path = await written(options)
    const file = await open(path)
    t.teardown(() => file.close())
    const narrow = await file.tensor('fits').load({ as: 'int32' })
    t.true(narrow instanceof Int32Array)
    t.deepEqual([narrow.length, narrow[0], narrow[COUNT - 1]], [COUNT, -5, COUNT - 6])
    t.deepEqual(await file.tensor('fits').load({ as: 'int8', slice: [[3, 7]] }), Int8Array.of(-2, -1, 0, 1))
    t.deepEqual(await file.tensor('bytes').load({ as: 'uint8' }), TENSORS.bytes)
    const into = new BigInt64Array(2)
    t.is(await file.tensor('bytes').load({ as: 'int64', into }), into)
    t.deepEqual(into, BigInt64Array.of(1n, 200n))
    for (const [name, more, says] of [
      ['beyond', { as: 'int32' }, 'tensor "beyond": element 2100007 is 1099511627776, which int32 cannot represent'],
      [
        'beyond',
        { as: 'int32', slice: [[2_100_000, 2_100_010]] },
        'tensor "beyond": element 7 is 1099511627776, which int32 cannot represent',
      ],
      ['fits', { as: 'uint64' }, 'tensor "fits": element 0 is -5, which uint64 cannot represent'],
      ['bytes', { as: 'int8' }, 'tensor "bytes": element 1 is 200, which int8 cannot represent'],
      ['floats', { as: 'int32' }, 'tensor "floats": only integers are loaded as int32, and its elements are float32'],
    ]) {
      const error = await rejectionOf(() => file.tensor(name).load(more))
      t.deepEqual([error?.code, error?.tensor, error?.message], ['ZT_BAD_DTYPE', name, says])
    }
    for (const as of ['bool', 'int4', 'bfloat16'])
      isArgumentError(t, await rejectionOf(() => file.tensor('bytes').load({ as })), 'as')
  })

for (const options of [{ version: '1.0' }, { version: '1.2', compression: true }])
  test(`take and load of a file convert integers if they fit: ${JSON.stringify(options)}`, async (t) => {
    const path = await written(options)
    const file = await open(path)
    t.teardown(() => file.close())
    const fits = file.tensor('fits')
    t.deepEqual(await fits.take([2, 0, 7], { as: 'int8' }), Int8Array.of(-3, -5, 2))
    t.deepEqual(await file.tensor('bytes').take([1], { as: 'uint8' }), Uint8Array.of(200))
    const into = new Uint16Array(2)
    t.is(await file.tensor('bytes').take([1, 0], { as: 'uint16', into }), into)
    t.deepEqual(into, Uint16Array.of(200, 1))
    const moved = await fits.take([9], { as: 'int32', transferable: true })
    t.deepEqual(structuredClone(moved, { transfer: [moved.buffer] }), Int32Array.of(4))
    t.is(moved.length, 0)
    const loaded = await file.load(['fits', 'bytes', 'floats'], { as: 'int32' })
    t.deepEqual(
      Array.from(loaded.values(), ({ dtype, data }) => [dtype, data.constructor.name, data.length, Number(data[0])]),
      [
        ['int32', 'Int32Array', COUNT, -5],
        ['int32', 'Int32Array', 2, 1],
        ['float32', 'Float32Array', 1, 1],
      ],
    )
    t.deepEqual(loaded.get('fits').shape, [COUNT])
    const plan = file.plan({ rank: 1, worldSize: 2, rules: { bytes: { dim: 0 }, '*': 'replicate' } })
    const part = (await file.load(['bytes'], { as: 'int64', plan })).get('bytes')
    t.deepEqual([part.dtype, part.shape, part.data], ['int64', [1], BigInt64Array.of(200n)])
    for (const [name, load, says] of [
      [
        'beyond',
        (tensor) => tensor.take([1, 2_100_007], { as: 'int32' }),
        'tensor "beyond": element 1 is 1099511627776, which int32 cannot represent',
      ],
      [
        'beyond',
        () => file.load({ as: 'int32' }),
        'tensor "beyond": element 2100007 is 1099511627776, which int32 cannot represent',
      ],
      [
        'floats',
        (tensor) => tensor.take([0], { as: 'int32' }),
        'tensor "floats": only integers are loaded as int32, and its elements are float32',
      ],
      [
        undefined,
        () => file.load(['floats'], { as: 'int32' }),
        'only integers are loaded as int32, and no tensor here has integers',
      ],
    ]) {
      const error = await rejectionOf(() => load(name && file.tensor(name)))
      t.deepEqual([error?.code, error?.tensor, error?.message], ['ZT_BAD_DTYPE', name, says])
    }
    t.is((await file.load([], { as: 'int32' })).size, 0)
    for (const as of ['bool', 'int4', 'bfloat16']) {
      isArgumentError(t, await rejectionOf(() => file.tensor('bytes').take([0], { as })), 'as')
      isArgumentError(t, await rejectionOf(() => file.load({ as })), 'as')
    }
  })

test('a cast of integers to a narrower type writes all of them or nothing', async (t) => {
  const path = await written({ version: '1.0' })
  for (const [source, filter] of [
    [path, 'fits'],
    [path, ['fits', 'floats']],
  ]) {
    const target = scratchPath('narrow.safetensors')
    await convert(source, target, { cast: { int64: 'int32' }, filter })
    const file = openSync(target)
    const { dtype, data } = file.tensor('fits')
    t.deepEqual([dtype, data[0], data[COUNT - 1]], ['int32', -5, COUNT - 6])
    file.close()
  }
  const target = scratchPath('beyond.safetensors')
  const says = /tensor "beyond".*: element 2100007 is 1099511627776, which int32 cannot represent/
  const error = await rejectionOf(() => convert(path, target, { cast: { int64: 'int32' } }))
  t.deepEqual([error?.code, error?.tensor], ['ZT_BAD_DTYPE', 'beyond'])
  t.regex(error.message, says)
  t.false(existsSync(target))
  const { code, stderr } = await run(['convert', path, target, '--cast', 'int64=int32'])
  t.is(code, 2)
  t.regex(stderr, says)
})

test('casts values of a sparse tensor to a narrower type if they fit', async (t) => {
  const path = scratchPath('sparse.zt')
  const writer = await create(path, { version: '1.2' })
  const csr = { shape: [2, 2], indices: Uint32Array.of(1, 0), indptr: Uint32Array.of(0, 1, 2) }
  await writer.addCsr('good', { dtype: 'int64', values: BigInt64Array.of(1n, -2n), ...csr })
  await writer.addCsr('bad', { dtype: 'int64', values: BigInt64Array.of(1n, 300n), ...csr })
  await writer.finish()
  const target = scratchPath('narrow.zt')
  await convert(path, target, { version: '1.2', cast: { int64: 'int8' }, filter: 'good' })
  const file = openSync(target)
  t.deepEqual([...file.tensor('good').csr().toDense()], [0, 1, -2, 0])
  file.close()
  const error = await rejectionOf(() =>
    convert(path, target, { version: '1.2', cast: { int64: 'int8' }, overwrite: true }),
  )
  t.regex(error.message, /element 1 is 300, which int8 cannot represent/)
})

test('a load that the failure of another tensor stops ends with that error', async (t) => {
  const file = await open(await written({ version: '1.0' }))
  t.teardown(() => file.close())
  const reason = await rejectionOf(() => file.tensor('bytes').load({ as: 'int8' }))
  t.is(reason?.tensor, 'bytes')
  const stop = new AbortController()
  const into = new Int32Array(COUNT)
  const loading = rejectionOf(() => file.tensor('fits').load({ as: 'int32', into, signal: stop.signal }))
  // The integers are converted in three turns of the event loop.
  while (into[0] === 0) await new Promise((turn) => setImmediate(turn))
  stop.abort(reason)
  t.is(await loading, reason)
})
