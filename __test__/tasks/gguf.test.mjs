// A conversion to GGUF in tasks: the files are those of `convert`, and each task and result is checked.
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import test from 'ava'
import { convert, create, open, openSync } from 'ztensor'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { some } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, runAll, sent } from '../helpers/tasks.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { weights, writeImportance, writeLlama } from '../helpers/tiny-models.mjs'

const LLAMA = { layers: 3, inner: 256 }

async function llama() {
  const path = scratchFolder().path('source.gguf')
  await writeLlama(path, LLAMA)
  return path
}

/** A model with names of GGUF as safetensors. */
async function plain() {
  const path = scratchFolder().path('source.safetensors')
  await writeLlama(`${path}.gguf`, LLAMA)
  await convert(`${path}.gguf`, path, { copyMetadata: false, copyAttributes: false })
  return path
}

async function importance(leftOut) {
  const path = scratchFolder().path('imatrix.gguf')
  await writeImportance(path, LLAMA, leftOut)
  return path
}

const metadata = {
  'general.architecture': 'llama',
  'llama.block_count': 3,
  'llama.rope.freq_base': { type: 'float32', value: 10000.5 },
  // As an integer, this key would come first in an object.
  7: 'seven',
}

/** The conversions: each returns a source and options. */
const CASES = {
  'q4_k_m from a checkpoint': async () => [(await checkpoint({ dtype: 'float32' })).folder, { quantize: 'q4_k_m' }],
  'a checkpoint as it is': async () => [(await checkpoint()).weights, { metadata: { 'general.name': 'other' } }],
  'a checkpoint in another dtype': async () => [(await checkpoint()).folder, { dtype: 'float16' }],
  'q8_0 from safetensors': async () => [await plain(), { quantize: 'q8_0', metadata }],
  'GGUF to GGUF': async () => [await llama(), { metadata: { 'general.name': undefined, note: 'x' }, alignment: 64 }],
  'rules, with new names': async () => [
    await llama(),
    { quantize: { '*.attn_*': 'q5_k', 'layer.*': 'q4_0' }, rename: (name) => name.replace('blk.', 'layer.') },
  ],
  'with an importance matrix': async () => [await llama(), { quantize: 'iq2_xs', imatrix: await importance([]) }],
  'some tensors': async () => [await llama(), { filter: ['blk.1.*', 'output.weight'], quantize: 'q4_k_s' }],
  'blocks as floats': async () => {
    const [source, blocks] = [await llama(), scratchFolder().path('q.gguf')]
    await convert(source, blocks, { quantize: 'q6_k' })
    return [blocks, { dequantize: 'bfloat16', copyMetadata: false, metadata: { 'general.architecture': 'x' } }]
  },
}

for (const [turn, [title, made]] of Object.entries(CASES).entries()) {
  test(`writes the same bytes as convert: ${title}`, async (t) => {
    const [source, options] = await made()
    for (const maxShardBytes of some([20_000, 5e9], 2, turn)) {
      const [to, whole] = [scratchFolder(), scratchFolder()]
      const job = sent(await planJob('convert', source, to.path('m.gguf'), { maxShardBytes, ...options }))
      const done = await finishJob(job, await runAll(job), { verify: true })
      const result = await convert(source, whole.path('m.gguf'), { maxShardBytes, ...options })
      t.deepEqual(filesOf(to), filesOf(whole), String(maxShardBytes))
      t.is(done.tensors, result.tensors)
      t.deepEqual(done.quantized, result.quantized)
      t.is(done.files.length, job.tasks.length > 1 ? job.tasks.length : 0)
      t.is(
        done.path,
        to.path(job.tasks.length > 1 ? `m-00001-of-${String(job.tasks.length).padStart(5, '0')}.gguf` : 'm.gguf'),
      )
      t.is(job.tasks.length > 1, maxShardBytes < 1e9)
      const file = await open(done.path)
      t.is(file.size, result.tensors)
      file.close()
      if (job.tasks.length === 1) continue
      // A single shard equals the file without shards.
      await convert(done.path, to.path('joined.gguf'))
      const { maxShardBytes: _, ...single } = { maxShardBytes, ...options }
      await convert(source, whole.path('single.gguf'), single)
      t.deepEqual(readFileSync(to.path('joined.gguf')), readFileSync(whole.path('single.gguf')))
    }
  })
}

test('the matrix may have a relative path, which the file contains like with convert', async (t) => {
  const source = await llama()
  const imatrix = await importance([])
  // An absolute one on another drive of Windows.
  const path = relative('.', imatrix)
  const [to, whole] = [scratchFolder(), scratchFolder()]
  const job = sent(await planJob('convert', source, to.path('m.gguf'), { quantize: 'q4_k_m', imatrix: path }))
  await finishJob(job, await runAll(job))
  await convert(source, whole.path('m.gguf'), { quantize: 'q4_k_m', imatrix: path })
  t.deepEqual(filesOf(to), filesOf(whole))
  t.is(openSync(to.path('m.gguf')).metadata['quantize.imatrix.file'], path.slice(0, 127))
})

test('lists skipped tensors once, and the plan rejects unsupported ones', async (t) => {
  const { path } = scratchFolder()
  const writer = await create(path('s.zt'), { version: '1.2' })
  for (let at = 0; at < 4; at++) await writer.add(`w.${at}.weight`, weights(512, at), { shape: [2, 256] })
  await writer.add('mask', { dtype: 'bool', shape: [2], data: Uint8Array.of(0, 1) })
  await writer.finish()
  const options = { maxShardBytes: 2000, copyMetadata: false, metadata: { 'general.architecture': 'x' } }
  const refused = await rejectionOf(() => planJob('convert', path('s.zt'), path('m.gguf'), options))
  t.like(refused, { code: 'ZT_BAD_DTYPE', tensor: 'mask' })
  const job = sent(await planJob('convert', path('s.zt'), path('m.gguf'), { ...options, skip: 'mask' }))
  t.is(job.tasks.length, 4)
  t.regex(job.warnings[0].message, /mask/)
  const results = await runAll(job)
  t.true(results.every(({ skipped }) => skipped.length === 0))
  const done = await finishJob(job, results)
  t.is(done.tensors, 4)
  t.deepEqual(
    done.skipped.map(({ tensor }) => tensor),
    ['mask'],
  )
  const claim = [
    { ...results[0], skipped: [{ code: 'ZT_BAD_DTYPE', message: 'no', tensor: 'mask' }] },
    ...results.slice(1),
  ]
  t.regex((await rejectionOf(() => finishJob(job, claim))).message, /lists skipped tensors/)
})

test('rejects options of GGUF for other targets, and values that JSON cannot represent', async (t) => {
  const source = await llama()
  const { path } = scratchFolder()
  for (const [target, options, message] of [
    ['m.zt', { quantize: 'q8_0' }, /support quantize only for GGUF/],
    ['m.safetensors', { requantize: true }, /support requantize only for GGUF/],
    ['m.zt', { imatrix: 'x' }, /support imatrix only for GGUF/],
    ['m.gguf', { metadata: { a: 1n } }, /metadata must be plain JSON in a job/],
    ['m.gguf', { metadata: { a: { type: 'float32', value: Number.NaN } } }, /metadata must be plain JSON in a job/],
    ['m.gguf', { quantize: 'q9' }, /there is no mixture "q9"/],
    ['m.gguf', { digest: 'xxh3' }, /digest/],
    ['m.npz', {}, /write zTensor 2, safetensors or GGUF, not npz/],
  ]) {
    const error = await rejectionOf(() => planJob('convert', source, path(target), options))
    t.is(error.code, 'ZT_INVALID_ARG', error.message)
    t.regex(error.message, message)
  }
})

test('detects files next to the source that change after the plan', async (t) => {
  const { folder } = await checkpoint()
  const to = scratchFolder()
  const job = sent(await planJob('convert', folder, to.path('m.gguf'), { maxShardBytes: 10_000 }))
  const results = await runAll(job)
  const before = filesOf(to)
  const config = join(folder, 'config.json')
  const text = readFileSync(config, 'utf8')
  writeFileSync(config, text.replace('"max_position_embeddings":128', '"max_position_embeddings":129'))
  for (const call of [() => runTask(job.tasks[1]), () => finishJob(job, results)])
    t.like(await rejectionOf(call), { code: 'ZT_IO' })
  writeFileSync(config, text)
  t.deepEqual(filesOf(to), before)
  await finishJob(job, results)

  const imatrix = await importance([])
  const weighed = sent(await planJob('convert', await llama(), to.path('w.gguf'), { quantize: 'q4_k_m', imatrix }))
  await writeImportance(imatrix, LLAMA, ['output.weight'])
  const error = await rejectionOf(() => runTask(weighed.tasks[0]))
  t.like(error, { code: 'ZT_IO' })
  t.regex(error.message, /importance matrix has changed since the job was planned/)
  rmSync(imatrix)
  t.like(await rejectionOf(() => runTask(weighed.tasks[0])), { code: 'ZT_IO' })
})

test('checks files against the plan: names, types, shapes, and the position in the set', async (t) => {
  const source = await llama()
  const to = scratchFolder()
  const job = sent(await planJob('convert', source, to.path('m.gguf'), { maxShardBytes: 200_000, quantize: 'q8_0' }))
  const results = (await runAll(job)).sort((a, b) => a.task - b.task)
  const [first, second] = results.map(({ file }) => to.path(file))
  const good = [first, second].map((path) => readFileSync(path))
  const refused = async (bytes, message) => {
    writeFileSync(second, bytes)
    const claimed = results.map((result, at) => (at === 1 ? { ...result, byteLength: bytes.length } : result))
    const error = await rejectionOf(() => finishJob(job, claimed))
    t.regex(error.message, message)
    t.regex(error.message, /run task 1 again/)
    writeFileSync(second, good[1])
  }
  const changed = (from, to) => Buffer.from(good[1].toString('latin1').replace(from, to), 'latin1')
  const { name } = openSync(second, { shards: 'none' }).tensor([...openSync(second, { shards: 'none' }).keys()][0])
  await refused(changed(name, name.replace(/.$/, 'X')), new RegExp(`has no tensor "${name}"`))
  await refused(good[0], /has no tensor/)
  const number = Buffer.from(good[1])
  number.writeUInt16LE(7, number.indexOf('split.no') + 'split.no'.length + 4)
  await refused(number, /is not file 2 of a set of/)
  const count = { ...results[1], tensors: 99 }
  const wrong = await rejectionOf(() =>
    finishJob(
      job,
      results.map((result, at) => (at === 1 ? count : result)),
    ),
  )
  t.regex(wrong.message, /not the 99 of its result/)
  await finishJob(job, results, { verify: true })
})

test('rejects a plan over another set, and repeated or late tasks write the same bytes', async (t) => {
  const source = await llama()
  const to = scratchFolder()
  const options = { maxShardBytes: 300_000, quantize: 'q5_0' }
  const job = sent(await planJob('convert', source, to.path('m.gguf'), options))
  await runTask(job.tasks[1])
  const plan = (more) => planJob('convert', source, to.path('m.gguf'), { ...options, ...more })
  t.like(await rejectionOf(plan), { code: 'ZT_EXISTS' })
  t.is((await plan({ overwrite: true })).id, job.id)
  const results = await Promise.all([...job.tasks, ...job.tasks].map((task) => runTask(task)))
  const first = await finishJob(job, results)
  const files = filesOf(to)
  // Only the files show that the set is complete.
  t.like(await rejectionOf(() => plan({ overwrite: true })), { code: 'ZT_EXISTS' })
  await runTask(job.tasks[2])
  t.deepEqual(await finishJob(job, results), first)
  t.deepEqual(filesOf(to), files)
  t.false(existsSync(to.path('m.gguf')))
  renameSync(to.path(results[0].file), to.path('aside'))
  t.regex((await rejectionOf(() => finishJob(job, results))).message, /run task 0 again/)
  const single = sent(await planJob('convert', source, to.path('n.gguf'), { quantize: 'q5_0' }))
  const [one, other] = await Promise.all([single, single].map((job) => runTask(job.tasks[0])))
  t.deepEqual(one, other)
  t.like(await rejectionOf(() => planJob('convert', source, to.path('n.gguf'), { overwrite: true })), {
    code: 'ZT_EXISTS',
  })
})
