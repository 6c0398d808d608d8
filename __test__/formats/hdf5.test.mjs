// Files of h5py and Keras: everything in them, read in every way.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('hdf5')

testExpected(folder, {
  same(t, file, name) {
    t.is(file.format, name.endsWith('.keras') ? 'keras' : 'hdf5')
  },
  verified() {},
})

const opened = (t, name) => {
  const file = openSync(join(folder, name))
  t.teardown(() => file.close())
  return file
}
const PLAIN = {
  text: 'größe',
  fixed: 'ab',
  texts: ['a', '', 'c'],
  number: 2n ** 62n + 1n,
  numbers: [
    [1, 2],
    [3, 4],
  ],
  float: 1.5,
  bool: true,
  complex: [1, -2],
  null: null,
  empty: [],
}

for (const name of ['attributes.h5', 'attributes-latest.h5', 'attributes-ordered.h5', 'shared.h5']) {
  test(`${name}: reads attributes of the file, of a group and of a dataset`, (t) => {
    const file = opened(t, name)
    t.deepEqual({ ...file.tensor('x').attributes }, PLAIN)
    const group = Object.entries(PLAIN).map(([key, value]) => [`group/${key}`, value])
    t.deepEqual({ ...file.metadata }, { ...PLAIN, ...Object.fromEntries(group), 'long/text': 'x'.repeat(60000) })
    t.deepEqual(
      file.warnings.map(({ code, message }) => [code, /structure/.test(message)]),
      Array(3).fill(['ZT_WARN_SKIPPED', true]),
    )
  })
}

test('attributes are in creation order if the file stores it', (t) => {
  const keys = Object.keys(opened(t, 'attributes-ordered.h5').metadata)
  t.deepEqual(keys.slice(0, Object.keys(PLAIN).length), Object.keys(PLAIN))
})

test('aliases data that is stored as in memory', (t) => {
  const file = opened(t, 'dtypes.h5')
  const reason = (name) => file.tensor(name).copyReason
  t.is(reason('int8<'), process.env.ZTENSOR_NO_EXTERNAL === '1' ? reason('int8<') : undefined)
  t.is(reason('float32>'), 'byte-order')
  const storage = opened(t, 'storage-latest.h5')
  t.is(storage.tensor('compact').copyReason, 'inline')
  t.is(storage.tensor('fixed').copyReason, 'encoded')
})

test('names filters, and rejects those that cannot be reversed', async (t) => {
  const file = opened(t, 'filters.h5')
  const encoding = (name) => file.tensor(name).components.get('data').encoding
  t.is(encoding('gzip int16'), 'shuffle+zlib+fletcher32')
  t.is(encoding('lzf shuffled'), 'shuffle+lzf')
  for (const name of ['scaleoffset', 'szip']) {
    t.is(encoding(name), name)
    await t.throwsAsync(() => file.tensor(name).load(), { code: 'ZT_UNSUPPORTED_ENCODING' })
  }
  t.deepEqual(
    file.warnings.map(({ code, tensor }) => [code, tensor]),
    [
      ['ZT_WARN_UNKNOWN_ENCODING', 'scaleoffset'],
      ['ZT_WARN_UNKNOWN_ENCODING', 'szip'],
    ],
  )
})

test('a damaged chunk hides no other', async (t) => {
  const bytes = readFileSync(join(folder, 'filters.h5'))
  const whole = openSync(new Uint8Array(bytes))
  const { offset, storedLength } = whole.tensor('fletcher32').components.get('data')
  const rows = Array.from(whole.tensor('fletcher32').slice([[0, 6], null]).data)
  whole.close()
  // The last byte is of the last chunk.
  bytes[offset + storedLength - 5] ^= 1
  const file = openSync(new Uint8Array(bytes))
  t.teardown(() => file.close())
  t.deepEqual(Array.from(file.tensor('fletcher32').slice([[0, 6], null]).data), rows)
  await t.throwsAsync(() => file.tensor('fletcher32').load(), { code: 'ZT_DIGEST_MISMATCH' })
  const { failures } = await file.verify()
  t.deepEqual(
    failures.map(({ code, tensor }) => [code, tensor]),
    [['ZT_DIGEST_MISMATCH', 'fletcher32']],
  )
})

test('links: each name once, and never other files', (t) => {
  for (const name of ['links.h5', 'links-latest.h5']) {
    const file = opened(t, name)
    const skipped = file.warnings.filter(({ code }) => code === 'ZT_WARN_SKIPPED').map(({ message }) => message)
    t.deepEqual(skipped.map((message) => message.split(':')[0]).sort(), ['circle', 'lost', 'outside'])
    const offsetOf = (tensor) => file.tensor(tensor).components.get('data').offset
    t.is(offsetOf('a/same'), offsetOf('data'))
    t.throws(() => file.tensor('external').data, { code: 'ZT_UNSUPPORTED_ENCODING' })
    t.throws(() => file.tensor('virtual').data, { code: 'ZT_UNSUPPORTED_ENCODING' })
  }
})

test('strings and items without a shape become attributes', (t) => {
  const file = opened(t, 'others.h5')
  t.deepEqual({ ...file.metadata }, { fixed: ['ab', 'c'], null: null, text: 'one text', texts: ['a', 'größe', ''] })
  const untyped = file.warnings.filter(({ code }) => code === 'ZT_WARN_UNKNOWN_TYPE').map(({ tensor }) => tensor)
  t.deepEqual(untyped, ['chunked texts', 'lists', 'longdouble', 'opaque', 'references', 'structure'])
})

test("verify() compares the checksum of Keras' archives", async (t) => {
  const bytes = readFileSync(join(folder, 'model.keras'))
  const file = opened(t, 'model.keras')
  const whole = await file.verify()
  t.deepEqual([whole.ok, whole.checked], [true, 1])
  const { offset } = file.tensor('layers/dense/vars/0').components.get('data')
  const damaged = Buffer.from(bytes)
  damaged[offset] ^= 1
  const other = openSync(scratchFile(damaged, 'model.keras'))
  t.teardown(() => other.close())
  const { ok, failures } = await other.verify()
  t.false(ok)
  t.deepEqual(
    failures.map(({ code, tensor, rule }) => [code, tensor, rule]),
    [['ZT_DIGEST_MISMATCH', undefined, 'APPNOTE 4.4.7 CRC-32']],
  )
  t.regex(failures[0].message, /model\.weights\.h5/)
})

test("opens Keras' sharded weights by their index, and by their folder", async (t) => {
  const parts = ['model_00000.weights.h5', 'model_00001.weights.h5'].map((name) => opened(t, join('../keras', name)))
  const expected = parts.flatMap((file) => [...file.values()].map(({ name, dtype, shape }) => ({ name, dtype, shape })))
  t.is(expected.length, 10)
  for (const name of ['../keras/model.weights.json', '../keras']) {
    const file = opened(t, name)
    t.deepEqual(
      [...file.values()].map(({ name, dtype, shape }) => ({ name, dtype, shape })),
      expected,
    )
    t.deepEqual(file.warnings, [])
    for (const part of parts)
      for (const tensor of part.values()) {
        const bytes = (one) => Buffer.from(new Uint8Array(one.buffer, one.byteOffset, one.byteLength))
        sameBytes(t, bytes(await file.tensor(tensor.name).load()), bytes(await tensor.load()))
      }
  }
  const index = JSON.parse(readFileSync(fixturePath('keras/model.weights.json'), 'utf8'))
  index.weight_map['/layers/none/vars'] = ['model_00000.weights.h5']
  const copy = scratchPath()
  cpSync(fixturePath('keras'), copy, { recursive: true })
  writeFileSync(join(copy, 'model.weights.json'), JSON.stringify(index))
  t.throws(() => openSync(copy), { code: 'ZT_BAD_INDEX', message: /layers\/none\/vars/ })
})

test("Keras' archives list the layers like Keras", (t) => {
  const file = opened(t, 'model.keras')
  t.is(file.metadata['layers/dense/vars/name'], 'first')
  t.is(JSON.parse(file.metadata['config.json']).config.name, 'small')
  t.is(file.tensor('layers/dense_1/vars/0').dtype, 'bfloat16')
  const legacy = opened(t, 'legacy.h5')
  t.deepEqual(legacy.metadata['model_weights/layer_names'], ['first', 'batch_normalization', 'second'])
  t.true(legacy.has('model_weights/first/small/first/kernel'))
})

test('names an unsupported filter, also after a supported one', async (t) => {
  const file = openSync(fixturePath('hdf5-messages/bzip2.h5'))
  t.teardown(() => file.close())
  t.regex(file.warnings[0].message, /the filter "bzip2", which cannot be reversed here/)
  const tensor = file.tensor('c')
  for (const load of [() => tensor.load(), () => tensor.load({ slice: [[0, 2]] }), () => tensor.toFloat32()]) {
    const error = await rejectionOf(async () => load())
    t.is(error?.code, 'ZT_UNSUPPORTED_ENCODING')
    t.regex(error.message, /the encoding "bzip2" is not supported/)
  }
})

test('an attribute and a dataset with one path both become attributes, with a warning about the new name', (t) => {
  const file = openSync(fixturePath('hdf5-messages/columns.h5ad'))
  t.teardown(() => file.close())
  t.deepEqual({ ...file.metadata }, { 'obs/_index': '_index', 'obs/_index~2': ['a', 'b'] })
  t.deepEqual(
    file.warnings.map(({ code }) => code),
    ['ZT_WARN_RENAMED'],
  )
  t.regex(file.warnings[0].message, /"obs\/_index".*"obs\/_index~2"/)
})
