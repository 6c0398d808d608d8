// A set of files that replaces another one: leftovers of the old set are removed, and nothing that another file may need.
import { copyFileSync, existsSync, readFileSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { scratchFolder, written } from '../helpers/sample-files.mjs'

const NAMES = ['a', 'b', 'c', 'd', 'e']
const KIB64 = 2 ** 16
const TWO = { version: '2', maxShardBytes: 5 * KIB64, overwrite: true }
const SAFETENSORS = { format: 'safetensors', maxShardBytes: 2500, overwrite: true }
const INDEX = 'm.safetensors.index.json'

const add = (value, elements) => async (writer) => {
  for (const name of NAMES) await writer.add(name, new Float32Array(elements).fill(value))
}
const split2 = (path, value, options) => written({ ...TWO, ...options }, add(value, KIB64 / 4 + 1), path)
const split = (path, value, options) => written({ ...SAFETENSORS, ...options }, add(value, 250), path)
const parts = (total, before = '') =>
  Array.from({ length: total }, (_, at) => `m-${before}0000${at + 1}-of-0000${total}.zt`)
const numbered = (total) => Array.from({ length: total }, (_, at) => `m-0000${at + 1}-of-0000${total}.safetensors`)

async function holds(t, source, value) {
  const file = openSync(source)
  t.deepEqual([...file.keys()].sort(), NAMES)
  for (const { data } of file.values()) t.true(data.every((element) => element === value))
  t.true((await file.verify()).ok)
  file.close()
}

test('new shards have other names than the old ones, which are removed', async (t) => {
  const { names, path } = scratchFolder()
  await split2(path('m.zt'), 1)
  t.deepEqual(names(), [...parts(3), 'm.zt'])
  const old = openSync(path('m.zt'))
  await split2(path('m.zt'), 2)
  t.deepEqual(names(), [...parts(3, '2-'), 'm.zt'])
  await holds(t, path('m.zt'), 2)
  await holds(t, path('.'), 2)
  old.close()
  await split2(path('m.zt'), 3)
  t.deepEqual(names(), [...parts(3), 'm.zt'])
  await split2(path('m.zt'), 4, { maxShardBytes: 3 * KIB64 })
  t.deepEqual(names(), [...parts(5, '2-'), 'm.zt'])
  await split2(path('m.zt'), 5, { maxShardBytes: 2 ** 30 })
  t.deepEqual(names(), ['m.zt'])
  await holds(t, path('m.zt'), 5)
})

test('keeps a shard that another root may need', async (t) => {
  const { names, path } = scratchFolder()
  await split2(path('m.zt'), 1)
  // It finds the shards by their digests.
  copyFileSync(path('m.zt'), path('n.zt'))
  await split2(path('m.zt'), 2)
  t.deepEqual(names(), [...parts(3), ...parts(3, '2-'), 'm.zt', 'n.zt'].sort())
  await holds(t, path('n.zt'), 1)
  await holds(t, path('m.zt'), 2)
})

test('keeps a model that the old root links to', async (t) => {
  const { names, path } = scratchFolder()
  const base = await written(
    { version: '2' },
    (writer) => writer.add('w', Float32Array.of(1)),
    path('m-00001-of-00001.zt'),
  )
  const file = openSync(base)
  await written(
    { version: '2', canonical: false },
    (writer) => writer.link('w', { file, shard: '00001-of-00001' }),
    path('m.zt'),
  )
  file.close()
  await split2(path('m.zt'), 2)
  t.deepEqual(names(), ['m-00001-of-00001.zt', ...parts(3, '2-'), 'm.zt'].sort())
})

test('removes only files with names of our own sets that match the old root', async (t) => {
  const { names, path } = scratchFolder()
  await split2(path('m.zt'), 1)
  renameSync(path('m-00002-of-00003.zt'), path('elsewhere.zt'))
  writeFileSync(path('m-00002-of-00003.zt'), 'mine')
  writeFileSync(path('m-00004-of-00003.zt'), 'mine')
  await split2(path('m.zt'), 2)
  t.deepEqual(names(), [...parts(3, '2-'), 'elsewhere.zt', 'm-00002-of-00003.zt', 'm-00004-of-00003.zt', 'm.zt'].sort())
})

test('safetensors: removes only the parts of the old index', async (t) => {
  const { names, path } = scratchFolder()
  await split(path('m.safetensors'), 1)
  t.deepEqual(names(), [...numbered(3), INDEX].sort())
  const others = ['n-00001-of-00003.safetensors', 'm-00004-of-00003.safetensors', 'm-base.safetensors', 'config.json']
  for (const name of others) writeFileSync(path(name), 'mine')
  await split(path('m.safetensors'), 2, { maxShardBytes: 1 })
  t.deepEqual(names(), [...numbered(5), INDEX, ...others].sort())
  await holds(t, path(INDEX), 2)
  for (const name of others) t.is(readFileSync(path(name), 'utf8'), 'mine')
  await split(path('m.safetensors'), 3, { maxShardBytes: 2 ** 20 })
  t.deepEqual(names(), ['m.safetensors', ...others].sort())
  await holds(t, path('m.safetensors'), 3)
})

test('an old index names only numbered files of its stem, in its folder', async (t) => {
  const { names, path } = scratchFolder()
  const mine = ['weights.safetensors', 'm-last.safetensors', 'n-00001-of-00001.safetensors']
  for (const name of mine) writeFileSync(path(name), 'mine')
  const map = Object.fromEntries(mine.map((name, at) => [String(at), name]))
  writeFileSync(path(INDEX), JSON.stringify({ weight_map: map }))
  await split(path('m.safetensors'), 1)
  t.deepEqual(names(), [...numbered(3), INDEX, ...mine].sort())
  writeFileSync(path(INDEX), JSON.stringify({ weight_map: { x: '../m-00001-of-00003.safetensors' } }))
  await split(path('m.safetensors'), 2, { maxShardBytes: 2 ** 20 })
  t.true(existsSync(path('m-00001-of-00003.safetensors')))
})

if (process.platform !== 'win32') {
  test('removes links to parts, not the parts', async (t) => {
    const { names, path } = scratchFolder()
    await split(path('m.safetensors'), 1)
    renameSync(path(numbered(3)[0]), path('blob'))
    symlinkSync('blob', path(numbered(3)[0]))
    await split(path('m.safetensors'), 2)
    t.deepEqual(names(), ['blob', ...numbered(3), INDEX].sort())
    t.true(statSync(path('blob')).size > 0)
    await holds(t, path(INDEX), 2)
  })
}

test('concurrent writers of sets at one path leave one complete set', async (t) => {
  for (const options of [SAFETENSORS, TWO]) {
    const { names, path } = scratchFolder()
    const target = options === TWO ? 'm.zt' : 'm.safetensors'
    const writers = await Promise.all([1, 2, 3].map(() => create(path(target), options)))
    const elements = options === TWO ? KIB64 / 4 + 1 : 250
    await Promise.all(writers.map((writer, at) => add(at, elements)(writer)))
    const ends = await Promise.allSettled(writers.map((writer) => writer.finish()))
    const won = ends.flatMap(({ status }, at) => (status === 'fulfilled' ? [at] : []))
    t.true(won.length > 0)
    const file = openSync(path(options === TWO ? target : INDEX))
    const [value] = file.tensor('a').data
    file.close()
    t.true(won.includes(value))
    await holds(t, path(options === TWO ? target : INDEX), value)
    t.deepEqual(
      names().filter((name) => name.startsWith('.')),
      [],
    )
  }
})
