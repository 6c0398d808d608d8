// open({ io }), prefetch() and evict(): how bytes come into memory, and that they are always the same.
import test from 'ava'
import { create, open, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { isMapped } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const WORDS = Uint32Array.from({ length: 3 << 20 }, (_, at) => Math.imul(at, 2654435761))

async function written() {
  const path = scratchPath('io.zt')
  const writer = await create(path, { version: '1.0' })
  await writer.add('words', { dtype: 'uint32', shape: [3, 1 << 20], data: WORDS })
  await writer.add('odd', Uint8Array.of(1, 2, 3))
  await writer.finish()
  return path
}

/** Asserts that every way of reading returns the written bytes. */
async function assertSameBytes(t, file) {
  t.true(littleEndian(WORDS).equals(littleEndian(await file.tensor('words').load())))
  t.deepEqual([...(await file.load()).get('odd').data], [1, 2, 3])
  t.true(littleEndian(WORDS).equals(littleEndian(file.tensor('words').data)))
  t.deepEqual(
    [
      ...(await file.tensor('words').load({
        slice: [
          [1, 2],
          [5, 7],
        ],
      })),
    ],
    [...WORDS.subarray((1 << 20) + 5, (1 << 20) + 7)],
  )
  t.true((await file.verify()).ok)
}

for (const io of ['auto', 'mmap', 'direct']) {
  test(`io: ${io} aliases, and loads the same bytes`, async (t) => {
    for (const file of [openSync(await written(), { io }), await open(await written(), { io })]) {
      await assertSameBytes(t, file)
      isMapped(t, file.tensor('words'), 4)
      file.evict()
      await assertSameBytes(t, file)
      file.close()
    }
  })
}

test('io: read copies, with the reason', async (t) => {
  const path = await written()
  for (const file of [openSync(path, { io: 'read' }), await open(path, { io: 'read' })]) {
    const words = file.tensor('words')
    await assertSameBytes(t, file)
    t.false(words.mapped)
    t.true(['io', 'runtime', 'byte-order'].includes(words.copyReason), words.copyReason)
    const rows = words.slice([[1, 2]])
    t.false(rows.mapped)
    t.true(littleEndian(WORDS.subarray(1 << 20, 2 << 20)).equals(littleEndian(rows.data)))
    await file.prefetch()
    file.evict()
    words.data[0] = 77
    t.is(openSync(path).tensor('words').data[0], WORDS[0])
    file.close()
    t.is(words.dtype, 'uint32')
  }
})

for (const io of ['dma', '', 7, null]) {
  test(`rejects io: ${JSON.stringify(io)}`, async (t) => {
    isArgumentError(
      t,
      thrownBy(() => openSync('nowhere.zt', { io })),
      'io',
    )
    isArgumentError(t, await rejectionOf(() => open('nowhere.zt', { io })), 'io')
  })
}

for (const concurrentBytes of [undefined, 1, 100_000, 2 ** 40]) {
  test(`prefetch with at most ${concurrentBytes} bytes in progress fetches everything, and counts it`, async (t) => {
    const file = openSync(await written())
    file.evict()
    const events = []
    await file.prefetch(undefined, { concurrentBytes, onProgress: (progress) => events.push(progress) })
    const all = WORDS.byteLength + 3
    t.like(events.at(-1), { bytes: all, totalBytes: all, tensors: 2, totalTensors: 2 })
    await file.prefetch(['odd'], { concurrentBytes })
    await assertSameBytes(t, file)
    file.close()
  })
}

test('prefetch: rejects an invalid limit', async (t) => {
  const file = openSync(await written())
  for (const concurrentBytes of [0, -1, 1.5, '1', Number.NaN]) {
    isArgumentError(t, await rejectionOf(() => file.prefetch(undefined, { concurrentBytes })), 'concurrentBytes')
  }
  file.close()
})

test('JavaScript writes to an alias survive evict()', async (t) => {
  const file = openSync(await written(), { io: 'mmap' })
  const { data } = file.tensor('words')
  data[5] = 123
  file.evict()
  t.is(data[5], 123)
  t.is(data[6], WORDS[6])
  file.close()
})
