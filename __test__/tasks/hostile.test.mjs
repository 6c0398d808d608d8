// Crafted jobs, tasks and results: each field is checked, and no path leaves the folder of the target.
import { readdirSync } from 'node:fs'
import { dirname } from 'node:path'
import test from 'ava'
import { finishJob, planJob, runTask } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { filesOf, model, runAll, sent } from '../helpers/tasks.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'

async function llama({ path }) {
  await writeLlama(path('m.gguf'), { layers: 1, inner: 256 })
  return path('m.gguf')
}

async function jobs() {
  const [from, to] = [scratchFolder(), scratchFolder()]
  const source = await model(from.path('m.zt'), { version: '2' })
  const convert = await planJob('convert', source, to.path('out.safetensors'), {
    maxShardBytes: 3000,
    rename: (name) => `a.${name}`,
  })
  const gguf = await planJob('convert', await llama(from), to.path('out.gguf'), {
    maxShardBytes: 100_000,
    quantize: 'q5_0',
    metadata: { 'general.name': 'tiny', 'llama.vocab_size': undefined },
    rename: (name) => name.replace('blk', 'b'),
  })
  const verify = await planJob('verify', source, { maxTaskBytes: 3000 })
  const stats = await planJob('stats', source, { maxTaskBytes: 3000, bins: 3 })
  return { convert: sent(convert), gguf: sent(gguf), verify: sent(verify), stats: sent(stats), to, from }
}

/** Values that no field takes. */
const WRONG = [
  null,
  -1,
  1.5,
  'x\0y',
  [],
  {},
  [[]],
  Number.MAX_VALUE,
  true,
  [[5, 2]],
  [
    [0, 1],
    [0, 1],
  ],
  '\ud800',
]

/** Every field of a value, with its path. */
function* fields(value, way = []) {
  if (typeof value !== 'object' || value === null) return
  for (const [key, item] of Object.entries(value)) {
    yield [...way, key]
    yield* fields(item, [...way, key])
  }
}

function changed(value, way, item) {
  const copy = structuredClone(value)
  let at = copy
  for (const key of way.slice(0, -1)) at = at[key]
  if (item === undefined) delete at[way[way.length - 1]]
  else at[way[way.length - 1]] = item
  return copy
}

test('rejects a task with a wrong field with a code, and writes nothing else', async (t) => {
  const { to, from, ...all } = await jobs()
  let refused = 0
  for (const job of Object.values(all)) {
    const [task] = job.tasks
    for (const way of fields(task)) {
      for (const wrong of [undefined, ...WRONG]) {
        const error = await rejectionOf(() => runTask(changed(task, way, wrong)))
        if (error === undefined) continue
        refused++
        t.regex(
          String(error.code),
          /^ZT_(INVALID_ARG|IO|BAD_INDEX|BAD_MAGIC|LIMIT|UNSUPPORTED_VERSION|BAD_SHAPE|BAD_DTYPE|BAD_LAYOUT)$/,
          `${way.join('.')} ${JSON.stringify(wrong)}: ${error.stack}`,
        )
      }
    }
  }
  t.true(refused > 300)
  t.deepEqual(readdirSync(from.folder).sort(), ['m.gguf', 'm.zt'])
  t.true(
    to.names().every((name) => /^out-\d{5}-of-\d{5}\.(safetensors|gguf)$/.test(name)),
    to.names().join(),
  )
})

test('names an unknown field, a wrong kind and a newer version', async (t) => {
  const { convert } = await jobs()
  const [task] = convert.tasks
  for (const [wrong, pattern] of [
    [{ ...task, file: '../../etc/passwd' }, /task has an unknown key 'file'/],
    [{ ...task, kind: 'delete' }, /task\.kind/],
    [{ ...task, ztensor: 2 }, /newer version/],
    [{ ...task, options: { ...task.options, overwrite: true } }, /overwrite/],
    [{ ...task, options: { ...task.options, format: 'npz' } }, /format/],
    [{ ...task, source: { ...task.source, shards: 'none' } }, /shards/],
    [{ ...task, target: 'relative/m.zt' }, /absolute/],
    [{ ...task, target: '/tmp/..' }, /target/],
    [{ ...task, task: 10 ** 6 }, /below/],
    [{ ...task, ordinals: [[0, 2 ** 40]] }, /task\.digest/],
    [{ ...task, ordinals: [[0, 2], [1, 3]] }, /ordinals\[1\]/], // biome-ignore format: a row each
    [7, /task must be an object/],
  ]) {
    const error = await rejectionOf(() => runTask(wrong))
    t.is(error?.code, 'ZT_INVALID_ARG', String(pattern))
    t.regex(error.message, pattern)
  }
})

test('rejects a modified job', async (t) => {
  const { to, from: _from, ...all } = await jobs()
  for (const kind of ['convert', 'gguf', 'verify', 'stats']) {
    const job = all[kind]
    const results = await runAll(job)
    const before = filesOf(to)
    for (const way of fields(job)) {
      // Deep ones of the first task are enough.
      if (way[0] === 'tasks' && way.length > 1 && way[1] !== '0') continue
      for (const wrong of [undefined, null, 77, 'x', [], {}]) {
        // There are none.
        if (way[0] === 'warnings' && Array.isArray(wrong)) continue
        const error = await rejectionOf(() => finishJob(changed(job, way, wrong), results))
        t.is(error?.code, 'ZT_INVALID_ARG', `${way.join('.')} = ${JSON.stringify(wrong)}: ${error?.stack}`)
      }
    }
    for (const way of fields(results[0])) {
      for (const wrong of [null, -1, [null], { a: 1 }, 'x']) {
        const error = await rejectionOf(() => finishJob(job, changed(results, ['0', ...way], wrong)))
        if (error === undefined) continue
        t.regex(
          String(error.code),
          /^ZT_(INVALID_ARG|IO)$/,
          `${way.join('.')} = ${JSON.stringify(wrong)}: ${error.stack}`,
        )
      }
    }
    t.deepEqual(
      Object.keys(filesOf(to)).filter((name) => !name.endsWith('.json')),
      Object.keys(before).filter((name) => !name.endsWith('.json')),
    )
    await finishJob(job, results)
  }
})

test('the order of keys does not change an id', async (t) => {
  const { convert } = await jobs()
  const turned = (value) => {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(turned)
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, item]) => [key, turned(item)]),
    )
  }
  const { path } = await finishJob(turned(convert), (await runAll(turned(convert))).map(turned))
  t.is(dirname(path), dirname(convert.tasks[0].target))
})
