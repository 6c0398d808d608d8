// load({ into }) of data in the page cache, which is read directly into the array: the same bytes as in other ways, and all failures.
import { truncateSync } from 'node:fs'
import test from 'ava'
import { openSync, saveFile, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

// Larger than the pieces of a copy, and not a multiple of them.
const LENGTH = 33 * 2 ** 20 + 10
const bytes = new Uint8Array(LENGTH).map((_, at) => (at * 131 + (at >> 11)) & 255)
const floats = new Float32Array(5 * 2 ** 20 + 3).map((_, at) => at / 7)
const path = scratchPath('into.safetensors')
const hashed = scratchPath('into.zt')
const compressed = scratchPath('packed.zt')
// A tensor between others, and at an odd offset.
const tensors = { a: new Uint8Array([1, 2, 3]), bytes, floats, z: new Uint8Array([9]) }
const same = (one, other) => Buffer.compare(littleEndian(one), littleEndian(other)) === 0 // biome-ignore format: one claim

test.before(async () => {
  await saveFile(path, tensors)
  await saveFile(hashed, tensors, { version: '1.0', digest: 'crc32c' })
  await saveFile(compressed, tensors, { version: '1.2', compression: { level: 1, minSavings: 0 } })
})

for (const [what, source] of [
  ['as it is', () => path],
  ['with digests', () => hashed],
  ['compressed', () => compressed],
]) {
  test(`into returns the values of load() and data, ${what}`, async (t) => {
    const file = openSync(source())
    for (const [name, expected] of Object.entries(tensors)) {
      const tensor = file.tensor(name)
      const buffer = new expected.constructor(expected.length + 2).fill(77)
      const into = buffer.subarray(1, expected.length + 1)
      t.is(await tensor.load({ into }), into)
      t.true(same(into, expected), name)
      t.deepEqual([buffer[0], buffer[expected.length + 1]], [77, 77], 'nothing outside of it')
      t.true(same(await tensor.load(), expected) && same(tensor.data, expected), name)
      const wide = new Float32Array(expected.length)
      await tensor.load({ as: 'float32', into: wide })
      t.true(same(wide, Float32Array.from(expected)), `${name} as float32`)
    }
    file.close()
  })
}

test('loads into memory that threads share', async (t) => {
  const file = openSync(path)
  const into = new Uint8Array(new SharedArrayBuffer(LENGTH))
  await file.tensor('bytes').load({ into })
  t.true(same(into, bytes))
  file.close()
})

test('a file that is truncated during the load: ZT_TRUNCATED with the name of the tensor', async (t) => {
  const truncated = scratchPath('truncated.safetensors')
  await saveFile(truncated, tensors)
  const file = openSync(truncated)
  const offset = file.tensor('bytes').components.get('data').offset
  truncateSync(truncated, offset + 2 ** 20)
  for (const [name, options] of [
    ['bytes', { into: new Uint8Array(LENGTH) }],
    ['bytes', { as: 'float32', into: new Float32Array(LENGTH) }],
  ]) {
    const error = await rejectionOf(() => file.tensor(name).load(options))
    t.true(error instanceof ZTensorError)
    t.deepEqual([error.code, error.tensor], ['ZT_TRUNCATED', name])
  }
  file.close()
})

test('a moved array, a closed file, or an abort ends a load', async (t) => {
  const file = openSync(path)
  const into = new Uint8Array(LENGTH)
  const moved = file.tensor('bytes').load({ into })
  structuredClone(into.buffer, { transfer: [into.buffer] })
  t.is((await rejectionOf(() => moved)).code, 'ZT_CLOSED')
  const controller = new AbortController()
  const reason = new Error('enough')
  const aborted = file.tensor('bytes').load({ into: new Uint8Array(LENGTH), signal: controller.signal })
  controller.abort(reason)
  t.is(await rejectionOf(() => aborted), reason)
  const late = file.tensor('bytes').load({ into: new Uint8Array(LENGTH) })
  file.close()
  t.is((await rejectionOf(() => late)).code, 'ZT_CLOSED')
})
