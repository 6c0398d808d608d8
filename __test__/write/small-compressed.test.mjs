// Compressed small tensors: added immediately, several compressed together, by other threads.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { append, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { bytesWritten, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const COUNT = 3000
const values = (i) => new Float32Array(1 + ((i * 37) % 900)).map((_, at) => ((i + at) >> 3) % 11)
const compression = { level: 1, minSavings: 0 }
const add = async (writer) => {
  for (let i = 0; i < COUNT; i++) await writer.add(`t${i}`, values(i))
}

for (const options of [
  { version: '0.1', compression },
  { version: '1.2', compression },
  { version: '2', canonical: false, compression },
]) {
  const name = JSON.stringify(options.version)
  test(`${name}: sequential and concurrent calls and streams write the same bytes`, async (t) => {
    const path = await written(options, add)
    const all = await written(options, async (writer) => {
      await Promise.all(Array.from({ length: COUNT }, (_, i) => writer.add(`t${i}`, values(i))))
    })
    t.true(readFileSync(all).equals(readFileSync(path)))
    t.true((await bytesWritten(options, add)).equals(readFileSync(path)))
    const file = openSync(path, { verify: true })
    for (let i = 0; i < COUNT; i++) t.deepEqual(file.tensor(`t${i}`).data, values(i))
    t.not(file.tensor('t5').components.get('data').encoding, 'raw')
    file.close()
  })

  test(`${name}: a rejected tensor leaves the file unchanged`, async (t) => {
    const some = async (writer, between) => {
      for (let i = 0; i < 700; i++) {
        await writer.add(`t${i}`, values(i))
        await between?.(i)
      }
    }
    const refused = await written(options, (writer) =>
      some(writer, async (i) => {
        t.is((await rejectionOf(() => writer.add(`t${i >> 1}`, values(1))))?.code, 'ZT_BAD_INDEX')
        if (options.version !== '2') return
        const bools = { dtype: 'bool', shape: [500], data: new Uint8Array(500).fill(2, i % 500) }
        t.is((await rejectionOf(() => writer.add('bools', bools)))?.code, 'ZT_BAD_DTYPE')
      }),
    )
    t.true(readFileSync(refused).equals(readFileSync(await written(options, some))))
  })
}

test('appends to an existing file, and writes files of a limited size', async (t) => {
  const path = await written({ version: '1.2' }, (writer) => writer.add('first', values(3)))
  const writer = await append(path, { compression })
  await add(writer)
  await writer.finish()
  const shards = scratchPath('model.zt')
  const options = { version: '2', canonical: false, compression, maxShardBytes: 2 << 20 }
  await written(options, add, shards)
  for (const [target, size] of [
    [path, COUNT + 1],
    [shards, COUNT],
  ]) {
    const file = openSync(target, { verify: true })
    t.is(file.size, size)
    for (let i = 0; i < COUNT; i += 7) t.deepEqual(file.tensor(`t${i}`).data, values(i))
    file.close()
  }
})
