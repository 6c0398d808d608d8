// One namespace over many files: indexes, folders and lists of files.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { open, openSync, saveFile, ZTensorError } from 'ztensor'
import { canMap, isMapped } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, indexText, shard, TWO } from '../helpers/sharded.mjs'
import { serveFiles } from '../remote/web.mjs'

/** Closes a file when its test ends. */
function closeAfterTest(t, file) {
  t.teardown(() => file.close())
  return file
}

const both = async (source, options) => [
  thrownBy(() => openSync(source, options).close()),
  await rejectionOf(async () => (await open(source, options)).close()),
]

/** Asserts that open() and openSync() fail with the same error; returns it. */
async function refused(t, source, code, options) {
  const [error, later] = await both(source, options)
  t.true(error instanceof ZTensorError, error?.stack ?? 'nothing thrown')
  t.is(error.code, code, error.message)
  t.is(later?.message, error.message)
  return error
}

const ORDER = ['z.first', 'a.second', 'b.third']

for (const [what, source] of Object.entries({
  'its index': ({ index }) => index,
  'a file: URL of its index': ({ index }) => pathToFileURL(index),
  'its folder': ({ folder }) => folder,
  'its folder without the index': ({ folder, index }) => {
    rmSync(index)
    return folder
  },
  'its files': ({ path }) => Object.keys(TWO).map(path),
  "its files' URLs": ({ path }) => Object.keys(TWO).map((name) => pathToFileURL(path(name))),
})) {
  test(`opens a sharded checkpoint by ${what}`, async (t) => {
    for (const opening of [openSync, open]) {
      const made = checkpoint(TWO)
      const file = await opening(source(made))
      t.is(file.format, 'safetensors')
      t.is(file.version, undefined)
      t.deepEqual([...file.keys()], ORDER)
      t.deepEqual({ ...file.metadata }, { format: 'pt' })
      t.deepEqual(file.warnings, [])
      const paths = Object.keys(TWO).map(made.path)
      const sizes = paths.map((path) => statSync(path).size)
      t.deepEqual(file.files, [
        { path: paths[0], byteLength: sizes[0] },
        { path: paths[1], byteLength: sizes[1] },
      ])
      t.is(file.byteLength, sizes[0] + sizes[1])
      t.deepEqual(
        [...file.values()].map((tensor) => tensor.components.get('data').path),
        [paths[0], paths[0], paths[1]],
      )
      t.deepEqual(
        [...file.values()].map((tensor) => [...tensor.data]),
        [[1, 2], [3], [4, 5, 6]],
      )
      isMapped(t, file.tensor('b.third'), 4)
      t.deepEqual([...(await file.tensor('b.third').load())], [4, 5, 6])
      t.deepEqual([...(await file.tensor('b.third').load({ slice: [[1, 3]] }))], [5, 6])
      t.deepEqual([...file.tensor('b.third').slice([[1, 2]]).data], [5])
      t.deepEqual(
        [...(await file.load()).values()].map(({ data }) => [...data]),
        [[1, 2], [3], [4, 5, 6]],
      )
      t.like(await file.verify(), { ok: true, undigested: 3 })
      await file.prefetch()
      file.evict()
      const { data } = file.tensor('b.third')
      file.close()
      if (canMap(4)) t.is(data.length, 0)
      t.is(thrownBy(() => file.files)?.code, 'ZT_CLOSED')
    }
  })
}

test('each file is opened by its path', (t) => {
  const { folder, index, path } = checkpoint(TWO)
  const [first] = Object.keys(TWO).map(path)
  const byIndex = closeAfterTest(t, openSync(index))
  const byFolder = closeAfterTest(t, openSync(folder))
  const byList = closeAfterTest(t, openSync(Object.keys(TWO).map(path)))
  const byLoneList = closeAfterTest(t, openSync([first]))
  t.deepEqual([byIndex.path, byFolder.path, byList.path, byLoneList.path], [index, folder, undefined, first])
})

test('the only file of a list or folder opens as itself', (t) => {
  const made = scratchFolder()
  writeFileSync(made.path('m.safetensors'), shard({ w: [1] }, { kept: 'yes' }))
  writeFileSync(made.path('config.json'), '{}')
  for (const source of [[made.path('m.safetensors')], made.folder]) {
    const file = closeAfterTest(t, openSync(source))
    t.deepEqual([{ ...file.metadata }, file.files.length], [{ kept: 'yes' }, 1])
    t.deepEqual(file.files, [{ path: made.path('m.safetensors'), byteLength: file.byteLength }])
  }
})

test('files of several formats open as one', async (t) => {
  const st = scratchPath('a.safetensors')
  writeFileSync(st, shard({ s: [1, 2] }))
  const zt = await written({ version: '1.0', digest: 'crc32c' }, async (w) => {
    await w.add('z', { dtype: 'int16', shape: [2], data: Int16Array.of(-1, 5) })
    await w.addCsr('m', {
      shape: [2, 2],
      values: Float32Array.of(7),
      indices: BigUint64Array.of(1n),
      indptr: BigUint64Array.of(0n, 0n, 1n),
    })
    await w.addObject('odd', {
      layout: 'pie.odd',
      shape: [2],
      components: { part: { dtype: 'uint8', data: Uint8Array.of(9, 8) } },
    })
  })
  const file = closeAfterTest(t, await open([st, zt]))
  t.deepEqual([file.format, file.version], ['mixed', undefined])
  t.deepEqual([...file.keys()], ['s', 'z', 'm', 'odd'])
  t.deepEqual([...file.tensor('z').data], [-1, 5])
  t.deepEqual([...file.tensor('m').csr().toDense()], [0, 0, 0, 7])
  t.deepEqual([...(await file.tensor('m').loadCsr()).values], [7])
  t.is(file.tensor('odd').layout, 'pie.odd')
  t.deepEqual([...file.tensor('odd').components.get('part').data], [9, 8])
  t.like(await file.verify(), { ok: true, undigested: 1 })
  const [warning] = file.warnings
  t.like(warning, { code: 'ZT_WARN_UNKNOWN_LAYOUT', tensor: 'odd', path: zt })
})

test('attributes are those of the index, and those that are equal in all files', (t) => {
  const made = checkpoint(TWO, { metadata: { total_size: 24, total_parameters: 6, by: 'us', format: 'np' } })
  writeFileSync(
    made.path('model-00002-of-00002.safetensors'),
    shard({ 'b.third': [4, 5, 6] }, { format: 'pt', own: 'x' }),
  )
  const byIndex = closeAfterTest(t, openSync(made.index))
  t.deepEqual({ ...byIndex.metadata }, { by: 'us', format: 'np' })
  rmSync(made.index)
  const byFolder = closeAfterTest(t, openSync(made.folder))
  t.deepEqual({ ...byFolder.metadata }, { format: 'pt' })
})

test('small tensors of many files share windows of their file', async (t) => {
  const files = {}
  for (let f = 0; f < 3; f++) {
    const tensors = {}
    for (let i = 0; i < 2000; i++) tensors[`f${f}.t${i}`] = [f * 10000 + i, i]
    files[`m-${f + 1}-of-3.safetensors`] = tensors
  }
  const file = closeAfterTest(t, await open(checkpoint(files).index))
  t.is(file.size, 6000)
  for (const [f, i] of [
    [0, 0],
    [1, 0],
    [2, 1999],
    [0, 1999],
    [1, 1000],
  ]) {
    t.deepEqual([...file.tensor(`f${f}.t${i}`).data], [f * 10000 + i, i])
  }
  if (canMap(4)) t.is(file.tensor('f1.t0').data.buffer, file.tensor('f1.t1').data.buffer)
  t.not(file.tensor('f1.t0').data.buffer, file.tensor('f2.t0').data.buffer)
})

// Windows lets only some users make links.
const posixTest = process.platform === 'win32' ? test.skip : test
posixTest('shards are found through links, as a hub keeps them', (t) => {
  const blobs = checkpoint(TWO)
  const snapshot = scratchFolder()
  for (const name of [...Object.keys(TWO), 'model.safetensors.index.json']) {
    symlinkSync(blobs.path(name), snapshot.path(name))
  }
  const file = closeAfterTest(t, openSync(snapshot.folder))
  t.deepEqual([...file.keys()], ORDER)
})

test('a file that is replaced, changed or removed before its first use is ZT_IO', async (t) => {
  const changes = {
    replaced: (path) => {
      const other = `${path}.new`
      writeFileSync(other, shard({ 'b.third': [7, 8, 9] }))
      renameSync(other, path)
    },
    changed: (path) => utimesSync(path, 1, 1),
    gone: (path) => rmSync(path),
  }
  for (const [what, change] of Object.entries(changes)) {
    const { index, path } = checkpoint(TWO)
    const file = closeAfterTest(t, openSync(index))
    const last = path('model-00002-of-00002.safetensors')
    change(last)
    t.deepEqual([...file.tensor('z.first').data], [1, 2], what)
    const errors = [
      thrownBy(() => file.tensor('b.third').data),
      await rejectionOf(() => file.tensor('b.third').load()),
      await rejectionOf(() => file.prefetch()),
    ]
    for (const error of errors) {
      t.is(error?.code, 'ZT_IO', `${what}: ${error?.message}`)
      t.true(error.message.includes(last), error.message)
    }
  }
})

test('all problems of a checkpoint are one error', async (t) => {
  const files = {
    'm-1.safetensors': { a: [1], b: [2], c: [3] },
    'm-2.safetensors': { c: [4], d: [5] },
    'm-3.safetensors': { e: [6] },
    'm-4.safetensors': { f: [7] },
    'm-5.safetensors': { g: [8] },
  }
  const made = checkpoint(files, { index: { b: 'm-2.safetensors', lost: 'm-1.safetensors' } })
  rmSync(made.path('m-3.safetensors'))
  writeFileSync(made.path('m-4.safetensors'), 'not a tensor file')
  const error = await refused(t, made.index, 'ZT_IO')
  t.true(
    error.message.startsWith(
      `'${made.index}': the shards do not make up the index 'model.safetensors.index.json': 4 problems: `,
    ),
    error.message,
  )
  const problems = error.cause.map(({ code, tensor }) => [code, tensor])
  t.deepEqual(problems, [
    ['ZT_IO', undefined],
    ['ZT_BAD_MAGIC', undefined],
    ['ZT_BAD_INDEX', 'b'],
    ['ZT_BAD_INDEX', 'lost'],
  ])
  for (const part of ['m-3.safetensors', 'm-4.safetensors', '"m-2.safetensors"', 'which does not contain it']) {
    t.true(error.message.includes(part), `${part}: ${error.message}`)
  }
  t.true(error.cause[0].message.includes(made.path('m-3.safetensors')))
})

test('an index overrides a stale copy, and a warning names the copy', async (t) => {
  const files = {
    'model-00001-of-00002.safetensors': { a: [1], b: [66] },
    'model-00002-of-00002.safetensors': { b: [2], c: [3] },
  }
  const made = checkpoint(files, { index: { b: 'model-00002-of-00002.safetensors' } })
  for (const source of [made.index, made.folder]) {
    const file = closeAfterTest(t, await open(source))
    t.deepEqual([...file.keys()].sort(), ['a', 'b', 'c'])
    t.deepEqual([...file.tensor('b').data], [2])
    t.deepEqual([...(await file.tensor('b').load())], [2])
    t.true((await file.verify()).ok)
    const [warning] = file.warnings.filter(({ tensor }) => tensor === 'b')
    t.is(warning.code, 'ZT_WARN_STALE')
    t.regex(warning.message, /model-00001-of-00002\.safetensors/)
  }
  // If the file that the index names lacks the tensor, the copy does not replace it.
  const gone = { ...files, 'model-00002-of-00002.safetensors': { c: [3] } }
  const wrong = checkpoint(gone, { index: { b: 'model-00002-of-00002.safetensors' } })
  await refused(t, wrong.index, 'ZT_BAD_INDEX')
})

test('lists problems up to a limit', async (t) => {
  const index = {}
  for (let i = 0; i < 5000; i++) index[`absent.${i}`] = 'm-1.safetensors'
  const made = checkpoint({ 'm-1.safetensors': { a: [1] } }, { index })
  const error = await refused(t, made.index, 'ZT_BAD_INDEX')
  t.true(error.message.includes('5000 problems'))
  t.regex(error.message, /; and \d+ more$/)
  t.true(error.message.length < 20_000)
  t.is(error.cause.length, 1000)
})

test('throws a single problem directly', async (t) => {
  const missing = checkpoint(TWO)
  rmSync(missing.path('model-00002-of-00002.safetensors'))
  const gone = await refused(t, missing.index, 'ZT_INCOMPLETE')
  t.is(gone.cause.code, 'ENOENT')
  t.is(gone.cause.path, missing.path('model-00002-of-00002.safetensors'))
  const twice = checkpoint(TWO)
  const paths = [...Object.keys(TWO), 'model-00001-of-00002.safetensors'].map(twice.path)
  const error = await rejectionOf(() => open(paths))
  t.is(error.code, 'ZT_BAD_INDEX')
  t.is(error.tensor, 'z.first')
  t.regex(error.message, /model-00001-of-00002.safetensors" is in the list twice: list each file once/)
})

test('warns about tensors outside the weight_map, wrong sums and gaps', (t) => {
  const unlisted = checkpoint(TWO, { index: { 'a.second': undefined } })
  const one = closeAfterTest(t, openSync(unlisted.index))
  t.deepEqual(
    one.warnings.map(({ code }) => code),
    ['ZT_WARN_UNLISTED'],
  )
  t.deepEqual([...one.tensor('a.second').data], [3])
  const two = closeAfterTest(t, openSync(checkpoint(TWO, { metadata: { total_size: 25 } }).index))
  t.deepEqual(
    two.warnings.map(({ code }) => code),
    ['ZT_WARN_TOTAL_SIZE'],
  )
  const three = closeAfterTest(t, openSync(checkpoint({ 'm-00002-of-00003.safetensors': { a: [1] } }).index))
  t.deepEqual(
    three.warnings.map(({ code }) => code),
    ['ZT_WARN_INCOMPLETE_SET'],
  )
})

test('rejects a folder whose numbered files have gaps, and names them', async (t) => {
  const { folder, index } = checkpoint({
    'm-00002-of-00004.safetensors': { a: [1] },
    'm-00004-of-00004.safetensors': { b: [1] },
  })
  rmSync(index)
  const error = await refused(t, folder, 'ZT_INCOMPLETE')
  const missing = '2 of which are missing: m-00001-of-00004.safetensors, m-00003-of-00004.safetensors'
  t.true(error.message.includes(missing), error.message)
  t.true(error.message.includes(folder))
})

test('an ambiguous folder is an error that lists its files', async (t) => {
  const empty = scratchFolder()
  t.true((await refused(t, empty.folder, 'ZT_IO')).message.includes('the folder is empty'))
  writeFileSync(empty.path('readme.txt'), '')
  t.true((await refused(t, empty.folder, 'ZT_IO')).message.includes('"readme.txt"'))
  writeFileSync(empty.path('a.zt'), '')
  writeFileSync(empty.path('b.zt'), '')
  const error = await refused(t, empty.folder, 'ZT_IO')
  t.true(error.message.includes('2 tensor files') && error.message.includes('"a.zt", "b.zt"'), error.message)
})

const HOSTILE = {
  'not JSON': ['{"weight_map": ', 'ZT_BAD_INDEX'],
  'no weight_map': ['{"metadata": {}}', 'ZT_BAD_INDEX'],
  'a weight_map that is not an object': ['{"weight_map": ["a"]}', 'ZT_BAD_INDEX'],
  'metadata nested without end': [`{"metadata": {"a": ${'['.repeat(100_000)}`, 'ZT_LIMIT'],
  'not UTF-8': [Buffer.from([0x7b, 0xff]), 'ZT_BAD_INDEX'],
  ...Object.fromEntries(
    ['../m.safetensors', '/etc/passwd', '..', '.', '', 'C:m', 'a\\b', 'm\0', 'm'.repeat(300)].map((name) => [
      `the file name ${JSON.stringify(name.slice(0, 20))}`,
      [indexText({ a: name }), 'ZT_BAD_INDEX'],
    ]),
  ),
}
for (const [what, [text, code]] of Object.entries(HOSTILE)) {
  test(`rejects an index with ${what}`, async (t) => {
    const { path } = scratchFolder()
    writeFileSync(path('x.index.json'), text)
    const error = await refused(t, path('x.index.json'), code)
    t.true(error.message.includes('x.index.json'))
  })
}

test('a folder of several kinds of files opens one kind, and a warning names the others', async (t) => {
  const one = { a: Float32Array.of(1) }
  for (const [opened, named, ignored] of [
    [['a.safetensors'], ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf'], []],
    [['a.safetensors'], ['m.gguf'], ['tokenizer.bin']],
    [['a.zt'], ['b.npz', 'c.onnx', 'd.h5'], []],
    [['a.zt'], [], ['c.bin', 'd.index']],
    [['x-1-of-1.npz'], ['b.pt', 'x.npz'], ['c.bin']],
    [['a.npz'], [], ['c.bin', 'd.xml']],
    [['m.safetensors.index.json', 'm-1-of-1.safetensors'], ['m.gguf'], []],
  ]) {
    const { folder, path } = scratchFolder()
    for (const name of [...named, ...ignored]) writeFileSync(path(name), '')
    for (const name of opened)
      if (name.endsWith('.json')) writeFileSync(path(name), indexText({ a: opened[1] }))
      else await saveFile(path(name), one)
    const file = closeAfterTest(t, await open(folder))
    t.is(file.tensor('a').components.get('data').path, path(opened.at(-1)))
    const skipped = file.warnings.filter(({ code }) => code === 'ZT_WARN_SKIPPED').map(({ message }) => message)
    const list = named.map((name) => `"${name}"`).join(', ')
    t.is(skipped.length, named.length > 0 ? 1 : 0, opened[0])
    if (named.length > 0) t.true(skipped[0].endsWith(`open one by its name, or several as a list: ${list}`), skipped[0])
  }
  const { folder, path } = scratchFolder()
  for (const name of ['a.npz', 'b.pt']) writeFileSync(path(name), '')
  await refused(t, folder, 'ZT_IO')
})

test('an index names files in subfolders, in any spelling, and none outside its folder', async (t) => {
  const made = checkpoint({})
  mkdirSync(made.path('model.layers.0'))
  const names = ['model.embed.safetensors', 'model.layers.0/layer.safetensors']
  writeFileSync(made.path(names[0]), shard({ e: [1] }))
  writeFileSync(made.path(names[1]), shard({ l0: [2], l1: [3] }))
  const map = { e: `./${names[0]}`, l0: names[1], l1: './model.layers.0//./layer.safetensors' }
  writeFileSync(made.index, indexText(map, { total_size: 12 }))
  const asked = []
  const local = [made.index, made.folder].flatMap((source) => [
    [source],
    [source, { shards: (name) => void asked.push(name) }],
  ])
  const { url } = await serveFiles(t, {
    'model.safetensors.index.json': readFileSync(made.index),
    ...Object.fromEntries(names.map((name) => [name, readFileSync(made.path(name))])),
  })
  for (const [source, options] of [...local, [url('/model.safetensors.index.json')]]) {
    const file = closeAfterTest(t, await open(source, options))
    t.deepEqual(file.warnings, [])
    const values = await Promise.all([...file.values()].map(async (tensor) => [tensor.name, ...(await tensor.load())]))
    t.deepEqual(values, [
      ['e', 1],
      ['l0', 2],
      ['l1', 3],
    ])
    t.is(file.files.length, 2)
  }
  t.deepEqual([...new Set(asked)], names)
  const out = [
    '../x.safetensors',
    'a/../../x.safetensors',
    'a/../x.safetensors',
    '/x.safetensors',
    'C:x',
    'a\\x',
    'a/',
    '..',
  ]
  for (const name of out) {
    writeFileSync(made.index, indexText({ e: name }))
    const error = await refused(t, made.index, 'ZT_BAD_INDEX')
    t.regex(error.message, /is not the path of a file in the folder of the index or below it/, name)
  }
})

test('limits apply to an index', async (t) => {
  const { index } = checkpoint(TWO)
  await refused(t, index, 'ZT_LIMIT', { maxIndexBytes: 100 })
  const deep = checkpoint(TWO, { metadata: { many: Array.from({ length: 50 }, () => 1) } })
  await refused(t, deep.index, 'ZT_LIMIT', { maxAttributeValues: 20 })
})

test("shards: 'none' returns only the names of an index", async (t) => {
  const made = checkpoint(TWO, { metadata: { by: 'us' } })
  for (const name of Object.keys(TWO)) rmSync(made.path(name))
  for (const opening of [openSync, open]) {
    const file = await opening(made.index, { shards: 'none' })
    t.deepEqual([...file.keys()].sort(), [...ORDER].sort())
    t.deepEqual({ ...file.metadata }, { by: 'us' })
    t.deepEqual(
      file.files.map(({ path }) => path),
      Object.keys(TWO).map(made.path),
    )
    const tensor = file.tensor('b.third')
    t.like(tensor, { dtype: undefined, layout: 'unread', byteLength: 0 })
    t.is(tensor.components.get('data').path, made.path('model-00002-of-00002.safetensors'))
    t.is(thrownBy(() => tensor.data)?.code, 'ZT_BAD_LAYOUT')
    t.is(thrownBy(() => tensor.components.get('data').data)?.code, 'ZT_IO')
    const unverified = await rejectionOf(() => file.verify())
    t.is(unverified?.code, 'ZT_IO')
    t.regex(unverified.message, /'model-00001-of-00002.safetensors' was not looked up.*open it without that option/)
    for (const call of [() => file.load(), () => file.prefetch(), () => file.prefetch(['b.third'])]) {
      const error = await rejectionOf(call)
      t.like(error, { code: 'ZT_IO', name: 'ZTensorError' }, String(call))
      t.regex(error.message, /was not looked up.*open it without that option/)
    }
    t.is((await rejectionOf(() => file.prefetch(['b.third'])))?.tensor, 'b.third')
    const unplanned = thrownBy(() => file.plan({ rank: 0, worldSize: 2, rules: { '*': 'replicate' } }))
    t.is(unplanned?.code, 'ZT_BAD_LAYOUT')
    t.regex(unplanned.message, /without shards: 'none'/)
    file.close()
  }
})

test('a resolver returns the paths of shards', async (t) => {
  const here = checkpoint(TWO)
  const there = scratchFolder()
  const [first, second] = Object.keys(TWO)
  renameSync(here.path(second), there.path('renamed'))
  const asked = []
  const shards = (name) => {
    asked.push(name)
    return name === second ? pathToFileURL(there.path('renamed')) : undefined
  }
  const sync = closeAfterTest(t, openSync(here.index, { shards }))
  t.deepEqual(asked, [first, second])
  t.deepEqual([...sync.tensor('b.third').data], [4, 5, 6])
  t.is(sync.tensor('b.third').components.get('data').path, there.path('renamed'))
  const later = closeAfterTest(t, await open(here.folder, { shards: async (name) => shards(name) }))
  t.deepEqual([...later.tensor('b.third').data], [4, 5, 6])

  const mine = new Error('mine')
  const failing = () => {
    throw mine
  }
  t.deepEqual(await both(here.index, { shards: failing }), [mine, mine])
  for (const error of await both(here.index, { shards: () => 7 }))
    isArgumentError(t, error, 'the return value of shards(')
  isArgumentError(
    t,
    thrownBy(() => openSync(here.index, { shards: async () => 'x' })),
    'the return value of shards(',
  )
})

test('bad lists and options are argument errors', async (t) => {
  for (const source of [[], [7], ['a', ''], ['a', new Uint8Array()], [new URL('ftp://x.org/m')]]) {
    for (const error of await both(source)) isArgumentError(t, error, 'source')
  }
  for (const error of await both('a', { shards: 'some' })) isArgumentError(t, error, 'shards')
})

test('rejects folders in a list, and names missing files', async (t) => {
  const { folder, path } = checkpoint(TWO)
  const [first] = Object.keys(TWO).map(path)
  const error = await rejectionOf(() => open([first, folder, join(folder, 'absent'), scratchPath('x')]))
  t.is(error.code, 'ZT_IO')
  t.deepEqual(
    error.cause.map((one) => one.cause.code),
    ['EISDIR', 'ENOENT', 'ENOENT'],
  )
})
