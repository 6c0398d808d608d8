// convert(…, { cast }): values by the definition of each type; data that is not cast; rejections.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength)

async function cast(source, table, options = { version: '1.2' }) {
  const target = scratchPath('cast.zt')
  await convert(source, target, { ...options, cast: table })
  return openSync(target, { verify: true })
}

// 1 + 2^-8 and 1 + 3 * 2^-8 lie in the middle of two bfloat16; 3.4e38 is beyond its largest; 1e-40 is subnormal.
const singles = Float32Array.of(
  1,
  1 + 2 ** -8,
  1 + 3 * 2 ** -8,
  -3.4e38,
  3.4e38,
  1e-40,
  -0,
  Number.NaN,
  Infinity,
  464,
  465,
)
const expected = {
  bfloat16: [0x3f80, 0x3f80, 0x3f82, 0xff80, 0x7f80, 0x0001, 0x8000, 0x7fc0, 0x7f80, 0x43e8, 0x43e8],
  float16: [0x3c00, 0x3c04, 0x3c0c, 0xfc00, 0x7c00, 0x0000, 0x8000, 0x7e00, 0x7c00, 0x5f40, 0x5f44],
  float8_e4m3fn: [0x38, 0x38, 0x38, 0xff, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0x7e, 0x7f],
  float8_e5m2: [0x3c, 0x3c, 0x3c, 0xfc, 0x7c, 0x00, 0x80, 0x7e, 0x7c, 0x5f, 0x5f],
}

for (const [to, codes] of Object.entries(expected)) {
  test(`float32 to ${to}: rounds to nearest, ties to even, keeps infinities and NaN`, async (t) => {
    for (const encoding of [{}, { compression: { minSavings: 0 } }]) {
      const source = await written(encoding, (writer) => writer.add('x', singles))
      const file = await cast(source, { float32: to })
      const tensor = file.tensor('x', { dtype: to })
      t.deepEqual([...tensor.data], codes)
      t.deepEqual([tensor.shape, tensor.byteLength], [[singles.length], tensor.data.byteLength])
      file.close()
    }
  })
}

test('rounds float64 once, not by way of float32', async (t) => {
  // Slightly above the middle of two float16, by less than the precision of float32.
  const source = await written({}, (writer) => writer.add('x', Float64Array.of(1 + 2 ** -11 + 2 ** -40, 1 + 2 ** -11)))
  const file = await cast(source, { float64: 'float16' })
  t.deepEqual([...file.tensor('x').data], [0x3c01, 0x3c00])
  file.close()
})

test('casts many elements, in pieces that end within them', async (t) => {
  const values = Float64Array.from({ length: 1_500_001 }, (_, i) => i / 7)
  const sources = [{ version: '1.0' }, { version: '1.0', compression: { minSavings: 0 } }]
  for (const options of sources) {
    const source = await written(options, (writer) => writer.add('x', values))
    const file = await cast(source, { float64: 'float32' })
    t.true(bytesOf(file.tensor('x').data).equals(bytesOf(Float32Array.from(values))))
    file.close()
  }
})

test('casts integers to floats and wider integers', async (t) => {
  const source = await written({}, async (writer) => {
    await writer.add('a', Int8Array.of(-128, 127))
    await writer.add('b', Uint32Array.of(0, 2 ** 32 - 1))
    await writer.add('c', BigInt64Array.of(2n ** 53n + 1n, -1n))
  })
  const file = await cast(source, { int8: 'int64', uint32: 'float64', int64: 'float32' })
  t.deepEqual(file.tensor('a').data, BigInt64Array.of(-128n, 127n))
  t.deepEqual(file.tensor('b').data, Float64Array.of(0, 2 ** 32 - 1))
  t.deepEqual(file.tensor('c').data, Float32Array.of(2 ** 53, -1))
  file.close()
})

for (const version of ['0.1', '1.0', '1.2']) {
  test(`${version}: casts sparse values, not indices`, async (t) => {
    const source = await written({}, async (writer) => {
      const [values, indices, indptr] = [Float32Array.of(1, 2.5), Uint32Array.of(1, 0), Uint32Array.of(0, 1, 2)]
      await writer.addCsr('csr', { shape: [2, 2], values, indices, indptr })
      await writer.addCoo('coo', { shape: [2, 2], values, coords: Uint32Array.of(0, 1, 1, 0) })
      await writer.add('ids', BigUint64Array.of(7n))
    })
    const file = await cast(source, { float32: 'float16', uint64: 'float32' }, { version })
    const [csr, coo] = [file.tensor('csr'), file.tensor('coo')]
    t.deepEqual([csr.dtype, coo.dtype], ['float16', 'float16'])
    t.deepEqual([...csr.csr().values], [0x3c00, 0x4100])
    t.deepEqual([...coo.coo().values], [0x3c00, 0x4100])
    t.deepEqual([...csr.csr().indices], [1n, 0n])
    t.deepEqual([...coo.coo().coords], [0n, 1n, 1n, 0n])
    file.close()
  })
}

test('keeps other tensors, layouts and casts to the same type byte for byte', async (t) => {
  const source = await written({ version: '1.2' }, async (writer) => {
    await writer.add('x', Float64Array.of(1, 2))
    await writer.addObject('q', {
      layout: 'my_layout',
      shape: [2],
      components: { scale: { dtype: 'float32', data: Float32Array.of(3) } },
    })
  })
  const target = scratchPath('same.zt')
  await convert(source, target, { version: '1.2', cast: { float64: 'float64', int8: undefined } })
  sameBytes(t, readFileSync(target), readFileSync(source))
  const error = await rejectionOf(() => convert(source, scratchPath('x.zt'), { cast: { float32: 'bfloat16' } }))
  t.regex(error.message, /cast: 'float32' casts nothing/)
})

test('a cast makes a tensor storable in a target', async (t) => {
  const source = await written({}, (writer) => writer.add('x', Uint8Array.of(1, 255)))
  const target = scratchPath('cast.btf')
  t.is((await rejectionOf(() => convert(source, target))).code, 'ZT_BAD_DTYPE')
  await convert(source, target, { cast: { uint8: 'int16' } })
  const file = openSync(target)
  t.deepEqual(file.tensor('0').data, Int16Array.of(1, 255))
  file.close()
})

test('rejects invalid casts', async (t) => {
  const source = await written({}, (writer) => writer.add('x', Float32Array.of(1)))
  for (const [table, code] of [
    [{ float32: 'int32' }, 'ZT_BAD_DTYPE'],
    [{ complex64: 'float32' }, 'ZT_BAD_DTYPE'],
    [{ float32: 'float33' }, 'ZT_INVALID_ARG'],
    [{ float: 'float32' }, 'ZT_INVALID_ARG'],
    ['float32=bfloat16', 'ZT_INVALID_ARG'],
  ]) {
    t.is((await rejectionOf(() => convert(source, scratchPath('x.zt'), { cast: table }))).code, code)
  }
})

test('accepts --cast from=to repeatedly', async (t) => {
  const source = await written({}, async (writer) => {
    await writer.add('x', Float32Array.of(1))
    await writer.add('y', Float64Array.of(1))
  })
  const target = scratchPath('cast.zt')
  const result = await run(['convert', source, target, '--cast', 'float32=bfloat16', '--cast', 'float64=float32'])
  t.is(result.code, 0, result.stderr)
  const file = openSync(target)
  t.deepEqual([file.tensor('x').dtype, file.tensor('y').dtype], ['bfloat16', 'float32'])
  file.close()
  t.is((await run(['convert', source, target, '--overwrite', '--cast', 'float32'])).code, 2)
})
