// TFLite models (fixtures/tflite-files.py), in every way.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { fingerprint } from '../helpers/bytes.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { buffer, model, table, tables, tensor, text, u8, u32 } from '../helpers/tflite-writer.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('tflite')
const { dequantized } = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8'))

testExpected(folder, {
  same(t, file) {
    t.is(file.format, 'tflite')
    t.is(file.version, '3')
    t.is(file.metadata.description, 'made by hand')
  },
  verified() {},
})

const opened = (t, name) => {
  const file = openSync(join(folder, name))
  t.teardown(() => file.close())
  return file
}

for (const [name, tensors] of Object.entries(dequantized)) {
  test(`${name}: float32 values equal those of the reference kernels`, async (t) => {
    const file = opened(t, name)
    for (const [own, { nbytes, sha256 }] of Object.entries(tensors)) {
      const tensor = file.tensor(own)
      t.deepEqual(fingerprint(tensor.toFloat32()), { nbytes, sha256 }, own)
      const loaded = await tensor.load({ as: 'float32' })
      t.deepEqual(fingerprint(loaded.data ?? loaded), { nbytes, sha256 }, own)
    }
    const [rows] = file.tensor('large').shape
    const all = file.tensor('large').toFloat32()
    const slice = await file.tensor('large').load({
      as: 'float32',
      slice: [
        [1, rows],
        [3, 10],
      ],
    })
    const part = slice.data ?? slice
    t.deepEqual(Array.from(part.subarray(0, 7)), Array.from(all.subarray(303, 310)))
  })
}

test('metadata becomes an attribute, and only constants are listed', (t) => {
  const file = opened(t, 'plain.tflite')
  t.deepEqual(
    { ...file.metadata.metadata },
    {
      min_runtime_version: '1.5.0',
      reduced: Uint8Array.from({ length: 32 }, (_, at) => 200 + at),
    },
  )
  t.false(file.has('input') || file.has('state') || file.has('decode.output'))
  t.deepEqual(
    file.warnings.map(({ code, tensor }) => [code, tensor]),
    [
      ['ZT_WARN_UNKNOWN_TYPE', 'packed'],
      ['ZT_WARN_SKIPPED', undefined],
      ['ZT_WARN_RENAMED', 'scalar~2'],
    ],
  )
})

test('levels of a sparse tensor become attributes', (t) => {
  const { attributes } = opened(t, 'sparse.tflite').tensor('weights')
  t.deepEqual(attributes.traversal_order, [0, 1])
  t.deepEqual(attributes.dim_formats, ['DENSE', 'SPARSE_CSR'])
  t.deepEqual(attributes.dense_sizes, [2, 0])
})

test('block-quantized tensors name the tensors of their scales and zero points', (t) => {
  const details = table({ 0: u32(1), 1: u32(2), 2: u32(32) })
  const codes = tensor({ name: 'codes', type: 17, shape: [16], 4: table({ 4: u8(2), 5: details }) })
  const named = (name) => tensor({ name, type: 9, shape: [8] })
  const bytes = model([codes, named('w_scales'), named('')], [table({}), buffer(new Array(8).fill(0))])
  const file = openSync(bytes)
  t.teardown(() => file.close())
  const { layout, attributes } = file.tensor('codes')
  t.is(layout, 'tflite.blockwise/1')
  t.deepEqual({ ...attributes }, { type: 'INT4', block_size: 32, scales: 'w_scales', zero_points: 'tensor2' })
  t.true(file.has('tensor2'))
})

test('signatures become attributes: the names of inputs and outputs', (t) => {
  const argument = (name) => tables(table({ 0: text(name), 1: u32(0) }))
  const signature = table({ 0: argument('x'), 1: argument('y'), 2: text('serving_default') })
  const bytes = model([tensor()], [table({}), buffer(new Array(8).fill(0))], { 7: tables(signature, signature) })
  const file = openSync(bytes)
  t.teardown(() => file.close())
  t.deepEqual(file.metadata.signatures, { serving_default: { inputs: ['x'], outputs: ['y'] } })
  t.deepEqual(
    file.warnings.map(({ code }) => code),
    ['ZT_WARN_SKIPPED'],
  )
})

const interpreter = fixturePath('tflite-interpreter')
const interpreted = JSON.parse(readFileSync(join(interpreter, 'float32.json'), 'utf8'))

test('float32 values equal those of the interpreter, bit for bit', async (t) => {
  const file = opened(t, '../tflite-interpreter/quantized.tflite')
  t.deepEqual([...file.keys()], Object.keys(interpreted))
  for (const [name, expected] of Object.entries(interpreted)) {
    t.deepEqual(fingerprint(file.tensor(name).toFloat32()), expected, name)
    t.deepEqual(fingerprint(await file.tensor(name).load({ as: 'float32' })), expected, name)
  }
})

for (const version of ['1.2', '2'])
  test(`quantized tensors keep their values in zTensor ${version}`, async (t) => {
    const target = scratchPath('converted.zt')
    await convert(join(interpreter, 'quantized.tflite'), target, { version })
    const file = openSync(target)
    t.teardown(() => file.close())
    // Version 1.2 knows only its own layouts.
    if (version === '2') t.deepEqual(file.warnings, [])
    for (const [name, expected] of Object.entries(interpreted)) {
      t.is(file.tensor(name).layout, 'tflite.quantized/1', name)
      t.deepEqual(fingerprint(file.tensor(name).toFloat32()), expected, name)
      t.deepEqual(fingerprint(await file.tensor(name).load({ as: 'float32' })), expected, name)
    }
  })

test('zTensor 2 checks quantized integers by its rules', async (t) => {
  const write = async (scales) => {
    const writer = await create(scratchPath('quantized.zt'), { version: '2' })
    t.teardown(() => writer.abort())
    await writer.addObject('w', {
      layout: 'tflite.quantized/1',
      shape: [2, 3],
      attributes: { type: 'INT8', quantized_dimension: 0 },
      components: {
        data: { dtype: 'int8', data: Int8Array.of(1, 2, 3, 4, 5, 6) },
        scales: { dtype: 'float32', data: scales },
        zeros: { dtype: 'int64', data: BigInt64Array.of(0n) },
      },
    })
  }
  await t.notThrowsAsync(write(Float32Array.of(1, 2)))
  await t.throwsAsync(write(Float32Array.of(1, 2, 3)), { code: 'ZT_BAD_SHAPE' })
})
