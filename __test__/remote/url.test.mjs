// Files by URL: the same as by path, in few requests, and without secrets in messages.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { convert, diff, loadFile, open, openSync, verify } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, shard } from '../helpers/sharded.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'
import { part, serve, serveFiles } from './web.mjs'

const folder = (name) => {
  const files = readdirSync(fixturePath(name), { recursive: true })
    .filter((file) => /\.\w+$/.test(file))
    .map((file) => file.replaceAll(sep, '/'))
  return Object.fromEntries(files.map((file) => [`${name}/${file}`, readFileSync(fixturePath(`${name}/${file}`))]))
}

const FILES = {
  ...Object.fromEntries(vectors.map(({ name, bytes }) => [name, bytes])),
  ...folder('gguf'),
  ...folder('onnx'),
  ...folder('numpy'),
}
const NAMES = [
  ...vectors.map(({ name }) => name),
  ...Object.keys(FILES).filter((name) => /\.(gguf|onnx|npy|npz)$/.test(name) && !/-0000[23]-/.test(name)),
]

test('every file equals that of its path', async (t) => {
  const server = await serveFiles(t, FILES)
  for (const name of NAMES) {
    const local = thrownBy(() => openSync(fixturePath(name)).close())
    if (local !== undefined) {
      t.is((await rejectionOf(() => open(server.url(`/${name}`))))?.code, local.code, name)
      continue
    }
    const [remoteFile, localFile] = [await open(server.url(`/${name}`)), openSync(fixturePath(name))]
    t.is(remoteFile.path, server.url(`/${name}`))
    const { added, removed, changed } = await diff(remoteFile, localFile)
    t.deepEqual([added, removed, changed], [[], [], []], name)
    t.is((await remoteFile.verify()).ok, (await localFile.verify()).ok, name)
    remoteFile.close()
    localFile.close()
  }
})

test('convert and loadFile take URLs, of one file and of several', async (t) => {
  const server = await serveFiles(t, FILES)
  const [target, expected] = [scratchPath('a.safetensors'), scratchPath('b.safetensors')]
  await convert(server.url('/zt12-dtypes.zt'), target, { skip: true })
  await convert(fixturePath('zt12-dtypes.zt'), expected, { skip: true })
  sameBytes(t, readFileSync(target), readFileSync(expected))
  t.deepEqual(await loadFile(server.url('/zt2-dtypes.zt')), await loadFile(fixturePath('zt2-dtypes.zt')))
  t.true((await verify(new URL(server.url('/zt2-zstd.zt')))).ok)
  const both = ['st-metadata.safetensors', 'zt2-shapes.zt']
  const file = await open(both.map((name) => server.url(`/${name}`)))
  const local = openSync(both.map(fixturePath))
  t.deepEqual([...file.keys()], [...local.keys()])
  t.is((await diff(file, local)).unchanged, local.size)
  isArgumentError(t, await rejectionOf(() => open([server.url('/x.zt'), 'here.zt'])), 'source')
})

test('reads the shards of an index from its folder, without the query of the index', async (t) => {
  const made = checkpoint({ 'a b.safetensors': { one: [1, 2] }, 'b#1.safetensors': { two: [3] } })
  const files = Object.fromEntries(
    readdirSync(made.path('.')).map((name) => [`m/${name}`, readFileSync(made.path(name))]),
  )
  const server = await serveFiles(t, files)
  const file = await open(server.url('/m/model.safetensors.index.json?signature=SECRET'))
  t.deepEqual([...(await file.tensor('two').load())], [3])
  t.is(file.path, server.url('/m/model.safetensors.index.json'))
  t.true(server.asked.some(({ url }) => url.includes('SECRET')))
  t.true(server.asked.filter(({ url }) => url.includes('.safetensors?')).length === 0)
  t.true(server.asked.some(({ url }) => url === '/m/a%20b.safetensors'))
  t.false(inspect(file, { depth: 9 }).includes('SECRET'))
})

test('reads an index in one or two requests, and rows of a tensor in one more', async (t) => {
  const numbers = Array.from({ length: 1 << 20 }, (_, at) => at)
  const server = await serveFiles(t, { 'x.safetensors': shard({ a: numbers }) })
  const file = await open(server.url('/x.safetensors'))
  t.true(server.asked.length <= 2, `${server.asked.length} requests`)
  const before = server.asked.length
  t.deepEqual([...(await file.tensor('a').load({ slice: [[500_000, 500_128]] }))], numbers.slice(500_000, 500_128))
  t.is(server.asked.length, before + 1)
})

test('sends headers to the server, and never shows them', async (t) => {
  const bytes = FILES['zt2-dtypes.zt']
  const server = await serve(t, (request, response) => {
    if (request.headers.authorization === 'Bearer SECRET') return part(request, response, bytes)
    response.writeHead(401)
    return response.end()
  })
  const remote = { headers: { authorization: 'Bearer SECRET' }, retries: 0 }
  const file = await open(server.url('/x.zt'), { remote })
  t.is(file.size, openSync(fixturePath('zt2-dtypes.zt')).size)
  t.false(inspect(file, { depth: 9, showHidden: true }).includes('SECRET'))
  const refused = await rejectionOf(() => open(server.url('/x.zt?sig=SECRET').replace('//', '//me:SECRET@')))
  t.is(refused.code, 'ZT_IO')
  t.regex(refused.message, /401/)
  t.like(refused.cause, { status: 401, url: server.url('/x.zt') })
  t.false(inspect(refused, { depth: 9 }).includes('SECRET'))
})

test('a wrong response of a server is an error that describes it', async (t) => {
  const bytes = shard({ a: Array.from({ length: 1 << 18 }, (_, at) => at) })
  let etag = 1
  const ways = {
    '/changes.safetensors': (request, response) => part(request, response, bytes, { etag: `"${etag++}"` }),
    '/page.safetensors': (_, response) => response.end('<!doctype html><title>Sign in</title>'),
    '/never.safetensors': (_, response) => response.writeHead(503).end(),
    '/packed.safetensors': (request, response) => part(request, response, bytes, { 'content-encoding': 'gzip' }),
    '/loop.safetensors': (_, response) => response.writeHead(302, { location: '/loop.safetensors' }).end(),
    '/local.safetensors': (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
  }
  const server = await serve(t, (request, response) => ways[request.url](request, response))
  const remote = { retries: 1, timeout: 5000 }
  const expected = {
    '/changes.safetensors': /changed since it was opened/,
    '/page.safetensors': /web page|HTML/,
    '/never.safetensors': /503/,
    '/packed.safetensors': /gzip/,
    '/loop.safetensors': /redirect/,
    '/local.safetensors': /redirect/,
  }
  for (const [path, message] of Object.entries(expected)) {
    const error = await rejectionOf(async () => (await open(server.url(path), { remote })).load())
    t.regex(`${error?.message}`, message, path)
    t.true(['ZT_IO', 'ZT_BAD_MAGIC'].includes(error.code), `${path}: ${error.code}`)
    t.is(error.cause?.status, path === '/never.safetensors' ? 503 : undefined)
  }
})

test('an abort ends a request without a response', async (t) => {
  const reason = new Error('enough')
  const abort = new AbortController()
  const server = await serve(t, () => abort.abort(reason))
  t.is(await rejectionOf(() => open(server.url('/x.zt'), { signal: abort.signal })), reason)
})

test('the end of a worker, and of a process, ends its requests', async (t) => {
  let gone
  const server = await serve(t, (request) => {
    gone.resolve(once(request.socket, 'close'))
  })
  const program = `require('ztensor').open(${JSON.stringify(server.url('/x.zt'))})`
  const wait = () => {
    gone = {}
    gone.asked = new Promise((resolve) => {
      gone.resolve = (closed) => resolve({ closed })
    })
    return gone.asked
  }
  const inWorker = wait()
  const worker = new Worker(program, { eval: true })
  const { closed } = await inWorker
  t.is(await worker.terminate(), 1)
  await closed
  const inProcess = wait()
  const child = spawn(process.execPath, ['-e', `${program}; process.stdin.once('data', () => process.exit(7))`], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  const exited = once(child, 'exit')
  const { closed: ended } = await inProcess
  child.stdin.write('end')
  t.deepEqual(await exited, [7, null])
  await ended
})

test('rejects URLs in synchronous calls, and options without effect', async (t) => {
  t.is(thrownBy(() => openSync('https://localhost/x.zt')).code, 'ZT_NOT_LOCAL')
  const remotes = [
    [{ concurrency: 0 }, 'remote.concurrency'],
    [{ pieceBytes: 1 }, 'remote.pieceBytes'],
    [{ timeout: 0 }, 'remote.timeout'],
    [{ retries: -1 }, 'remote.retries'],
    [{ headers: 'x' }, 'remote.headers'],
    [{ headers: { a: 1 } }, 'remote.headers'],
    [{ allowPrivate: 'yes' }, 'remote.allowPrivate'],
    [{ header: {} }, 'remote has an unknown key'],
  ]
  for (const [remote, named] of remotes)
    isArgumentError(t, await rejectionOf(() => open('http://127.0.0.1:1/x', { remote })), named)
  const shards = () => 'x'
  isArgumentError(t, await rejectionOf(() => open('http://127.0.0.1:1/x', { shards })), 'shards')
})
