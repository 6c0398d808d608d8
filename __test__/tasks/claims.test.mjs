// Metadata of the files of a job: a worker could have changed it, so it is compared with the plan.
import { appendFileSync, closeSync, openSync, renameSync, symlinkSync, writeSync } from 'node:fs'
import test from 'ava'
import { create, editMetadata, open } from 'ztensor'
import { finishJob, planJob } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { model, runAll, sent } from '../helpers/tasks.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'

/** A job, its results, and the false report of a worker about an edited file. */
async function job(source, target, options) {
  const { path } = scratchFolder()
  const made = sent(await planJob('convert', source, path(target), options))
  const results = await runAll(made)
  const lie = async (task, edit) => {
    const result = results.find((one) => one.task === task)
    const file = path(result.file)
    await editMetadata(file, edit)
    const opened = await open(file, { shards: 'none' })
    result.byteLength = opened.byteLength
    opened.close()
  }
  return { made, results, lie, path }
}

async function llama() {
  const { path } = scratchFolder()
  await writeLlama(path('m.gguf'), { layers: 3, inner: 256 })
  return path('m.gguf')
}

const GGUF = {
  'a changed template': { set: { 'tokenizer.chat_template': 'evil' } },
  'an unplanned key': { set: { 'tokenizer.chat_template.tool_use': 'evil' } },
  'a key less': { remove: ['general.architecture'] },
}

for (const [title, edit] of Object.entries(GGUF))
  for (const maxShardBytes of [20_000, 5e9])
    test(`compares metadata of a GGUF file with the plan: ${title}, ${maxShardBytes}`, async (t) => {
      const { folder } = await checkpoint()
      const { made, results, lie } = await job(folder, 'm.gguf', { maxShardBytes, quantize: 'q8_0' })
      t.is(made.tasks.length > 1, maxShardBytes < 1e9)
      await finishJob(made, results)
      await lie(0, edit)
      const error = await rejectionOf(() => finishJob(made, results))
      t.like(error, { code: 'ZT_BAD_INDEX' })
      t.regex(
        error.message,
        /metadata "(tokenizer\.chat_template(\.tool_use)?|general\.architecture)".*run task 0 again/,
      )
    })

test('metadata of a job from GGUF to GGUF, with blocks, equals the plan', async (t) => {
  const source = await llama()
  const { made, results, lie } = await job(source, 'm.gguf', { maxShardBytes: 60_000, quantize: 'q4_k_m' })
  t.true(made.tasks.length > 1)
  await t.notThrowsAsync(finishJob(made, results))
  await lie(0, { set: { 'general.name': 'another' } })
  t.regex((await rejectionOf(() => finishJob(made, results))).message, /other metadata "general.name" than planned/)
})

test('compares the type of a number in GGUF metadata with the plan', async (t) => {
  const { made, results, lie } = await job(await llama(), 'm.gguf', {})
  await lie(0, { set: { 'llama.block_count': { type: 'int32', value: 3 } } })
  const error = await rejectionOf(() => finishJob(made, results))
  t.regex(error.message, /other metadata "llama.block_count" than planned: run task 0 again/)
})

for (const [target, maxShardBytes] of [
  ['m.safetensors', 5e9],
  ['m.safetensors', 3000],
  ['m.zt', 5e9],
])
  test(`compares attributes of a file that the finisher does not write with the plan: ${target}, ${maxShardBytes}`, async (t) => {
    const { path } = scratchFolder()
    const source = await model(path('s.zt'), { version: '2' })
    const { made, results, lie } = await job(source, target, { maxShardBytes })
    t.is(made.tasks.length > 1, maxShardBytes < 1e9)
    await lie(0, { set: { license: 'stolen' } })
    const error = await rejectionOf(() => finishJob(made, results))
    t.like(error, { code: 'ZT_BAD_INDEX' })
    t.regex(error.message, /metadata "license" than planned: run task 0 again/)
  })

const ADDED = {
  'bytes behind the last tensor': (file) => {
    appendFileSync(file, Buffer.alloc(64))
    return 64
  },
  'a byte in the padding of a tensor': (file, padding) => {
    const fd = openSync(file, 'r+')
    writeSync(fd, 'x', padding)
    closeSync(fd)
    return 0
  },
}

for (const [title, add] of Object.entries(ADDED))
  for (const maxShardBytes of [20_000, 5e9])
    test(`rejects a GGUF file of a job with ${title}, ${maxShardBytes}`, async (t) => {
      const { path: scratch } = scratchFolder()
      const source = scratch('s.gguf')
      const writer = await create(source, { metadata: { 'general.architecture': 'test' } })
      for (let at = 0; at < 8; at++) await writer.add(`t${at}`, new Float32Array(2001).fill(at))
      await writer.finish()
      const { made, results, path } = await job(source, 'm.gguf', { maxShardBytes })
      t.is(made.tasks.length > 1, maxShardBytes < 1e9)
      await t.notThrowsAsync(finishJob(made, results))
      const result = results.find(({ task }) => task === 0)
      const file = await open(path(result.file), { shards: 'none' })
      const { offset, storedLength } = file.tensor('t0').components.get('data')
      file.close()
      result.byteLength += add(path(result.file), offset + storedLength)
      const error = await rejectionOf(() => finishJob(made, results))
      t.is(error?.code, 'ZT_BAD_INDEX')
      t.regex(error.message, /has bytes that belong to no tensor: run task 0 again/)
    })

for (const target of ['m.gguf', 'm.safetensors', 'm.zt'])
  test(`rejects a link in place of the file of a task: ${target}`, async (t) => {
    const isGguf = target === 'm.gguf'
    const { path: scratch } = scratchFolder()
    const source = isGguf ? await llama() : await model(scratch('s.zt'), { version: '2' })
    const { made, results, path } = await job(source, target, { maxShardBytes: isGguf ? 60_000 : 3000 })
    t.true(made.tasks.length > 1)
    const { file } = results.find(({ task }) => task === 1)
    renameSync(path(file), path('elsewhere'))
    symlinkSync('elsewhere', path(file))
    const error = await rejectionOf(() => finishJob(made, results))
    t.is(error?.code, 'ZT_IO')
    t.regex(error.message, /is a link, not the file that the task wrote: run task 1 again/)
  })

test('compares attributes of single tensors with the plan', async (t) => {
  const { path: scratch } = scratchFolder()
  const layout = 'org.example.codes/1'
  const add = async (writer, { unit = 'm', list = [1, 2.5, 'x'], role = 'more' } = {}) => {
    const data = new Float32Array(1000)
    await writer.add('a', { dtype: 'float32', shape: [1000], data }, { attributes: { unit } })
    await writer.add('b', { dtype: 'float32', shape: [1000], data }, { attributes: { list, map: { deep: null } } })
    const part = { dtype: 'uint8', data: Uint8Array.of(1) }
    await writer.addObject('c', { layout, shape: [1], components: { codes: part, [role]: part } })
  }
  const source = scratch('s.zt')
  const options = { version: '2', canonical: false, overwrite: true }
  const writer = await create(source, options)
  await add(writer)
  await writer.finish()
  for (const [tensor, change] of [
    ['a', { unit: 'km' }],
    ['b', { list: [1, 2.5] }],
    ['c', { role: 'other' }],
    [undefined, {}],
  ]) {
    const { made, results, path } = await job(source, 'm.zt', { version: '2', canonical: false })
    await t.notThrowsAsync(finishJob(made, results))
    const [result] = results
    const forged = await create(path(result.file), options)
    await add(forged, change)
    await forged.finish()
    const opened = await open(path(result.file))
    result.byteLength = opened.byteLength
    opened.close()
    const error = await rejectionOf(() => finishJob(made, results))
    t.is(error?.code, tensor && 'ZT_BAD_INDEX', tensor)
    if (tensor !== undefined)
      t.true(
        error.message.includes(
          `has the tensor "${tensor}" with other attributes or components than planned: run task 0 again`,
        ),
        error.message,
      )
  }
})
