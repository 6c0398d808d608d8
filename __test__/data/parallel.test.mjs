// Slices and casts that are large enough to run on several threads, compared with a naive implementation.
import { readFileSync, writeFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { littleEndian, numbersOf } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')

const SHAPE = [6, 700, 901]
const SIZE = SHAPE.reduce((product, dim) => product * dim, 1)

async function opened(digest = false) {
  const path = scratchPath('divided.zt')
  const writer = await create(path, { digest })
  await writer.add('cube', { dtype: 'int16', shape: SHAPE, data: Int16Array.from({ length: SIZE }, (_, at) => at * 7) })
  await writer.finish()
  return openSync(path)
}

/** The elements of a slice, one by one. */
function elementsOf(ranges) {
  const [planes, rows, columns] = ranges
  const elements = []
  for (let plane = planes[0]; plane < planes[1]; plane++) {
    for (let row = rows[0]; row < rows[1]; row++) {
      for (let column = columns[0]; column < columns[1]; column++) {
        elements.push(((plane * SHAPE[1] + row) * SHAPE[2] + column) * 7)
      }
    }
  }
  return Int16Array.from(elements)
}

const same = (one, other) => littleEndian(one).equals(littleEndian(other))

for (const ranges of [
  [
    [0, 6],
    [0, 700],
    [1, 901],
  ],
  [
    [1, 6],
    [3, 699],
    [0, 900],
  ],
  [
    [2, 3],
    [0, 700],
    [0, 899],
  ],
]) {
  test(`copies the slice ${JSON.stringify(ranges)} into new memory`, async (t) => {
    const file = await opened()
    const cube = file.tensor('cube')
    const expected = elementsOf(ranges)
    const { data, mapped, copyReason } = cube.slice(ranges)
    t.true(same(data, expected))
    t.false(mapped)
    t.is(copyReason, 'packed')
    t.true(same(await cube.load({ slice: ranges }), expected))
    data.fill(0)
    t.is(cube.data[8], 56)
    file.close()
    t.is(data.length, expected.length)
  })
}

test('widens millions of elements, into new memory or that of the caller', async (t) => {
  const file = await opened()
  const cube = file.tensor('cube')
  const expected = Float32Array.from(cube.data)
  const into = new Float32Array(SIZE)
  t.is(cube.toFloat32({ into }), into)
  t.true(same(into, expected))
  t.true(same(cube.toFloat32(), expected))
  t.true(same(await cube.load({ as: 'float32' }), expected))
  into.fill(0)
  const both = [cube.load({ as: 'float32', into }), cube.load({ as: 'float32', into: new Uint8Array(SIZE * 4) })]
  const [floats, bytes] = await Promise.all(both)
  t.is(floats, into)
  t.true(same(into, expected))
  t.true(same(numbersOf(Float32Array, bytes), expected))
  file.close()
})

test('hashes elements that it widens while it reads them', async (t) => {
  for (const digest of ['crc32c', 'sha256']) {
    const file = await opened(digest)
    const cube = file.tensor('cube')
    t.true(same(await cube.load({ as: 'float32' }), Float32Array.from(cube.data)), digest)
    const rows = await cube.load({ as: 'float32', slice: [[2, 5]] })
    t.true(same(rows, Float32Array.from(cube.slice([[2, 5]]).data)), digest)
    const { offset, length } = { ...cube.components.get('data'), length: cube.byteLength }
    const bytes = readFileSync(file.path)
    file.close()
    bytes[offset + length - 1] ^= 1
    writeFileSync(file.path, bytes)
    const flipped = openSync(file.path)
    const error = await rejectionOf(() => flipped.tensor('cube').load({ as: 'float32' }))
    t.deepEqual([error?.code, error?.tensor, error?.component], ['ZT_DIGEST_MISMATCH', 'cube', 'data'], digest)
    flipped.close()
  }
})

test('reads distant runs and planes of adjacent runs', async (t) => {
  const path = scratchPath('far.zt')
  const writer = await create(path)
  const shape = [3, 50, 40_000]
  const data = Uint8Array.from({ length: 6_000_000 }, (_, at) => at ^ (at >> 8) ^ (at >> 16))
  await writer.add('far', { dtype: 'uint8', shape, data })
  await writer.finish()
  const file = openSync(path)
  for (const slice of [
    [null, null, [39_990, 39_999]],
    [null, [1, 3], [0, 39_999]],
    [
      [1, 3],
      [7, 9],
      [5, 6],
    ],
    [null, null, [1, 39_000]],
  ]) {
    t.true(same(await file.tensor('far').load({ slice }), file.tensor('far').slice(slice).data), JSON.stringify(slice))
  }
  file.close()
})

test('reused memory contains no bytes of its previous use', async (t) => {
  const file = await opened()
  const cube = file.tensor('cube')
  for (let round = 0; round < 4; round++) {
    const loaded = await cube.load()
    t.true(same(loaded, cube.data))
    loaded.fill(-1)
    const floats = await cube.load({ as: 'float32' })
    t.true(same(floats, Float32Array.from(cube.data)))
    floats.fill(NaN)
    const packed = cube.slice([null, null, [0, 900]]).data
    t.true(same(packed, await cube.load({ slice: [null, null, [0, 900]] })))
    packed.fill(-1)
    gc()
    await new Promise(setImmediate)
  }
  file.close()
})
