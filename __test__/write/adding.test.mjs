// What add() takes: arrays that say their dtype, shapes in the options, numbers to round; and which format a path's ending names.
import { existsSync } from 'node:fs'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const F = Float32Array.of(1, -2.5, 3, 0.1, 1e-8, 65520)

test('the shape may stand in the options, and the dtype in the array', async (t) => {
  const path = await written({ version: '1.2' }, async (w) => {
    await w.add('options', F, { shape: [2, 3] })
    await w.add('array', { data: BigInt64Array.of(1n) })
    await w.add('both', { shape: [3, 2], data: F }, { shape: [3, 2] })
    await w.add('bytes', { dtype: 'float32', data: new Uint8Array(F.buffer) })
    await w.add('complex', { dtype: 'complex64', data: F })
  })
  const file = openSync(path)
  const told = Object.fromEntries(Array.from(file.values(), ({ name, dtype, shape }) => [name, [dtype, ...shape]]))
  t.deepEqual(told, {
    options: ['float32', 2, 3],
    array: ['int64', 1],
    both: ['float32', 3, 2],
    bytes: ['float32', 6],
    complex: ['complex64', 3],
  })
  t.deepEqual([...file.tensor('bytes').data], [...F])
  file.close()
})

test('numbers are rounded to narrow floats as a cast rounds them', async (t) => {
  const plain = await written({ version: '1.2' }, async (w) => {
    await w.add('f', F)
    await w.add('d', Float64Array.from(F))
  })
  for (const dtype of ['float16', 'bfloat16', 'float8_e4m3fn', 'float8_e5m2']) {
    const cast = scratchPath('cast')
    await convert(plain, cast, { version: '1.2', cast: { float32: dtype, float64: dtype } })
    const rounded = await written({ version: '1.2' }, async (w) => {
      await w.add('f', { dtype, data: F })
      await w.add('d', { dtype, data: Float64Array.from(F) })
    })
    const [expected, found] = [openSync(cast), openSync(rounded)]
    for (const name of ['f', 'd']) {
      t.is(found.tensor(name).dtype, dtype)
      t.deepEqual(found.tensor(name).data, expected.tensor(name).data, dtype)
    }
    expected.close()
    found.close()
  }
})

test('an array of another type is refused, bytes are not', async (t) => {
  const writer = await create(scratchPath('other'))
  for (const [dtype, data] of [
    ['float32', Int32Array.of(1)],
    ['int32', Float32Array.of(1)],
    ['float16', Int16Array.of(1)],
    ['int64', BigUint64Array.of(1n)],
    ['float32', Float64Array.of(1)],
    ['bool', Int8Array.of(1)],
  ]) {
    const error = await rejectionOf(() => writer.add('x', { dtype, data }))
    isArgumentError(t, error, 'data')
    t.true(error.message.includes(dtype) && error.message.includes(data.constructor.name), error.message)
  }
  isArgumentError(t, await rejectionOf(() => writer.add('x', { shape: [6], data: F }, { shape: [2, 3] })), 'shape')
  const error = await rejectionOf(() => writer.add('x', F, { shape: [2, 4] }))
  t.is(error.code, 'ZT_BAD_SHAPE')
  t.is(error.tensor, 'x')
  t.regex(error.message, /shape \[2, 4\] needs 32 bytes \(8 elements of float32\), but the array has 24 \(6 elements\)/)
  await writer.add('dataview', { dtype: 'float32', data: new DataView(F.buffer) })
  await writer.finish()
})

test('the ending of a path names the format', async (t) => {
  for (const [name, options, format] of [
    ['a.zt', {}, 'zt'],
    ['a.safetensors', {}, 'safetensors'],
    ['a.SafeTensors', {}, 'safetensors'],
    ['a.btf', {}, 'btf'],
    ['a', {}, 'zt'],
    ['a.weights', {}, 'zt'],
    ['a.safetensors', { format: 'zt' }, 'zt'],
    ['a.bin', { format: 'safetensors' }, 'safetensors'],
  ]) {
    const path = scratchPath(name)
    const writer = await create(path, options)
    await writer.add('0', F)
    await writer.finish()
    const copy = scratchPath(name)
    await convert(path, copy, options)
    for (const one of [path, copy]) {
      const file = openSync(one)
      t.is(file.format, format, name)
      file.close()
    }
  }
})

test('what contradicts the ending is refused, and so are endings of formats that are not written', async (t) => {
  const source = await written({ version: '1.0' }, (w) => w.add('0', F))
  const refused = [
    ['a.safetensors', { version: '2' }],
    ['a.btf', { version: '1.0' }],
    ['a.zt', { format: 'safetensors', version: '2' }],
  ]
  for (const ending of ['gguf', 'pt', 'pth', 'bin', 'onnx', 'h5', 'PTH', 'index.json'])
    refused.push([`a.${ending}`, {}])
  for (const [name, options] of refused) {
    const path = scratchPath(name)
    isArgumentError(t, await rejectionOf(() => create(path, options)), 'format')
    isArgumentError(t, await rejectionOf(() => convert(source, path, options)), 'format')
    t.false(existsSync(path))
  }
})
