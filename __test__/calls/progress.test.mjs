// onProgress: rates of all calls, and the counts of saveFile.
import test from 'ava'
import { convert, loadFile, open, openSync, saveFile } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { oneCell, twoRows } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const VALUES = new Float32Array(2 ** 16)
const path = scratchPath('progress.safetensors')
await saveFile(path, { a: VALUES, b: VALUES, t: { dtype: 'float32', shape: [VALUES.length / 2, 2], data: VALUES } })
/** Has digests, so that a verification reads all bytes. */
const digested = scratchPath('digested.zt')
await convert(path, digested)

/** The events of a call while the clock advances by `step` milliseconds at each reading. */
async function eventsOf(step, call) {
  const { now } = performance
  let clock = 1000
  performance.now = () => {
    clock += step
    return clock
  }
  const events = []
  try {
    await call((progress) => events.push(progress))
  } finally {
    performance.now = now
  }
  return events
}

const CALLS = {
  'open and verify': (onProgress) => open(digested, { verify: true, onProgress }),
  loadFile: (onProgress) => loadFile(path, { onProgress }),
  convert: (onProgress) => convert(path, scratchPath('progress.zt'), { onProgress }),
  'tensor.stats': (onProgress) => openSync(path).tensor('a').stats({ onProgress }),
  'tensor.nearest': (onProgress) => openSync(path).tensor('t').nearest([1, 2], { onProgress }),
  saveFile: (onProgress) => saveFile(scratchPath('saved.safetensors'), { a: VALUES }, { onProgress }),
}
for (const [what, call] of Object.entries(CALLS)) {
  test.serial(`${what}: the last event has the rate of the whole call, and nothing remains`, async (t) => {
    const events = await eventsOf(1, call)
    const { bytes, totalBytes, tensors, totalTensors, bytesPerSecond, remainingMs } = events.at(-1)
    t.deepEqual([bytes, tensors], [totalBytes, totalTensors])
    t.true(bytes > 0)
    t.true(bytesPerSecond > 0 && bytesPerSecond <= bytes * 1000, String(bytesPerSecond))
    t.is(remainingMs, 0)
  })
}

test.serial('the remaining time is known after two seconds and 2 %', async (t) => {
  const tensors = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`t${at}`, new Float32Array(256)]))
  const events = await eventsOf(500, (onProgress) => saveFile(scratchPath('many.safetensors'), tensors, { onProgress }))
  t.is(events.length, 101)
  for (const { bytes, totalBytes, bytesPerSecond, remainingMs } of events.slice(0, -1)) {
    const ms = Math.round((bytes * 1000) / bytesPerSecond)
    t.is(totalBytes, 100 * 1024)
    if (ms < 2000 || bytes < totalBytes / 50) t.is(remainingMs, undefined)
    else t.true(Math.abs(remainingMs - (ms * (totalBytes - bytes)) / bytes) <= 0.01 * remainingMs)
  }
  t.true(events.some(({ remainingMs }) => remainingMs > 0))
  t.is(events[0].remainingMs, undefined)
})

test('saveFile counts the bytes of all kinds of tensors', async (t) => {
  const file = openSync(path)
  const tensors = [
    ['dense', { dtype: 'float32', shape: [2], data: Float32Array.of(1, 2) }],
    ['csr', twoRows(1, 2)],
    ['coo', oneCell(5)],
    ['open', file.tensor('a')],
    ['array', new Uint8Array(3)],
  ]
  const sizes = [8, bytesOf(twoRows(1, 2)), bytesOf(oneCell(5)), VALUES.byteLength, 3]
  const total = sizes.reduce((sum, size) => sum + size)
  for (const given of [tensors, new Map(tensors), Object.fromEntries(tensors), tensors.values()]) {
    const events = []
    await saveFile(scratchPath('all.zt'), given, { onProgress: (progress) => events.push(progress) })
    t.like(events.at(-1), { bytes: total, totalBytes: total, tensors: 5, totalTensors: 5 })
    for (const [at, { bytes }] of events.entries()) t.true(bytes >= (events[at - 1]?.bytes ?? 0))
  }
  file.close()
})

const bytesOf = (input) => Object.values(input).reduce((sum, one) => sum + (ArrayBuffer.isView(one) ? one.byteLength : 0), 0) // biome-ignore format: one line

test('an error of onProgress fails saveFile, and leaves no file', async (t) => {
  const target = scratchPath('none.safetensors')
  const reason = new Error('enough')
  const onProgress = () => {
    throw reason
  }
  t.is(await rejectionOf(() => saveFile(target, { a: VALUES }, { onProgress })), reason)
  t.is((await rejectionOf(() => open(target)))?.code, 'ZT_IO')
})
