// Verification and statistics in tasks.
import { readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, create, openSync, verify } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { model, runAll, sent } from '../helpers/tasks.mjs'

test('verify: tasks find the same as the whole call', async (t) => {
  const { path } = scratchFolder()
  const source = await model(path('m.zt'), { version: '1.0' })
  const job = sent(await planJob('verify', source, { maxTaskBytes: 2000 }))
  t.true(job.tasks.length > 5)
  const results = await runAll(job)
  const whole = await verify(source)
  t.deepEqual(await finishJob(job, [...results, ...results]), whole)
  t.true(whole.ok && whole.checked > 30)
})

test('verify: failures name files and offsets', async (t) => {
  const { path } = scratchFolder()
  const source = await model(path('m.zt'), { version: '1.0' })
  const file = openSync(source)
  const offsets = ['layers.7.weight', 'layers.19.weight'].map((name) => file.tensor(name).components.get('data').offset)
  file.close()
  const bytes = readFileSync(source)
  for (const offset of offsets) bytes[offset] ^= 1
  writeFileSync(source, bytes)
  const job = sent(await planJob('verify', source, { maxTaskBytes: 2000 }))
  const found = await finishJob(job, await runAll(job))
  const whole = await verify(source)
  t.is(whole.failures.length, 2)
  const facts = ({ code, message, tensor, component, offset }) => ({ code, message, tensor, component, offset })
  const sorted = (failures) => failures.map(facts).sort((a, b) => (a.tensor < b.tensor ? -1 : 1))
  t.deepEqual(sorted(found.failures), sorted(whole.failures))
  t.deepEqual({ ...found, failures: [] }, { ...whole, failures: [] })
  t.true(found.failures.every((failure) => failure.constructor === whole.failures[0].constructor))
})

test('stats: tasks return the same as each tensor', async (t) => {
  const { path } = scratchFolder()
  const source = path('m.zt')
  const writer = await create(source, { version: '2' })
  await writer.add('plain', Float32Array.of(1, -2, 3.5, 0))
  await writer.add('odd', Float32Array.of(Number.NaN, Number.POSITIVE_INFINITY, -0))
  await writer.add('nothing', Float32Array.of(Number.NaN))
  await writer.add('complex', { dtype: 'complex64', shape: [1], data: new Float32Array(2) })
  await writer.add('long', BigInt64Array.of(2n ** 60n, -5n))
  await writer.finish()
  for (const options of [{}, { bins: 4 }, { bins: 2, range: [-0, 2] }]) {
    const job = sent(await planJob('stats', source, { maxTaskBytes: 20, ...options }))
    t.true(job.tasks.length > 2)
    const results = await runAll(job)
    const { stats, skipped } = await finishJob(job, [...results, ...results])
    t.deepEqual(
      skipped.map(({ code, tensor }) => [code, tensor]),
      [['ZT_BAD_DTYPE', 'complex']],
    )
    const file = openSync(source)
    t.deepEqual(
      [...stats.keys()],
      [...file.keys()].filter((name) => name !== 'complex'),
    )
    for (const [name, found] of stats) t.deepEqual(found, await file.tensor(name).stats(options), name)
    file.close()
  }
})

test('the plan checks options', async (t) => {
  const { path } = scratchFolder()
  const source = await model(path('m.zt'))
  for (const [call, pattern] of [
    [() => planJob('verify', source, { maxTaskBytes: 0 }), /maxTaskBytes/],
    [() => planJob('verify', source, { bins: 3 }), /bins/],
    [() => planJob('stats', source, { bins: 5000 }), /bins/],
    [() => planJob('stats', source, { range: [0, 1] }), /range needs bins/],
    [() => planJob('verify', source, { checkModified: 1 }), /checkModified/],
    [() => planJob('verify', source, { signal: 3 }), /signal/],
    [() => planJob('verify', 42), /source/],
  ]) {
    const error = await rejectionOf(call)
    t.is(error?.code, 'ZT_INVALID_ARG')
    t.regex(error.message, pattern)
  }
})

test('rejects a changed source, and names missing results', async (t) => {
  const { path } = scratchFolder()
  const source = await model(path('m.zt'))
  for (const kind of ['verify', 'stats']) {
    const job = sent(await planJob(kind, source, { maxTaskBytes: 3000 }))
    const results = await runAll(job)
    t.regex((await rejectionOf(() => finishJob(job, results.slice(1)))).message, /results of these tasks are missing/)
    const other = sent(await planJob(kind, source, { maxTaskBytes: 1000 }))
    t.regex((await rejectionOf(() => finishJob(other, results))).message, /belongs to another job/)
    await convert(source, path('again.zt'), { overwrite: true })
    writeFileSync(source, readFileSync(path('again.zt')))
    t.like(await rejectionOf(() => runTask(job.tasks[0])), { code: 'ZT_IO' })
    await finishJob(job, results)
  }
})

test('progress of tasks reaches their totals, and a signal ends them', async (t) => {
  const { path } = scratchFolder()
  const source = await model(path('m.zt'))
  for (const kind of ['verify', 'stats']) {
    const { tasks } = await planJob(kind, source)
    let last
    const onProgress = (progress) => {
      last = progress
    }
    await runTask(tasks[0], { onProgress })
    t.is(last.tensors, last.totalTensors)
    t.true(last.totalTensors > 30)
    const stop = new AbortController()
    const running = rejectionOf(() => runTask(tasks[0], { signal: stop.signal }))
    stop.abort(new Error('enough'))
    t.is((await running).message, 'enough')
  }
})
