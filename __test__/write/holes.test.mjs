// Long padding becomes a hole in the file, which reads as zeros.
import { readFileSync, statSync } from 'node:fs'
import test from 'ava'
import { append, compact, convert, openSync } from 'ztensor'
import { bytesWritten, scratchFolder, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const COUNT = 300
const names = Array.from({ length: COUNT }, (_, i) => `t${String(i).padStart(4, '0')}`)
// Some fill most of 64 KiB, some more than that, some nothing.
const elements = (i) => (i % 17 === 3 ? 15_000 : i % 50 === 7 ? 400_000 : i % 29 === 5 ? 0 : 1 + (i % 9))
const values = (i) => new Float32Array(elements(i)).map((_, at) => i + at / 7)
const BARE = { version: '2', canonical: false, alignment: 65_536 }

async function add(writer, order = names.keys()) {
  for (const i of order) await writer.add(names[i], values(i))
}

for (const options of [BARE, { ...BARE, digest: false }, { ...BARE, compression: { level: 1, minSavings: 0 } }]) {
  test(`${JSON.stringify(options)}: a file has the bytes of a stream`, async (t) => {
    const path = await written(options, add)
    t.true(readFileSync(path).equals(await bytesWritten(options, add)))
    t.deepEqual([...openSync(path, { verify: true }).keys()], names)
  })
}

test('canonical files are equal for any order of the tensors, from every function', async (t) => {
  const path = await written({ version: '2' }, add)
  const bytes = readFileSync(path)
  const reversed = await written({ version: '2' }, (writer) => add(writer, [...names.keys()].reverse()))
  t.true(readFileSync(reversed).equals(bytes))
  const source = await written({ version: '1.2' }, add)
  const converted = scratchPath('two.zt')
  await convert(source, converted, { version: '2' })
  t.true(readFileSync(converted).equals(bytes))
  await convert(path, scratchPath('back.zt'), { version: '2', digest: 'xxh3' })
  const file = openSync(path)
  t.true((await file.verify({ canonical: true })).ok)
  for (const i of names.keys()) t.deepEqual(file.tensor(names[i]).data, values(i))
  file.close()
  // Without holes in the file system, the bytes are still right.
  if (process.platform === 'linux') t.true(statSync(path).blocks * 512 < 0.7 * statSync(path).size)
})

test('rejected tensors between others leave zeros', async (t) => {
  const path = await written(BARE, async (writer) => {
    await writer.add('a', Int8Array.of(1))
    const refused = { dtype: 'bool', shape: [3], data: Uint8Array.of(1, 1, 2) }
    await t.throwsAsync(writer.add('b', refused), { code: 'ZT_BAD_DTYPE' })
    await writer.add('c', Int8Array.of(2))
  })
  const other = await written(BARE, async (writer) => {
    await writer.add('a', Int8Array.of(1))
    await writer.add('c', Int8Array.of(2))
  })
  t.true(readFileSync(path).equals(readFileSync(other)))
})

test('shards and compacted files have their stated contents', async (t) => {
  const { path } = scratchFolder()
  await written({ ...BARE, maxShardBytes: 8 << 20 }, add, path('model.zt'))
  const sharded = openSync(path('model.zt'))
  t.true((await sharded.verify()).ok)
  for (const i of names.keys()) t.deepEqual(sharded.tensor(names[i]).data, values(i))
  sharded.close()
  const edited = await written({ version: '2' }, add)
  const writer = await append(edited)
  await writer.remove(names[1])
  await writer.finish()
  await compact(edited)
  const expected = await written({ version: '2' }, (more) =>
    add(
      more,
      [...names.keys()].filter((i) => i !== 1),
    ),
  )
  t.true(readFileSync(edited).equals(readFileSync(expected)))
})
