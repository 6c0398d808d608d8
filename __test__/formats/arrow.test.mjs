// Arrow files, streams and Feather 2 of pyarrow (fixtures/arrow-files.py), in every way.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { canMap } from '../helpers/data-placement.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('arrow')

testExpected(folder, {
  same(t, file, name) {
    t.is(file.format, 'arrow')
    t.is(file.version, /v4|legacy/.test(name) ? '4' : '5')
  },
  verified() {},
})

const opened = (t, name) => {
  const file = openSync(join(folder, name))
  t.teardown(() => file.close())
  return file
}

test('a single batch that is not compressed is the file itself', (t) => {
  const file = opened(t, 'numbers.arrow')
  for (const tensor of file.values()) {
    const isBool = tensor.dtype === 'bool'
    t.is(tensor.mapped, !isBool && canMap(tensor.data.BYTES_PER_ELEMENT), tensor.name)
  }
  t.is(opened(t, 'few-lz4.arrow').tensor('int32').copyReason, 'encoded')
})

test('big-endian elements are swapped into a copy', async (t) => {
  const file = opened(t, 'big-endian.arrow')
  for (const tensor of file.values()) {
    if (!/int8$/.test(tensor.dtype))
      t.is(tensor.copyReason, tensor.dtype === 'bool' ? 'encoded' : 'byte-order', tensor.name)
  }
  const tensor = file.tensor('int32')
  const slice = await tensor.load({ slice: [[50, 70]] })
  t.deepEqual(slice.data ?? slice, tensor.data.slice(50, 70))
})

test('very many batches are one tensor, whole and in slices', async (t) => {
  const BATCHES = 20_000
  const stream = readFileSync(join(folder, 'few-rows.arrow'))
  const schema = stream.readInt32LE(4) + 8
  const batch = stream.subarray(schema, -8)
  const file = openSync(
    Buffer.concat([stream.subarray(0, schema), ...new Array(BATCHES).fill(batch), stream.subarray(-8)]),
  )
  t.teardown(() => file.close())
  const tensor = file.tensor('x')
  t.deepEqual(tensor.shape, [2 * BATCHES])
  t.deepEqual(
    await tensor.load(),
    Int16Array.from({ length: 2 * BATCHES }, (_, at) => at % 2),
  )
  const middle = await tensor.load({ slice: [[BATCHES - 1, BATCHES + 2]] })
  t.deepEqual([...(middle.data ?? middle)], [1, 0, 1])
  t.true((await file.verify()).ok)
})

test('metadata of the schema and of a column are attributes', (t) => {
  t.deepEqual(
    { ...opened(t, 'numbers.arrow').attributes },
    { 'made by': 'pyarrow', größe: 'ä', bytes: new Uint8Array([255, 0]) },
  )
  const { attributes } = opened(t, 'nested.arrow').tensor('permuted')
  t.is(attributes['ARROW:extension:name'], 'arrow.fixed_shape_tensor')
  t.deepEqual([...opened(t, 'tensor.arrow').tensor('tensor').attributes.dim_names], ['a', 'b', 'c'])
})

test('what is no tensor is named', (t) => {
  const { warnings } = opened(t, 'nested.arrow')
  const skipped = warnings.filter(({ code }) => code === 'ZT_WARN_SKIPPED').map(({ message }) => message.split('"')[1])
  t.deepEqual(skipped, ['texts', 'views', 'lists', 'encoded', 'nothing', 'structure.text', 'union', 'runs'])
  const others = warnings.filter(({ code }) => code !== 'ZT_WARN_SKIPPED').map(({ code, tensor }) => [code, tensor])
  t.deepEqual(others, [
    ['ZT_WARN_UNKNOWN_TYPE', 'date'],
    ['ZT_WARN_UNKNOWN_TYPE', 'price'],
    ['ZT_WARN_RENAMED', 'flat~2'],
  ])
})

test('a column with nulls has no values, and says how many there are', (t) => {
  const tensor = opened(t, 'nulls.arrow').tensor('some')
  t.is(tensor.attributes.nulls, 17)
  t.throws(() => tensor.data, { code: 'ZT_BAD_LAYOUT' })
})
