// A conversion in tasks: planJob, runTask, finishJob.
import { execFile, execFileSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { convert, create, open, openSync, saveFile, verify } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, model, runAll, sent } from '../helpers/tasks.mjs'
import { part, serve } from '../remote/web.mjs'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cast = { float32: 'bfloat16' }
const unixTest = process.platform === 'win32' ? test.skip : test

async function planned(options = {}, ending = 'zt') {
  const from = scratchFolder()
  const to = scratchFolder()
  const source = await model(from.path('source.safetensors'), { format: 'safetensors' })
  // A whole second, which every call can set again.
  utimesSync(source, 1e9, 1e9)
  const target = to.path(`m.${ending}`)
  const maxShardBytes = ending === 'zt' ? 300_000 : 2500
  const job = sent(await planJob('convert', source, target, { maxShardBytes, ...options }))
  return { source, target, to, job, maxShardBytes }
}

for (const [title, options] of [
  ['as they are', {}],
  ['with a cast', { cast }],
  ['some of them', { filter: ({ name }) => !name.includes('2'), rename: (name) => `x.${name}` }],
]) {
  test(`safetensors: the same bytes as convert, ${title}`, async (t) => {
    const { source, job, to, maxShardBytes } = await planned(options, 'safetensors')
    t.true(job.tasks.length > 3)
    const whole = scratchFolder()
    await convert(source, whole.path('m.safetensors'), { maxShardBytes, ...options })
    const { path, files, tensors } = await finishJob(job, await runAll(job), { verify: true })
    t.deepEqual(filesOf(to), filesOf(whole))
    t.is(path, to.path('m.safetensors.index.json'))
    t.is(files.length, job.tasks.length)
    const file = await open(path)
    t.is(file.size, tensors)
    file.close()
  })

  test(`zTensor 2: the same tensors as convert, ${title}`, async (t) => {
    const { source, job, to, target, maxShardBytes } = await planned(options)
    t.true(job.tasks.length > 3)
    const whole = scratchFolder()
    await convert(source, whole.path('m.zt'), { version: '2', maxShardBytes, ...options })
    const { path } = await finishJob(job, await runAll(job), { verify: true })
    t.is(path, target)
    t.is(to.names().length, job.tasks.length + 1)
    const [one, other] = [openSync(whole.path('m.zt')), openSync(path)]
    t.is(await one.contentDigest(), await other.contentDigest(), 'digests, shapes, dtypes and attributes')
    one.close()
    other.close()
    t.true((await verify(path)).ok)
    for (const { file, byteLength } of (await runAll(job)).values()) {
      const shard = openSync(to.path(file))
      t.true(byteLength <= maxShardBytes || shard.size === 1)
      shard.close()
    }
  })
}

/** Quantized tensors, each with an attribute that is not a parameter, and one tensor that the targets cannot store. */
async function quantized() {
  const path = scratchFolder().path('quantized.zt')
  const writer = await create(path, { version: '1.2', metadata: { license: 'MIT' } })
  for (const [at, rows] of [40, 3, 200, 1, 90].entries()) {
    await writer.addObject(`q.${at}`, {
      layout: 'gguf.q8_0/1',
      shape: [rows, 32],
      attributes: { elems_per_block: 32, block_bytes: 34, note: at },
      components: {
        data: { dtype: 'uint8', data: new Uint8Array(rows * 34).map((_, byte) => (byte % 34 === 1 ? 0x3c : byte)) },
      },
    })
    await writer.add(`w.${at}`, { shape: [rows], dtype: 'float32', data: new Float32Array(rows).fill(at) })
  }
  await writer.addObject('odd', { layout: 'x.y/1', shape: [1], components: { data: { data: Uint8Array.of(1) } } })
  await writer.finish()
  return path
}

for (const [title, options] of [
  ['dequantized', { dequantize: 'float32' }],
  ['dequantized and cast', { dequantize: 'bfloat16', dtype: 'float16' }],
  ['dequantized, without attributes', { dequantize: 'float16', copyMetadata: false, copyAttributes: false }],
]) {
  test(`${title}: the same as convert, and the tensors that globs of skip name`, async (t) => {
    const source = await quantized()
    for (const ending of ['safetensors', 'zt']) {
      const [to, whole] = [scratchFolder(), scratchFolder()]
      const skip = ending === 'zt' ? false : ['o?d', 'odd']
      const given = { maxShardBytes: ending === 'zt' ? 300_000 : 9000, ...options, skip }
      const job = sent(await planJob('convert', source, to.path(`m.${ending}`), given))
      t.true(job.tasks.length > 2, ending)
      const done = await finishJob(job, await runAll(job), { verify: true })
      const result = await convert(source, whole.path(`m.${ending}`), {
        ...given,
        ...(ending === 'zt' ? { version: '2' } : {}),
      })
      const named = ({ skipped }) => skipped.map(({ tensor, message }) => [tensor, message])
      t.deepEqual(named(done), named(result))
      t.is(done.skipped[0]?.tensor, ending === 'zt' ? undefined : 'odd')
      t.is(done.tensors, result.tensors)
      if (ending === 'safetensors') {
        t.deepEqual(filesOf(to), filesOf(whole))
        continue
      }
      const [one, other] = [openSync(done.path), openSync(whole.path('m.zt'))]
      t.is(await one.contentDigest(), await other.contentDigest(), 'digests, shapes, dtypes and attributes')
      t.is(one.tensor('q.2').dtype, options.dequantize)
      t.deepEqual(one.tensor('q.2').attributes, options.copyAttributes === false ? {} : { note: 2 })
      one.close()
      other.close()
    }
  })
}

test('rejects a result with a tensor outside the globs of skip, or a shard that was not dequantized', async (t) => {
  const source = await quantized()
  const to = scratchFolder()
  const plan = { maxShardBytes: 9000, dequantize: 'float32', skip: 'odd' }
  const job = sent(await planJob('convert', source, to.path('m.safetensors'), plan))
  const results = await runAll(job)
  const claimed = results.map((result) => ({
    ...result,
    skipped: [...result.skipped, { code: 'ZT_BAD_LAYOUT', message: 'no', tensor: 'w.2' }],
  }))
  t.regex((await rejectionOf(() => finishJob(job, claimed))).message, /lists as skipped|has no tensor/)
  for (const skip of [['w.*'], '!odd']) {
    const error = await rejectionOf(() =>
      planJob('convert', source, scratchFolder().path('m.safetensors'), { ...plan, skip }),
    )
    t.is(error.code, 'ZT_BAD_LAYOUT', String(skip))
    t.is(error.tensor, 'odd')
  }
  const { message } = await rejectionOf(() => planJob('convert', source, to.path('n.zt'), { onProgress: () => {} }))
  t.is(message, 'options has the key onProgress: pass it to runTask instead')
  for (const bad of [{ dequantize: 'int8' }, { dequantize: true }, { skip: 1 }, { skip: [1] }]) {
    const error = await rejectionOf(() => planJob('convert', source, to.path('n.safetensors'), { ...plan, ...bad }))
    t.is(error.code, 'ZT_INVALID_ARG', JSON.stringify(bad))
  }
  await finishJob(job, results)
})

test('plans one file and one task if everything fits', async (t) => {
  for (const ending of ['zt', 'safetensors']) {
    const { source, job, to, target } = await planned({ maxShardBytes: 1e9 }, ending)
    t.is(job.tasks.length, 1)
    const whole = scratchFolder()
    await convert(source, whole.path(`m.${ending}`), {
      maxShardBytes: 1e9,
      ...(ending === 'zt' ? { version: '2' } : {}),
    })
    const results = await runAll(job)
    const again = await runAll(job)
    t.deepEqual(again, results)
    t.like(await finishJob(job, [...results, ...again]), { path: target, files: [] })
    t.deepEqual(filesOf(to), filesOf(whole))
  }
})

test('repeated and late tasks in any order, and a second finish, change nothing', async (t) => {
  for (const ending of ['zt', 'safetensors']) {
    const { job, to } = await planned({ cast }, ending)
    const both = await Promise.all([...job.tasks, ...job.tasks].map((task) => runTask(task)))
    const first = await finishJob(job, both)
    const files = filesOf(to)
    const [, late] = await runAll(job)
    t.deepEqual(
      late,
      both.find(({ task }) => task === late.task),
    )
    t.deepEqual(await finishJob(job, sent([...both].reverse())), first)
    t.deepEqual(filesOf(to), files)
  }
})

test('without the root there are only shards: finish writes it last', async (t) => {
  for (const ending of ['zt', 'safetensors']) {
    const { job, to, target } = await planned({}, ending)
    const results = await runAll(job)
    t.false(existsSync(target) || existsSync(`${target}.index.json`))
    t.is(to.names().length, job.tasks.length)
    await finishJob(job, results)
    t.is(to.names().length, job.tasks.length + 1)
  }
})

unixTest(
  'never replaces other content at the path of the root or index: other bytes, a folder, a pipe, a link',
  async (t) => {
    for (const ending of ['zt', 'safetensors']) {
      const { job, to, target } = await planned({}, ending)
      const last = ending === 'zt' ? target : `${target}.index.json`
      const results = await runAll(job)
      const names = to.names()
      const put = {
        file: () => writeFileSync(last, 'other'),
        folder: () => mkdirSync(last),
        pipe: () => execFileSync('mkfifo', [last]),
        link: () => symlinkSync('nowhere', last),
      }
      for (const [kind, make] of Object.entries(put)) {
        make()
        const error = await rejectionOf(() => finishJob(job, results))
        t.is(error?.code, 'ZT_EXISTS', `${ending}, ${kind}: ${error}`)
        t.regex(error.message, /exists and was not written by this job/)
        rmSync(last, { recursive: true })
        t.deepEqual(to.names(), names, 'leaves no file')
      }
      await finishJob(job, results)
      const written = readFileSync(last)
      await finishJob(job, results)
      t.deepEqual(readFileSync(last), written)
    }
  },
)

test('rejects missing, foreign and contradictory results by name', async (t) => {
  const { job, to } = await planned()
  const other = (await planned({ cast })).job
  const results = await runAll(job)
  const before = filesOf(to)
  const bad = { code: 'ZT_INVALID_ARG' }
  const finish = (given) => rejectionOf(() => finishJob(job, given))
  const lost = results.filter(({ task }) => task !== 1 && task !== 2)
  t.like(await finish(lost), bad)
  t.regex((await finish(lost)).message, /tasks are missing: 1, 2; run them/)
  const [foreign] = await runAll({ tasks: [other.tasks[0]] })
  t.like(await finish([...results, foreign]), bad)
  t.regex((await finish([...results, foreign])).message, /belongs to another job/)
  const [one] = results
  t.regex((await finish([...results, { ...one, digest: 'xxh3:00' }])).message, /differs from another result/)
  t.regex((await finish([...results, { ...one, task: 99 }])).message, /below/)
  t.regex((await finish([...results, null])).message, /results\[\d+\]/)
  const moved = results.map((result) => ({ ...result, file: '../x' }))
  t.regex((await finish(moved)).message, /names the file "\.\.\/x"/)
  t.deepEqual(filesOf(to), before, 'nothing was written')
  await finishJob(job, results)
})

test('runs the task of a missing, truncated or damaged file again', async (t) => {
  const { job, to } = await planned({}, 'safetensors')
  const results = await runAll(job)
  const path = to.path(results.find(({ task }) => task === 2).file)
  const bytes = readFileSync(path)
  rmSync(path)
  const gone = await rejectionOf(() => finishJob(job, results))
  t.like(gone, { code: 'ZT_IO' })
  t.regex(gone.message, /run task 2 again/)
  const first = to.path(results.find(({ task }) => task === 0).file)
  renameSync(first, to.path('aside'))
  const both = await rejectionOf(() => finishJob(job, results))
  t.regex(both.message, /^2 files are wrong: .*run task 0 again; .*run task 2 again$/)
  t.is(both.cause.length, 2)
  renameSync(to.path('aside'), first)
  writeFileSync(path, bytes.subarray(0, -4))
  t.regex((await rejectionOf(() => finishJob(job, results))).message, /run task 2 again/)
  const flipped = Buffer.from(bytes)
  flipped[flipped.length - 1] ^= 1
  writeFileSync(path, flipped)
  t.like(await rejectionOf(() => finishJob(job, results, { verify: true })), { code: 'ZT_DIGEST_MISMATCH' })
  await runTask(job.tasks[2])
  await finishJob(job, results, { verify: true })
  t.true((await verify(to.path('.'))).ok)
})

test('rejects a changed source, in tasks and in finish', async (t) => {
  const { job, source, to } = await planned()
  const results = await runAll(job)
  const before = filesOf(to)
  const { atime, mtime } = statSync(source)
  const whole = readFileSync(source)
  const changes = {
    'another time': () => utimesSync(source, atime, new Date(mtime.getTime() + 5000)),
    'another length': () => {
      appendFileSync(source, ' ')
      utimesSync(source, atime, mtime)
    },
    'another index': () => {
      const text = whole.toString('latin1').replace('layers.7.', 'layers.X.')
      writeFileSync(source, Buffer.from(text, 'latin1'))
      utimesSync(source, atime, mtime)
    },
  }
  for (const [title, change] of Object.entries(changes)) {
    change()
    const code = title === 'another length' ? /^ZT_/ : /^ZT_IO$/
    t.regex((await rejectionOf(() => runTask(job.tasks[0]))).code, code, title)
    t.regex((await rejectionOf(() => finishJob(job, results))).code, code, title)
    writeFileSync(source, whole)
    utimesSync(source, atime, mtime)
  }
  t.deepEqual(filesOf(to), before)
  await finishJob(job, results)
})

test('with checkModified: false, a copy is the same source', async (t) => {
  const { job, source } = await planned({ checkModified: false })
  const { atime, mtime } = statSync(source)
  utimesSync(source, atime, new Date(mtime.getTime() + 5000))
  await finishJob(job, await runAll(job))
  t.pass()
})

test('rejects a plan over existing files', async (t) => {
  const { job, source, target, to } = await planned()
  await runTask(job.tasks[1])
  t.like(await rejectionOf(() => planJob('convert', source, target, { maxShardBytes: 300_000 })), { code: 'ZT_EXISTS' })
  const over = await planJob('convert', source, target, { maxShardBytes: 300_000, overwrite: true })
  t.is(over.id, job.id)
  await finishJob(over, await runAll(over))
  const both = [{ maxShardBytes: 300_000 }, { maxShardBytes: 300_000, overwrite: true }]
  for (const options of both) {
    t.like(await rejectionOf(() => planJob('convert', source, target, options)), { code: 'ZT_EXISTS' })
  }
  const results = await runAll(job)
  renameSync(target, to.path('elsewhere.zt'))
  await convert(source, target, { version: '2' })
  t.like(await rejectionOf(() => finishJob(job, results)), { code: 'ZT_EXISTS' })
  t.false(to.names().some((name) => name.endsWith('.tmp')))
})

test('each file states the types of all tensors of the job, as convert does', async (t) => {
  const [from, to, whole] = [scratchFolder(), scratchFolder(), scratchFolder()]
  const floats = new Float32Array(2048).fill(0.5)
  const plain = from.path('plain.gguf')
  const metadata = { 'general.architecture': 'llama' }
  await saveFile(plain, { 'a.weight': { shape: [8, 256], data: floats }, b: new Float32Array(32) }, { metadata })
  const source = from.path('source.gguf')
  await convert(plain, source, { quantize: { 'a.*': 'q8_0' } })
  const options = { dequantize: 'bfloat16', maxShardBytes: 1000 }
  await convert(source, whole.path('m.safetensors'), options)
  const job = sent(await planJob('convert', source, to.path('m.safetensors'), options))
  t.is(job.tasks.length, 2)
  await finishJob(job, await runAll(job))
  t.deepEqual(filesOf(to), filesOf(whole))
})

test('the end lists what is left out as convert does, with attributes of the file', async (t) => {
  const [from, to, whole] = [scratchFolder(), scratchFolder(), scratchFolder()]
  const source = from.path('source.zt')
  const attributes = { nested: [1, { a: null }], 'general.architecture': 'llama' }
  await saveFile(
    source,
    { a: new Float32Array(4), mask: { dtype: 'bool', data: Uint8Array.of(1) } },
    { metadata: attributes },
  )
  const options = { skip: true }
  const { skipped } = await convert(source, whole.path('m.gguf'), options)
  t.is(skipped.length, 2)
  const job = sent(await planJob('convert', source, to.path('m.gguf'), options))
  const done = await finishJob(job, await runAll(job))
  const messages = (errors) => errors.map(({ message }) => message)
  t.deepEqual(messages(done.skipped), messages(skipped))
})

test('the plan lists unsupported tensors', async (t) => {
  const { source, to } = await planned()
  const complex = to.path('c.zt')
  const writer = await create(complex, { version: '2', metadata: { n: 1n } })
  await writer.add('c', { dtype: 'complex128', shape: [1], data: new Float64Array(2) })
  await writer.add('d', new Float32Array(3))
  await writer.finish()
  const target = to.path('out.safetensors')
  t.like(await rejectionOf(() => planJob('convert', complex, target)), { code: 'ZT_BAD_DTYPE' })
  const job = sent(await planJob('convert', complex, target, { skip: true }))
  const { tensors, skipped } = await finishJob(job, await runAll(job))
  t.is(tensors, 1)
  t.like(skipped[0], { code: 'ZT_BAD_DTYPE', tensor: 'c' })
  for (const [given, pattern] of [
    [{ version: '1.2' }, /maxShardBytes is only supported/],
    [{ canonical: true }, /canonical/],
    [{ metadata: { a: 1n } }, /plain JSON/],
    [{ maxShardBytes: 0 }, /maxShardBytes/],
    [{ filter: 3 }, /filter/],
    [{ onProgress: () => {} }, /onProgress/],
  ]) {
    const error = await rejectionOf(() => planJob('convert', source, to.path('n.zt'), given))
    t.like(error, { code: 'ZT_INVALID_ARG' })
    t.regex(error.message, pattern)
  }
  t.like(await rejectionOf(() => planJob('convert', new Uint8Array(8), target)), { code: 'ZT_INVALID_ARG' })
})

test('attributes are the given ones, those of the source, or none', async (t) => {
  for (const ending of ['zt', 'safetensors']) {
    for (const [attributes, found] of [
      [undefined, { license: 'MIT' }],
      [{}, {}],
      [{ a: 'b' }, { a: 'b' }],
    ]) {
      const { job } = await planned({ copyMetadata: attributes === undefined, metadata: attributes }, ending)
      const { path, files } = await finishJob(job, await runAll(job))
      const file = openSync(ending === 'zt' ? path : files[0])
      t.deepEqual({ ...file.metadata }, found)
      file.close()
    }
  }
})

test('files of a job have the attributes of the source, also those that JSON cannot represent', async (t) => {
  const { path } = scratchFolder()
  const attributes = { bytes: Uint8Array.of(1, 2), large: 2n ** 60n, list: [1, 'a'], 'not a number': Number.NaN }
  const writer = await create(path('s.zt'), { version: '2', metadata: attributes })
  for (const name of ['a', 'b', 'c']) await writer.add(name, new Float32Array(30_000))
  await writer.finish()
  for (const ending of ['zt', 'safetensors']) {
    const [to, whole] = [scratchFolder(), scratchFolder()]
    const options = { maxShardBytes: 200_000 }
    const job = sent(await planJob('convert', path('s.zt'), to.path(`m.${ending}`), options))
    t.is(job.tasks.length, 3, ending)
    const done = await finishJob(job, await runAll(job))
    const version = ending === 'zt' ? { version: '2' } : {}
    const result = await convert(path('s.zt'), whole.path(`m.${ending}`), { ...options, ...version })
    if (ending === 'safetensors') t.deepEqual(filesOf(to), filesOf(whole))
    const [one, other] = [done.path, ending === 'zt' ? whole.path('m.zt') : done.path].map((file) => openSync(file))
    t.deepEqual(one.metadata, other.metadata)
    if (ending === 'zt') t.deepEqual(one.metadata, attributes)
    t.is(job.warnings.length, result.skipped.length)
    one.close()
    other.close()
  }
})

test('with skip, tasks leave out tensors because of their data, and the end lists them', async (t) => {
  const { path } = scratchFolder()
  const writer = await create(path('s.zt'), { version: '1.2' })
  for (const [name, byte] of [
    ['bad', 2],
    ['good', 1],
  ])
    await writer.add(name, { dtype: 'bool', shape: [9000], data: new Uint8Array(9000).fill(byte) })
  await writer.finish()
  const options = { skip: true, maxShardBytes: 16_000, alignment: 4096 }
  const job = sent(await planJob('convert', path('s.zt'), path('m.zt'), options))
  t.is(job.tasks.length, 2)
  t.deepEqual(job.warnings, [])
  const results = await runAll(job)
  const done = await finishJob(job, results)
  t.is(done.tensors, 1)
  t.like(done.skipped, [{ code: 'ZT_BAD_DTYPE', tensor: 'bad' }])
  t.is(done.skipped.length, 1)
  const other = results.map((result) => ({
    ...result,
    skipped: [{ code: 'ZT_BAD_DTYPE', message: '', tensor: 'bad' }],
  }))
  const error = await rejectionOf(() => finishJob(job, other))
  t.regex(error.message, /lists as skipped "bad", which is none of its tensors: run task 1 again/)
})

test('writes compressed shards', async (t) => {
  const { job, source } = await planned({ compression: true, digest: 'sha256' })
  const results = await runAll(job)
  t.true(results.every(({ digest }) => digest.startsWith('sha256:')))
  const { path } = await finishJob(job, results, { verify: true })
  const [one, other] = [openSync(source), openSync(path)]
  for (const [name, tensor] of one)
    t.deepEqual((await other.tensor(name).load()).data, (await tensor.load()).data, name)
  one.close()
  other.close()
})

test('a signal ends a task, and leaves nothing', async (t) => {
  const { job, to } = await planned()
  const stop = new AbortController()
  stop.abort(new Error('enough'))
  for (const call of [
    () => runTask(job.tasks[0], { signal: stop.signal }),
    () => finishJob(job, [], { signal: stop.signal }),
  ])
    t.truthy(await rejectionOf(call))
  const later = new AbortController()
  const running = rejectionOf(() => runTask(job.tasks[0], { signal: later.signal }))
  later.abort(new Error('enough'))
  t.is((await running).message, 'enough')
  t.deepEqual(to.names(), [])
})

test('a job of 100,000 tensors is small', async (t) => {
  const from = scratchFolder()
  const writer = await create(from.path('many.safetensors'))
  const names = Array.from({ length: 100_000 }, (_, at) => `model.layers.${at}.weight`)
  for (const name of names) await writer.add(name, Uint8Array.of(1))
  await writer.finish()
  for (const [ending, options, most] of [
    ['safetensors', {}, 20_000],
    ['zt', {}, 2e6],
  ]) {
    const maxShardBytes = ending === 'zt' ? 1e9 : 10_000
    const job = await planJob('convert', from.path('many.safetensors'), join(from.folder, `o.${ending}`), {
      maxShardBytes,
      ...options,
    })
    t.true(job.tasks.length > 5)
    t.true(JSON.stringify(job).length < most, `${JSON.stringify(job).length}`)
  }
})

test('a remote source: each call takes its headers, and the job omits them', async (t) => {
  const { source, to } = await planned()
  const bytes = readFileSync(source)
  const files = { 'm.safetensors': bytes }
  const web = await serve(t, (request, response) => {
    if (request.headers.authorization !== 'Bearer secret') {
      response.writeHead(401)
      return response.end()
    }
    return part(request, response, files['m.safetensors'], { etag: `"${files['m.safetensors'].length}"` })
  })
  const options = { source: { remote: { headers: { authorization: 'Bearer secret' } } } }
  const url = web.url('/m.safetensors?key=1')
  const job = sent(await planJob('convert', url, to.path('far.safetensors'), { maxShardBytes: 2500, ...options }))
  t.false(JSON.stringify(job).includes('secret'))
  t.is(job.source.path, url)
  t.truthy(await rejectionOf(() => runTask(job.tasks[0])), 'without the header')
  const results = await runAll(job, options)
  const { tensors } = await finishJob(job, results, options)
  t.true(tensors > 30)
  files['m.safetensors'] = Buffer.from(bytes.toString('latin1').replace('layers.7.', 'layers.X.'), 'latin1')
  t.like(await rejectionOf(() => runTask(job.tasks[0], options)), { code: 'ZT_IO' })
})

test('accepts sharded sources, lists, file URLs, and files without tensors', async (t) => {
  const { source, to } = await planned()
  const parts = scratchFolder()
  await convert(source, parts.path('m.safetensors'), { maxShardBytes: 2500 })
  const list = parts.names().filter((name) => name.endsWith('.safetensors'))
  for (const [at, from] of [
    parts.folder,
    parts.path('m.safetensors.index.json'),
    list.map(parts.path),
    pathToFileURL(source),
  ].entries()) {
    const job = sent(await planJob('convert', from, to.path(`s${at}.zt`), { maxShardBytes: 300_000 }))
    const { path, tensors } = await finishJob(job, await runAll(job))
    t.is(tensors, 34)
    t.true((await verify(path)).ok)
  }
  const empty = parts.path('empty.zt')
  await (await create(empty, { version: '2' })).finish()
  for (const ending of ['zt', 'safetensors']) {
    const job = sent(await planJob('convert', empty, to.path(`e.${ending}`)))
    t.like(await finishJob(job, await runAll(job)), { tensors: 0, files: [] })
  }
})

test('a process that may open few files finishes three hundred shards', async (t) => {
  const { path } = scratchFolder()
  const writer = await create(path('many.safetensors'))
  for (let at = 0; at < 300; at++) await writer.add(`t${at}`, Uint8Array.of(at))
  await writer.finish()
  for (const ending of ['zt', 'safetensors']) {
    const maxShardBytes = ending === 'zt' ? 8192 : 1
    const job = await planJob('convert', path('many.safetensors'), path(`m.${ending}`), {
      maxShardBytes,
      ...(ending === 'zt' ? { alignment: 4096 } : {}),
    })
    t.is(job.tasks.length, 300)
    writeFileSync(path('input.json'), JSON.stringify([job, await runAll(job)]))
    const script = `const { finishJob } = require('ztensor/jobs'); finishJob(...JSON.parse(require('node:fs').readFileSync(process.argv[1]))).then(({ tensors }) => console.log(tensors))`
    const [program, ...args] =
      process.platform === 'linux'
        ? ['bash', '-c', 'ulimit -n 100; exec "$@"', '-', process.execPath]
        : [process.execPath]
    const { stdout } = await promisify(execFile)(program, [...args, '-e', script, path('input.json')], { cwd: root })
    t.is(stdout.trim(), '300')
  }
})

test('rejects a job that would skip every tensor, and formats without shards by tasks', async (t) => {
  const { path } = scratchFolder()
  const source = path('complex.zt')
  await saveFile(source, { a: { dtype: 'complex128', shape: [1], data: new Uint8Array(16) } }, { version: '2' })
  const refused = async (target, options, message) => {
    const error = await rejectionOf(() => planJob('convert', source, path(target), options))
    t.regex(error.message, message)
  }
  await refused('x.safetensors', { skip: true }, /^no tensor is left: .*complex128/)
  await refused('x.npz', {}, /the tasks of a job write zTensor 2, safetensors or GGUF, not npz/)
})
