// Sets with more files than the process may open.
import { spawnSync } from 'node:child_process'
import { readdirSync, utimesSync } from 'node:fs'
import test from 'ava'
import { create, open } from 'ztensor'
import { scratchFolder } from '../helpers/sample-files.mjs'

const COUNT = 80
const SETS = {
  'model.safetensors': { maxShardBytes: 1 },
  'model.gguf': { maxShardBytes: 1, metadata: { 'general.architecture': 'test' } },
  'model.zt': { version: '2', maxShardBytes: 8192, alignment: 4096 },
}

/** Runs a program that may open at most 64 files, and returns its output. */
function limited(program, ...args) {
  const run = 'ulimit -n 64; exec "$0" --input-type=module -e "$@"'
  const options = { cwd: new URL('.', import.meta.url), encoding: 'utf8' }
  return spawnSync('bash', ['-c', run, process.execPath, program, ...args], options)
}

const WRITE = `import { create } from 'ztensor'
  const [path, options, count, end, plus = '0'] = process.argv.slice(1)
  const writer = await create(path, JSON.parse(options))
  for (let at = 0; at < Number(count); at++)
    await writer.add('t' + at, { dtype: 'float32', shape: [1024], data: new Float32Array(1024).fill(at + Number(plus)) })
  if (end === 'finish') await writer.finish()
  else if (end === 'abort') await writer.abort()
  else process.kill(process.pid, 'SIGKILL')`

if (process.platform === 'linux') {
  for (const [name, options] of Object.entries(SETS)) {
    test(`a process that may open 64 files writes a set of ${COUNT} (${name})`, async (t) => {
      const { folder, path } = scratchFolder()
      const run = (end, more = {}, plus = 0) =>
        limited(WRITE, path(name), JSON.stringify({ ...options, ...more }), String(COUNT), end, String(plus))
      t.is(run('abort').stderr, '')
      t.deepEqual(readdirSync(folder), [])
      t.is(run('kill').signal, 'SIGKILL')
      // The next writer removes the leftovers of the killed one.
      t.is(run('finish').stderr, '')
      const names = readdirSync(folder).sort()
      t.is(names.length, COUNT + (name.endsWith('.gguf') ? 0 : 1))
      t.deepEqual(
        names.filter((one) => !one.startsWith('model')),
        [],
      )
      // A set with other values, over the first one.
      t.is(run('finish', { overwrite: true }, 1000).stderr, '')
      t.is(readdirSync(folder).length, names.length)
      const file = await open(name.endsWith('.zt') ? path(name) : folder)
      for (let at = 0; at < COUNT; at++)
        t.deepEqual(file.get(`t${at}`).toFloat32(), new Float32Array(1024).fill(at + 1000), `t${at}`)
      file.close()
    })
  }
}

const READ = `import { convert, diff, open } from 'ztensor'
  const [path, target, options, io] = process.argv.slice(1)
  const file = await open(path, { io })
  const sum = (array) => array.reduce((all, one) => all + one, 0)
  // In an order that opens each file more than once.
  const names = [...file.keys()]
  const each = {}
  for (const turn of [0, 1])
    for (const name of turn === 0 ? names : names.toReversed?.() ?? [...names].reverse()) {
      const tensor = file.tensor(name)
      each[name] = [sum(await tensor.load()), sum(tensor.toFloat32()), sum((await tensor.slice([[0, 1]])).data), (await tensor.stats()).max]
    }
  await file.prefetch()
  const all = Object.fromEntries(Array.from((await file.load()).entries(), ([name, { data }]) => [name, sum(data)]))
  const { ok, checked } = await file.verify()
  await convert(file, target, JSON.parse(options))
  const { same } = await diff(file, target)
  console.log(JSON.stringify({ each, all, ok, checked, same }))`

const FILES = 200
const FORMATS = {
  safetensors: { name: 'model.safetensors', options: { maxShardBytes: 1 } },
  gguf: { name: 'model.gguf', options: { maxShardBytes: 1, metadata: { 'general.architecture': 'test' } } },
  'zTensor 2': { name: 'model.zt', options: { version: '2', maxShardBytes: 1 } },
}

/** Writes a set of files with a tensor each. The tensor of number N has the numbers N and N + 1. Returns the path to open. */
async function setOf({ name, options }) {
  const { folder, path } = scratchFolder()
  const writer = await create(path(name), options)
  for (let at = 0; at < FILES; at++) await writer.add(`t${at}`, Float32Array.of(at, at + 1))
  await writer.finish()
  return { folder, path, whole: name.endsWith('.zt') ? path(name) : folder }
}

if (process.platform === 'linux')
  for (const [format, how] of Object.entries(FORMATS))
    for (const io of ['auto', 'read', 'direct'])
      test(`a process that may open 64 files loads, verifies, compares and converts a set of ${FILES} (${format}, io: ${io})`, async (t) => {
        const { path, whole } = await setOf(how)
        const { stdout, stderr } = limited(READ, whole, path('whole.zt'), JSON.stringify({ version: '2' }), io)
        t.is(stderr, '')
        const { each, all, ok, same } = JSON.parse(stdout)
        t.deepEqual([ok, same], [true, true])
        const numbers = Array.from({ length: FILES }, (_, at) => at)
        t.deepEqual(each, Object.fromEntries(numbers.map((at) => [`t${at}`, [2 * at + 1, 2 * at + 1, at, at + 1]])))
        t.deepEqual(all, Object.fromEntries(numbers.map((at) => [`t${at}`, 2 * at + 1])))
      })

const REPLACED = `import { open } from 'ztensor'
  import { copyFileSync, renameSync, utimesSync } from 'node:fs'
  const [path, shard, how] = process.argv.slice(1)
  const file = await open(path)
  for (const name of file.keys()) await file.tensor(name).load()
  const other = shard + '.other'
  if (how === 'replaced') { copyFileSync(shard, other); renameSync(other, shard) }
  else utimesSync(shard, 1, 1)
  const calls = { load: () => file.tensor('t0').load(), data: () => file.tensor('t0').data, verify: () => file.tensor('t0').verify() }
  const found = {}
  for (const [call, make] of Object.entries(calls))
    try { await make(); found[call] = 'no error' } catch ({ code, message, path }) { found[call] = [code, message, path] }
  found.rest = Array.from(await file.tensor('t1').load())
  console.log(JSON.stringify(found))`

if (process.platform === 'linux')
  for (const how of ['replaced', 'changed'])
    test(`a file of a large set that was ${how} after it was closed is not read`, async (t) => {
      const { path, whole } = await setOf(FORMATS.safetensors)
      const shard = path('model-00001-of-00200.safetensors')
      utimesSync(shard, 1000, 1000)
      const { stdout, stderr } = limited(REPLACED, whole, shard, how)
      t.is(stderr, '')
      const { rest, ...found } = JSON.parse(stdout)
      t.deepEqual(rest, [1, 2])
      for (const [call, [code, message]] of Object.entries(found)) {
        t.is(code, 'ZT_IO', call)
        t.regex(
          message,
          /model-00001-of-00200\.safetensors.*was replaced or changed since its index was read; open it again/,
          call,
        )
      }
    })
