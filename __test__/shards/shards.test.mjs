// One name space over many files: indexes, folders and lists of files.
import { renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { open, openSync, ZTensorError } from 'ztensor'
import { canMap, isMapped } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, indexText, shard, TWO } from '../helpers/sharded.mjs'

/** Closes a file when its test ends. */
function closedAtEnd(t, file) {
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
  test(`a sharded checkpoint opens by ${what}`, async (t) => {
    for (const opening of [openSync, open]) {
      const made = checkpoint(TWO)
      const file = await opening(source(made))
      t.is(file.format, 'safetensors')
      t.is(file.version, undefined)
      t.deepEqual([...file.keys()], ORDER)
      t.deepEqual({ ...file.attributes }, { format: 'pt' })
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

test('what each file is opened by is its path', (t) => {
  const { folder, index, path } = checkpoint(TWO)
  const [first] = Object.keys(TWO).map(path)
  const byIndex = closedAtEnd(t, openSync(index))
  const byFolder = closedAtEnd(t, openSync(folder))
  const byList = closedAtEnd(t, openSync(Object.keys(TWO).map(path)))
  const byLoneList = closedAtEnd(t, openSync([first]))
  t.deepEqual([byIndex.path, byFolder.path, byList.path, byLoneList.path], [index, folder, undefined, first])
})

test('the only file of a list, of a folder, opens as itself', (t) => {
  const made = scratchFolder()
  writeFileSync(made.path('m.safetensors'), shard({ w: [1] }, { kept: 'yes' }))
  writeFileSync(made.path('config.json'), '{}')
  for (const source of [[made.path('m.safetensors')], made.folder]) {
    const file = closedAtEnd(t, openSync(source))
    t.deepEqual([{ ...file.attributes }, file.files.length], [{ kept: 'yes' }, 1])
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
  const file = closedAtEnd(t, await open([st, zt]))
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

test('attributes are those of the index, and those that all files agree on', (t) => {
  const made = checkpoint(TWO, { metadata: { total_size: 24, total_parameters: 6, by: 'us', format: 'np' } })
  writeFileSync(
    made.path('model-00002-of-00002.safetensors'),
    shard({ 'b.third': [4, 5, 6] }, { format: 'pt', own: 'x' }),
  )
  const byIndex = closedAtEnd(t, openSync(made.index))
  t.deepEqual({ ...byIndex.attributes }, { by: 'us', format: 'np' })
  rmSync(made.index)
  const byFolder = closedAtEnd(t, openSync(made.folder))
  t.deepEqual({ ...byFolder.attributes }, { format: 'pt' })
})

test('small tensors of many files share windows of their own file', async (t) => {
  const files = {}
  for (let f = 0; f < 3; f++) {
    const tensors = {}
    for (let i = 0; i < 2000; i++) tensors[`f${f}.t${i}`] = [f * 10000 + i, i]
    files[`m-${f + 1}-of-3.safetensors`] = tensors
  }
  const file = closedAtEnd(t, await open(checkpoint(files).index))
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
const linked = process.platform === 'win32' ? test.skip : test
linked('shards are found through links, as a hub keeps them', (t) => {
  const blobs = checkpoint(TWO)
  const snapshot = scratchFolder()
  for (const name of [...Object.keys(TWO), 'model.safetensors.index.json']) {
    symlinkSync(blobs.path(name), snapshot.path(name))
  }
  const file = closedAtEnd(t, openSync(snapshot.folder))
  t.deepEqual([...file.keys()], ORDER)
})

test('a file that is replaced, changed or gone before its first use is ZT_IO', async (t) => {
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
    const file = closedAtEnd(t, openSync(index))
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

test('everything that is wrong with a checkpoint is one error', async (t) => {
  const files = {
    'm-1.safetensors': { a: [1], b: [2], c: [3] },
    'm-2.safetensors': { c: [4], d: [5] },
    'm-3.safetensors': { e: [6] },
    'm-4.safetensors': { f: [7] },
    'm-5.safetensors': { g: [8] },
  }
  const made = checkpoint(files, { index: { b: 'm-2.safetensors', lost: 'm-1.safetensors' } })
  rmSync(made.path('m-3.safetensors'))
  writeFileSync(made.path('m-4.safetensors'), 'not a tensor file at all')
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

test('an index overruled by a stale copy: the index decides, and a warning names the copy', async (t) => {
  const files = {
    'model-00001-of-00002.safetensors': { a: [1], b: [66] },
    'model-00002-of-00002.safetensors': { b: [2], c: [3] },
  }
  const made = checkpoint(files, { index: { b: 'model-00002-of-00002.safetensors' } })
  for (const source of [made.index, made.folder]) {
    const file = closedAtEnd(t, await open(source))
    t.deepEqual([...file.keys()].sort(), ['a', 'b', 'c'])
    t.deepEqual([...file.tensor('b').data], [2])
    t.deepEqual([...(await file.tensor('b').load())], [2])
    t.true((await file.verify()).ok)
    const [warning] = file.warnings.filter(({ tensor }) => tensor === 'b')
    t.is(warning.code, 'ZT_WARN_STALE')
    t.regex(warning.message, /model-00001-of-00002\.safetensors/)
  }
  // Where the file that the index names does not have it, the copy is no substitute.
  const gone = { ...files, 'model-00002-of-00002.safetensors': { c: [3] } }
  const wrong = checkpoint(gone, { index: { b: 'model-00002-of-00002.safetensors' } })
  await refused(t, wrong.index, 'ZT_BAD_INDEX')
})

test('very many problems are listed up to a bound', async (t) => {
  const index = {}
  for (let i = 0; i < 5000; i++) index[`absent.${i}`] = 'm-1.safetensors'
  const made = checkpoint({ 'm-1.safetensors': { a: [1] } }, { index })
  const error = await refused(t, made.index, 'ZT_BAD_INDEX')
  t.true(error.message.includes('5000 problems'))
  t.regex(error.message, /; and \d+ more$/)
  t.true(error.message.length < 20_000)
  t.is(error.cause.length, 1000)
})

test('one problem alone is said as it is', async (t) => {
  const missing = checkpoint(TWO)
  rmSync(missing.path('model-00002-of-00002.safetensors'))
  const gone = await refused(t, missing.index, 'ZT_INCOMPLETE')
  t.is(gone.cause.code, 'ENOENT')
  t.is(gone.cause.path, missing.path('model-00002-of-00002.safetensors'))
  const twice = checkpoint(TWO)
  const paths = [...Object.keys(TWO), 'model-00001-of-00002.safetensors'].map(twice.path)
  const error = await rejectionOf(() => open(paths))
  t.is(error.code, 'ZT_BAD_INDEX')
  t.is(error.cause.length, 2)
})

test('tensors outside the weight_map, wrong sums and gaps are warned of', (t) => {
  const unlisted = checkpoint(TWO, { index: { 'a.second': undefined } })
  const one = closedAtEnd(t, openSync(unlisted.index))
  t.deepEqual(
    one.warnings.map(({ code }) => code),
    ['ZT_WARN_UNLISTED'],
  )
  t.deepEqual([...one.tensor('a.second').data], [3])
  const two = closedAtEnd(t, openSync(checkpoint(TWO, { metadata: { total_size: 25 } }).index))
  t.deepEqual(
    two.warnings.map(({ code }) => code),
    ['ZT_WARN_TOTAL_SIZE'],
  )
  const three = closedAtEnd(t, openSync(checkpoint({ 'm-00002-of-00003.safetensors': { a: [1] } }).index))
  t.deepEqual(
    three.warnings.map(({ code }) => code),
    ['ZT_WARN_INCOMPLETE_SET'],
  )
})

test('a folder whose numbered files have gaps is refused, naming them', async (t) => {
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

test('a folder that is not clear says what was found', async (t) => {
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
  'no JSON': ['{"weight_map": ', 'ZT_BAD_INDEX'],
  'no weight_map': ['{"metadata": {}}', 'ZT_BAD_INDEX'],
  'a weight_map that is no object': ['{"weight_map": ["a"]}', 'ZT_BAD_INDEX'],
  'a tensor twice': ['{"weight_map": {"a": "m.safetensors", "\\u0061": "m.safetensors"}}', 'ZT_BAD_INDEX'],
  'a second weight_map': ['{"weight_map": {}, "weight_map": {}}', 'ZT_BAD_INDEX'],
  'metadata nested without end': [`{"metadata": {"a": ${'['.repeat(100_000)}`, 'ZT_LIMIT'],
  'no UTF-8': [Buffer.from([0x7b, 0xff]), 'ZT_BAD_INDEX'],
  ...Object.fromEntries(
    ['../m.safetensors', '/etc/passwd', 'sub/m.safetensors', '..', '.', '', 'C:m', 'a\\b', 'm\0', 'm'.repeat(300)].map(
      (name) => [`the file name ${JSON.stringify(name.slice(0, 20))}`, [indexText({ a: name }), 'ZT_BAD_INDEX']],
    ),
  ),
}
for (const [what, [text, code]] of Object.entries(HOSTILE)) {
  test(`an index with ${what} is refused`, async (t) => {
    const { path } = scratchFolder()
    writeFileSync(path('x.index.json'), text)
    const error = await refused(t, path('x.index.json'), code)
    t.true(error.message.includes('x.index.json'))
  })
}

test('limits hold for an index', async (t) => {
  const { index } = checkpoint(TWO)
  await refused(t, index, 'ZT_LIMIT', { maxIndexBytes: 100 })
  const deep = checkpoint(TWO, { metadata: { many: Array.from({ length: 50 }, () => 1) } })
  await refused(t, deep.index, 'ZT_LIMIT', { maxAttributeValues: 20 })
})

test("shards: 'none' gives the names of an index alone", async (t) => {
  const made = checkpoint(TWO, { metadata: { by: 'us' } })
  for (const name of Object.keys(TWO)) rmSync(made.path(name))
  for (const opening of [openSync, open]) {
    const file = await opening(made.index, { shards: 'none' })
    t.deepEqual([...file.keys()].sort(), [...ORDER].sort())
    t.deepEqual({ ...file.attributes }, { by: 'us' })
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

test('a resolver says where shards are', async (t) => {
  const here = checkpoint(TWO)
  const there = scratchFolder()
  const [first, second] = Object.keys(TWO)
  renameSync(here.path(second), there.path('renamed'))
  const asked = []
  const shards = (name) => {
    asked.push(name)
    return name === second ? pathToFileURL(there.path('renamed')) : undefined
  }
  const sync = closedAtEnd(t, openSync(here.index, { shards }))
  t.deepEqual(asked, [first, second])
  t.deepEqual([...sync.tensor('b.third').data], [4, 5, 6])
  t.is(sync.tensor('b.third').components.get('data').path, there.path('renamed'))
  const later = closedAtEnd(t, await open(here.folder, { shards: async (name) => shards(name) }))
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

test('a list may not hold folders, and names what it misses', async (t) => {
  const { folder, path } = checkpoint(TWO)
  const [first] = Object.keys(TWO).map(path)
  const error = await rejectionOf(() => open([first, folder, join(folder, 'absent'), scratchPath('x')]))
  t.is(error.code, 'ZT_IO')
  t.deepEqual(
    error.cause.map((one) => one.cause.code),
    ['EISDIR', 'ENOENT', 'ENOENT'],
  )
})
