// Checkpoints and SavedModels of TensorFlow (fixtures/tensorflow-files.py), and files that TensorFlow does not write: Snappy, the other
// byte order, missing and damaged files.
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { differences, expectedIn } from '../helpers/expected-files.mjs'
import { f32s } from '../helpers/onnx-writer.mjs'
import { readings } from '../helpers/readings.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { block, checkpoint, header, part, snappy, TYPES, table, tensor } from '../helpers/tensorflow-writer.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('tensorflow')
const expected = expectedIn(folder)
const at = (name) => join(folder, name)
const opened = (t, path, options) => {
  const file = openSync(path, options)
  t.teardown(() => file.close())
  return file
}
const warned = (file, code) => file.warnings.filter((one) => one.code === code)

for (const [name, { tensors, skipped }] of Object.entries(expected)) {
  test(`${name}: lists and reads everything that TensorFlow does`, async (t) => {
    for (const file of [openSync(at(`${name}.index`)), await open(at(`${name}.index`))]) {
      t.is(file.format, 'tensorflow')
      t.is(file.version, '1')
      t.deepEqual(differences(file, tensors), [])
      const messages = warned(file, 'ZT_WARN_SKIPPED').map(({ message }) => message)
      t.deepEqual(
        messages.map((message) => /^"(.*)" has the type DT_STRING/.exec(message)?.[1]),
        skipped,
      )
      t.deepEqual((await readings(file)).wrong, [])
      const report = await file.verify()
      t.true(report.ok)
      // Parts that are not joined.
      t.is(report.undigested, warned(file, 'ZT_WARN_UNKNOWN_ENCODING').length)
      file.close()
    }
  })

  test(`${name}: tensors are equal after a conversion`, async (t) => {
    const out = scratchPath('out.zt')
    const result = await convert(at(`${name}.index`), out, { version: '2', skip: true })
    const written = opened(t, out)
    const held = [...written.keys()]
    t.deepEqual(differences(written, Object.fromEntries(held.map((one) => [one, tensors[one]]))), [])
    const isRead = ({ dtype, sha256 }) => dtype !== null && sha256 !== undefined
    t.is(held.length, Object.values(tensors).filter(isRead).length)
    t.is(result.skipped.length, Object.keys(tensors).length - held.length)
  })
}

test('a folder opens its checkpoint', (t) => {
  for (const [name, prefix] of [
    ['dtypes', 'dtypes/all'],
    ['partitioned', 'partitioned/model-12'],
    ['manager', 'manager/ckpt-2'],
    ['saved', 'saved/variables/variables'],
    ['saved/variables', 'saved/variables/variables'],
    ['keras', 'keras/weights'],
  ]) {
    t.deepEqual(differences(opened(t, at(name)), expected[prefix].tensors), [], name)
  }
})

test('the prefix of a checkpoint opens its index', (t) => {
  const error = thrownBy(() => openSync(at('manager/ckpt-1')))
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /There is 'ckpt-1\.index': name that/)
})

test('names the first format', (t) => {
  const error = thrownBy(() => openSync(at('first/model.ckpt')))
  t.is(error.code, 'ZT_UNSUPPORTED_VERSION')
  t.regex(error.message, /SaverDef\.V1/)
})

/** A copy of a folder of the fixtures. */
function copied(name) {
  const path = scratchPath(name.replace('/', '-'))
  cpSync(at(name), path, { recursive: true })
  return path
}

test('a data file names its index', async (t) => {
  const path = copied('sharded')
  const data = join(path, 'model.data-00001-of-00004')
  for (const error of [thrownBy(() => openSync(data)), await rejectionOf(() => open(data))]) {
    t.is(error.code, 'ZT_BAD_MAGIC')
    t.regex(error.message, /open its index "model\.index" in the same folder/)
  }
  rmSync(join(path, 'model.index'))
  t.regex(
    thrownBy(() => openSync(data)).message,
    /"model\.index", which must be opened instead, is missing in the same folder/,
  )
  t.notRegex(thrownBy(() => openSync(data, { format: 'gguf' })).message, /index/)
})

test('rejects data whose file is missing, and reads the rest', async (t) => {
  const path = copied('sharded')
  rmSync(join(path, 'model.data-00003-of-00004'))
  const file = opened(t, path)
  const [warning, ...others] = warned(file, 'ZT_WARN_INCOMPLETE_SET')
  t.is(others.length, 0)
  t.regex(warning.message, /"model\.data-00003-of-00004"/)
  const outcomes = await Promise.all(
    [...file.values()].map(async (one) => {
      const error = await one.load().then(
        () => undefined,
        (reason) => reason,
      )
      return error && [error.code, /model\.data-00003-of-00004/.test(error.message)]
    }),
  )
  t.true(outcomes.some((one) => one === undefined))
  t.true(outcomes.some((one) => one !== undefined))
  for (const one of outcomes.filter((one) => one !== undefined)) t.deepEqual(one, ['ZT_IO', true])
  const elsewhere = join(path, 'elsewhere')
  cpSync(at('sharded/model.data-00003-of-00004'), elsewhere)
  const shards = (name) => (name === 'model.data-00003-of-00004' ? elsewhere : undefined)
  t.deepEqual(differences(opened(t, path, { shards }), expected['sharded/model'].tensors), [])
})

test('reports a truncated data file when the checkpoint is opened, and reads the rest', async (t) => {
  const path = copied('manager')
  const whole = openSync(path)
  const names = [...whole.keys()]
  truncateSync(join(path, 'ckpt-2.data-00000-of-00001'), 30)
  const file = openSync(path)
  t.deepEqual([...file.keys()], names)
  const truncated = file.warnings.filter(({ code }) => code === 'ZT_WARN_TRUNCATED')
  t.true(truncated.length > 0 && truncated.every(({ message }) => /"ckpt-2\.data-00000-of-00001"/.test(message)))
  const { ok, failures } = await file.verify()
  t.deepEqual(
    [ok, failures.map(({ code, tensor }) => [code, tensor])],
    [false, truncated.map(({ tensor }) => ['ZT_TRUNCATED', tensor])],
  )
  for (const { tensor } of truncated) await t.throwsAsync(() => file.tensor(tensor).load(), { code: 'ZT_TRUNCATED' })
  for (const name of names.filter((name) => !truncated.some(({ tensor }) => tensor === name)))
    if (file.tensor(name).dtype !== undefined) t.truthy(await file.tensor(name).load())
  t.throws(() => openSync(path, { verify: true }), { code: 'ZT_TRUNCATED' })
  file.close()
  whole.close()
})

test('a checksum covers each byte of the data', async (t) => {
  const path = copied('partitioned')
  for (const [data, names] of [
    ['model-12.data-00000-of-00002', ['embedding/table']],
    ['model-12.data-00001-of-00002', ['columns/table', 'step']],
  ]) {
    const bytes = readFileSync(join(path, data))
    for (let position = 0; position < bytes.length; position += 7) {
      const damaged = Buffer.from(bytes)
      damaged[position] ^= 1
      writeFileSync(join(path, data), damaged)
      const file = openSync(path)
      const { failures } = await file.verify()
      t.deepEqual(
        failures.map(({ code }) => code),
        ['ZT_DIGEST_MISMATCH'],
        `${data} ${position}`,
      )
      const [{ tensor: name }] = failures
      t.true(names.includes(name))
      t.is((await rejectionOf(() => file.tensor(name).load())).code, 'ZT_DIGEST_MISMATCH')
      file.close()
    }
    writeFileSync(join(path, data), bytes)
  }
})

/** The path of a custom index, with its data files. */
function made(index, data) {
  const path = scratchPath('made')
  mkdirSync(path)
  data.forEach((bytes, number) => {
    const of = String(data.length).padStart(5, '0')
    writeFileSync(join(path, `model.data-${String(number).padStart(5, '0')}-of-${of}`), bytes)
  })
  writeFileSync(join(path, 'model.index'), index)
  return join(path, 'model.index')
}
const swapped = (bytes, width) => {
  const of = Buffer.from(bytes)
  return { 2: () => of.swap16(), 4: () => of.swap32(), 8: () => of.swap64() }[width]()
}

test('reads big-endian data, whose checksums cover the stored bytes', async (t) => {
  const floats = swapped(f32s(1, -2.5), 4)
  const complex = swapped(f32s(1, 2), 4)
  const shorts = swapped(littleEndian(Int16Array.of(1, 2, 3, 4, 5, 6)), 2)
  // Columns 0 and 1 to 2 of two rows.
  const [left, right] = [shorts.subarray(0, 4), shorts.subarray(4)]
  const slices = [
    [null, [0, 1]],
    [null, [1, 2]],
  ]
  const index = checkpoint(
    [
      [part('parts', slices[0]), tensor({ type: TYPES.int16, shape: [2, 1], data: left, offset: 16 })],
      [part('parts', slices[1]), tensor({ type: TYPES.int16, shape: [2, 2], data: right, offset: 20 })],
      ['complex', tensor({ type: TYPES.complex64, shape: [1], data: complex, offset: 8 })],
      ['floats', tensor({ data: floats })],
      ['parts', tensor({ type: TYPES.int16, shape: [2, 3], slices })],
      ['qint8', tensor({ type: TYPES.qint8, data: floats.subarray(0, 2) })],
    ],
    { head: header({ endianness: 1 }) },
  )
  const path = made(index, [Buffer.concat([floats, complex, left, right])])
  const file = opened(t, path)
  t.deepEqual(warned(file, 'ZT_WARN_INCOMPLETE_SET'), [])
  t.deepEqual([...file.tensor('floats').data], [1, -2.5])
  t.is(file.tensor('floats').copyReason, 'byte-order')
  t.deepEqual([...file.tensor('complex').data], [1, 2])
  t.deepEqual([...file.tensor('parts').data], [1, 3, 4, 2, 5, 6])
  t.deepEqual((await readings(file)).wrong, [])
  t.true((await file.verify()).ok)
  const bytes = readFileSync(join(dirname(path), 'model.data-00000-of-00001'))
  bytes[1] ^= 1
  writeFileSync(join(dirname(path), 'model.data-00000-of-00001'), bytes)
  const damaged = opened(t, path)
  t.is((await rejectionOf(() => damaged.tensor('floats').load())).code, 'ZT_DIGEST_MISMATCH')
})

test('reads Snappy blocks, and data in several files', async (t) => {
  const packed = (contents) => ({ contents: snappy(contents), kind: 1 })
  const entries = Array.from({ length: 100 }, (_, number) => [
    `w${String(number).padStart(3, '0')}`,
    tensor({ shard: number % 3, offset: 8 * Math.floor(number / 3), data: f32s(number, -number) }),
  ])
  const values = entries.map((_, number) => f32s(number, -number))
  const data = [0, 1, 2].map((shard) => Buffer.concat(values.filter((_, number) => number % 3 === shard)))
  const blocks = [block([['', header({ shards: 3 })], ...entries.slice(0, 50)]), block(entries.slice(50))]
  const file = opened(t, made(table(blocks.map(packed), { index: packed }), data))
  t.deepEqual([...file.tensor('w099').data], [99, -99])
  t.is(file.size, 100)
  t.true((await file.verify()).ok)
})

test('opens the checkpoint that a marker names', (t) => {
  const path = copied('manager')
  const mark = (text) => writeFileSync(join(path, 'checkpoint'), text)
  const isKernel = (options) => [...opened(t, path, options).tensor('model/kernel/.ATTRIBUTES/VARIABLE_VALUE').data]
  const newest = isKernel()
  mark('model_checkpoint_path: "ckpt-1"\n')
  t.deepEqual(
    isKernel(),
    newest.map((one) => -one),
  )
  // The folder was moved.
  mark("model_checkpoint_path: '/no/such/folder/ckpt-2'\n")
  t.deepEqual(isKernel(), newest)
  for (const [text, code, part] of [
    [
      'model_checkpoint_path: "ckpt-3"\n',
      'ZT_IO',
      /"checkpoint" leads to "ckpt-3\.index".*"ckpt-1\.index", "ckpt-2\.index"/,
    ],
    ['model_checkpoint_path: "../manager/ckpt-1"\n', 'ZT_OUT_OF_BOUNDS', /inside its folder/],
    ['something else', 'ZT_IO', /2 tensor files and no index/],
    [Buffer.alloc(100, 0xff), 'ZT_IO', /2 tensor files and no index/],
  ]) {
    mark(text)
    const error = thrownBy(() => openSync(path))
    t.is(error.code, code, String(text))
    t.regex(error.message, part)
  }
  // This opens the model of another format in the same folder.
  mark('model_checkpoint_path: "ckpt-3"\n')
  cpSync(fixturePath('pytorch/alone.pt'), join(path, 'alone.pt'))
  t.is(opened(t, path).format, 'pytorch')
})

test('rejects a SavedModel without variables, and one whose variables are linked to another folder', (t) => {
  const path = copied('saved')
  const variables = join(path, 'variables')
  renameSync(variables, `${path}-outside`)
  t.is(thrownBy(() => openSync(path)).code, 'ZT_IO')
  if (process.platform === 'win32') return
  symlinkSync(`${path}-outside`, variables)
  const error = thrownBy(() => openSync(path))
  t.is(error.code, 'ZT_OUT_OF_BOUNDS')
  t.regex(error.message, /"saved_model\.pb" leads to "variables\/variables\.index"/)
})

test('opens several checkpoints in a list, and one in memory', async (t) => {
  const file = opened(t, [at('dtypes/all.index'), at('sharded/model.index')])
  t.deepEqual(warned(file, 'ZT_WARN_INCOMPLETE_SET'), [])
  t.deepEqual(differences(file, { ...expected['dtypes/all'].tensors, ...expected['sharded/model'].tensors }), [])
  t.true((await file.verify()).ok)
  const memory = opened(t, readFileSync(at('sharded/model.index')))
  t.is(memory.size, 2)
  const error = await rejectionOf(() => memory.values().next().value.load())
  t.is(error.code, 'ZT_IO')
  t.regex(error.message, /memory/)
})

test('lists and rejects parts along several dimensions', async (t) => {
  const file = opened(t, at('slices/merged.index'))
  const corners = file.tensor('corners')
  t.deepEqual([corners.dtype, corners.shape], ['float32', [4, 4]])
  t.is((await rejectionOf(() => corners.load())).code, 'ZT_UNSUPPORTED_ENCODING')
  t.is(corners.components.get('data').encoding, 'tensorflow.slices')
  t.is(file.tensor('columns').copyReason, 'reordered')
})
