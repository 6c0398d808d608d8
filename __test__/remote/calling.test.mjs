// How a remote file uses the environment that opens it, and what its threads and URLs share.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { checkpoint, shard } from '../helpers/sharded.mjs'
import { vectors } from '../helpers/vectors.mjs'
import { part, serve, serveFiles } from './web.mjs'

const BYTES = vectors.find(({ name }) => name === 'zt2-dtypes.zt').bytes
const COMMIT = '0123456789abcdef0123456789abcdef01234567'

/** The result of opening a URL in a worker with its own environment: the names of the tensors, or the code of an error. */
async function inWorker(env, url, options = {}) {
  const program = `
    const { parentPort, workerData: [url, options] } = require('node:worker_threads')
    require('ztensor').open(url, options).then(
      (file) => parentPort.postMessage([...file.keys()]),
      ({ code, message }) => parentPort.postMessage(code + message))`
  const worker = new Worker(program, { eval: true, env, workerData: [url, options] })
  const ended = once(worker, 'exit')
  const [reply] = await once(worker, 'message')
  await ended
  return reply
}

test.serial('a worker uses its own variables for the hub, not those of the process', async (t) => {
  const server = await serve(t, (request, response) => part(request, response, BYTES, { etag: '"1"' }))
  const url = `hf://o/r@${COMMIT}/x.zt`
  const names = [...openSync(BYTES).keys()]
  process.env.HF_TOKEN = 'of-the-process'
  t.teardown(() => {
    delete process.env.HF_TOKEN
  })
  const hub = { HF_ENDPOINT: server.url('') }
  t.deepEqual(await inWorker({ ...hub, HF_TOKEN: 'of-the-worker' }, url), names)
  t.is(server.asked.splice(0)[0].headers.authorization, 'Bearer of-the-worker')
  t.deepEqual(await inWorker({ ...hub, HF_HOME: '/nowhere' }, url), names)
  t.is(server.asked.splice(0)[0].headers.authorization, undefined)
  process.env.HF_ENDPOINT = server.url('')
  t.teardown(() => {
    delete process.env.HF_ENDPOINT
  })
  t.is((await open(url)).size, names.length)
  t.is(server.asked[0].headers.authorization, 'Bearer of-the-process')
})

test.serial('a worker signs requests with its own variables', async (t) => {
  const server = await serve(t, (request, response) => part(request, response, BYTES, { etag: '"1"' }))
  const keys = { AWS_ACCESS_KEY_ID: 'WORKER', AWS_SECRET_ACCESS_KEY: 'SECRET', AWS_REGION: 'eu-west-9' }
  const env = { ...keys, AWS_ENDPOINT_URL: server.url('').replace(/\/$/, ''), AWS_ALLOW_HTTP: 'true' }
  const reply = await inWorker(env, 's3://models/x.zt', { remote: { retries: 0 } })
  t.deepEqual(reply, [...openSync(BYTES).keys()])
  t.regex(server.asked[0].headers.authorization, /Credential=WORKER\/\d+\/eu-west-9\/s3\//)
})

test.serial('a worker uses its own proxy', async (t) => {
  const proxy = await serve(t, (request, response) => part(request, response, BYTES, { etag: '"1"' }))
  const reply = await inWorker({ HTTP_PROXY: proxy.url('') }, 'http://models.invalid/x.zt')
  t.deepEqual(reply, [...openSync(BYTES).keys()])
  t.is(proxy.asked[0].url, 'http://models.invalid/x.zt')
  const without = await inWorker({}, 'http://models.invalid/x.zt', { remote: { retries: 0 } })
  t.regex(without, /^ZT_IO.*models\.invalid could not be resolved/)
})

test('open files share the connections to their server', async (t) => {
  const files = Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => [`${at}.safetensors`, shard({ [`t${at}`]: [at] })]),
  )
  const sockets = new Set()
  const server = await serve(t, (request, response) => {
    sockets.add(request.socket)
    return part(request, response, files[request.url.slice(1)], { etag: '"1"' })
  })
  const opened = []
  for (const name of Object.keys(files)) opened.push(await open(server.url(`/${name}`)))
  t.true(sockets.size <= 4, `${sockets.size} connections for ${opened.length} files`)
  sockets.clear()
  const together = await open(Object.keys(files).map((name) => server.url(`/${name}`)))
  t.is(together.size, 12)
  t.true(sockets.size <= 12)
  for (const file of [...opened, together]) file.close()
})

test('a thread reads a shared remote file with its own requests', async (t) => {
  const numbers = Array.from({ length: 1 << 19 }, (_, at) => at)
  const server = await serveFiles(t, { 'm.safetensors': shard({ a: numbers, b: [7] }) })
  const file = await open(server.url('/m.safetensors?signature=SECRET'))
  const shared = file.share()
  t.false(JSON.stringify(shared).includes('SECRET'))
  const code = `
    const { parentPort, workerData } = require('node:worker_threads')
    const { open } = require('ztensor')
    open(workerData)
      .then((file) => file.tensor('a').load({ slice: [[300_000, 300_003]] }))
      .then((rows) => parentPort.postMessage([...rows]), ({ code }) => parentPort.postMessage(code))`
  const before = server.asked.length
  const worker = new Worker(code, { eval: true, workerData: shared })
  const ended = once(worker, 'exit')
  const [rows] = await once(worker, 'message')
  t.deepEqual(rows, [300_000, 300_001, 300_002])
  t.is(server.asked.length, before + 1, 'the index is not requested again')
  await ended
  t.deepEqual([...(await file.tensor('b').load())], [7])
  file.close()
})

test('no path, text or error contains the query of a URL', async (t) => {
  const made = checkpoint({ 'a.safetensors': { one: [1, 2] }, 'b.safetensors': { two: [3] } })
  const files = Object.fromEntries(
    ['model.safetensors.index.json', 'a.safetensors', 'b.safetensors'].map((name) => [
      name,
      readFileSync(made.path(name)),
    ]),
  )
  files['truncated.safetensors'] = files['a.safetensors'].subarray(0, 40)
  const server = await serveFiles(t, files)
  const url = (name) => server.url(`/${name}?sig=SECRET`)
  for (const source of [
    url('a.safetensors'),
    url('model.safetensors.index.json'),
    [url('a.safetensors'), url('b.safetensors')],
  ]) {
    const file = await open(source)
    await file.load()
    const shown = [
      file,
      file.files,
      ...file.values(),
      ...[...file.values()].flatMap((tensor) => [...tensor.components.values()]),
    ]
    const texts = shown.flatMap((one) => [inspect(one, { depth: 9, showHidden: true }), JSON.stringify(one) ?? ''])
    t.false(texts.join().includes('SECRET'))
    t.false(JSON.stringify([file.path ?? null, file.warnings]).includes('SECRET'))
    t.false(
      inspect(
        thrownBy(() => [...file.values()][0].data),
        { depth: 9 },
      ).includes('SECRET'),
    )
    if (!Array.isArray(source)) t.false(inspect(file.share(), { depth: 9, showHidden: true }).includes('SECRET'))
    file.close()
  }
  for (const source of [
    url('absent.safetensors'),
    url('truncated.safetensors'),
    [url('a.safetensors'), url('a.safetensors')],
  ]) {
    const error = await rejectionOf(() => open(source))
    t.truthy(error?.code, String(source))
    t.false(inspect(error, { depth: 9, showHidden: true }).includes('SECRET'))
  }
})
