// Arrow files, streams and Feather 2 of pyarrow (fixtures/arrow-files.py), read in every way.
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { canMap } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
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

test('a single uncompressed batch is aliased', (t) => {
  const file = opened(t, 'numbers.arrow')
  for (const tensor of file.values()) {
    const isBool = tensor.dtype === 'bool'
    t.is(tensor.mapped, !isBool && canMap(tensor.data.BYTES_PER_ELEMENT), tensor.name)
  }
  t.is(opened(t, 'few-lz4.arrow').tensor('int32').copyReason, 'encoded')
})

test('copies and swaps big-endian elements', async (t) => {
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

test('metadata of the schema and of a column become attributes', (t) => {
  t.deepEqual(
    { ...opened(t, 'numbers.arrow').metadata },
    { 'made by': 'pyarrow', größe: 'ä', bytes: new Uint8Array([255, 0]) },
  )
  const { attributes } = opened(t, 'nested.arrow').tensor('permuted')
  t.is(attributes['ARROW:extension:name'], 'arrow.fixed_shape_tensor')
  t.deepEqual([...opened(t, 'tensor.arrow').tensor('tensor').attributes.dim_names], ['a', 'b', 'c'])
})

test('lists columns that are not tensors', (t) => {
  const { warnings } = opened(t, 'nested.arrow')
  const skipped = warnings.filter(({ code }) => code === 'ZT_WARN_SKIPPED').map(({ message }) => message.split('"')[1])
  t.deepEqual(skipped, ['texts', 'views', 'encoded', 'nothing', 'structure.text', 'union', 'runs', 'lists'])
  const others = warnings.filter(({ code }) => code !== 'ZT_WARN_SKIPPED').map(({ code, tensor }) => [code, tensor])
  t.deepEqual(others, [
    ['ZT_WARN_UNKNOWN_TYPE', 'date'],
    ['ZT_WARN_UNKNOWN_TYPE', 'price'],
    ['ZT_WARN_RENAMED', 'flat~2'],
  ])
})

test('a column with nulls has no values, and reports the number of nulls', (t) => {
  const tensor = opened(t, 'nulls.arrow').tensor('some')
  t.is(tensor.attributes.nulls, 17)
  t.throws(() => tensor.data, { code: 'ZT_BAD_LAYOUT' })
})

test('distinguishes null lists and null values, each with its bitmap', (t) => {
  const file = opened(t, 'null-lists.arrow')
  const nulls = (name) => ({ ...file.tensor(name).attributes })
  t.deepEqual(nulls('outer'), { nulls: 0, outer_nulls: 1 })
  t.deepEqual(nulls('both'), { nulls: 3, outer_nulls: 1 })
  t.deepEqual(nulls('inner'), { nulls: 3 })
  t.deepEqual(nulls('struct.x'), { nulls: 0, outer_nulls: 3 })
  const messages = Object.fromEntries(file.warnings.map(({ tensor, message }) => [tensor, message.split(',')[0]]))
  t.is(messages.outer, '1 list of the column is null')
  t.is(messages.both, '3 values and 1 list of the column are null')
  t.is(messages.inner, '3 values of the column are null')
  t.is(messages['struct.x'], '1 list and 2 structs of the column are null')
})

for (const name of ['lists.arrow', 'lists-batches.arrow', 'lists-zstd.arrow', 'lists-lz4.arrow', 'lists-stream.arrow'])
  test(`${name}: lists of one length become a tensor, and others are listed with the reason`, async (t) => {
    for (const source of [join(folder, name), new Uint8Array(readFileSync(join(folder, name)))]) {
      const file = openSync(source)
      t.deepEqual(file.warnings.map(({ code, message }) => [code, ...message.split(/"| because /).slice(1)]).sort(), [
        ['ZT_WARN_SKIPPED', 'differ', ' is list: it is not a tensor,', 'its lists differ in length'],
        ['ZT_WARN_SKIPPED', 'holes', ' is list: it is not a tensor,', 'its lists differ in length'],
        ['ZT_WARN_SKIPPED', 'late', ' is list: it is not a tensor,', 'its lists differ in length'],
        ['ZT_WARN_SKIPPED', 'texts', ' is utf8: it is not a tensor'],
      ])
      const { shape, dtype } = file.tensor('embeddings')
      t.deepEqual([shape, dtype], [[120, 8], 'float32'])
      const slice = await file.tensor('embeddings').load({ slice: [[50, 70], [3]] })
      t.deepEqual(
        [...slice],
        Array.from({ length: 20 }, (_, at) => file.tensor('embeddings').data[(50 + at) * 8 + 3]),
      )
      t.true((await file.verify()).ok)
      file.close()
    }
  })

test('a column of lists without rows is not a tensor', (t) => {
  const stream = readFileSync(join(folder, 'lists-stream.arrow'))
  const file = openSync(Buffer.concat([stream.subarray(0, stream.readInt32LE(4) + 8), stream.subarray(-8)]))
  t.teardown(() => file.close())
  t.deepEqual([...file.keys()], [])
  t.true(file.warnings.some(({ message }) => /"embeddings" is list: .* because it has no lists/.test(message)))
})

test('shards of a dataset are parts of one table: no warning or error advises to open the folder', async (t) => {
  const made = scratchFolder()
  const shards = ['data-00000-of-00002.arrow', 'data-00001-of-00002.arrow'].map(made.path)
  for (const path of shards) cpSync(join(folder, 'lists-stream.arrow'), path)
  const file = openSync(shards[0])
  t.teardown(() => file.close())
  const { message } = file.warnings.find(({ code }) => code === 'ZT_WARN_INCOMPLETE_SET')
  t.regex(message, /data-00001-of-00002\.arrow\. Each has other rows of the same columns: open each by itself$/)
  for (const source of [made.folder, shards]) {
    const error = await rejectionOf(() => open(source))
    t.is(error?.code, 'ZT_BAD_INDEX')
    t.regex(
      error.message,
      /other rows of the same columns, as parts of one table, and rows are not joined: open each by itself/,
    )
  }
})
