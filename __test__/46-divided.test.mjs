// Cuts and widenings that are large enough to be divided over the cores, against the definition.
import test from 'ava'
import { create, openSync } from 'ztensor'
import { scratchPath } from './scratch.mjs'

const SHAPE = [6, 700, 901]
const SIZE = SHAPE.reduce((product, dim) => product * dim, 1)

async function opened() {
  const path = scratchPath('divided.zt')
  const writer = await create(path)
  await writer.add('cube', { dtype: 'int16', shape: SHAPE, data: Int16Array.from({ length: SIZE }, (_, at) => at * 7) })
  await writer.finish()
  return openSync(path)
}

/** The elements of a cut, one by one. */
function cut(ranges) {
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

const same = (one, other) => Buffer.from(one.buffer, one.byteOffset, one.byteLength).equals(Buffer.from(other.buffer))

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
  test(`the cut ${JSON.stringify(ranges)} is packed right, in memory of its own`, async (t) => {
    const file = await opened()
    const cube = file.tensor('cube')
    const expected = cut(ranges)
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

test('millions of elements widen right, into memory of their own or the caller’s', async (t) => {
  const file = await opened()
  const cube = file.tensor('cube')
  const expected = Float32Array.from(cube.data)
  const into = new Float32Array(SIZE)
  t.is(cube.toFloat32({ into }), into)
  t.true(same(into, expected))
  t.true(same(cube.toFloat32(), expected))
  t.true(same(await cube.load({ as: 'float32' }), expected))
  file.close()
})
