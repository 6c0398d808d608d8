// Tensors whose names a target cannot store are reported before anything is written, so that `skip` can leave them out.
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { scratchFolder, written } from '../helpers/sample-files.mjs'

const nfd = 'cafe\u0301'
const source = () =>
  written({ version: '1.2' }, async (writer) => {
    for (const name of ['plain', nfd, 'last']) await writer.add(name, Float32Array.of(1))
    const data = new Float32Array(2)
    await writer.addObject('parts', { layout: 'x.y/1', shape: [2], dtype: 'float32', components: { [nfd]: { data } } })
  })

test('names that canonical zTensor 2 refuses are listed, or left out', async (t) => {
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

test('it is the new name that counts', async (t) => {
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

test('a new name that appears twice is refused, and the target left alone', async (t) => {
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

test('attributes of the file whose names canonical files refuse are left out as well', async (t) => {
  const { path } = scratchFolder()
  const from = path('from.zt')
  const writer = await create(from, { version: '1.2', attributes: { [nfd]: 'x' } })
  await writer.add('a', Int8Array.of(1))
  await writer.finish()
  await t.throwsAsync(convert(from, path('a.zt'), { version: '2', strictAttributes: true }), { message: /attributes/ })
  const { skipped } = await convert(from, path('a.zt'), { version: '2' })
  t.deepEqual(
    skipped.map(({ tensor }) => tensor),
    [undefined],
  )
})
