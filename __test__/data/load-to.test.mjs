// loadTo() passes on the same bytes as load(), in pieces.
import test from 'ava'
import { open } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { vectors } from '../helpers/vectors.mjs'

/** The pieces of a tensor, joined. Each must begin where the one before it ended. */
async function joined(t, tensor, options) {
  const pieces = []
  let end = 0
  await tensor.loadTo(async (bytes, offset) => {
    t.is(offset, end)
    t.true(bytes.byteLength <= 8 * 2 ** 20)
    await undefined
    pieces.push(Buffer.from(bytes))
    end += bytes.byteLength
  }, options)
  return Buffer.concat(pieces)
}

for (const { name, path } of vectors)
  test(`loadTo of ${name} equals load`, async (t) => {
    const file = await open(path)
    let loaded = 0
    for (const tensor of file.values()) {
      for (const options of [{}, { as: 'float32' }]) {
        let expected
        try {
          expected = await tensor.load(options)
        } catch (error) {
          t.is((await rejectionOf(() => tensor.loadTo(() => {}, options))).code, error.code, tensor.name)
          continue
        }
        loaded += 1
        t.deepEqual(await joined(t, tensor, options), Buffer.from(littleEndian(expected)), tensor.name)
      }
    }
    t.true(loaded > 0 || file.size === 0 || [...file.values()].every(({ kind }) => kind !== 'dense'))
    file.close()
  })

test('loadTo rejects with what write throws, and takes no more pieces', async (t) => {
  const file = await open(vectors.find(({ name }) => name === 'zt2-zstd.zt').path)
  const thrown = new Error('full')
  let calls = 0
  const failing = () => {
    calls += 1
    throw thrown
  }
  t.is(await rejectionOf(() => file.tensor('frames').loadTo(failing)), thrown)
  t.is(calls, 1)
  file.close()
})

test('blob is undefined for a file that was not opened from a Blob', async (t) => {
  const file = await open(vectors.find(({ name }) => name === 'zt2-zstd.zt').path)
  t.is(file.tensor('raw').blob(), undefined)
  file.close()
})
