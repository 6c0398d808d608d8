// The messages on node:diagnostics_channel.
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { compare, diff, loadFile, open, openSync, verify } from 'ztensor'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { oneCell, scratchFolder, twoRows, written } from '../helpers/sample-files.mjs'
import { serveFiles } from '../remote/web.mjs'

const VALUES = Float32Array.from({ length: 2 ** 12 }, (_, at) => at % 251)
const path = await written({ version: '2', canonical: false, compression: {} }, async (writer) => {
  await writer.add('w', VALUES, { shape: [64, 64] })
  await writer.addCsr('m', twoRows(1, 2))
  await writer.addCoo('k', oneCell(5))
})
const bytes = readFileSync(path)
const NAMES = ['open', 'read', 'remote', 'close']

/** The messages that `work` publishes, as `[channel, message]`. */
async function publishedBy(t, work) {
  const messages = []
  const listeners = NAMES.map((name) => [`ztensor:${name}`, (message) => messages.push([name, message])])
  for (const [name, listener] of listeners) subscribe(name, listener)
  try {
    await work()
  } finally {
    for (const [name, listener] of listeners) unsubscribe(name, listener)
  }
  for (const [, { milliseconds }] of messages) t.true(Number.isFinite(milliseconds) && milliseconds >= 0)
  return messages.map(([name, { milliseconds: _, ...message }]) => [name, message])
}

// The tests of this file share the channels of their process.
test.serial('opening and closing are published', async (t) => {
  const messages = await publishedBy(t, async () => {
    openSync(path).close()
    const file = await open(path)
    file.close()
    file.close()
    openSync(bytes).close()
  })
  const opened = { source: path, format: 'zt', bytes: bytes.length, tensors: 3, error: undefined }
  const closed = { source: path, format: 'zt', bytes: bytes.length, stopped: 0 }
  const pair = [['open', opened], ['close', closed]] // biome-ignore format: one list
  const inMemory = pair.map(([name, message]) => [name, { ...message, source: undefined }])
  t.deepEqual(messages, [...pair, ...pair, ...inMemory])
})

test.serial('failures to open are published with their error, and without the secrets of a URL', async (t) => {
  const missing = scratchFolder().path('missing.zt')
  const errors = []
  const messages = await publishedBy(t, async () => {
    errors.push(thrownBy(() => openSync(missing)))
    errors.push(await rejectionOf(() => open('http://user:secret@127.0.0.1:1/a.zt?token=secret', { remote: { retries: 0 } }))) // biome-ignore format: one line
  })
  const none = { format: undefined, bytes: 0 }
  const url = 'http://127.0.0.1:1/a.zt'
  t.deepEqual(messages, [
    ['open', { ...none, source: missing, tensors: 0, error: errors[0] }],
    ['open', { ...none, source: url, tensors: 0, error: errors[1] }],
    ['remote', { ...none, source: url, call: 'open', cached: false, error: errors[1] }],
  ])
})

/** [the call, its name, its bytes] */
const READS = [
  [(file) => file.tensor('w').load(), 'load', VALUES.byteLength],
  [(file) => file.tensor('w').load({ slice: [[0, 2]] }), 'load', 512],
  [(file) => file.tensor('w').take([1, 2, 3], { as: 'float32' }), 'take', 768],
  [(file) => file.tensor('m').loadCsr(), 'load'],
  [(file) => file.tensor('k').loadCoo(), 'load'],
  [(file) => file.tensor('w').components.get('data').load(), 'load', VALUES.byteLength],
  [(file) => file.load(['w']), 'load', VALUES.byteLength],
  [(file) => file.load({ as: 'float32' }), 'load'],
  [(file) => file.verify(), 'verify'],
  [(file) => file.tensor('w').verify(), 'verify'],
  [(file) => verify(file), 'verify'],
  [(file) => file.tensor('w').stats(), 'stats'],
  [(file) => file.prefetch(['w']), 'prefetch'],
  [(file) => compare(file.tensor('w'), file.tensor('w')), 'compare'],
  [(file) => file.tensor('w').createReadStream().toArray(), 'stream', VALUES.byteLength],
]

test.serial('each call that reads is published once, with its bytes', async (t) => {
  for (const io of ['mmap', 'read']) {
    const file = openSync(path, { io })
    const stored = file.tensor('w').components.get('data').storedLength
    for (const [call, name, expected] of READS) {
      const messages = await publishedBy(t, () => call(file))
      t.is(messages.length, 1, String(call))
      const [[channelName, message]] = messages
      t.is(channelName, 'read')
      t.deepEqual(Object.keys(message).sort(), ['bytes', 'call', 'error', 'format', 'source'])
      t.like(message, { call: name, source: path, format: 'zt', error: undefined })
      if (expected !== undefined) t.is(message.bytes, expected, String(call))
      else t.true(message.bytes > 0, String(call))
      if (['stats', 'prefetch', 'compare'].includes(name)) t.is(message.bytes, stored, name)
    }
    file.close()
  }
})

test.serial('a diff and loadFile are published as the calls that they make', async (t) => {
  const file = openSync(path)
  const names = (await publishedBy(t, () => diff(file, path))).map(([name, { call }]) => call ?? name)
  t.true(names.filter((name) => name === 'compare').length >= 3)
  const whole = (await publishedBy(t, () => loadFile(path))).map(([name, { call }]) => call ?? name)
  t.deepEqual(whole, ['open', 'load', 'close'])
  file.close()
})

test.serial('failed calls are published with their error, and a close with the calls that it stopped', async (t) => {
  const file = openSync(path)
  const errors = []
  const messages = await publishedBy(t, async () => {
    const controller = new AbortController()
    const aborted = rejectionOf(() => file.tensor('w').load({ signal: controller.signal }))
    controller.abort(new Error('enough'))
    errors.push(await aborted, await rejectionOf(() => file.load(['missing'])))
    const stopped = rejectionOf(() => file.verify())
    file.close()
    errors.push(await stopped)
  })
  const read = { source: path, format: 'zt', bytes: 0 }
  t.deepEqual(messages, [
    ['read', { ...read, call: 'load', error: errors[0] }],
    ['read', { ...read, call: 'load', error: errors[1] }],
    ['close', { source: path, format: 'zt', bytes: bytes.length, stopped: 1 }],
    ['read', { ...read, call: 'verify', error: errors[2] }],
  ])
  t.is(errors[2].code, 'ZT_CLOSED')
})

test.serial('calls on a remote file say whether the data was cached', async (t) => {
  const { url } = await serveFiles(t, { 'model.zt': bytes })
  const cache = scratchFolder().path('cache')
  const messages = await publishedBy(t, async () => {
    const file = await open(`${url('/model.zt')}?key=secret`, { remote: { cache } })
    await file.tensor('w').load({ slice: [[0, 2]] })
    await file.prefetch(['w'])
    await file.load(['w'])
    file.close()
  })
  const remote = messages.filter(([name]) => name === 'remote').map(([, message]) => message)
  t.deepEqual(
    remote.map(({ call, cached }) => [call, cached]),
    [['open', false], ['load', false], ['prefetch', false], ['load', true]], // biome-ignore format: one list
  )
  for (const { source, format } of remote) t.deepEqual({ source, format }, { source: url('/model.zt'), format: 'zt' })
  const reads = messages.filter(([name]) => name === 'read').map(([, { call }]) => call)
  t.deepEqual(reads, ['load', 'prefetch', 'load'])
})

test.serial('without subscribers nothing is measured', async (t) => {
  const file = openSync(path)
  const { now } = performance
  let clocks = 0
  performance.now = () => {
    clocks++
    return now.call(performance)
  }
  try {
    await file.tensor('w').load()
    await file.load()
    await file.tensor('w').take([0])
    openSync(path).close()
    await file.close({ drain: true })
    t.is(clocks, 0)
  } finally {
    performance.now = now
  }
  for (const name of NAMES) t.false(channel(`ztensor:${name}`).hasSubscribers)
})

test.serial('a thread publishes on its own channels', async (t) => {
  const worker = new Worker(
    `const { subscribe } = require('node:diagnostics_channel')
    const { parentPort, workerData } = require('node:worker_threads')
    subscribe('ztensor:close', ({ source }) => parentPort.postMessage(source))
    require('ztensor').openSync(workerData).close()`,
    { eval: true, workerData: path },
  )
  const here = await publishedBy(t, async () => {
    t.deepEqual(await once(worker, 'message'), [path])
  })
  t.deepEqual(here, [])
})
