// close({ drain: true }): running calls end first, new ones fail, and then the file is unmapped.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { Agent, createServer, get } from 'node:http'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { compare, convert, create, diff, open, openSync, saveFile, verify, ZTensorError } from 'ztensor'
import { report, serveReport } from 'ztensor/report'
import { canMap } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { oneCell, scratchFolder, twoRows, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { surface, titleOf } from '../helpers/surface.mjs'

const VALUES = Float32Array.from({ length: 2 ** 18 }, (_, at) => at % 251)
const OPTIONS = { version: '2', canonical: false, compression: {} }
const path = await written(OPTIONS, async (writer) => {
  await writer.add('w', VALUES, { shape: [512, 512] })
  await writer.add('i', BigInt64Array.of(1n, 2n, 3n))
  await writer.addCsr('m', twoRows(1, 2))
  await writer.addCoo('k', oneCell(5))
})
/** The same tensors, not compressed: their data is mapped. */
const plain = scratchPath('plain.safetensors')
await saveFile(plain, { w: { dtype: 'float32', shape: [512, 512], data: VALUES } })

const w = (file) => file.tensor('w')
const chunksOf = async (stream) => {
  let bytes = 0
  for await (const chunk of stream) bytes += chunk.byteLength
  return bytes
}
const filter = (tensor) => tensor.dtype === 'float32' && tensor.data[1] === 1

/** Calls of an open file. Each is still running when the function returns. */
const CALLS = {
  'file.load': (file) => file.load(),
  'file.load as float32': (file) => file.load(['w', 'i'], { as: 'float32' }),
  'file.load as int32': (file) => file.load(['i'], { as: 'int32' }),
  'file.load of a filter that reads data': (file) => file.load({ filter: (tensor) => tensor.name === 'w' && filter(tensor) }), // biome-ignore format: one line
  'file.verify': (file) => file.verify(),
  'file.verify of the form': (file) => file.verify({ canonical: true }),
  'file.contentDigest': (file) => file.contentDigest(),
  'file.prefetch': (file) => file.prefetch(),
  'tensor.load': (file) => w(file).load(),
  'tensor.load of a slice': (file) => w(file).load({ slice: [[1, 2]] }),
  'tensor.load into': (file) => w(file).load({ into: new Float32Array(VALUES.length) }),
  'tensor.load as int32': (file) => file.tensor('i').load({ as: 'int32' }),
  'tensor.take': (file) => w(file).take([3, 1]),
  'tensor.loadTo': (file) => w(file).loadTo(() => {}),
  'tensor.loadCsr': (file) => file.tensor('m').loadCsr(),
  'tensor.loadCoo': (file) => file.tensor('k').loadCoo(),
  'tensor.verify': (file) => w(file).verify(),
  'tensor.stats': (file) => w(file).stats({ bins: 4 }),
  'tensor.nearest': (file) => w(file).nearest(new Float32Array(512)),
  'component.load': (file) => w(file).components.get('data').load(),
  'tensor.createReadStream': (file) => chunksOf(w(file).createReadStream({ highWaterMark: 4096 })),
  compare: (file) => compare(w(file), w(file)),
  'compare of sparse tensors': (file) => compare(file.tensor('m'), file.tensor('m')),
  diff: (file) => diff(file, path),
  'diff as the second side': (file) => diff(path, file),
  verify: (file) => verify(file),
  report: (file) => report(file, { against: plain }),
  convert: (file) => convert(file, scratchPath('converted.zt')),
  'saveFile of tensors': async (file) => {
    const saved = scratchPath('saved.zt')
    await saveFile(saved, new Map(file))
    return [...openSync(saved).keys()]
  },
}

const SOURCES = { mapped: path, 'read, not mapped': path, 'in memory': readFileSync(path) }
const openedFrom = (kind) =>
  openSync(SOURCES[kind], kind === 'in memory' ? {} : { io: kind === 'mapped' ? 'mmap' : 'read' })

for (const kind of Object.keys(SOURCES)) {
  test(`${kind}: a drain lets each running call end, and then closes the file`, async (t) => {
    for (const [what, call] of Object.entries(CALLS)) {
      const other = openedFrom(kind)
      const expected = await call(other)
      const file = openedFrom(kind)
      const tensor = w(file)
      let ended = false
      const running = call(file).finally(() => {
        ended = true
      })
      const drained = file.close({ drain: true })
      t.true(file.closed, what)
      t.false(ended, what)
      t.is((await rejectionOf(() => tensor.load()))?.code, 'ZT_CLOSED', what)
      t.deepEqual(await running, expected, what)
      t.is(await drained, undefined)
      t.is(thrownBy(() => file.tensor('w'))?.code, 'ZT_CLOSED', what)
      other.close()
    }
  })
}

test('a link is a running call', async (t) => {
  const file = openSync(path)
  const writer = await create(scratchPath('linking.zt'), { version: '2', canonical: false })
  const linking = writer.link('x', { file, tensor: 'w' })
  const drained = file.close({ drain: true })
  await linking
  await drained
  t.is(thrownBy(() => file.tensor('w'))?.code, 'ZT_CLOSED')
  await writer.finish()
})

test('the table has every call of an open file that returns a promise', (t) => {
  const owners = ['TensorFile', 'Tensor', 'Component']
  const ends = ['close', '[Symbol.asyncDispose]']
  const asked = surface.calls.filter(({ owner, name, promises }) => promises && owners.includes(owner) && !ends.includes(name)) // biome-ignore format: one line
  t.true(asked.length > 8)
  const titles = Object.keys(CALLS).map((what) => what.split(' ', 1)[0])
  t.deepEqual(asked.map(titleOf).filter((title) => !titles.includes(title)), []) // biome-ignore format: one line
})

test('a file that drains takes no new calls and makes no views, and its index can be read', async (t) => {
  const file = openSync(plain)
  const other = openSync(plain)
  const tensor = w(file)
  const data = tensor.components.get('data')
  const stream = tensor.createReadStream()
  const drained = file.close({ drain: true })
  const refused = {
    data: () => tensor.data,
    bytes: () => tensor.bytes,
    slice: () => tensor.slice([[0, 1]]),
    shard: () => tensor.shard({ dim: 0, rank: 0, worldSize: 2 }),
    at: () => tensor.at(0, 0),
    toArray: () => tensor.toArray({ maxElements: 2 ** 20 }),
    toFloat32: () => tensor.toFloat32(),
    load: () => tensor.load(),
    take: () => tensor.take([0]),
    stats: () => tensor.stats(),
    verify: () => tensor.verify(),
    createReadStream: () => tensor.createReadStream(),
    'component.data': () => data.data,
    'component.load': () => data.load(),
    'file.load': () => file.load(),
    'file.verify': () => file.verify(),
    'file.prefetch': () => file.prefetch(),
    'file.contentDigest': () => file.contentDigest(),
    'file.evict': () => file.evict(),
    'file.plan': () => file.plan({ rank: 0, worldSize: 1, rules: { '*': 'replicate' } }),
    'file.share': () => file.share(),
    compare: () => compare(tensor, tensor),
    'compare with an open file': () => compare(w(other), tensor),
    diff: () => diff(file, plain),
    'verify of the file': () => verify(file),
    report: () => report(file),
    serveReport: () => serveReport(file),
    convert: () => convert(file, scratchPath('none.zt')),
    saveFile: () => saveFile(scratchPath('none.zt'), { tensor }),
  }
  for (const [what, call] of Object.entries(refused)) {
    const error = await rejectionOf(async () => call())
    t.true(error instanceof ZTensorError, `${what}: ${error}`)
    t.is(error.code, 'ZT_CLOSED', what)
  }
  t.deepEqual([...file.keys()], ['w'])
  t.deepEqual(file.tensor('w').shape, [512, 512])
  t.is(file.metadata.nothing, undefined)
  stream.destroy()
  await drained
  t.is(thrownBy(() => file.keys())?.code, 'ZT_CLOSED')
  other.close()
})

test('views remain until the last call has ended', async (t) => {
  const file = openSync(plain)
  const { data } = w(file)
  const stream = w(file).createReadStream()
  const drained = file.close({ drain: true })
  t.is(data.length, VALUES.length)
  t.is(await chunksOf(stream), VALUES.byteLength)
  await drained
  t.is(data.length, canMap(4) ? 0 : VALUES.length)
})

test('a file without calls is closed when the call returns', async (t) => {
  const file = openSync(path)
  const drained = file.close({ drain: true })
  t.is(thrownBy(() => file.keys())?.code, 'ZT_CLOSED')
  await drained
  t.is(await file.close({ drain: true }), undefined)
  t.is(file.close(), undefined)
})

test('close() during a drain stops the rest', async (t) => {
  const file = openSync(path)
  const [load, stream] = [w(file).load(), w(file).createReadStream()]
  const drained = [file.close({ drain: true }), file.close({ drain: true })]
  const closed = once(stream, 'close').catch((error) => error)
  file.close()
  t.is((await rejectionOf(() => load))?.code, 'ZT_CLOSED')
  t.deepEqual(await Promise.all(drained), [undefined, undefined])
  stream.destroy()
  await closed
  t.is(thrownBy(() => file.keys())?.code, 'ZT_CLOSED')
})

test('a signal ends a drain: its reason is the rejection, and the file is closed', async (t) => {
  for (const when of ['before', 'after']) {
    const file = openSync(path)
    const stream = w(file).createReadStream()
    const controller = new AbortController()
    if (when === 'before') controller.abort('late')
    const drained = file.close({ drain: true, signal: controller.signal })
    controller.abort('late')
    t.is(await rejectionOf(() => drained), 'late')
    t.is(thrownBy(() => file.keys())?.code, 'ZT_CLOSED')
    stream.on('error', () => {}).destroy()
  }
  const file = openSync(path)
  isArgumentError(t, thrownBy(() => file.close({ signal: AbortSignal.abort() })), 'signal') // biome-ignore format: one line
  isArgumentError(
    t,
    thrownBy(() => file.close({ drains: true })),
    'drains',
  )
  t.false(file.closed)
  file.close()
})

test('calls that fail or are aborted end a drain', async (t) => {
  const file = openSync(path)
  const controller = new AbortController()
  const calls = [
    file.load(['missing']),
    w(file).load({ signal: controller.signal }),
    file.tensor('m').stats({ bins: -1 }),
  ]
  const drained = file.close({ drain: true })
  controller.abort('enough')
  const reasons = (await Promise.allSettled(calls)).map(({ reason }) => reason.code ?? reason)
  t.deepEqual(reasons, ['ZT_NOT_FOUND', 'enough', 'ZT_INVALID_ARG'])
  await drained
})

test('asynchronous disposal drains, synchronous disposal does not', async (t) => {
  const [first, second] = [openSync(path), openSync(path)]
  const [kept, stopped] = [w(first).load(), w(second).load()]
  const disposed = first[Symbol.asyncDispose]()
  second[Symbol.dispose]()
  t.deepEqual(await kept, VALUES)
  t.is((await rejectionOf(() => stopped))?.code, 'ZT_CLOSED')
  await disposed
  t.is(thrownBy(() => first.keys())?.code, 'ZT_CLOSED')
})

test('a report server keeps its file until it is closed', async (t) => {
  const file = openSync(path)
  const server = await serveReport(file)
  const drained = file.close({ drain: true })
  const { min } = await (await fetch(`${server.url}stats?tensor=0`)).json()
  t.not(min, undefined)
  await server.close()
  await drained
  t.is(thrownBy(() => file.keys())?.code, 'ZT_CLOSED')
})

test('each thread drains its own calls, and the last one unmaps the file', async (t) => {
  const file = openSync(plain)
  const second = openSync(file.share())
  const stream = w(second).createReadStream()
  await file.close({ drain: true })
  const drained = second.close({ drain: true })
  t.is(await chunksOf(stream), VALUES.byteLength)
  await drained
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads')
    const { openSync } = require('ztensor')
    const file = openSync(workerData)
    const loading = file.load()
    file.close({ drain: true }).then(async () => parentPort.postMessage((await loading).get('w').data.length))`,
    { eval: true, workerData: plain },
  )
  t.deepEqual(await once(worker, 'message'), [VALUES.length])
})

/** Writes a model whose every element is `version`, under a name that a rename replaces. */
async function model(at, version) {
  await saveFile(at('next.safetensors'), { w: { dtype: 'float32', shape: [16, 512], data: new Float32Array(16 * 512).fill(version) } }) // biome-ignore format: one line
  await rename(at('next.safetensors'), at('model.safetensors'))
}

/** What a request does with the model. All elements that it gets must be of one version. */
const REQUESTS = {
  'one call': async (file) => [await file.tensor('w').load({ slice: [[0, 4]] })],
  'a stream': async (file) => [new Float32Array(await new Response(file.tensor('w').createReadStream()).arrayBuffer())],
  'calls that begin together': (file) => Promise.all([file.tensor('w').load(), file.tensor('w').take([1, 2])]),
  'calls one after the other, on a handle for the request': async (file) => {
    const own = openSync(file.share())
    try {
      return [await own.tensor('w').take([3]), await own.tensor('w').load({ slice: [[5]] })]
    } finally {
      own.close()
    }
  },
}

test('no request fails while a model that is being served is replaced', async (t) => {
  const { path: at } = scratchFolder()
  await model(at, 1)
  let current = await open(at('model.safetensors'))
  const kinds = Object.values(REQUESTS)
  const server = createServer(async (request, response) => {
    try {
      const arrays = await kinds[Number(request.url.slice(1)) % kinds.length](current)
      const seen = new Set(arrays.flatMap((array) => [...new Set(array)]))
      response.end(JSON.stringify([...seen]))
    } catch (error) {
      response.writeHead(500).end(String(error))
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })
  const ask = (number) =>
    new Promise((resolve, reject) => {
      get({ port, host: '127.0.0.1', agent, path: `/${number}` }, async (response) => {
        resolve({ status: response.statusCode, body: (await response.toArray()).join('') })
      }).on('error', reject)
    })
  const versions = new Set()
  let [asked, replacing] = [0, true]
  const client = async () => {
    while (replacing) {
      const { status, body } = await ask(asked++)
      if (status !== 200) return t.fail(body)
      const seen = JSON.parse(body)
      if (seen.length !== 1) return t.fail(`a mix of versions: ${body}`)
      versions.add(seen[0])
    }
  }
  const clients = Array.from({ length: 200 }, client)
  for (let version = 2; version <= 6; version++) {
    while (!versions.has(version - 1)) await ask(asked++).then(({ body }) => versions.add(JSON.parse(body)[0]))
    await model(at, version)
    const old = current
    current = await open(at('model.safetensors'))
    await old.close({ drain: true })
  }
  await ask(asked++).then(({ body }) => versions.add(JSON.parse(body)[0]))
  replacing = false
  await Promise.all(clients)
  t.deepEqual([...versions].sort(), [1, 2, 3, 4, 5, 6])
  t.true(asked > 200, String(asked))
  agent.destroy()
  server.close()
  current.close()
})
