// The arguments of add(): typed arrays that imply a dtype, shapes in the options, numbers to round. And the format by the
// extension of the path.
import { existsSync } from 'node:fs'
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const F = Float32Array.of(1, -2.5, 3, 0.1, 1e-8, 65520)

test('the shape can be in the options, and the dtype is implied by the array', async (t) => {
  const path = await written({ version: '1.2' }, async (w) => {
    await w.add('options', F, { shape: [2, 3] })
    await w.add('array', { data: BigInt64Array.of(1n) })
    await w.add('both', { shape: [3, 2], data: F }, { shape: [3, 2] })
    await w.add('bytes', { dtype: 'float32', data: littleEndian(F) })
    await w.add('complex', { dtype: 'complex64', data: F })
  })
  const file = openSync(path)
  const tensors = Object.fromEntries(Array.from(file.values(), ({ name, dtype, shape }) => [name, [dtype, ...shape]]))
  t.deepEqual(tensors, {
    options: ['float32', 2, 3],
    array: ['int64', 1],
    both: ['float32', 3, 2],
    bytes: ['float32', 6],
    complex: ['complex64', 3],
  })
  t.deepEqual([...file.tensor('bytes').data], [...F])
  file.close()
})

// Small arrays are rounded in the call, large ones by other threads, in several pieces.
const MANY = new Float32Array(1_500_000).map((_, at) => Math.fround(Math.sin(at) * 2 ** ((at % 40) - 30)))

test('numbers are rounded to narrow floats like a cast', async (t) => {
  const tensors = {
    f: F,
    d: Float64Array.from(F),
    many: MANY,
    'many doubles': Float64Array.from(MANY.subarray(0, 700_001)),
  }
  const plain = await written({ version: '1.2' }, async (w) => {
    for (const [name, data] of Object.entries(tensors)) await w.add(name, data)
  })
  for (const dtype of ['float16', 'bfloat16', 'float8_e4m3fn', 'float8_e5m2']) {
    const cast = scratchPath('cast.zt')
    await convert(plain, cast, { version: '1.2', cast: { float32: dtype, float64: dtype } })
    const rounded = await written({ version: '1.2' }, async (w) => {
      for (const [name, data] of Object.entries(tensors)) await w.add(name, { dtype, data })
    })
    const [expected, found] = [openSync(cast), openSync(rounded)]
    for (const name of Object.keys(tensors)) {
      t.is(found.tensor(name).dtype, dtype)
      sameBytes(t, found.tensor(name).data, expected.tensor(name).data, dtype)
    }
    expected.close()
    found.close()
  }
})

test('an array that is detached while it is rounded is rejected', async (t) => {
  const path = scratchPath('detached.zt')
  const writer = await create(path)
  const data = MANY.slice()
  const adding = rejectionOf(() => writer.add('x', { dtype: 'bfloat16', data }))
  structuredClone(data, { transfer: [data.buffer] })
  t.is((await adding).code, 'ZT_CLOSED')
  await writer.abort()
  t.false(existsSync(path))
})

test('components of any layout are rounded', async (t) => {
  const data = MANY.subarray(0, 5000)
  const path = await written({ version: '2', canonical: false }, async (w) => {
    await w.add('plain', { dtype: 'bfloat16', data })
    await w.addObject('x', { layout: 'x.y/1', shape: [5000], components: { scales: { dtype: 'bfloat16', data } } })
  })
  const file = openSync(path)
  const { dtype, byteLength, data: scales } = file.tensor('x').components.get('scales')
  t.deepEqual([dtype, byteLength], ['bfloat16', 10_000])
  sameBytes(t, scales, file.tensor('plain').data)
  file.close()
})

test('an array of another type is rejected, bytes are accepted', async (t) => {
  const writer = await create(scratchPath('other.zt'))
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

test('the extension of a path selects the format', async (t) => {
  for (const [name, options, format] of [
    ['a.zt', {}, 'zt'],
    ['a.safetensors', {}, 'safetensors'],
    ['a.SafeTensors', {}, 'safetensors'],
    ['a.btf', {}, 'btf'],
    ['a', { version: '1.0' }, 'zt'],
    ['a.weights', { version: '2' }, 'zt'],
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

test('a format that contradicts the extension is rejected, and so are extensions of formats that cannot be written', async (t) => {
  const source = await written({ version: '1.0' }, (w) => w.add('0', F))
  const refused = [
    ['a.safetensors', { version: '2' }],
    ['a.btf', { version: '1.0' }],
    ['a.zt', { format: 'safetensors', version: '2' }],
  ]
  for (const ending of ['pt', 'pth', 'bin', 'onnx', 'h5', 'PTH', 'index.json']) refused.push([`a.${ending}`, {}])
  for (const [name, options] of refused) {
    const path = scratchPath(name)
    isArgumentError(t, await rejectionOf(() => create(path, options)), 'format')
    isArgumentError(t, await rejectionOf(() => convert(source, path, options)), 'format')
    t.false(existsSync(path))
  }
})
