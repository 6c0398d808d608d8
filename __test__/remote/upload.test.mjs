// Writing into an object store: create, convert and tasks, with a local store. `npm run interop` tests real servers.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { append, compact, convert, create, open } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { ended, start } from '../helpers/command.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { noise, scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, model, runAll, sent } from '../helpers/tasks.mjs'
import { bucket } from './bucket.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const MIB = 2 ** 20
/** The minimum size of a part. */
const PART = 5 * MIB
const parted = (remote) => ({ ...remote, pieceBytes: 65536 })

const small = { a: new Float32Array([1, 2, 3]), b: new Uint8Array([7]) }

async function write(url, options, tensors = small) {
  const writer = await create(url, options)
  for (const [name, data] of Object.entries(tensors)) await writer.add(name, data)
  await writer.finish()
}

const WRITE_FORMATS = [
  ['m.zt', {}],
  ['m.zt', { version: '0.1' }],
  ['m.zt', { version: '1.2', compression: true }],
  ['m.zt', { version: '2' }],
  ['m.zt', { version: '2', canonical: false, compression: true }],
  ['m.safetensors', {}],
  ['m.btf', {}],
  ['m.npz', {}],
]

for (const scheme of ['s3', 'gs', 'az']) {
  test(`${scheme}: every format has the same bytes as in a folder`, async (t) => {
    const store = await bucket(t, { scheme })
    // BTF has numbers as names, and no unsigned bytes.
    const tensors = [new Float32Array(noise(400_000, 1).buffer), new Int8Array(noise(70_000, 2)), new Int8Array(70_000)]
    for (const [at, [name, options]] of WRITE_FORMATS.entries()) {
      const folder = scratchFolder()
      const key = `folder/${at}/${name}`
      await write(folder.path(name), options, tensors)
      await write(store.url(key), { ...options, remote: store.remote }, tensors)
      t.true(store.files[key].equals(readFileSync(folder.path(name))), `${name} ${JSON.stringify(options)}`)
      const file = await open(store.url(key), { remote: store.remote })
      t.is((await file.verify()).ok, true)
      file.close()
    }
    t.deepEqual(store.uploads, {})
  })
}

test('uploads large files in parts of one size', async (t) => {
  const store = await bucket(t)
  const source = scratchFolder()
  const tensors = { a: noise(7 * MIB, 1), b: noise(6 * MIB, 2) }
  await write(source.path('s.zt'), {}, tensors)
  for (const ending of ['zt', 'safetensors']) {
    const remote = parted(store.remote)
    await convert(source.path('s.zt'), store.url(`m.${ending}`), { remote, maxShardBytes: undefined })
    await convert(source.path('s.zt'), source.path(`m.${ending}`))
    t.true(store.files[`m.${ending}`].equals(readFileSync(source.path(`m.${ending}`))))
  }
  const parts = store.asked
    .filter(({ what }) => what === 'part')
    .map(({ headers }) => Number(headers['content-length']))
  t.is(parts.length, 6)
  t.is(parts.filter((length) => length === PART).length, 4)
})

test('nothing exists before finish(), or after abort() or an error', async (t) => {
  const store = await bucket(t)
  const remote = parted(store.remote)
  const writer = await create(store.url('m.zt'), { remote })
  await writer.add('a', noise(6 * MIB, 1))
  await writer.add('b', noise(6 * MIB, 2))
  t.deepEqual(store.files, {})
  t.is(Object.keys(store.uploads).length, 1)
  await writer.abort()
  t.deepEqual([store.files, store.uploads], [{}, {}])
  t.is(store.kinds().at(-1), 'abort')
  const failing = await create(store.url('m.zt'), { remote })
  await failing.add('a', noise(6 * MIB, 1))
  const stream = failing.stream('b', { dtype: 'uint8', shape: [8 * MIB] })
  stream.on('error', () => {})
  stream.write(noise(6 * MIB, 2))
  stream.end()
  t.is((await rejectionOf(() => failing.finish())).code, 'ZT_BAD_SHAPE')
  t.deepEqual([store.files, store.uploads], [{}, {}])
})

test('an abort ends the upload, with any response of the store', async (t) => {
  const reason = new Error('enough')
  const source = scratchFolder()
  await write(source.path('s.zt'), {}, { a: noise(12 * MIB, 1) })
  for (const at of ['begin', 'part']) {
    const abort = new AbortController()
    const store = await bucket(t, {
      answer: (what) => {
        if (what !== at) return false
        abort.abort(reason)
        // The store hangs at a part, and responds late to the start of an upload.
        return what === 'part'
      },
    })
    const converting = convert(source.path('s.zt'), store.url('m.zt'), { remote: store.remote, signal: abort.signal })
    t.is(await rejectionOf(() => converting), reason)
    t.deepEqual([store.files, store.uploads], [{}, {}], at)
  }
})

test('sends parts again after temporary failures', async (t) => {
  const failures = ['503', 'reset', 'after']
  const store = await bucket(t, {
    answer: (what, request, response) => {
      if (what !== 'part') return false
      const failure = failures.shift()
      if (failure === '503') {
        request.resume()
        response.writeHead(503).end('<Error><Code>SlowDown</Code></Error>')
        return true
      }
      if (failure === 'reset') {
        request.socket.destroy()
        return true
      }
      return failure ?? false
    },
  })
  const tensors = { a: noise(12 * MIB, 1) }
  await write(store.url('m.zt'), { remote: parted(store.remote) }, tensors)
  t.deepEqual(failures, [])
  const file = await open(store.url('m.zt'), { remote: store.remote })
  t.true(Buffer.from(await file.tensor('a').load()).equals(Buffer.from(tensors.a)))
  file.close()
})

test('a store that denies access, or fails permanently, is an error with the reason, and nothing remains', async (t) => {
  for (const [status, code, what, expected] of [
    [403, 'AccessDenied', 'begin', /denies access: check the credentials, and that they may write/],
    [403, 'AccessDenied', 'part', /denies access/],
    [404, 'NoSuchBucket', 'begin', /no such bucket/],
    [503, 'SlowDown', 'part', /503/],
    [400, 'EntityTooSmall', 'complete', /400.*EntityTooSmall/],
  ]) {
    const store = await bucket(t, {
      answer: (kind, request, response) => {
        if (kind !== what) return false
        request.resume()
        response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`)
        return true
      },
    })
    const keys = { anonymous: false, accessKeyId: 'ID', secretAccessKey: 'SECRET', sessionToken: 'TOKEN' }
    const remote = { ...store.remote, retries: 1, store: { ...store.remote.store, ...keys } }
    const error = await rejectionOf(() => write(store.url('m.zt'), { remote }))
    t.is(error.code, 'ZT_IO', `${code} ${what}`)
    t.regex(error.message, expected)
    t.regex(error.message, /s3:\/\/models\/m\.zt/)
    t.notRegex(`${error.message} ${error.stack}`, /SECRET|TOKEN|uploadId=/)
    t.deepEqual([store.files, store.uploads], [{}, {}])
  }
})

test('keeps an existing object, unless overwrite is set', async (t) => {
  const old = Buffer.from('old')
  for (const scheme of ['s3', 'gs', 'az']) {
    const store = await bucket(t, { scheme, files: { 'm.zt': old } })
    const { remote } = store
    const early = await rejectionOf(() => create(store.url('m.zt'), { remote }))
    t.is(early.code, 'ZT_EXISTS')
    t.regex(early.message, /m\.zt.*option overwrite/)
    t.false(store.kinds().includes('begin'), 'nothing is sent')
    await write(store.url('m.zt'), { remote, overwrite: true })
    t.not(store.files['m.zt'], old)
    // The name was taken during the upload.
    for (const options of [{}, { version: '2' }, { format: 'safetensors' }]) {
      const writer = await create(store.url('late'), { ...options, remote })
      await writer.add('a', small.a)
      store.files.late = old
      t.is((await rejectionOf(() => writer.finish())).code, 'ZT_EXISTS')
      t.is(store.files.late, old)
      delete store.files.late
    }
    // Azure drops uncommitted blocks.
    if (scheme !== 'az') t.deepEqual(store.uploads, {})
  }
})

test('S3 itself rejects a name that was taken at the last moment', async (t) => {
  const old = Buffer.from('old')
  const store = await bucket(t, {
    answer: (what) => {
      if (what === 'complete') store.files['m.zt'] = old
      return false
    },
  })
  t.is((await rejectionOf(() => write(store.url('m.zt'), { remote: store.remote }))).code, 'ZT_EXISTS')
  t.is(store.files['m.zt'], old)
  t.deepEqual(store.uploads, {})
  await write(store.url('m.zt'), { remote: store.remote, overwrite: true })
  t.not(store.files['m.zt'], old)
})

test('a lost response at the end is not a failure', async (t) => {
  for (const overwrite of [false, true]) {
    let lost = 1
    const store = await bucket(t, { answer: (what) => (what === 'complete' && lost-- > 0 ? 'after' : false) })
    await write(store.url('m.zt'), { remote: store.remote, overwrite })
    t.is(lost, -1)
    const file = await open(store.url('m.zt'), { remote: store.remote })
    t.is(file.size, 2)
    file.close()
  }
})

test('ignores the spaces that S3 sends until the parts are joined', async (t) => {
  const slow = async (response, text) => {
    response.writeHead(200, { 'content-type': 'application/xml' })
    for (let spaces = 0; spaces < 4; spaces++) await new Promise((done) => response.write(' ', done))
    response.end(text)
  }
  const store = await bucket(t, { answer: (what) => (what === 'complete' ? slow : false) })
  await write(store.url('m.zt'), { remote: store.remote })
  t.is(store.kinds().filter((what) => what === 'complete').length, 1)
  const file = await open(store.url('m.zt'), { remote: store.remote })
  t.is(file.size, 2)
  file.close()
})

test('the shards of a set exist before the object that names them', async (t) => {
  const folder = scratchFolder()
  const source = await model(folder.path('s.safetensors'), { format: 'safetensors' })
  for (const [ending, last, options] of [
    ['safetensors', 'm.safetensors.index.json', { maxShardBytes: 2500 }],
    ['zt', 'm.zt', { version: '2', maxShardBytes: 300_000 }],
  ]) {
    const store = await bucket(t)
    const { remote } = store
    await convert(source, store.url(`m.${ending}`), { ...options, remote })
    const done = store.asked.filter(({ what }) => what === 'complete').map(({ name }) => name)
    t.true(done.length > 3)
    t.is(done.at(-1), last)
    t.true(store.kinds().lastIndexOf('part') < store.kinds().indexOf('complete'), 'all bytes exist before the root')
    const local = scratchFolder()
    await convert(source, local.path(`m.${ending}`), options)
    t.deepEqual(Object.keys(store.files).sort(), Object.keys(filesOf(local)).sort())
    const file = await open(store.url(last), { remote })
    t.is((await file.verify()).ok, true)
    file.close()
    for (const overwrite of [false, true]) {
      const error = await rejectionOf(() =>
        convert(source, store.url(`m.${ending}`), { ...options, remote, overwrite }),
      )
      t.is(error.code, 'ZT_EXISTS')
      t.regex(error.message, /no set of files is replaced as a whole/)
    }
    // An existing shard is not replaced, and the shards uploaded before it are removed.
    delete store.files[last]
    const before = Object.keys(store.files).sort()
    const [first, ...others] = before
    delete store.files[first]
    const error = await rejectionOf(() => convert(source, store.url(`m.${ending}`), { ...options, remote }))
    t.is(error.code, 'ZT_EXISTS')
    t.deepEqual(Object.keys(store.files).sort(), others)
    t.deepEqual(store.uploads, {})
    await convert(source, store.url(`m.${ending}`), { ...options, remote, overwrite: true })
    t.deepEqual(Object.keys(store.files).sort(), [...before, last].sort())
  }
})

test('a folder means model.zt in it, or the like', async (t) => {
  const store = await bucket(t)
  await write(store.url('one/'), { remote: store.remote })
  await write(store.url('two/'), { remote: store.remote, format: 'safetensors' })
  t.deepEqual(Object.keys(store.files), ['one/model.zt', 'two/model.safetensors'])
})

for (const [ending, maxShardBytes] of [
  ['safetensors', 2500],
  ['zt', 300_000],
]) {
  test(`tasks write the same into a store as into a folder: ${ending}`, async (t) => {
    const store = await bucket(t)
    const { remote } = store
    const [folder, local] = [scratchFolder(), scratchFolder()]
    const source = await model(folder.path('s.safetensors'), { format: 'safetensors' })
    const job = sent(await planJob('convert', source, store.url(`to/m.${ending}`), { maxShardBytes, remote }))
    t.false(JSON.stringify(job).includes('us-east-1'), 'a job has no options of a store')
    const results = await Promise.all(job.tasks.map((task) => runTask(task, { remote })))
    t.deepEqual(await runTask(job.tasks[1], { remote }), results[1])
    const done = await finishJob(job, results, { remote, verify: true })
    t.deepEqual(await finishJob(job, results, { remote }), done)
    const near = sent(await planJob('convert', source, local.path(`m.${ending}`), { maxShardBytes }))
    await finishJob(near, await runAll(near))
    const names = Object.keys(filesOf(local)).sort()
    t.deepEqual(
      Object.keys(store.files).sort(),
      names.map((name) => `to/${name}`),
    )
    for (const name of names) t.true(store.files[`to/${name}`].equals(readFileSync(local.path(name))), name)
    t.is(done.path, store.url(`to/${ending === 'zt' ? 'm.zt' : 'm.safetensors.index.json'}`))
    // Late tasks change nothing; another job for the same target is rejected.
    t.deepEqual(await runTask(job.tasks[0], { remote }), results[0])
    t.is(
      (await rejectionOf(() => planJob('convert', source, store.url(`to/m.${ending}`), { maxShardBytes, remote })))
        .code,
      'ZT_EXISTS',
    )
    store.files[`to/${names.at(-1)}`] = Buffer.from('other')
    delete store.files[done.path.slice('s3://models/'.length)]
    store.files[done.path.slice('s3://models/'.length)] = Buffer.from('other')
    const taken = await rejectionOf(() => finishJob(job, results, { remote }))
    t.true(['ZT_EXISTS', 'ZT_IO'].includes(taken.code))
    t.deepEqual(store.uploads, {})
  })
}

test('the command converts and splits into a store', async (t) => {
  const store = await bucket(t)
  const env = {
    AWS_ACCESS_KEY_ID: 'id',
    AWS_SECRET_ACCESS_KEY: 'secret',
    AWS_REGION: 'us-east-1',
    AWS_ENDPOINT_URL: store.remote.store.endpoint,
    AWS_ALLOW_HTTP: 'true',
  }
  const folder = scratchFolder()
  const source = await model(folder.path('s.safetensors'), { format: 'safetensors' })
  const done = await ended(start(['convert', source, store.url('m.zt')], { env }))
  t.is(done.code, 0, done.stderr)
  t.regex(done.stdout, /wrote {2}s3:\/\/models\/m\.zt/)
  const split = await ended(start(['split', source, store.url('x/m.safetensors'), '--max-shard-size', '2500'], { env }))
  t.is(split.code, 0, split.stderr)
  t.regex(split.stdout, /m\.safetensors\.index\.json and its shards/)
  t.true('x/m.safetensors.index.json' in store.files)
})

test('a killed process leaves no object, only an unfinished upload', async (t) => {
  let killed = false
  const store = await bucket(t, {
    answer: (what) => {
      if (what !== 'part' || killed) return false
      killed = true
      child.kill('SIGKILL')
      return true
    },
  })
  const script = `
    const { create } = require(${JSON.stringify(join(root, 'dist/index.js'))})
    const { url, remote } = JSON.parse(process.argv[1])
    create(url, { remote }).then(async (writer) => {
      await writer.add('a', new Uint8Array(${12 * MIB}).fill(1))
      await writer.finish()
    })`
  const given = { url: store.url('m.zt'), remote: parted(store.remote) }
  const child = spawn(process.execPath, ['-e', script, JSON.stringify(given)], { stdio: 'ignore' })
  await once(child, 'exit')
  t.true(killed)
  t.deepEqual(store.files, {})
  t.is(Object.keys(store.uploads).length, 1)
  await write(store.url('m.zt'), { remote: store.remote })
  t.true('m.zt' in store.files)
})

test('limits memory: at most 64 MiB of parts are in progress', async (t) => {
  let [now, most] = [0, 0]
  const store = await bucket(t, {
    answer: async (what, request, response) => {
      if (what !== 'part') return false
      now++
      most = Math.max(most, now)
      response.on('close', () => now--)
      return false
    },
  })
  const writer = await create(store.url('m.zt'), { remote: store.remote })
  for (let at = 0; at < 20; at++) await writer.add(`t${at}`, new Uint8Array(8 * MIB).fill(at))
  await writer.finish()
  t.true(most <= 8, `${most} at once`)
  t.is(Object.keys(store.files).length, 1)
})

test('rejects targets that cannot be written, with advice', async (t) => {
  const { url } = await bucket(t)
  for (const [target, named] of [
    ['https://host/m.zt', 'https: URLs cannot be written, only s3:, gs: and az: URLs'],
    ['http://host/m.zt', 'http: URLs cannot be written'],
    [new URL('hf://owner/repo/m.zt'), 'hf: URLs cannot be written'],
    ['s3://models/m.zt?versionId=1', 'query'],
    ['s3:///m.zt', 'bucket'],
  ]) {
    isArgumentError(t, await rejectionOf(() => create(target)), named)
    isArgumentError(t, await rejectionOf(() => convert(join(root, '__test__/fixtures/zt2-dtypes.zt'), target)), named)
  }
  const edited = 'remote files cannot be edited in place'
  isArgumentError(t, await rejectionOf(() => append(url('m.zt'))), edited)
  isArgumentError(t, await rejectionOf(() => compact(url('m.zt'))), edited)
  isArgumentError(t, await rejectionOf(() => create('m.zt', { remote: {} })), 'remote')
  isArgumentError(
    t,
    await rejectionOf(() => create(url('m.zt'), { remote: { store: { region: 7 } } })),
    'remote.store.region',
  )
})
