// Tensors whose names a target cannot store are reported before anything is written, so that `skip` can leave them out.
import { existsSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { convert, create, open, openSync } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder, written } from '../helpers/sample-files.mjs'

const nfd = 'cafe\u0301'
const source = () =>
  written({ version: '1.2' }, async (writer) => {
    for (const name of ['plain', nfd, 'last']) await writer.add(name, Float32Array.of(1))
    const data = new Float32Array(2)
    await writer.addObject('parts', { layout: 'x.y/1', shape: [2], dtype: 'float32', components: { [nfd]: { data } } })
  })

test('lists or skips names that canonical zTensor 2 rejects', async (t) => {
  const { path, names } = scratchFolder()
  const from = await source()
  const error = await t.throwsAsync(convert(from, path('a.zt'), { version: '2' }), { code: 'ZT_BAD_INDEX' })
  t.deepEqual(
    error.cause.map(({ tensor }) => tensor),
    [nfd, 'parts'],
  )
  t.deepEqual(names(), [])
  const { tensors, skipped } = await convert(from, path('a.zt'), { version: '2', skip: true })
  t.is(tensors, 2)
  t.deepEqual(
    skipped.map(({ tensor, rule }) => [tensor, /6\.3/.test(rule)]),
    [
      [nfd, true],
      ['parts', true],
    ],
  )
  const file = openSync(path('a.zt'))
  t.deepEqual([...file.keys()], ['last', 'plain'])
  t.true((await file.verify({ canonical: true })).ok)
  file.close()
  t.is((await convert(from, path('b.zt'), { version: '2', canonical: false })).tensors, 4)
})

test('checks the new name', async (t) => {
  const { path } = scratchFolder()
  const from = await source()
  const some = { filter: ({ name }) => name !== 'parts' }
  const renamed = { ...some, version: '2', rename: (name) => name.normalize('NFC') }
  t.is((await convert(from, path('a.zt'), renamed)).tensors, 3)
  const metadata = { ...some, rename: (name) => (name === 'last' ? '__metadata__' : name) }
  await t.throwsAsync(convert(from, path('a.safetensors'), metadata), { code: 'ZT_INVALID_ARG' })
  const { tensors, skipped } = await convert(from, path('a.safetensors'), { ...metadata, skip: true })
  t.is(tensors, 2)
  t.deepEqual(
    skipped.map(({ tensor }) => tensor),
    ['last'],
  )
})

test('rejects a duplicate new name, and keeps the target', async (t) => {
  const { path, names } = scratchFolder()
  const from = await source()
  for (const version of ['1.0', '2']) {
    const how = { version, rename: () => 'same', overwrite: true }
    await t.throwsAsync(convert(from, path('a.zt'), how), {
      code: 'ZT_BAD_INDEX',
      message: /the tensors ".*" and ".*" would both be called "same"/,
    })
  }
  t.deepEqual(names(), [])
})

test('skips metadata with keys that canonical files reject', async (t) => {
  const { path } = scratchFolder()
  const from = path('from.zt')
  const writer = await create(from, { version: '1.2', metadata: { [nfd]: 'x' } })
  await writer.add('a', Int8Array.of(1))
  await writer.finish()
  await t.throwsAsync(convert(from, path('a.zt'), { version: '2', strictMetadata: true }), { message: /metadata/ })
  const { skipped } = await convert(from, path('a.zt'), { version: '2' })
  t.deepEqual(
    skipped.map(({ tensor }) => tensor),
    [undefined],
  )
})

// pyarrow.ipc.new_file of pa.table({'text': ['a', 'b']}), pyarrow 26.
const STRINGS =
  'QVJST1cxAAD/////cAAAABAAAAAAAAoADAAGAAUACAAKAAAAAAEEAAwAAAAIAAgAAAAEAAgAAAAEAAAAAQAAABQAAAAQABQACAAGAAcADAAAAB' +
  'AAEAAAAAAAAQUQAAAAHAAAAAQAAAAAAAAABAAAAHRleHQAAAAABAAEAAQAAAD/////mAAAABQAAAAAAAAADAAWAAYABQAIAAwADAAAAAADBAAY' +
  'AAAAGAAAAAAAAAAAAAoAGAAMAAQACAAKAAAATAAAABAAAAACAAAAAAAAAAAAAAADAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADAAAAAAAAA' +
  'AQAAAAAAAAAAIAAAAAAAAAAAAAAAEAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAACAAAAAAAAAGFiAAAAAAAA/////wAAAAAQAAAADAAUAAYA' +
  'CAAMABAADAAAAAAABAA0AAAAJAAAAAQAAAABAAAAgAAAAAAAAACgAAAAAAAAABgAAAAAAAAAAAAAAAgACAAAAAQACAAAAAQAAAABAAAAFAAAAB' +
  'AAFAAIAAYABwAMAAAAEAAQAAAAAAABBRAAAAAcAAAABAAAAAAAAAAEAAAAdGV4dAAAAAAEAAQABAAAAJgAAABBUlJPVzE='

test('a source that has something else instead of tensors is an error, and a data shard is not verified', async (t) => {
  const { path } = scratchFolder()
  writeFileSync(path('strings.arrow'), Buffer.from(STRINGS, 'base64'))
  const writer = await create(path('m.zt'), { version: '2', maxShardBytes: 65536 })
  for (const name of ['a', 'b', 'c']) await writer.add(name, new Float32Array(16384).fill(1))
  await writer.finish()
  for (const [name, warning, pattern] of [
    ['strings.arrow', 'ZT_WARN_SKIPPED', /no tensors to write: .*"?text"?/],
    ['m-00001-of-00003.zt', 'ZT_WARN_DATA_SHARD', /no tensors to write: the file is a data shard.*Open the root/],
  ]) {
    const file = await open(path(name))
    t.is(file.size, 0)
    t.is(file.warnings[0].code, warning)
    const { ok, failures } = await file.verify()
    t.deepEqual(
      [ok, failures[0]?.code],
      warning === 'ZT_WARN_DATA_SHARD' ? [false, 'ZT_INCOMPLETE'] : [true, undefined],
    )
    file.close()
    for (const target of ['x.zt', 'x.safetensors', 'x.gguf', 'x.npz']) {
      const options = target === 'x.gguf' ? { checkpoint: false } : {}
      const error = await rejectionOf(() => convert(path(name), path(target), options))
      t.is(error?.code, 'ZT_NOT_FOUND', `${name} to ${target}`)
      t.regex(error.message, pattern)
      t.false(existsSync(path(target)))
    }
    t.is((await rejectionOf(() => planJob('convert', path(name), path('job.zt'))))?.code, 'ZT_NOT_FOUND')
    const { code, stderr } = await run(['convert', path(name), path('x.zt')])
    t.is(code, 2)
    t.regex(stderr, pattern)
  }
  // A file without tensors is copied.
  await written({ version: '1.0', metadata: { a: 1 } }, () => {}, path('empty.zt'))
  t.is((await convert(path('empty.zt'), path('copy.zt'))).tensors, 0)
})
