// Arrays of load() cannot be moved to another thread; with transferable they can, each separately.
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { create, loadFile, open, openSync } from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

async function model(options = {}) {
  const path = scratchPath('model.zt')
  const writer = await create(path, options)
  for (const [name, length] of [
    ['small', 10],
    ['other', 12],
    ['empty', 0],
    ['large', 2 ** 20 + 3],
  ])
    await writer.add(
      name,
      Float32Array.from({ length }, (_, at) => at % 1000),
    )
  await writer.addCsr('csr', {
    shape: [2, 300],
    values: Float32Array.of(1, 2),
    indices: BigUint64Array.of(5n, 7n),
    indptr: BigUint64Array.of(0n, 1n, 2n),
  })
  await writer.finish()
  return path
}

/** Moves an array like postMessage, and returns the received one. */
function moved(t, array, what) {
  const before = Array.from(array.subarray(0, 10))
  t.is(array.buffer.byteLength, array.byteLength, `${what}: a separate buffer`)
  const there = structuredClone(array, { transfer: [array.buffer] })
  t.is(array.byteLength, 0, `${what} was copied, not moved`)
  t.deepEqual(Array.from(there.subarray(0, 10)), before, what)
}

for (const [kind, options] of [
  ['raw', {}],
  ['compressed', { compression: { level: 1 } }],
  ['with digests', { digest: 'sha256' }],
]) {
  test(`arrays from load({ transferable }) move, ${kind}`, async (t) => {
    const path = await model(options)
    for (const io of ['mmap', 'read']) {
      const file = openSync(path, { io })
      for (const name of ['small', 'large']) {
        const tensor = file.tensor(name)
        moved(t, await tensor.load({ transferable: true }), `load of ${name}`)
        moved(t, await tensor.load({ transferable: true, as: 'float32' }), `load as float32 of ${name}`)
        moved(t, await tensor.load({ transferable: true, slice: [[2, 9, 3]] }), `load of a slice of ${name}`)
        moved(t, await tensor.components.get('data').load({ transferable: true }), `component of ${name}`)
      }
      t.is((await file.tensor('empty').load({ transferable: true })).length, 0)
      const csr = await file.tensor('csr').loadCsr({ transferable: true })
      for (const part of ['values', 'indices', 'indptr']) moved(t, csr[part], `csr ${part}`)
      file.close()
    }
  })

  test(`arrays from file.load({ transferable }) move separately, ${kind}`, async (t) => {
    const path = await model(options)
    const file = await open(path)
    const twice = [
      file.load({ transferable: true }),
      file.load({ transferable: true }),
      loadFile(path, { transferable: true }),
    ]
    for (const loaded of await Promise.all(twice)) {
      moved(t, loaded.get('small').data, 'small')
      // The rest of the block of native memory is intact.
      t.deepEqual([...loaded.get('other').data.subarray(0, 3)], [0, 1, 2])
      t.is(loaded.get('other').data.length, 12)
      moved(t, loaded.get('large').data, 'large')
      for (const part of ['values', 'indices', 'indptr']) moved(t, loaded.get('csr')[part], part)
      t.is(loaded.get('empty').data.length, 0)
    }
    file.close()
  })
}

test('arrays of quantized tensors, and of files in memory, move', async (t) => {
  const bytes = gguf({ tensors: [{ name: 'q', shape: [2, 32], type: 8, data: Buffer.alloc(68, 1) }] })
  for (const source of [bytes, scratchFile(bytes, 'q.gguf')]) {
    const file = await open(source)
    moved(t, await file.tensor('q').load({ as: 'float32', transferable: true }), 'quantized')
    const { components } = (await file.load({ transferable: true })).get('q')
    moved(t, components.data.data, 'blocks')
    file.close()
  }
})

test('a worker receives the memory of a tensor', async (t) => {
  const file = await open(await model())
  const array = await file.tensor('large').load({ transferable: true })
  const worker = new Worker(
    "const { parentPort } = require('node:worker_threads'); parentPort.once('message', (a) => parentPort.postMessage(a.reduce((x, y) => x + y, 0)))",
    { eval: true },
  )
  const sum = array.reduce((x, y) => x + y, 0)
  const answer = new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  worker.postMessage(array, [array.buffer])
  t.is(array.length, 0)
  t.is(await answer, sum)
  await worker.terminate()
  file.close()
})

test('transferable is a boolean, and is rejected with into', async (t) => {
  const file = await open(await model())
  const tensor = file.tensor('small')
  for (const call of [
    () => tensor.load({ transferable: 1 }),
    () => tensor.load({ transferable: true, into: new Float32Array(10) }),
    () => file.load({ transferable: 'yes' }),
    () => file.tensor('csr').loadCsr({ transferable: 0 }),
    () => tensor.components.get('data').load({ transferable: null }),
  ])
    isArgumentError(t, await rejectionOf(call), 'transferable')
  file.close()
})
