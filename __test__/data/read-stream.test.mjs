// createReadStream: of every kind of tensor, in a worker, destroyed halfway, and of a file that is closed meanwhile.
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { safetensors, write } from '../helpers/command.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'

const ROWS = Float32Array.from({ length: 64 * 1024 }, (_, at) => at % 1000)
const SMALL = { highWaterMark: 4096 }

const stored = (options) => written(options, (w) => w.add('x', ROWS, { shape: [64, 1024] }))
const KINDS = {
  mapped: async () => openSync(await stored({ version: '1.2' })),
  'read, not mapped': async () => openSync(await stored({ version: '1.2' }), { io: 'read' }),
  misaligned: async () =>
    openSync(write('odd.safetensors', safetensors({ a: ['U8', [1], Uint8Array.of(1)], x: ['F32', [64, 1024], ROWS] }))),
  compressed: async () => openSync(await stored({ version: '1.2', compression: {} })),
  'in frames': async () =>
    openSync(await stored({ version: '2', canonical: false, compression: { frameSize: 4096, minSavings: 0 } })),
  shared: async () => open((await KINDS.mapped()).share()),
}

async function bytesOf(stream) {
  return Buffer.concat(await stream.toArray())
}

for (const [kind, make] of Object.entries(KINDS)) {
  test(`${kind}: a stream returns the bytes of data`, async (t) => {
    const file = await make()
    const tensor = file.tensor('x')
    t.true((await bytesOf(tensor.createReadStream(SMALL))).equals(littleEndian(ROWS)))
    t.true((await bytesOf(tensor.createReadStream())).equals(littleEndian(ROWS)))
    file.close()
  })

  test(`${kind}: a stream that is destroyed early ends without an error, and the file remains usable`, async (t) => {
    const file = await make()
    const tensor = file.tensor('x')
    for (const begin of [async () => {}, (stream) => once(stream, 'data')]) {
      const stream = tensor.createReadStream(SMALL)
      await begin(stream)
      const closed = once(stream, 'close')
      stream.destroy()
      await closed
      t.is(stream.errored, null)
    }
    for await (const chunk of tensor.createReadStream(SMALL)) {
      t.is(chunk.byteLength, 4096)
      break
    }
    t.true((await bytesOf(tensor.createReadStream(SMALL))).equals(littleEndian(ROWS)))
    file.close()
  })

  test(`${kind}: a signal destroys the stream with its reason`, async (t) => {
    const file = await make()
    const reason = new Error('enough')
    const stop = new AbortController()
    const stream = file.tensor('x').createReadStream({ ...SMALL, signal: stop.signal })
    await once(stream, 'data')
    const end = rejectionOf(() => finished(stream))
    stop.abort(reason)
    t.is(await end, reason)
    file.close()
  })

  test(`${kind}: closing the file ends its streams`, async (t) => {
    const file = await make()
    const tensor = file.tensor('x')
    const waiting = tensor.createReadStream(SMALL)
    const read = tensor.createReadStream(SMALL)
    await once(read, 'data')
    const ends = [waiting, read].map((stream) => rejectionOf(() => stream.toArray()))
    file.close()
    const errors = await Promise.all(ends)
    t.is(errors[0]?.code, 'ZT_CLOSED')
    // A stream of decoded data continues; one that reads pieces ends.
    t.true(errors[1] === undefined ? kind === 'compressed' : errors[1].code === 'ZT_CLOSED', errors[1]?.stack)
    t.is(thrownBy(() => tensor.createReadStream())?.code, 'ZT_CLOSED')
  })
}

test('a worker streams a file that it received', async (t) => {
  const file = await KINDS.mapped()
  const program = `
    const { workerData, parentPort } = require('node:worker_threads')
    const { openSync } = require(workerData.ztensor)
    const file = openSync(workerData.shared)
    file.tensor('x').createReadStream({ highWaterMark: 4096 }).toArray().then((chunks) => {
      parentPort.postMessage(Buffer.concat(chunks))
      file.close()
    })`
  const ztensor = fileURLToPath(new URL('../../dist/index.js', import.meta.url))
  const worker = new Worker(program, { eval: true, workerData: { shared: file.share(), ztensor } })
  const [bytes] = await once(worker, 'message')
  t.true(littleEndian(ROWS).equals(Buffer.from(bytes)))
  await worker.terminate()
  file.close()
})

test('rejects a stream of a tensor that is not dense', async (t) => {
  const path = await written({ version: '1.2' }, (w) =>
    w.addCsr('s', {
      shape: [1, 2],
      values: Float32Array.of(1),
      indices: Uint32Array.of(1),
      indptr: Uint32Array.of(0, 1),
    }),
  )
  const file = openSync(path)
  t.is(thrownBy(() => file.tensor('s').createReadStream())?.code, 'ZT_BAD_LAYOUT')
  file.close()
})
