// An incomplete set is never accepted as complete: split GGUF, numbered files and checkpoints, in every way of opening.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, open, openSync, verify } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, shard, TWO } from '../helpers/sharded.mjs'
import { serveFiles } from '../remote/web.mjs'

const part = (no, count, total) => [
  ['split.no', 'u16', no],
  ['split.count', 'u16', count],
  ['split.tensors.count', 'i32', total],
]
const FLOATS = littleEndian(Float32Array.of(1, 2))
const file = (no, count, total, name) =>
  gguf({ metadata: part(no, count, total), tensors: [{ name, shape: [2], data: FLOATS }] })
const nameOf = (number, count) => `m-0000${number}-of-0000${count}.gguf`

/** A folder of files, by name. */
function folderOf(files) {
  const folder = scratchPath('set')
  mkdirSync(folder)
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes)
  return folder
}

/** Every way of opening files, by name; each returns the source and its options. */
async function ways(t, files) {
  const folder = folderOf(files)
  const names = Object.keys(files)
  const { url } = await serveFiles(t, files)
  const source = (name) => ({
    byteLength: files[name].length,
    name,
    read: async (offset, length) => files[name].subarray(offset, offset + length),
    sibling: (other) => (other in files ? source(other) : undefined),
  })
  return [
    ...names.map((name) => [`by the file ${name}`, join(folder, name)]),
    ...names.map((name) => [`by the URL of ${name}`, url(`/${name}`)]),
    ...names.map((name) => [`by the ByteSource ${name}`, source(name)]),
    ['by the folder', folder],
    ['by a list', names.map((name) => join(folder, name))],
    ['by a list of URLs', names.map((name) => url(`/${name}`))],
  ]
}

const INCOMPLETE = {
  'the second of two': { [nameOf(1, 2)]: file(0, 2, 2, 'a') },
  'the first of two': { [nameOf(2, 2)]: file(1, 2, 2, 'b') },
  'one in the middle': { [nameOf(1, 3)]: file(0, 3, 3, 'a'), [nameOf(3, 3)]: file(2, 3, 3, 'c') },
  'most of many': { [nameOf(7, 9)]: file(6, 9, 9, 'a') },
}
for (const [missing, files] of Object.entries(INCOMPLETE)) {
  test(`an incomplete set of split GGUF, ${missing} missing: an error by every way of opening, which names the files`, async (t) => {
    const names = Object.keys(files)
    const count = Number(/-of-0*(\d+)/.exec(names[0])[1])
    const absent = Array.from({ length: count }, (_, at) => nameOf(at + 1, count)).filter((name) => !(name in files))
    for (const [way, source] of await ways(t, files)) {
      const error = await rejectionOf(async () => (await open(source)).close())
      t.is(error?.code, 'ZT_INCOMPLETE', `${way}: ${error?.stack}`)
      t.true(error.message.includes(absent[0]), `${way}: ${error.message}`)
      for (const call of [() => verify(source), () => convert(source, scratchPath('out.zt'))])
        t.is((await rejectionOf(call))?.code, 'ZT_INCOMPLETE', way)
      if (typeof source === 'string' && !source.startsWith('http'))
        t.is(thrownBy(() => openSync(source))?.code, 'ZT_INCOMPLETE', way)
    }
  })

  test(`an incomplete set of split GGUF, ${missing} missing: opened alone with shards: 'none', with a warning`, async (t) => {
    for (const [way, source] of await ways(t, files)) {
      const opened = await open(source, { shards: 'none' })
      t.is(opened.warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET', way)
      for (const tensor of opened.values()) t.deepEqual([...(await tensor.load())], [1, 2], way)
      const verified = await opened.verify()
      t.is(verified.ok, true, way)
      t.deepEqual(verified.warnings, opened.warnings, way)
      opened.close()
      const result = await convert(source, scratchPath('out.zt'), { source: { shards: 'none' } })
      t.is(result.warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET', way)
    }
  })
}

test('an incomplete set of split GGUF in memory: an error, and opened alone with shards: none', async (t) => {
  const bytes = file(0, 2, 2, 'a')
  for (const error of [await rejectionOf(() => open(bytes)), thrownBy(() => openSync(bytes))]) {
    t.is(error?.code, 'ZT_INCOMPLETE')
    t.regex(error.message, /file 1 of 2.*shards: 'none'/)
  }
  for (const opened of [await open(bytes, { shards: 'none' }), openSync(bytes, { shards: 'none' })]) {
    t.deepEqual([...opened.tensor('a').data], [1, 2])
    t.is(opened.warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET')
    opened.close()
  }
})

test('an incomplete set of split GGUF under other names: an error with the reason', async (t) => {
  const folder = folderOf({ 'renamed.gguf': file(0, 2, 2, 'a') })
  const error = await rejectionOf(() => open(join(folder, 'renamed.gguf')))
  t.is(error?.code, 'ZT_INCOMPLETE')
  t.regex(error.message, /does not end in/)
  const both = folderOf({ 'x.gguf': file(0, 2, 2, 'a'), 'y.gguf': file(1, 2, 2, 'b') })
  const list = await open([join(both, 'x.gguf'), join(both, 'y.gguf')])
  t.deepEqual([...list.keys()], ['a', 'b'])
  t.deepEqual(list.warnings, [])
  list.close()
})

test('split GGUF with numbers of another width, and from 0 on: equal in every way of opening', async (t) => {
  for (const names of [
    ['m-1-of-2.gguf', 'm-2-of-2.gguf'],
    ['m-00000-of-00002.gguf', 'm-00001-of-00002.gguf'],
    ['00001-of-00002.gguf', '00002-of-00002.gguf'],
  ]) {
    const files = { [names[0]]: file(0, 2, 2, 'a'), [names[1]]: file(1, 2, 2, 'b') }
    for (const [way, source] of await ways(t, files)) {
      if (way === 'by the folder' && names[0].startsWith('0')) continue
      const opened = await open(source)
      t.deepEqual([...opened.keys()], ['a', 'b'], `${way}: ${names}`)
      opened.close()
    }
  }
})

test('reads a single file whose keys belong to a former set, with a warning', async (t) => {
  for (const [metadata, says] of [
    [part(0, 1, 5), 'split.tensors.count is 5, but the only file has 1 tensors'],
    [part(1, 1, 1), 'split.no is 1, but split.count states a single file'],
    [part(2, 0, 1), 'split.no is 2, but split.count states a single file'],
    [[['split.tensors.count', 'i32', 7]], 'split.tensors.count is 7, but the only file has 1 tensors'],
    [[['split.no', 'u16', 1]], 'split.no is 1, but split.count states a single file'],
  ]) {
    const opened = await open(gguf({ metadata, tensors: [{ name: 'a', shape: [2], data: FLOATS }] }))
    t.deepEqual(
      opened.warnings.map(({ code, message }) => [code, message]),
      [['ZT_WARN_STALE', says]],
    )
    t.deepEqual([...opened.tensor('a').data], [1, 2])
    t.true((await opened.verify()).ok)
    opened.close()
  }
  const whole = await open(gguf({ metadata: part(0, 1, 1), tensors: [{ name: 'a', shape: [2], data: FLOATS }] }))
  t.deepEqual(whole.warnings, [])
  whole.close()
})

test('opens a file of a very large set alone with shards: none', async (t) => {
  const name = 'm-00001-of-65535.gguf'
  const folder = folderOf({ [name]: file(0, 65535, 65535, 'a') })
  t.is((await rejectionOf(() => open(join(folder, name))))?.code, 'ZT_LIMIT')
  const opened = await open(join(folder, name), { shards: 'none' })
  t.is(opened.size, 1)
  opened.close()
})

const CONTRADICTING = {
  'another number of tensors': [file(0, 2, 3, 'a'), file(1, 2, 3, 'b')],
  'another number of tensors in one file': [file(0, 2, 2, 'a'), file(1, 2, 3, 'b')],
  'another number of files': [file(0, 2, 2, 'a'), file(1, 3, 5, 'b')],
  'the same number twice': [file(0, 2, 2, 'a'), file(0, 2, 2, 'b')],
  'a file of no set': [file(0, 2, 2, 'a'), gguf({ tensors: [{ name: 'b', shape: [2], data: FLOATS }] })],
}
for (const [what, [first, second]] of Object.entries(CONTRADICTING)) {
  test(`split GGUF whose keys contradict each other, ${what}: ZT_BAD_INDEX by every way of opening`, async (t) => {
    const files = { [nameOf(1, 2)]: first, [nameOf(2, 2)]: second }
    for (const [way, source] of await ways(t, files)) {
      const error = await rejectionOf(async () => (await open(source)).close())
      // A file without keys of a set is complete.
      if (what === 'a file of no set' && /by the (file|URL|ByteSource).*00002-of/.test(way)) t.is(error, undefined, way)
      else t.is(error?.code, 'ZT_BAD_INDEX', `${way}: ${error?.stack}`)
    }
  })
}

test('a numbered file opened alone: a warning, by path, URL and ByteSource, in any format', async (t) => {
  const safetensors = shard({ a: [1] })
  const files = { 'model-00001-of-00002.safetensors': safetensors, 'model.safetensors': safetensors }
  for (const [way, source] of await ways(t, files)) {
    if (!way.includes('by the ') || way === 'by the folder') continue
    const opened = await open(source)
    const warned = opened.warnings.filter(({ code }) => code === 'ZT_WARN_INCOMPLETE_SET')
    t.is(warned.length, way.includes('-of-') ? 1 : 0, way)
    if (warned.length > 0) t.regex(warned[0].message, /model-00002-of-00002\.safetensors/)
    t.deepEqual([...(await opened.tensor('a').load())], [1])
    opened.close()
  }
  const one = folderOf({ 'm-00001-of-00001.safetensors': safetensors })
  const whole = await open(join(one, 'm-00001-of-00001.safetensors'))
  t.deepEqual(whole.warnings, [])
  whole.close()
  const some = folderOf({
    'm-00001-of-00003.safetensors': shard({ a: [1] }),
    'm-00002-of-00003.safetensors': shard({ b: [1] }),
  })
  const two = [1, 2].map((number) => join(some, `m-0000${number}-of-00003.safetensors`))
  for (const source of [two, some]) {
    const error = await rejectionOf(() => open(source))
    t.is(error?.code, 'ZT_INCOMPLETE')
    t.regex(error.message, /m-00003-of-00003\.safetensors/)
  }
  const list = await open(two, { shards: 'none' })
  t.deepEqual(
    list.warnings.map(({ code }) => code),
    ['ZT_WARN_INCOMPLETE_SET'],
  )
  t.regex(list.warnings[0].message, /m-00003-of-00003\.safetensors/)
  list.close()
})

test('a checkpoint whose index names missing files: ZT_INCOMPLETE', async (t) => {
  const made = checkpoint(TWO)
  const [first, second] = Object.keys(TWO)
  rmSync(made.path(second))
  for (const source of [made.index, made.folder]) {
    const error = await rejectionOf(() => open(source))
    t.is(error?.code, 'ZT_INCOMPLETE')
    t.true(error.message.includes(second))
    t.is(error.cause.code, 'ENOENT')
  }
  rmSync(made.path(first))
  const both = await rejectionOf(() => open(made.index))
  t.is(both.code, 'ZT_INCOMPLETE')
  t.deepEqual(
    both.cause.map(({ code }) => code),
    ['ZT_IO', 'ZT_IO'],
  )
  // Another fault of a file is not a missing file.
  writeFileSync(made.path(first), 'not a tensor file, but text')
  t.not((await rejectionOf(() => open(made.index))).code, 'ZT_INCOMPLETE')
})

test('the command names missing files, and prints warnings on standard error', async (t) => {
  const folder = folderOf(INCOMPLETE['the second of two'])
  const path = join(folder, nameOf(1, 2))
  for (const args of [
    ['verify', path],
    ['convert', path, scratchPath('out.zt')],
  ]) {
    const { code, stdout, stderr } = await run(args)
    t.true(code === 1 || code === 2, `${args}: ${code}`)
    t.true(`${stdout}${stderr}`.includes(nameOf(2, 2)), `${stdout}${stderr}`)
  }
  const alone = folderOf({ 'm-00001-of-00002.safetensors': shard({ a: [1] }) })
  for (const args of [['verify'], ['convert']]) {
    const target = args[0] === 'convert' ? [scratchPath('out.zt')] : []
    const { code, stdout, stderr } = await run([...args, join(alone, 'm-00001-of-00002.safetensors'), ...target])
    t.is(code, 0, stderr)
    t.regex(stderr, /^warning {2}ZT_WARN_INCOMPLETE_SET {2}.*m-00002-of-00002/m)
    t.notRegex(stdout, /warning/)
    const again = await run([
      ...args,
      join(alone, 'm-00001-of-00002.safetensors'),
      ...target,
      '--json',
      ...(target.length ? ['--overwrite'] : []),
    ])
    t.regex(again.stdout, /"warnings":\[\{"code":"ZT_WARN_INCOMPLETE_SET"/)
  }
})

const VARIANTS = ['x-00001-of-00002.fp16.safetensors', 'x-00002-of-00002.fp16.safetensors']
test('one file of a variant of a model is not a whole model in any way of opening, and both are a set', async (t) => {
  const [first, second] = VARIANTS
  const half = { [first]: shard({ a: [1] }) }
  for (const [way, source] of await ways(t, half)) {
    if (way === 'by the folder') {
      const error = await rejectionOf(() => open(source))
      t.is(error?.code, 'ZT_INCOMPLETE', way)
      t.true(error.message.includes(second), error.message)
      continue
    }
    const opened = await open(source)
    t.deepEqual(
      opened.warnings.map(({ code }) => code),
      ['ZT_WARN_INCOMPLETE_SET'],
      way,
    )
    t.true(opened.warnings[0].message.includes(second), way)
    t.is((await verify(source)).warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET', way)
    t.is((await convert(source, scratchPath('out.zt'))).warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET', way)
    opened.close()
  }
  const both = folderOf({ ...half, [second]: shard({ b: [2] }) })
  for (const source of [both, VARIANTS.map((name) => join(both, name))]) {
    const whole = await open(source)
    t.deepEqual([[...whole.keys()], whole.warnings], [['a', 'b'], []])
    whole.close()
  }
  // The model itself takes precedence over its variant.
  for (const number of [1, 2])
    writeFileSync(join(both, `x-0000${number}-of-00002.safetensors`), shard({ [`plain${number}`]: [number] }))
  const plain = await open(both)
  t.deepEqual([...plain.keys()], ['plain1', 'plain2'])
  plain.close()
})

test('a GGUF file that states no set is whole under any name, in every way of opening', async (t) => {
  const whole = gguf({ tensors: [{ name: 'a', shape: [2], data: FLOATS }] })
  for (const [way, source] of await ways(t, { 'x-00001-of-00013.gguf': whole })) {
    const opened = await open(source)
    t.deepEqual([[...opened.keys()], opened.warnings], [['a'], []], way)
    opened.close()
    t.deepEqual((await verify(source)).warnings, [], way)
  }
  // Names that state fewer files than the bytes do not hide missing ones, and vice versa.
  const three = folderOf({ 'm-00001-of-00002.gguf': file(0, 3, 3, 'a'), 'm-00002-of-00002.gguf': file(1, 3, 3, 'b') })
  t.is((await rejectionOf(() => open(three)))?.code, 'ZT_INCOMPLETE')
  const two = folderOf({ 'm-00001-of-00003.gguf': file(0, 2, 2, 'a'), 'm-00002-of-00003.gguf': file(1, 2, 2, 'b') })
  const opened = await open(two)
  t.deepEqual([[...opened.keys()], opened.warnings], [['a', 'b'], []])
  opened.close()
})

test("an incomplete index with shards: 'none': opens the existing tensors, with a warning that names the others", async (t) => {
  const made = checkpoint(TWO)
  const [first, second] = Object.keys(TWO)
  rmSync(made.path(second))
  for (const source of [made.index, made.folder]) {
    for (const opened of [await open(source, { shards: 'none' }), openSync(source, { shards: 'none' })]) {
      t.deepEqual([...opened.keys()], ['z.first', 'a.second'])
      t.deepEqual([...opened.tensor('z.first').data], [1, 2])
      t.is((await opened.load()).size, 2)
      t.deepEqual(
        opened.warnings.map(({ code }) => code),
        ['ZT_WARN_INCOMPLETE_SET'],
      )
      t.true(opened.warnings[0].message.includes(second))
      const { ok, warnings } = await opened.verify()
      t.deepEqual([ok, warnings], [true, opened.warnings])
      opened.close()
    }
    const result = await convert(source, scratchPath('present.zt'), { source: { shards: 'none' } })
    t.deepEqual([result.tensors, result.warnings.length], [2, 1])
  }
  writeFileSync(made.path(second), 'no safetensors')
  t.not((await rejectionOf(() => open(made.index, { shards: 'none' })))?.code, undefined)
  writeFileSync(made.path(second), shard(TWO[second]))
  const whole = await open(made.index, { shards: 'none' })
  t.deepEqual([whole.size, whole.warnings], [3, []])
  t.deepEqual([...whole.tensor('b.third').data], [4, 5, 6])
  whole.close()
  rmSync(made.path(first))
  const remote = await serveFiles(t, {
    'model.safetensors.index.json': readFileSync(made.index),
    [second]: readFileSync(made.path(second)),
  })
  const far = await open(remote.url('/model.safetensors.index.json'), { shards: 'none' })
  t.deepEqual([[...far.keys()], far.warnings.length], [['b.third'], 1])
  far.close()
})
