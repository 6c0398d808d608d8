// Results of tasks are compared with the plan before the root is written: a worker is not trusted.
import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'
import { create, open, verify } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { runAll, sent } from '../helpers/tasks.mjs'

async function source(folder) {
  const path = folder.path('source.zt')
  const writer = await create(path, { version: '2' })
  for (const name of ['a', 'b', 'c', 'd'])
    await writer.add(
      name,
      Float32Array.from({ length: 200 }, (_, at) => at),
    )
  await writer.addCsr('sparse', {
    shape: [2, 300],
    values: Float32Array.of(1, 2),
    indices: BigUint64Array.of(5n, 7n),
    indptr: BigUint64Array.of(0n, 1n, 2n),
  })
  await writer.finish()
  return path
}

async function planned(target, options = {}) {
  const folder = scratchFolder()
  const path = await source(folder)
  const job = await planJob('convert', path, folder.path(target), {
    maxShardBytes: target.endsWith('.zt') ? 2000 : 900,
    ...options,
  })
  const results = await runAll(job)
  results.sort((a, b) => a.task - b.task)
  return { folder, job, results, target: folder.path(target) }
}

/** Rewrites the file of a task, and returns the result that a worker would send for it. */
async function forged({ folder, job, results }, task, add) {
  const { file } = results[task]
  const path = folder.path(file)
  const { format } = job.tasks[task].options
  const writer = await create(
    path,
    format === 'zt' ? { version: '2', canonical: false, overwrite: true } : { format, overwrite: true },
  )
  await add(writer)
  await writer.finish()
  return { ...results[task], byteLength: readFileSync(path).length }
}

const refused = async (t, made, results, pattern, what) => {
  const error = await rejectionOf(() => finishJob(made.job, results))
  t.truthy(error, what)
  t.regex(error.message, pattern, what)
  const root =
    made.job.tasks[0].options.format === 'zt'
      ? made.target
      : made.target.replace('.safetensors', '.safetensors.index.json')
  t.false(existsSync(root), what)
}

test('a result that reports skipped tensors is rejected in a job without skip', async (t) => {
  const made = await planned('out.zt')
  const skipped = [{ code: 'ZT_BAD_DTYPE', message: 'no', tensor: 'a' }]
  const results = made.results.map((result, at) => (at === 0 ? { ...result, skipped } : result))
  await refused(t, made, results, /no skip/)
  // The file without the tensor as well.
  const empty = await forged(made, 0, async () => {})
  await refused(t, made, [{ ...empty, tensors: 0, skipped }, ...made.results.slice(1)], /no skip/)
  await refused(t, made, [{ ...empty, tensors: 0, skipped: [] }, ...made.results.slice(1)], /has no tensor/)
})

test('a result that reports a skipped tensor is rejected if the target can store that tensor', async (t) => {
  const made = await planned('out.safetensors', { skip: true })
  const at = made.job.tasks.findIndex((_, i) => made.results[i].tensors === 1)
  const file = await open(made.folder.path(made.results[at].file))
  const [name] = file.keys()
  file.close()
  const gone = await forged(made, at, async () => {})
  const skipped = [{ code: 'ZT_BAD_DTYPE', message: 'no', tensor: name }]
  const results = made.results.map((result, i) => (i === at ? { ...gone, tensors: 0, skipped } : result))
  await refused(t, made, results, /has no tensor/)
})

test('results of a job with skip: tensors that the target cannot store are left out and listed', async (t) => {
  const made = await planned('out.safetensors', { skip: true })
  const done = await finishJob(made.job, made.results)
  t.is(done.tensors, 4)
  t.deepEqual(
    done.skipped.map(({ tensor }) => tensor),
    ['sparse'],
  )
  const file = await open(done.path)
  t.deepEqual([...file.keys()], ['a', 'b', 'c', 'd'])
  file.close()
})

for (const target of ['out.zt', 'out.safetensors']) {
  test(`a result whose shard has another dtype, shape, count or name is rejected: ${target}`, async (t) => {
    const floats = Float32Array.from({ length: 200 }, (_, at) => at)
    for (const [what, add, pattern] of [
      ['dtype', (writer) => writer.add('a', Int32Array.from(floats)), /a different layout, shape or dtype/],
      [
        'narrower dtype',
        (writer) => writer.add('a', { dtype: 'float16', shape: [200], data: new Uint16Array(200) }),
        /a different layout, shape or dtype/,
      ],
      [
        'shape',
        (writer) => writer.add('a', { dtype: 'float32', shape: [10, 20], data: floats }),
        /a different layout, shape or dtype/,
      ],
      ['name', (writer) => writer.add('z', floats), /has no tensor "a"/],
      [
        'more',
        async (writer) => {
          await writer.add('a', floats)
          await writer.add('z', floats)
        },
        /has tensors that task \d+ does not have/,
      ],
    ]) {
      const made = await planned(target, target === 'out.safetensors' ? { skip: true } : {})
      const at = made.results.findIndex(({ tensors }) => tensors > 0)
      const shard = await open(made.folder.path(made.results[at].file))
      const names = [...shard.keys()]
      shard.close()
      // One tensor in each file.
      t.deepEqual(names, ['a'], what)
      const wrong = await forged(made, at, add)
      const results = made.results.map((result, i) => (i === at ? wrong : result))
      await refused(t, made, results, pattern, what)
    }
    const made = await planned(target, target === 'out.safetensors' ? { skip: true } : {})
    const counted = made.results.map((result, at) => (at === 0 ? { ...result, tensors: 77 } : result))
    await refused(t, made, counted, /not the 77 of its result/)
  })
}

test('compares results with the cast of the job', async (t) => {
  const made = await planned('out.zt', { cast: { float32: 'bfloat16' } })
  const done = await finishJob(made.job, made.results)
  t.is(done.tensors, 5)
  t.true((await verify(done.path)).ok)
  const file = await open(done.path)
  t.is(file.tensor('a').dtype, 'bfloat16')
  file.close()
})

test('a modified task is not run: count 1 would write the root early', async (t) => {
  const folder = scratchFolder()
  const job = sent(await planJob('convert', await source(folder), folder.path('out.zt'), { maxShardBytes: 2000 }))
  const [task] = job.tasks
  for (const change of [
    { count: 1, task: 0 },
    { count: 2 },
    { target: folder.path('other.zt') },
    { job: `sha256:${'0'.repeat(32)}` },
    { ordinals: [[0, 1]] },
    { renamed: [[0, 'q']] },
  ]) {
    if (JSON.stringify({ ...task, ...change }) === JSON.stringify(task)) continue
    const error = await rejectionOf(() => runTask({ ...task, ...change }))
    t.is(error?.code, 'ZT_INVALID_ARG', JSON.stringify(change))
    t.regex(error.message, /digest/, JSON.stringify(change))
  }
  t.deepEqual(folder.names(), ['source.zt'])
})

test('results of statistics: two for one tensor are rejected', async (t) => {
  const folder = scratchFolder()
  const job = sent(await planJob('stats', await source(folder), { maxTaskBytes: 900 }))
  const results = await runAll(job)
  results.sort((a, b) => a.task - b.task)
  t.is((await finishJob(job, results)).stats.size, 5)
  const [first, second] = results
  const twice = [first, { ...second, stats: first.stats }, ...results.slice(2)]
  const error = await rejectionOf(() => finishJob(job, twice))
  t.is(error?.code, 'ZT_INVALID_ARG')
  t.regex(error.message, /two results contain the tensor/)
})
