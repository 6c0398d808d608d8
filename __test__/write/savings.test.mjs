// `minSavings` applies to the savings of the whole blob, not of its beginning.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { bytesWritten, noise, scratchFolder } from '../helpers/sample-files.mjs'

// The maximum size that is compressed as a whole; larger data is compressed in pieces.
const BUFFER = 8 << 20
// A beginning that compresses to nothing, and a rest that does not compress: 3 % saved.
const promising = (length) => {
  const bytes = noise(length, 7)
  bytes.fill(0, 0, 300 << 10)
  return bytes
}
const tensors = [
  ['before', new Uint8Array(1 << 20)],
  ['promising', promising(BUFFER)],
  ['after', new Uint8Array(1 << 20).fill(3)],
]

const same = (a, b) => Buffer.compare(a, b) === 0

async function write(target, options, names) {
  const writer = await create(target, options)
  for (const [name, data] of tensors) if (names === undefined || names.includes(name)) await writer.add(name, data)
  await writer.finish()
}

const encodings = (path) => {
  const file = openSync(path)
  const found = tensors.map(([name]) => file.tensor(name).components.get('data').encoding)
  file.close()
  return found
}

for (const options of [
  { version: '0.1' },
  { version: '1.0' },
  { version: '1.2' },
  { version: '2', canonical: false },
]) {
  for (const digest of [false, 'sha256']) {
    test(`${options.version}, digest ${digest}: stores a blob raw if compression saves too little`, async (t) => {
      const { path, names } = scratchFolder()
      await write(path('a'), { ...options, digest, compression: {} })
      const zstd = options.version === '2' ? 'zt.zstd-seekable/1' : 'zstd'
      t.deepEqual(encodings(path('a')), [zstd, 'raw', zstd])
      const file = openSync(path('a'))
      t.true((await file.verify()).ok)
      for (const [name, data] of tensors) t.true(same(await file.tensor(name).load(), data))
      file.close()
      await write(path('b'), { ...options, digest, compression: {} })
      t.true(readFileSync(path('a')).equals(readFileSync(path('b'))), 'the same bytes again')
      await write(path('c'), { ...options, digest, compression: {} }, ['promising'])
      await write(path('d'), { ...options, digest, compression: false }, ['promising'])
      t.true(readFileSync(path('c')).equals(readFileSync(path('d'))), 'as if it had not been tried')
      t.deepEqual(names(), ['a', 'b', 'c', 'd'])
    })
  }
}

test('minSavings keeps a smaller saving', async (t) => {
  const { path } = scratchFolder()
  await write(path('a'), { compression: { minSavings: 0.01 } })
  t.deepEqual(encodings(path('a')), ['zstd', 'zstd', 'zstd'])
})

test('a stream cannot go back, and keeps the decision from the beginning of a large blob', async (t) => {
  const large = promising(BUFFER + 1)
  const bytes = await bytesWritten({ compression: {} }, async (writer) => {
    await writer.add('held', tensors[1][1])
    await writer.add('large', large)
  })
  const file = openSync(bytes)
  t.is(file.tensor('held').components.get('data').encoding, 'raw')
  t.is(file.tensor('large').components.get('data').encoding, 'zstd')
  t.true(same(await file.tensor('large').load(), large))
  file.close()
})
