// The rules of `convert({ rename, cast, dtype })`, also in the tasks of a job.
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const source = () =>
  written({ version: '1.2' }, async (writer) => {
    await writer.add('model.a.w', Float32Array.of(1, 2))
    await writer.add('model.a.norm', Float32Array.of(3))
    await writer.add('model.b.w', Float64Array.of(4))
    await writer.add('ids', Int32Array.of(5))
    await writer.addCsr('sparse', {
      shape: [1, 4],
      values: Float32Array.of(6),
      indices: BigUint64Array.of(1n),
      indptr: BigUint64Array.of(0n, 1n),
    })
  })

const dtypesOf = (path) => {
  const file = openSync(path)
  const found = Object.fromEntries([...file.values()].map(({ name, dtype }) => [name, dtype]))
  file.close()
  return found
}

const rules = {
  rename: { 'model.*.*': 'm.*-*', ids: 'tokens' },
  cast: { '*.norm': 'float32', sparse: 'float16', 'float*': 'bfloat16' },
}
const expected = {
  'm.a-w': 'bfloat16',
  'm.a-norm': 'float32',
  'm.b-w': 'bfloat16',
  tokens: 'int32',
  sparse: 'float16',
}

test('accepts rules as objects', async (t) => {
  const target = scratchPath('rules.zt')
  await convert(await source(), target, { version: '1.2', ...rules })
  t.deepEqual(dtypesOf(target), expected)
  const file = openSync(target)
  t.deepEqual([...file.tensor('m.a-w').toFloat32()], [1, 2])
  file.close()
})

test('accepts rules as a list, with a name and a dtype; dtype applies to the rest', async (t) => {
  const target = scratchPath('list.zt')
  const cast = [
    { name: 'model.*', dtype: 'float64', to: 'float32' },
    { name: '*.norm', to: 'float16' },
  ]
  await convert(await source(), target, { version: '1.2', cast, dtype: 'bfloat16' })
  t.deepEqual(dtypesOf(target), {
    'model.a.w': 'bfloat16',
    'model.a.norm': 'float16',
    'model.b.w': 'float32',
    ids: 'int32',
    sparse: 'bfloat16',
  })
})

test('a job applies the same rules', async (t) => {
  const { path } = scratchFolder()
  const from = await source()
  const job = await planJob('convert', from, path('m.zt'), {
    ...rules,
    version: '2',
    canonical: false,
    maxShardBytes: 1,
  })
  t.true(job.tasks.length > 1)
  const results = []
  for (const task of JSON.parse(JSON.stringify(job.tasks))) results.push(await runTask(task))
  await finishJob(job, results)
  t.deepEqual(dtypesOf(path('m.zt')), expected)
})

test('rejects invalid rules before it writes anything', async (t) => {
  const from = await source()
  for (const [options, message] of [
    [{ rename: { 'model.*': '*.*' } }, /'model\.\*' has 1 \*, but its new name '\*\.\*' has 2/],
    [{ rename: { a: 3 } }, /rename\["a"\] must be a string/],
    [{ rename: 'a=b' }, /rename must be a function, or an object/],
    [{ rename: { 'x*': 'y*' } }, /'x\*' matches no tensor/],
    [{ rename: (name) => name.slice(0, 7) }, /"model\.a\.w" and "model\.a\.norm" would both be called "model\.a"/],
    [{ cast: { 'x*': 'bfloat16' } }, /cast: 'x\*' matches no tensor/],
    [{ cast: { 'model.*': 'int8' } }, /cast: 'model\.\*' casts nothing to int8: a name alone casts floats to floats/],
    [{ cast: { ids: 'float32', '*.w': 'bfloat16' } }, /cast: 'ids' casts nothing to float32/],
    [{ cast: { flaot32: 'bfloat16' } }, /neither the name of a tensor nor of a dtype/],
    [{ cast: { float32: 'bf16' } }, /a dtype of cast must be the name of a dtype \('bfloat16'\)/],
    [{ cast: [{ to: 'bfloat16' }] }, /cast\[0\] needs a name, a dtype or both/],
    [{ cast: [{ dtype: 'f32', to: 'bfloat16' }] }, /cast\[0\]\.dtype must be the name of a dtype \('float32'\)/],
    [{ cast: [3] }, /cast\[0\] must be/],
    [{ dtype: 'int64' }, /dtype must be a floating-point dtype, got 'int64'/],
    [{ dtype: 'bf16' }, /dtype must be the name of a dtype \('bfloat16'\)/],
  ]) {
    const target = scratchPath('refused.zt')
    await t.throwsAsync(() => convert(from, target, options), { message })
    t.throws(() => openSync(target), { code: 'ZT_IO' })
  }
})

test('* matches as little as possible, and a name may contain one', async (t) => {
  const from = await written({ version: '1.2' }, async (writer) => {
    await writer.add('a.b.c.d', Int8Array.of(1))
    await writer.add('x*y', Int8Array.of(2))
  })
  const target = scratchPath('stars.zt')
  await convert(from, target, { version: '1.2', rename: { 'a.*.*': '*|*', 'x*y': 'z' } })
  t.deepEqual(Object.keys(dtypesOf(target)).sort(), ['b|c.d', 'z'])
})
