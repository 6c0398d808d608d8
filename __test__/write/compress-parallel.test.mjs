// Other threads compress tensors while the next ones are added: the contents and the order of the file do not depend on it.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { append, convert, create, openSync } from 'ztensor'
import { writtenOnProcessors } from '../helpers/processors.mjs'
import { collecting, noise, scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

/** Bytes of which zstd saves about half. */
const half = (length, seed) => noise(length, seed).map((byte, at) => (at % 2 === 0 ? 7 : byte))

// Sizes below and above the limits of compressing together, whole, and in jobs; with incompressible and empty tensors between them.
const tensors = [
  ['empty', new Uint8Array(0)],
  ['tiny', new Uint8Array(5).fill(1)],
  ['small', half(70_000, 1)],
  ['noise', noise(300_000, 2)],
  ['middle', half(3 << 20, 3)],
  ...Array.from({ length: 300 }, (_, at) => [`many.${at}`, half(1000 + 31 * at, at)]),
  ['whole', half(8 << 20, 4)],
  ['promising', noise(8 << 20, 5).fill(0, 0, 300 << 10)],
  ['large', half((8 << 20) + 1, 6)],
  ['noisy', noise(9 << 20, 7)],
  ['after', half(2 << 20, 8)],
  ['last', new Uint8Array(0)],
]
const raw = new Set(['empty', 'tiny', 'noise', 'promising', 'noisy', 'last'])

async function addAll(writer) {
  for (const [name, data] of tensors) await writer.add(name, data)
  await writer.finish()
}

async function check(t, source, zstd) {
  const file = openSync(source)
  t.deepEqual([...file.keys()].sort(), tensors.map(([name]) => name).sort())
  t.true((await file.verify()).ok)
  for (const [name, data] of tensors) {
    t.true(Buffer.compare(await file.tensor(name).load(), data) === 0, name)
    t.is(file.tensor(name).components.get('data').encoding, raw.has(name) ? 'raw' : zstd, name)
  }
  return tensors.map(([name]) => file.tensor(name).components.get('data').offset)
}

const areAscending = (offsets) => offsets.every((offset, at) => at === 0 || offset >= offsets[at - 1])

for (const options of [
  { version: '0.1' },
  { version: '1.0' },
  { version: '1.2', digest: 'sha256' },
  { version: '2', canonical: false },
]) {
  const how = { ...options, compression: { level: 1 } }
  const zstd = options.version === '2' ? 'zt.zstd-seekable/1' : 'zstd'

  test(`${options.version}: added, streamed, converted and appended tensors are complete and in order`, async (t) => {
    const { path, names } = scratchFolder()
    await addAll(await create(path('added'), how))
    t.true(areAscending(await check(t, path('added'), zstd)))
    const { stream, bytes } = collecting()
    await addAll(await create(stream, how))
    t.true(bytes().equals(readFileSync(path('added'))), 'streamed')
    await convert(path('added'), path('converted.zt'), how)
    await check(t, path('converted.zt'), zstd)
    if (options.version !== '0.1') {
      await (await create(path('appended'), options)).finish()
      const { version, canonical, ...appending } = how
      await addAll(await append(path('appended'), appending))
      t.true(areAscending(await check(t, path('appended'), zstd)))
    }
    t.is(names().length, options.version === '0.1' ? 2 : 3)
  })
}

test('npz: added and converted tensors are complete and in order', async (t) => {
  const { path, names } = scratchFolder()
  const how = { format: 'npz', compression: true }
  await addAll(await create(path('added'), how))
  t.true(areAscending(await check(t, path('added'), 'deflate')))
  await convert(path('added'), path('converted.zt'), how)
  t.true(readFileSync(path('converted.zt')).equals(readFileSync(path('added'))))
  t.is(names().length, 2)
})

test('rejects a name that is in progress', async (t) => {
  const writer = await create(scratchPath('twice.zt'), { compression: {} })
  await writer.add('a', half(100, 1))
  await writer.add('b', half(100, 1))
  await t.throwsAsync(writer.add('a', half(100, 2)), { code: 'ZT_BAD_INDEX' })
  await writer.finish()
})

test('aborting a writer during compression leaves nothing', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await create(path('given-up.zt'), { compression: { level: 9 } })
  for (let at = 0; at < 8; at++) await writer.add(String(at), half(1 << 20, at))
  await writer.abort()
  t.deepEqual(names(), [])
})

if (process.platform === 'linux') {
  for (const options of [{}, { version: '2', canonical: false }, { format: 'npz' }]) {
    test(`${JSON.stringify(options)}: many tensors make the same bytes on one processor and on all`, (t) => {
      const source = `
        import { create } from 'ztensor'
        const writer = await create(process.argv[1], ${JSON.stringify({ ...options, compression: { level: 1 } })})
        for (let at = 0; at < 40; at++) {
          const values = new Float32Array(2 ** (at % 23)).map((_, i) => Math.sin((i + at) >> 4))
          await writer.add('x' + at, values)
        }
        await writer.finish()`
      const { one, all } = writtenOnProcessors(source)
      t.true(one.equals(all))
    })
  }
}
