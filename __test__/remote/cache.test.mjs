// Cached copies of remote files: cached blocks are not fetched again, and the bytes are right after any damage to a copy.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { convert, open, openSync, saveFile } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, shard } from '../helpers/sharded.mjs'
import { fixturePath } from '../helpers/vectors.mjs'
import { part, serve } from './web.mjs'

const MIB = 2 ** 20
const root = fileURLToPath(new URL('../..', import.meta.url))
const unix = process.platform !== 'win32'

/** Tensors t0, t1, … of 1.25 MiB each, of numbers that do not repeat. */
function model(count, seed = 1) {
  const length = (5 * MIB) / 16
  const numbers = Float32Array.from({ length: count * length }, (_, at) => at + seed * 0.5)
  const entries = Array.from({ length: count }, (_, at) => [
    `t${at}`,
    { dtype: 'F32', shape: [length], data_offsets: [at * length * 4, (at + 1) * length * 4] },
  ])
  const text = JSON.stringify(Object.fromEntries(entries))
  return safetensors(text.padEnd(Math.ceil(text.length / 8) * 8), littleEndian(numbers))
}

const BYTES = model(10)
const local = openSync(BYTES)
const NAMES = [...local.keys()]
const bytesOf = (array) => littleEndian(array)
const isRight = (name, array, of = local) => bytesOf(array).equals(bytesOf(of.tensor(name).data))

/** Serves files by their names: name -> bytes, or a function of none. Counts the requested bytes. */
async function serving(t, files, { headers = (bytes) => ({ etag: `"${bytes.length}"` }), onRequest } = {}) {
  const server = await serve(t, (request, response) => {
    const bytes = files[new URL(request.url, 'http://host').pathname.slice(1)]
    if (onRequest?.(request, response, server.asked.length) === true) return undefined
    return part(request, response, bytes, headers(bytes))
  })
  /** Bytes requested since the last call. */
  const fetched = () => {
    const ranges = server.asked
      .splice(0)
      .map(({ headers: { range } }) => /(\d+)-(\d+)/.exec(range).slice(1).map(Number))
    return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0)
  }
  return { ...server, fetched }
}

/** Opening a file requests its beginning and its end. */
const OPENING = { requests: 2, bytes: (512 + 256) * 1024 }
/** Blocks that are fetched before the server stops. */
const WHOLE = 4
const files = (folder, ending) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name))
const remoteOf = (cache, more) => ({ remote: { cache, retries: 0, ...more } })

async function child(program) {
  const running = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: root })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) running[name].setEncoding('utf8').on('data', (text) => (texts[name] += text))
  const ended = once(running, 'close').then(([status, signal]) => ({ status, signal, ...texts }))
  return { running, ended }
}

test('prefetch fills the cache, data aliases it, and nothing is fetched twice', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const cache = scratchPath('cache')
  const file = await open(server.url('/m.safetensors'), remoteOf(cache))
  server.fetched()
  const tensor = file.tensor('t3')
  t.is(tensor.copyReason, 'remote')
  const early = thrownBy(() => tensor.data)
  t.is(early.code, 'ZT_NOT_LOCAL')
  t.regex(early.message, /load\(\).*prefetch\(\)/)
  await file.prefetch(['t3', 't4'])
  const fetched = server.fetched()
  t.true(fetched >= 2.5 * MIB && fetched <= 4 * MIB, `${fetched}`)
  t.is(tensor.mapped, canMap(4))
  t.true(isRight('t3', tensor.data))
  t.is(tensor.data, tensor.data)
  t.deepEqual([...tensor.slice([[5, 9]]).data], [...tensor.data.subarray(5, 9)])
  t.is(thrownBy(() => file.tensor('t9').data).code, 'ZT_NOT_LOCAL')
  t.true(isRight('t4', await file.tensor('t4').load()))
  await file.prefetch(['t3'])
  t.is(server.fetched(), 0)
  file.close()
})

test('a later open uses the blocks that prefetch or load has cached', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const cache = scratchPath('cache')
  const first = await open(server.url('/m.safetensors'), remoteOf(cache))
  await first.prefetch(['t3', 't4'])
  const { data } = first.tensor('t3')
  data[0] = 7 // Only in this process.
  await first.tensor('t7').load()
  first.close()
  t.is(data.length, 0)
  server.fetched()
  const second = await open(server.url('/m.safetensors'), remoteOf(cache))
  t.is(server.fetched(), OPENING.bytes)
  t.is(second.tensor('t3').copyReason, 'remote')
  await second.prefetch(['t3', 't4'])
  t.is(server.fetched(), 0)
  // A load keeps the blocks that it read completely: the middle one of the three that this tensor touches.
  await second.prefetch(['t7'])
  t.is(server.fetched(), 2 * MIB)
  for (const name of ['t3', 't4', 't7']) t.true(isRight(name, second.tensor(name).data), name)
  t.true(isRight('t7', await second.tensor('t7').load()))
  t.is(server.fetched(), 0)
  await second.prefetch()
  for (const name of NAMES) t.true(isRight(name, second.tensor(name).data), name)
  t.true((await second.verify()).ok)
  server.fetched()
  for (const name of NAMES) t.true(isRight(name, await second.tensor(name).load()), name)
  t.is(server.fetched(), 0)
  second.close()
})

test('prefetch takes patterns, and names that look like patterns', async (t) => {
  const numbers = [1, 2, 3, 4]
  const bytes = Object.fromEntries(['h.0.a', 'h.0.b', 'h.1.a', 'h.*'].map((name) => [name, numbers]))
  const server = await serving(t, { 'm.safetensors': shard(bytes) })
  const file = await open(server.url('/m.safetensors'), remoteOf(scratchPath('cache')))
  const missing = await rejectionOf(() => file.prefetch(['g.*']))
  t.is(missing.code, 'ZT_NOT_FOUND')
  t.is(file.tensor('h.0.a').copyReason, 'remote')
  await file.prefetch(['h.0.*', 'h.*'])
  t.deepEqual([...file.tensor('h.0.b').data], numbers)
  const local = openSync(shard(bytes))
  await local.prefetch(['h.?.a'])
  isArgumentError(t, await rejectionOf(() => file.prefetch([7])), 'name')
})

test('decodes encoded, quantized and sliced data from the copy', async (t) => {
  const names = ['zt2-zstd.zt', 'zt12-dtypes.zt', 'gguf/types.gguf', 'zt101-sparse.zt']
  const server = await serving(t, Object.fromEntries(names.map((name) => [name, readFileSync(fixturePath(name))])))
  for (const name of names) {
    const [remoteFile, localFile] = [
      await open(server.url(`/${name}`), remoteOf(scratchPath('cache'))),
      openSync(fixturePath(name)),
    ]
    await remoteFile.prefetch()
    server.fetched()
    for (const [key, tensor] of localFile) {
      const other = remoteFile.tensor(key)
      for (const [role, component] of tensor.components) {
        const ours = other.components.get(role)
        t.deepEqual(ours.data, component.data, `${name} ${key} ${role}`)
        t.is(ours.copyReason, component.copyReason, `${name} ${key} ${role}`)
      }
      for (const call of [() => tensor.toFloat32(), () => tensor.slice([[0, 1]]).data, () => tensor.csr().values]) {
        const of = new Function('tensor', `return ${call.toString().replace('() => ', '')}`)
        const [ours, theirs] = [other, tensor].map((one) => {
          try {
            return of(one)
          } catch ({ code, message }) {
            return { code, message }
          }
        })
        t.deepEqual(ours, theirs, `${name} ${key} ${call}`)
      }
    }
    t.is(server.fetched(), 0, name)
    remoteFile.close()
    localFile.close()
  }
})

test('without a cache or a reliable version, rejects prefetch but not load', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES }, { headers: () => ({ etag: 'W/"1"' }) })
  const plain = await open(server.url('/m.safetensors'))
  const error = await rejectionOf(() => plain.prefetch(['t0']))
  t.is(error.code, 'ZT_NOT_LOCAL')
  t.regex(error.message, /remote: \{ cache: folder \}.*load\(\)/)
  const cache = scratchPath('cache')
  const unsure = await open(server.url('/m.safetensors'), remoteOf(cache))
  const weak = await rejectionOf(() => unsure.prefetch(['t0']))
  t.is(weak.code, 'ZT_NOT_LOCAL')
  t.regex(weak.message, /ETag/)
  t.true(isRight('t5', await unsure.tensor('t5').load()))
  t.false(existsSync(cache))
})

test('another version gets a separate copy', async (t) => {
  const other = model(10, 2)
  const content = { bytes: BYTES, etag: '"a"' }
  const served = {
    get 'm.safetensors'() {
      return content.bytes
    },
  }
  const server = await serving(t, served, { headers: () => ({ etag: content.etag }) })
  const cache = scratchPath('cache')
  const first = await open(server.url('/m.safetensors'), remoteOf(cache))
  await first.prefetch()
  Object.assign(content, { bytes: other, etag: '"b"' })
  const second = await open(server.url('/m.safetensors'), remoteOf(cache))
  server.fetched()
  await second.prefetch(['t1'])
  t.true(server.fetched() > MIB)
  t.true(isRight('t1', second.tensor('t1').data, openSync(other)))
  t.true(isRight('t1', first.tensor('t1').data))
  t.is(files(cache, '.data').length, 2)
})

test('a date serves as a version', async (t) => {
  const server = await serving(
    t,
    { 'm.safetensors': BYTES },
    { headers: () => ({ 'last-modified': 'Mon, 05 Jan 2026 00:00:00 GMT' }) },
  )
  const cache = scratchPath('cache')
  for (const expected of [true, false]) {
    const file = await open(server.url('/m.safetensors'), remoteOf(cache))
    server.fetched()
    await file.prefetch(['t5'])
    t.is(server.fetched() > 0, expected)
    t.true(isRight('t5', file.tensor('t5').data))
  }
})

test('a signature in the query of a URL makes no separate copy, any other query does', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const cache = scratchPath('cache')
  const copies = []
  for (const query of ['', '?X-Amz-Signature=1', '?X-Amz-Signature=2', '?id=1', '?id=2']) {
    const file = await open(server.url(`/m.safetensors${query}`), remoteOf(cache))
    await file.prefetch(['t0'])
    copies.push(files(cache, '.data').length)
  }
  t.deepEqual(copies, [1, 1, 1, 2, 3])
})

test('the cache contains no secrets, and only its owner can read it', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES }, { headers: () => ({ etag: '"ETAGSECRET"' }) })
  const cache = scratchPath('cache')
  const remote = { cache, headers: { authorization: 'Bearer HEADERSECRET', 'x-key': 'HEADERSECRET' } }
  const url = server.url('/m.safetensors?signature=QUERYSECRET&token=QUERYSECRET').replace('//', '//me:PASSWORDSECRET@')
  const file = await open(url, { remote })
  await file.prefetch()
  const names = readdirSync(cache)
  t.deepEqual(names.map((name) => name.replace(/^[0-9a-f]{64}/, '*')).sort(), ['*.blocks', '*.data', 'lock'])
  for (const name of names) {
    const bytes = readFileSync(join(cache, name))
    t.is(bytes.length, name.endsWith('.data') ? BYTES.length : bytes.length)
    for (const secret of ['SECRET', 'Bearer', 'authorization', 'signature', '127.0.0.1'])
      t.false(name.includes(secret) || bytes.includes(secret), `${name} ${secret}`)
    if (unix) t.is(statSync(join(cache, name)).mode & 0o777, 0o600, name)
  }
  if (unix) t.is(statSync(cache).mode & 0o777, 0o700)
})

const PREFETCH = (url, cache, names) => `
  import { createHash } from 'node:crypto'
  import { open } from 'ztensor'
  const file = await open(${JSON.stringify(url)}, ${JSON.stringify(remoteOf(cache))})
  await file.prefetch(${JSON.stringify(names)})
  for (const name of file.keys()) {
    const { data } = file.tensor(name)
    console.log(name, createHash('sha256').update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)).digest('hex'))
  }`

test('a killed process leaves whole blocks, and missing ones are fetched', async (t) => {
  const connection = {}
  // Some blocks are sent, then half of one, and then nothing.
  const onRequest = (request, response, count) => {
    if (connection.ended || count <= OPENING.requests + WHOLE) return false
    const [first, last] = /(\d+)-(\d+)/.exec(request.headers.range).slice(1).map(Number)
    response.writeHead(206, {
      etag: '"1"',
      'content-range': `bytes ${first}-${last}/${BYTES.length}`,
      'content-length': last - first + 1,
    })
    response.write(BYTES.subarray(first, (first + last) >> 1), () => connection.stopped())
    return true
  }
  const server = await serving(t, { 'm.safetensors': BYTES }, { headers: () => ({ etag: '"1"' }), onRequest })
  const cache = scratchPath('cache')
  const stopped = new Promise((resolve) => {
    connection.stopped = resolve
  })
  // One request at a time, of one block.
  const program = `
    import { open } from 'ztensor'
    const file = await open(${JSON.stringify(server.url('/m.safetensors'))}, { remote: { cache: ${JSON.stringify(cache)}, concurrency: 1, pieceBytes: ${MIB} } })
    await file.prefetch(undefined, { concurrentBytes: 65536 })`
  const { running, ended } = await child(program)
  await stopped
  running.kill('SIGKILL')
  t.is((await ended).signal, 'SIGKILL')
  connection.ended = true
  server.fetched()
  const file = await open(server.url('/m.safetensors'), remoteOf(cache))
  server.fetched()
  await file.prefetch()
  t.is(server.fetched(), BYTES.length - WHOLE * MIB)
  for (const name of NAMES) t.true(isRight(name, file.tensor(name).data), name)
})

test('two processes fill one copy concurrently', async (t) => {
  // Neither gets data before both have requested some.
  const agents = new Set()
  const waiting = []
  const server = await serve(t, (request, response) => {
    const answer = () => part(request, response, BYTES, { etag: '"1"' })
    const { port } = request.headers
    if (port === undefined || /=0-/.test(request.headers.range)) return answer()
    agents.add(port)
    waiting.push(answer)
    if (agents.size === 2) for (const one of waiting.splice(0)) one()
    return undefined
  })
  const cache = scratchPath('cache')
  const url = server.url('/m.safetensors')
  const both = ['1', '2'].map((port) =>
    child(
      PREFETCH(url, cache, NAMES.slice(1))
        .replace('"retries":0', `"retries":0,"headers":{"port":"${port}"}`)
        .replace('of file.keys()', `of ${JSON.stringify(NAMES.slice(1))}`),
    ),
  )
  const results = await Promise.all(both.map(async (one) => (await one).ended))
  for (const { status, stderr } of results) t.deepEqual([status, stderr], [0, ''])
  t.is(results[0].stdout, results[1].stdout)
  const asked = server.asked.length
  const file = await open(url, remoteOf(cache))
  await file.prefetch(NAMES.slice(1))
  t.is(server.asked.length, asked + OPENING.requests)
  for (const name of NAMES.slice(1)) t.true(isRight(name, file.tensor(name).data), name)
  t.deepEqual(
    readdirSync(cache).filter((name) => name.endsWith('.new')),
    [],
  )
})

/** Changes bytes of a file in place. */
function change(path, at, to) {
  const bytes = readFileSync(path)
  bytes.set(to, at)
  writeFileSync(path, bytes)
}

/** Bytes of a table before its records of 16 bytes. */
const HEADER = 96

const HARM = {
  'a flipped bit': (data) => change(data, 6 * MIB + 77, [1]),
  'zeros in place of a block': (data) => change(data, 3 * MIB, new Uint8Array(MIB)),
  'data that was truncated': (data) => truncateSync(data, 5 * MIB),
  'data that was truncated and extended again': (data) => {
    truncateSync(data, 5 * MIB)
    truncateSync(data, BYTES.length)
  },
  'data that grew': (data) => truncateSync(data, BYTES.length + 1),
  'no data': (data) => rmSync(data),
  'empty data': (data) => truncateSync(data, 0),
  'a table of zeros': (_, table) => change(table, 0, new Uint8Array(statSync(table).size)),
  'records of zeros': (_, table) => change(table, HEADER, new Uint8Array(statSync(table).size - HEADER)),
  'a record of another block': (_, table) =>
    change(table, HEADER, readFileSync(table).subarray(HEADER + 16, HEADER + 32)),
  'a table that was truncated': (_, table) => truncateSync(table, 40),
  'no table': (_, table) => rmSync(table),
  'an empty table': (_, table) => truncateSync(table, 0),
  'noise in the table': (_, table) => change(table, HEADER + 8, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
  ...(unix && {
    'a link in place of the data': (data) => {
      const elsewhere = scratchFile(Buffer.alloc(BYTES.length, 1))
      rmSync(data)
      symlinkSync(elsewhere, data)
      return () => readFileSync(elsewhere).every((byte) => byte === 1)
    },
    'a link in place of the table': (_, table) => {
      const elsewhere = scratchPath()
      renameSync(table, elsewhere)
      symlinkSync(elsewhere, table)
      const before = readFileSync(elsewhere)
      return () => readFileSync(elsewhere).equals(before)
    },
    'data that others may write to': (data) => chmodSync(data, 0o666),
    'data that the group may write to': (data) => chmodSync(data, 0o620),
    'a table that the group may write to': (_, table) => chmodSync(table, 0o660),
    'data with a second name': (data) => linkSync(data, scratchPath()),
    'a table with a second name': (_, table) => linkSync(table, scratchPath()),
    ...(process.getuid() === 0 && {
      "another user's data": (data) => chownSync(data, 12_345, -1),
      "another user's table": (_, table) => chownSync(table, 12_345, -1),
    }),
  }),
}

for (const [what, harm] of Object.entries(HARM)) {
  test(`${what}: fetches again`, async (t) => {
    const server = await serving(t, { 'm.safetensors': BYTES })
    const cache = scratchPath('cache')
    const before = await open(server.url('/m.safetensors'), remoteOf(cache))
    await before.prefetch()
    before.close()
    const untouched = harm(files(cache, '.data')[0], files(cache, '.blocks')[0])
    for (const way of ['load', 'prefetch']) {
      const file = await open(server.url('/m.safetensors'), remoteOf(cache))
      server.fetched()
      if (way === 'prefetch') await file.prefetch()
      else {
        for (const name of NAMES) t.true(isRight(name, await file.tensor(name).load()), name)
        t.true(server.fetched() > 0)
      }
      if (way === 'prefetch') for (const name of NAMES) t.true(isRight(name, file.tensor(name).data), name)
      file.close()
    }
    t.true(untouched?.() ?? true)
    const healed = await open(server.url('/m.safetensors'), remoteOf(cache))
    server.fetched()
    await healed.prefetch()
    t.is(server.fetched(), 0)
    healed.close()
  })
}

test('does not use a copy that was renamed to another', async (t) => {
  // Two files of one length: only their bytes differ.
  const other = model(10, 2)
  const server = await serving(t, { a: BYTES, b: other })
  const near = { a: local, b: openSync(other) }
  const names = {}
  const cache = scratchPath('cache')
  for (const name of ['a', 'b']) {
    const file = await open(server.url(`/${name}`), remoteOf(cache))
    await file.prefetch()
    file.close()
    names[name] = files(cache, '.blocks').find((path) => !Object.values(names).includes(path))
  }
  const data = (name) => names[name].replace(/\.blocks$/, '.data')
  const swap = (one, two) => {
    renameSync(one, `${one}.x`)
    renameSync(two, one)
    renameSync(`${one}.x`, two)
  }
  const SWAPS = {
    both: () => {
      swap(names.a, names.b)
      swap(data('a'), data('b'))
    },
    'the table': () => swap(names.a, names.b),
    'the data': () => swap(data('a'), data('b')),
    // The header is valid, and the records are those of the other file.
    'the records': () => {
      const [a, b] = [readFileSync(names.a), readFileSync(names.b)]
      change(names.a, HEADER, b.subarray(HEADER))
      change(names.b, HEADER, a.subarray(HEADER))
      swap(data('a'), data('b'))
    },
  }
  for (const [what, exchange] of Object.entries(SWAPS)) {
    exchange()
    for (const name of ['a', 'b']) {
      const file = await open(server.url(`/${name}`), remoteOf(cache))
      for (const tensor of NAMES)
        t.true(isRight(tensor, await file.tensor(tensor).load(), near[name]), `${what}: ${name} ${tensor}`)
      await file.prefetch()
      for (const tensor of NAMES)
        t.true(isRight(tensor, file.tensor(tensor).data, near[name]), `${what}: ${name} ${tensor}`)
      file.close()
    }
  }
})

if (unix && canMap(4)) {
  test('reports a cached copy that is truncated while mapped as a lost mapping, and load still works', async (t) => {
    const server = await serving(t, { 'm.safetensors': BYTES })
    const cache = scratchPath('cache')
    const program = `
      import { readdirSync, truncateSync } from 'node:fs'
      import { join } from 'node:path'
      import { open } from 'ztensor'
      const cache = ${JSON.stringify(cache)}
      const truncate = () => truncateSync(join(cache, readdirSync(cache).find((name) => name.endsWith('.data'))), 5000)
      const raised = async (run) => { try { return await run() } catch (error) { return error.code } }
      const file = await open(${JSON.stringify(server.url('/m.safetensors'))}, { remote: { cache }, onMappingLost: (error) => console.log('lost', error.code) })
      await file.prefetch()
      const { data } = file.tensor('t2')
      truncate()
      console.log(data[data.length - 1], await raised(() => file.tensor('t5').data))
      const again = await open(${JSON.stringify(server.url('/m.safetensors'))}, { remote: { cache } })
      console.log((await again.tensor('t5').load())[3])
      await again.prefetch(['t5'])
      console.log(again.tensor('t5').data[3])
      truncate()
      const other = await open(${JSON.stringify(server.url('/m.safetensors'))}, { remote: { cache } })
      console.log(await raised(() => other.prefetch(['t6'])), other.tensor('t6').data[3])`
    const { ended } = await child(program)
    const { status, signal, stdout, stderr } = await ended
    const [five, six] = ['t5', 't6'].map((name) => local.tensor(name).data[3])
    t.deepEqual([status, signal, stderr], [0, null, ''])
    const lines = stdout
      .trim()
      .split('\n')
      .filter((line) => line !== 'lost ZT_MAPPING_LOST')
    t.deepEqual(lines, ['0 ZT_MAPPING_LOST', `${five}`, `${five}`, `undefined ${six}`])
  })
}

const blocks = (cache) => readdirSync(cache).reduce((sum, name) => sum + statSync(join(cache, name)).blocks * 512, 0)

if (unix) {
  test('evicts the least recently used copies at maxCacheBytes', async (t) => {
    const names = ['a', 'b', 'c', 'd']
    const server = await serving(t, Object.fromEntries(names.map((name) => [name, model(4)])))
    const cache = scratchPath('cache')
    const maxCacheBytes = 12 * MIB
    const use = async (name) => {
      const file = await open(server.url(`/${name}`), remoteOf(cache, { maxCacheBytes }))
      server.fetched()
      await file.prefetch()
      const { data } = file.tensor('t3')
      t.is(data[0], local.tensor('t3').data[0])
      t.true(blocks(cache) <= maxCacheBytes, `${blocks(cache)}`)
      return [file, server.fetched() > 0]
    }
    const [a] = await use('a')
    const { data } = a.tensor('t1')
    t.true((await use('b'))[1])
    t.false((await use('a'))[1])
    t.true((await use('c'))[1], 'b goes')
    t.false((await use('a'))[1])
    t.false((await use('c'))[1])
    t.true((await use('b'))[1], 'a goes')
    t.false((await use('c'))[1])
    t.true((await use('a'))[1], 'b goes')
    // A removed copy still serves files that have it open.
    t.true(bytesOf(data).equals(bytesOf(openSync(model(4)).tensor('t1').data)))
  })

  test('keeps foreign files, and removes copies that were never named', async (t) => {
    const server = await serving(t, { a: model(2), b: model(2) })
    const cache = scratchPath('cache')
    mkdirSync(cache, { mode: 0o700 })
    const foreign = join(cache, 'thesis.data')
    writeFileSync(foreign, Buffer.alloc(5 * MIB))
    for (const name of ['a', 'b']) {
      const file = await open(server.url(`/${name}`), remoteOf(cache, { maxCacheBytes: 4 * MIB }))
      await file.prefetch()
    }
    t.is(statSync(foreign).size, 5 * MIB)
    t.is(files(cache, '.blocks').length, 1)
  })
}

test("rejects more than maxCacheBytes by the option's name, and load works", async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const cache = scratchPath('cache')
  const file = await open(server.url('/m.safetensors'), remoteOf(cache, { maxCacheBytes: 2 * MIB }))
  const error = await rejectionOf(() => file.prefetch())
  t.is(error.code, 'ZT_LIMIT')
  t.regex(error.message, /maxCacheBytes/)
  for (const name of NAMES) t.true(isRight(name, await file.tensor(name).load()), name)
})

test('an unusable folder rejects prefetch with its name, and load works', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const file = scratchFile(Buffer.from('a file'))
  const bad = [file, join(file, 'in-it')]
  if (unix) {
    for (const mode of [0o777, 0o770, 0o1777, 0o702]) {
      const open = scratchPath('open')
      mkdirSync(open)
      chmodSync(open, mode)
      bad.push(open)
      // A link to the folder makes no difference.
      const link = scratchPath('link')
      symlinkSync(open, link)
      bad.push(link)
    }
    if (process.getuid() === 0) {
      const foreign = scratchPath('foreign')
      mkdirSync(foreign, { mode: 0o700 })
      chownSync(foreign, 12_345, 12_345)
      bad.push(foreign)
    }
    if (process.getuid() !== 0) {
      const closed = scratchPath('closed')
      mkdirSync(closed, { mode: 0o500 })
      bad.push(closed)
    }
  }
  if (process.platform === 'linux') bad.push('/proc/ztensor')
  for (const cache of bad) {
    const opened = await open(server.url('/m.safetensors'), remoteOf(cache))
    const error = await rejectionOf(() => opened.prefetch(['t1']))
    t.is(error?.code, 'ZT_IO', cache)
    t.true(error.message.includes(cache), error.message)
    if (/\/open/.test(cache)) t.regex(error.message, /other users can write to it \(mode .*chmod go-w/)
    if (/\/foreign/.test(cache)) t.regex(error.message, /belongs to another user \(uid 12345\).*chown/)
    t.true(isRight('t1', await opened.tensor('t1').load()))
    t.is(thrownBy(() => opened.tensor('t1').data).code, 'ZT_NOT_LOCAL')
  }
})

test('each file of a set has a separate copy', async (t) => {
  const numbers = (from) => Array.from({ length: 400_000 }, (_, at) => from + at)
  const made = checkpoint({ 'a.safetensors': { one: numbers(1) }, 'b.safetensors': { two: numbers(2) } })
  const names = readdirSync(made.path('.'))
  const server = await serving(t, Object.fromEntries(names.map((name) => [name, readFileSync(made.path(name))])))
  const cache = scratchPath('cache')
  const file = await open(server.url('/model.safetensors.index.json'), remoteOf(cache))
  await file.prefetch(['two'])
  t.is(file.tensor('two').data[5], 7)
  t.is(thrownBy(() => file.tensor('one').data).code, 'ZT_NOT_LOCAL')
  t.is(files(cache, '.data').length, 1)
  await file.prefetch()
  t.is(file.tensor('one').data[5], 6)
  t.is(files(cache, '.data').length, 2)
})

test('other threads share the file and its copy, and its URL is opened again after all have closed it', async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const url = server.url('/m.safetensors?signature=SECRET')
  const file = await open(url, { remote: { cache: scratchPath('cache'), headers: { authorization: 'SECRET' } } })
  await file.prefetch(['t1'])
  const shared = file.share()
  t.false(JSON.stringify(shared).includes('SECRET'))
  server.fetched()
  const code = `
    const { parentPort, workerData } = require('node:worker_threads')
    const { open, openSync } = require('ztensor')
    const file = openSync(workerData)
    const names = [file.tensor('t1').data[3], file.tensor('t1').mapped, file.tensor('t2').copyReason]
    file.tensor('t2').load().then((data) => parentPort.postMessage([...names, data[3]]))`
  const worker = new Worker(code, { eval: true, workerData: shared })
  const ended = once(worker, 'exit')
  const [reply] = await once(worker, 'message')
  t.deepEqual(reply, [local.tensor('t1').data[3], canMap(4), 'remote', local.tensor('t2').data[3]])
  await ended
  file.close()
  for (const error of [await rejectionOf(() => open(shared)), thrownBy(() => openSync(shared))]) {
    t.is(error.code, 'ZT_IO')
    t.regex(error.message, /open its URL again/)
  }
})

test("io: 'read' copies from the cache", async (t) => {
  const server = await serving(t, { 'm.safetensors': BYTES })
  const file = await open(server.url('/m.safetensors'), { io: 'read', ...remoteOf(scratchPath('cache')) })
  await file.prefetch(['t1'])
  t.is(file.tensor('t1').copyReason, 'io')
  t.true(isRight('t1', file.tensor('t1').data))
})

test('rejects invalid options by name', async (t) => {
  const url = 'https://localhost/x'
  for (const [remote, name] of [
    [{ cache: 7 }, 'remote.cache'],
    [{ cache: '' }, 'remote.cache'],
    [{ cache: 'a\0b' }, 'remote.cache'],
    [{ cache: new URL('https://host/x') }, 'remote.cache'],
    [{ cache: 'x', maxCacheBytes: 0 }, 'remote.maxCacheBytes'],
    [{ cache: 'x', maxCacheBytes: '1' }, 'remote.maxCacheBytes'],
  ])
    isArgumentError(t, await rejectionOf(() => open(url, { remote })), name)
})

test('a conversion fills the cache with all that it reads, also if it is aborted, and the next one reads from it', async (t) => {
  // Tensors of 300 KiB: no block is read as a whole.
  const length = 300 * 256
  const tensors = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [`t${at}`, new Float32Array(length).map((_, i) => i + at)]),
  )
  const path = scratchPath('whole.safetensors')
  await saveFile(path, tensors)
  const bytes = readFileSync(path)
  const stopped = new AbortController()
  const onRequest = (_request, _response, count) => {
    if (count === OPENING.requests + 5) stopped.abort()
  }
  const { url, fetched } = await serving(t, { 'm.safetensors': bytes }, { onRequest })
  const source = { remote: { cache: scratchPath('copies'), retries: 0 } }
  const target = scratchPath('out.zt')
  const error = await rejectionOf(() => convert(url('/m.safetensors'), target, { source, signal: stopped.signal }))
  t.is(error, stopped.signal.reason)
  const before = fetched()
  await convert(url('/m.safetensors'), target, { source })
  const between = fetched()
  t.true(between < bytes.length, 'what the aborted conversion read is not fetched again')
  t.true(before + between <= bytes.length + 2 * OPENING.bytes + 4 * MIB, `${before} + ${between} bytes`)
  const again = scratchPath('again.safetensors')
  await convert(url('/m.safetensors'), again, { source })
  t.true(fetched() <= OPENING.bytes)
  t.true(readFileSync(again).equals(bytes))
})
