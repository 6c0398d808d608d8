// Arrow files, streams and Feather 2 of pyarrow (fixtures/arrow-files.py), in every way.
import { join } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { testExpected } from '../imported.mjs'
import { fixturePath } from '../vectors.mjs'

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
    t.is(tensor.mapped, !isBool && process.env.ZTENSOR_NO_EXTERNAL !== '1', tensor.name)
  }
  t.is(opened(t, 'few-lz4.arrow').tensor('int32').copyReason, 'encoded')
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
