// Small tensors are passed to the writer in packets: with any array, name and shape, and next to other writers.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { DTYPES, noise, sample, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const opened = (path) => openSync(path, { verify: true })

const KINDS = [
  Float64Array,
  Float32Array,
  BigInt64Array,
  BigUint64Array,
  Int32Array,
  Uint32Array,
  Int16Array,
  Uint16Array,
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
]

// Before the buffer exists, packed, the maximum size of a packet, slightly larger, and much larger.
for (const length of [0, 1, 24, 4096, 4104, 40_000]) {
  test(`writes arrays and views of every kind, of ${length} bytes`, async (t) => {
    const bytes = noise(length, 5)
    const shared = new Uint8Array(new SharedArrayBuffer(length))
    shared.set(bytes)
    const views = KINDS.map((Kind) => {
      const view = new Kind(Math.floor(length / Kind.BYTES_PER_ELEMENT))
      new Uint8Array(view.buffer).set(bytes.subarray(0, view.byteLength))
      return view
    })
    const padded = new Uint8Array([1, 2, 3, ...bytes, 4])
    views.push(Buffer.from(bytes), shared, padded.subarray(3, 3 + length))
    views.push(new DataView(padded.buffer, 3, length), new (class extends Float32Array {})(length / 4))
    const path = await written({}, async (writer) => {
      for (const [at, data] of views.entries()) {
        const bytes = data instanceof DataView || data instanceof Uint8ClampedArray
        await writer.add(`v${at}`, bytes ? { dtype: 'uint8', data } : { data })
      }
    })
    const file = opened(path)
    for (const [at, data] of views.entries()) {
      t.true(littleEndian(file.tensor(`v${at}`).data).equals(Buffer.from(littleEndian(data))), `view ${at}`)
    }
    file.close()
  })
}

test('writes every dtype, by its bits', async (t) => {
  const names = Object.keys(DTYPES)
  const arrays = new Map(names.map((dtype, at) => [dtype, sample(dtype, [4, 2], at)]))
  const path = await written({ version: '1.2' }, async (writer) => {
    for (const [dtype, data] of arrays) await writer.add(dtype, { dtype, shape: [4, 2], data }).catch(() => {})
  })
  const file = opened(path)
  t.true(file.size >= 15)
  for (const tensor of file.values()) {
    t.is(tensor.dtype, tensor.name)
    t.true(
      Buffer.from(littleEndian(tensor.data)).equals(Buffer.from(littleEndian(arrays.get(tensor.name)))),
      tensor.name,
    )
  }
  file.close()
})

test('writes names and shapes around the size of a packet, in order', async (t) => {
  const names = ['', 'a', 'ä', '\u0000', 'x'.repeat(896), 'x'.repeat(897), 'é'.repeat(448), 'é'.repeat(449)]
  names.push('😀'.repeat(224), `${'😀'.repeat(224)}a`, 'y'.repeat(20_000), 'z')
  const shapes = [0, 1, 12, 13, 14, 20].map((rank) => Array.from({ length: rank }, () => 1))
  const all = [...names.map((name) => [name, [1]]), ...shapes.map((shape) => [`rank ${shape.length}`, shape])]
  const path = await written({}, async (writer) => {
    for (const [at, [name, shape]] of all.entries()) {
      await writer.add(name, { dtype: 'int32', shape, data: Int32Array.of(at) })
    }
  })
  const file = opened(path)
  const found = [...file.values()].map((tensor) => [tensor.name, [...tensor.shape], tensor.data[0]])
  t.deepEqual(
    found,
    all.map(([name, shape], at) => [name, shape, at]),
  )
  file.close()
})

test('uses what an array is, and ignores its claimed properties', async (t) => {
  const liar = Float32Array.of(1, 2, 3, 4)
  Object.defineProperties(liar, {
    constructor: { value: Uint8Array },
    [Symbol.toStringTag]: { value: 'Uint8Array' },
    length: { value: 1 },
  })
  const path = await written({}, (writer) => writer.add('a', { dtype: 'float32', shape: [4], data: liar }))
  const file = opened(path)
  t.deepEqual(file.tensor('a').data, Float32Array.of(1, 2, 3, 4))
  file.close()
})

test('alternating writers, one of which ends early, each write their tensors', async (t) => {
  const paths = [0, 1, 2].map(() => scratchPath('turns.zt'))
  const writers = await Promise.all(paths.map((path) => create(path)))
  for (let at = 0; at < 50; at++) {
    for (const [index, writer] of writers.entries()) {
      const adding = writer.add(`t${at}`, Int32Array.of(at, index))
      if (index === 1 && at > 10) t.is((await rejectionOf(() => adding)).code, 'ZT_CLOSED')
      else await adding
    }
    if (at === 10) await writers[1].finish()
  }
  await Promise.all([writers[0].finish(), writers[2].finish()])
  for (const [index, path] of paths.entries()) {
    const file = opened(path)
    t.is(file.size, index === 1 ? 11 : 50)
    for (const tensor of file.values()) t.deepEqual([...tensor.data], [Number(tensor.name.slice(1)), index])
    file.close()
  }
})

test('rejected elements leave the file unchanged', async (t) => {
  const path = scratchPath('bools.zt')
  const writer = await create(path, { version: '2', canonical: false })
  const bool = (...data) => ({ dtype: 'bool', shape: [data.length], data: Uint8Array.from(data) })
  const results = await Promise.allSettled([
    writer.add('a', bool(0, 1)),
    writer.add('b', bool(0, 2)),
    writer.add('c', bool(1, 1)),
    writer.add('b', bool(1, 0, 1)),
  ])
  t.deepEqual(
    results.map(({ reason }) => [reason?.code, reason?.tensor]),
    [
      [undefined, undefined],
      ['ZT_BAD_DTYPE', 'b'],
      [undefined, undefined],
      [undefined, undefined],
    ],
  )
  await writer.finish()
  const file = opened(path)
  t.deepEqual(
    [...file.values()].map(({ name, data }) => [name, [...data]]),
    [
      ['a', [0, 1]],
      ['b', [1, 0, 1]],
      ['c', [1, 1]],
    ],
  )
  file.close()
})

for (const options of [{ version: '1.0' }, { version: '1.2' }, { version: '2', canonical: false, alignment: 4096 }]) {
  test(`${options.version}: writes an index and data in several pieces, awaited or not, and converted`, async (t) => {
    const data = (at) => noise(at % 4 === 0 ? 5000 : 40, at)
    // In the order in which version 2 is converted.
    const name = (at) => `model.layers.${String(at).padStart(4, '0')}.weight`
    const count = 6000
    const add = (wait) => async (writer) => {
      for (let at = 0; at < count; at++) {
        const added = writer.add(name(at), data(at))
        if (wait || at % 500 === 0) await added
      }
    }
    const [path, other] = [await written(options, add(true)), await written(options, add(false))]
    t.true(readFileSync(path).equals(readFileSync(other)))
    const copy = scratchPath('copy.zt')
    await convert(path, copy, options)
    t.true(readFileSync(path).equals(readFileSync(copy)))
    const file = opened(path)
    t.is(file.size, count)
    for (const at of [0, 1, 2999, count - 1]) {
      t.true(Buffer.from(file.tensor(name(at)).data).equals(data(at)))
    }
    file.close()
  })
}

test('another thread writes concurrently', async (t) => {
  const paths = [scratchPath('here.zt'), scratchPath('there.zt')]
  const work = `
    const { workerData } = require('node:worker_threads')
    const { create } = require('ztensor')
    ;(async () => {
      const writer = await create(workerData)
      for (let at = 0; at < 2000; at++) await writer.add('t' + at, Int32Array.of(at, 1))
      await writer.finish()
    })()
  `
  const worker = new Worker(work, { eval: true, workerData: paths[1] })
  const ended = once(worker, 'exit')
  await written(
    {},
    async (writer) => {
      for (let at = 0; at < 2000; at++) await writer.add(`t${at}`, Int32Array.of(at, 0))
    },
    paths[0],
  )
  t.deepEqual(await ended, [0])
  for (const [index, path] of paths.entries()) {
    const file = opened(path)
    t.is(file.size, 2000)
    for (const tensor of file.values()) t.deepEqual([...tensor.data], [Number(tensor.name.slice(1)), index])
    file.close()
  }
})
