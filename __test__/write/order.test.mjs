// A file is synced before it gets its name, and its folder after: the order of the system calls of every writer.
import { join } from 'node:path'
import { append, create } from 'ztensor'
import { scratchFolder, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { FILE_CALLS, operationsOf, traced, traceTest } from '../helpers/strace.mjs'

const LARGE = 'new Float32Array(3 * 2 ** 20).fill(7)'

/** The end of a program that writes a file, small and large tensors in it. */
const creating = (options) => `
  const writer = await create(target, ${JSON.stringify(options)})
  await writer.add('0', ${LARGE})
  await writer.add('1', Int32Array.of(1, 2, 3))
  await writer.finish()`
const splitting = (options) => `
  const writer = await create(target, ${JSON.stringify(options)})
  for (let at = 0; at < 3; at++) await writer.add(String(at), new Float32Array(20000).fill(at))
  await writer.finish()`
const appending = (options) => `
  const editor = await append(target, ${JSON.stringify(options)})
  await editor.add('added', ${LARGE})
  await editor.finish()`
const describing = (options) =>
  `await editMetadata(target, { ...${JSON.stringify(options)}, set: { title: 'x'.repeat(9000) } })`

const safetensors = (path) =>
  written({ format: 'safetensors' }, (writer) => writer.add('x', new Float32Array(2 ** 20).fill(1)), path)

/** A file with a tensor that is removed, so that compacting makes it smaller. */
async function editable(path) {
  await written(
    {},
    async (writer) => {
      await writer.add('kept', new Float32Array(2 ** 20).fill(1))
      await writer.add('gone', new Float32Array(2 ** 20).fill(2))
    },
    path,
  )
  const editor = await append(path)
  await editor.remove('gone')
  await editor.finish()
}

const PARTS = (names) => names.filter((name) => name.includes('-of-'))
const SPLIT = { format: 'safetensors', maxShardBytes: 100_000 }
const SPLIT2 = { version: '2', maxShardBytes: 200_000 }

/** Title -> the old file at the path, if any; the program; the names that it creates, in order. */
const WRITERS = {
  ...Object.fromEntries(
    [
      ...WRITE_FORMATS,
      { name: '2', options: { version: '2' } },
      { name: '2, not canonical', options: { version: '2', canonical: false } },
      { name: '1.0, compressed', options: { compression: {} } },
    ].flatMap(({ name, options }) => [
      [`create ${name}`, { program: creating(options), puts: [['a']] }],
      [
        `create ${name} over a file`,
        {
          before: (path) => written({}, (writer) => writer.add('x', Int8Array.of(1)), path),
          program: creating({ ...options, overwrite: true }),
          puts: [['a']],
        },
      ],
    ]),
  ),
  'append on a clone': { before: editable, program: appending({}), puts: [['a']] },
  'append in place': { before: editable, program: appending({ inPlace: true }), inPlace: true },
  'edit of metadata': { before: safetensors, program: describing({}), puts: [['a']] },
  'edit of metadata in place': { before: safetensors, program: describing({ inPlace: true }), inPlace: true },
  compact: { before: editable, program: 'await compact(target)', puts: [['a']] },
  convert: {
    before: (path) => editable(`${path}-source`),
    program: "await convert(target + '-source', target, { format: 'zt', digest: false })",
    puts: [['a']],
  },
  'safetensors in parts': { program: splitting(SPLIT), puts: (names) => [PARTS(names), ['a.safetensors.index.json']] },
  'safetensors in parts, over a set': {
    before: (path) => split(path, SPLIT),
    program: splitting({ ...SPLIT, overwrite: true }),
    puts: (names) => [PARTS(names), ['a.safetensors.index.json']],
  },
  'zTensor 2 in shards': { program: splitting(SPLIT2), puts: (names) => [PARTS(names), ['a']] },
  'zTensor 2 in shards, over a root with shards': {
    before: (path) => split(path, SPLIT2),
    program: splitting({ ...SPLIT2, overwrite: true }),
    puts: (names) => [PARTS(names), ['a']],
  },
}

async function split(path, options) {
  const writer = await create(path, options)
  for (let at = 0; at < 3; at++) await writer.add(String(at), new Float32Array(20000).fill(9))
  await writer.finish()
}

async function operationsOn(t, { before, program }, options = []) {
  const { folder, names, path } = scratchFolder()
  await before?.(path('a'))
  const source = `import { append, compact, convert, create, editMetadata } from 'ztensor'
    const [target] = process.argv.slice(1)
    ${program}`
  const { status, signal, stderr, lines } = await traced(
    ['-y', '-s', '4096', '-e', FILE_CALLS, ...options(folder)],
    source,
    [path('a')],
  )
  t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
  const deeds = operationsOf(lines).filter(
    ({ file }) => file !== undefined && (file === folder || file.startsWith(`${folder}/`)),
  )
  return { folder, names: names().filter((name) => name !== 'a-source'), deeds }
}

/** The mistakes in how files got their names. */
function disorder({ folder, deeds }, waves) {
  const problems = []
  const of = (did, file) => deeds.filter((deed) => deed.did === did && deed.file === file)
  const syncs = of('sync', folder)
  const placed = waves.map((wave) => wave.map((name) => deeds.findLast(({ to }) => to === join(folder, name))))
  const firstPut = Math.min(...placed.flat().map((put) => put?.begins ?? Number.NaN))
  for (const [at, put] of placed.flat().entries()) {
    const name = waves.flat()[at]
    if (put?.did !== 'put') {
      problems.push(`${name} was never put under its name`)
      continue
    }
    const written = Math.max(...of('write', put.file).map(({ ends }) => ends))
    const synced = of('sync', put.file).find(({ begins }) => begins > written)
    if (!Number.isFinite(written)) problems.push(`${name} was never written`)
    else if (synced === undefined) problems.push(`${name} was not synced behind its last byte`)
    else if (!(synced.ends < firstPut)) problems.push(`${name} was synced after the first file had its name`)
  }
  for (const [at, wave] of placed.entries()) {
    const end = Math.max(...wave.map((put) => put.ends))
    const next =
      at + 1 < placed.length ? Math.min(...placed[at + 1].map((put) => put.begins)) : Number.POSITIVE_INFINITY
    if (!syncs.some(({ begins, ends }) => begins > end && ends < next))
      problems.push(`no sync of the folder behind ${waves[at]}`)
  }
  const end = (some) => Math.max(...some.map(({ ends }) => ends))
  const asides = deeds.filter(isMovedAside)
  if (asides.length > 0 && !syncs.some(({ begins, ends }) => begins > end(asides) && ends < firstPut))
    problems.push('no sync of the folder between the old files and the new ones')
  const gone = deeds.filter(({ did }) => did === 'remove')
  if (gone.length > 0 && !syncs.some(({ begins }) => begins > end(gone)))
    problems.push('no sync of the folder after a removal')
  return problems
}

/** An old file under a temporary name until all new ones exist. */
const isMovedAside = ({ did, to }) => did === 'put' && /\.part-\d+$/.test(to)

for (const [name, writer] of Object.entries(WRITERS)) {
  traceTest(`${name}: writes, syncs, puts the file under its name, syncs the folder`, async (t) => {
    const found = await operationsOn(t, writer, () => [])
    if (writer.inPlace) {
      const file = join(found.folder, 'a')
      t.deepEqual(found.deeds.map(({ did, file }) => [did, file]).at(-1), ['sync', file])
      t.true(found.deeds.some(({ did }) => did === 'write'))
      return
    }
    const waves = typeof writer.puts === 'function' ? writer.puts(found.names) : writer.puts
    t.deepEqual(waves.flat().sort(), found.names)
    t.deepEqual(disorder(found, waves), [])
    t.is(found.deeds.some(isMovedAside), name.endsWith('over a set'))
  })
}

traceTest('a set that cannot be completed: restores the old files, and syncs the folder', async (t) => {
  const { before, program } = WRITERS['safetensors in parts, over a set']
  const failing = `try { ${program}; throw new Error('done') } catch (error) { if (error.code !== 'ZT_IO') throw error }`
  const old = scratchFolder()
  await before(old.path('a'))
  const found = await operationsOn(t, { before, program: failing }, () => ['-e', 'inject=renameat2:error=EIO'])
  t.deepEqual(found.names, old.names())
  const puts = found.deeds.filter(({ did }) => did === 'put')
  t.true(puts.some(isMovedAside))
  t.true(
    found.deeds.some(({ did, file, begins }) => did === 'sync' && file === found.folder && begins > puts.at(-1).ends),
  )
})

traceTest('an aborted edit in place: restores the old end, and syncs it', async (t) => {
  const program = `
    const editor = await append(target, { inPlace: true })
    await editor.add('added', ${LARGE})
    await editor.abort()`
  const { folder, deeds } = await operationsOn(t, { before: editable, program }, () => [])
  const done = deeds.filter(({ file }) => file === join(folder, 'a'))
  t.true(done.some(({ did }) => did === 'write'))
  t.is(done.at(-1).did, 'sync')
})

// On this processor, only a file without a name is created by open(2), all others by openat(2).
if (process.arch === 'x64') {
  for (const overwrite of [false, true]) {
    const writer = { ...WRITERS[overwrite ? 'create 1.0 over a file' : 'create 1.0'] }
    traceTest(
      `if a file must have a name, the order is the same${overwrite ? ', also over a file' : ''}`,
      async (t) => {
        const found = await operationsOn(t, writer, () => ['-e', 'inject=open:error=EOPNOTSUPP'])
        t.deepEqual(found.names, ['a'])
        t.true(found.deeds.some(({ file }) => file.endsWith('.part')))
        t.deepEqual(disorder(found, [['a']]), [])
      },
    )
  }
}

traceTest('detects a file without a sync', async (t) => {
  const found = await operationsOn(t, WRITERS['create 1.0'], () => [])
  for (const missing of found.deeds.filter(({ did }) => did === 'sync')) {
    const deeds = found.deeds.filter((deed) => deed !== missing)
    t.is(disorder({ ...found, deeds }, [['a']]).length, 1)
  }
  const written = found.deeds.find(({ did }) => did === 'write')
  const late = { ...written, begins: 1e9, ends: 1e9 }
  t.is(disorder({ ...found, deeds: [...found.deeds, late] }, [['a']]).length, 1)
})
