// `dequantize` stores the result of load({ as: 'float32' }), rounded once.
import test from 'ava'
import { convert, create, open } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'

const GGUF = fixturePath('gguf/types.gguf')
const TFLITE = fixturePath('tflite/quantized.tflite')

/** Quantized vectors of zTensor 1.2 and 2. */
const QUANTIZED = vectors.filter(({ name }) => /quant|mx/.test(name)).map(({ path }) => path)

/** float32 rounded to the upper 16 bits, to nearest, ties to even. */
function bfloat16(values) {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  return Uint16Array.from(values, (value, at) => {
    const word = bits[at]
    if (Number.isNaN(value)) return (word >>> 16) | 0x40
    return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
  })
}

const isQuantized = ({ layout }) => /^(gguf\.|zt\.quant|zt\.mx|tflite\.quantized)/.test(layout)

async function decoded(path) {
  const file = await open(path, { shards: 'none' })
  const values = new Map()
  for (const tensor of file.values()) {
    if (!isQuantized(tensor)) continue
    const data = await tensor.load({ as: 'float32' })
    values.set(tensor.name, { shape: tensor.shape, data: Float32Array.from(data) })
  }
  file.close()
  return values
}

for (const source of [GGUF, TFLITE, ...QUANTIZED]) {
  const name = source.split(/[/\\]/).at(-1)
  for (const [target, format] of [
    ['a.safetensors', {}],
    ['a.zt', { version: '1.0' }],
    ['a.zt', { version: '2' }],
  ]) {
    test(`${name} as bfloat16 and float32 to ${target} ${format.version ?? ''}`, async (t) => {
      const expected = await decoded(source)
      t.true(expected.size > 0)
      for (const dequantize of ['bfloat16', 'float32']) {
        const path = scratchPath(target)
        await convert(source, path, {
          ...format,
          dequantize,
          skip: true,
          copyMetadata: false,
          copyAttributes: false,
          source: { shards: 'none' },
        })
        const file = await open(path, { verify: true })
        t.teardown(() => file.close())
        for (const [tensor, { shape, data }] of expected) {
          const found = file.get(tensor)
          t.is(found.layout, 'dense', tensor)
          t.is(found.dtype, dequantize)
          t.deepEqual(found.shape, shape)
          const bytes = Buffer.from(found.bytes)
          const wanted = dequantize === 'float32' ? data : bfloat16(data)
          t.true(bytes.equals(littleEndian(wanted)), `${tensor} ${dequantize}`)
        }
      }
    })
  }
}

test('without the option, rejects before it writes, and names the option', async (t) => {
  const path = scratchPath('a.safetensors')
  const error = await rejectionOf(() => convert(GGUF, path))
  t.is(error.code, 'ZT_BAD_LAYOUT')
  t.regex(error.message, /option dequantize stores its elements as floats/)
  t.true(error.message.length < 1500, error.message)
  t.is((await rejectionOf(() => open(path))).code, 'ZT_IO')
})

test('accepts three dtypes', async (t) => {
  for (const dequantize of ['float64', 'uint8', 1, true])
    t.is((await rejectionOf(() => convert(GGUF, scratchPath('a.zt'), { dequantize }))).code, 'ZT_INVALID_ARG')
})

/** A quantized tensor whose attributes are its parameters and others. */
async function annotated() {
  const path = scratchPath('annotated.zt')
  const writer = await create(path, { version: '1.2' })
  await writer.addObject('q', {
    layout: 'gguf.q8_0/1',
    shape: [1, 32],
    attributes: { note: 'kept', elems_per_block: 32, block_bytes: 34, scale: [1, { x: null }] },
    components: { data: { dtype: 'uint8', data: new Uint8Array(34).fill(1) } },
  })
  await writer.finish()
  return path
}

test('keeps attributes except the parameters of the layout', async (t) => {
  const source = await annotated()
  for (const options of [{ version: '1.0' }, { version: '1.2' }, { version: '2' }]) {
    const path = scratchPath('floats.zt')
    const { skipped } = await convert(source, path, { ...options, dequantize: 'float32' })
    t.deepEqual(skipped, [])
    const file = await open(path)
    const { layout, attributes } = file.tensor('q')
    t.deepEqual([layout, attributes], ['dense', { note: 'kept', scale: [1, { x: null }] }], options.version)
    file.close()
    await convert(source, path, {
      ...options,
      dequantize: 'float32',
      copyMetadata: false,
      copyAttributes: false,
      overwrite: true,
    })
    const bare = await open(path)
    t.deepEqual(bare.tensor('q').attributes, {})
    bare.close()
  }
})

test('names attributes that the target cannot store, except parameters', async (t) => {
  const source = await annotated()
  const dequantize = 'float32'
  for (const ending of ['safetensors', 'npz', 'btf']) {
    const { tensors, skipped } = await convert(source, scratchPath(`floats.${ending}`), { dequantize, skip: true })
    t.is(tensors, 1, ending)
    t.deepEqual(
      skipped.map(({ tensor, code }) => [tensor, code]),
      [['q', 'ZT_INVALID_ARG']],
    )
    t.regex(skipped[0].message, /has no attributes of a tensor/)
  }
  const strict = { dequantize, strictMetadata: true }
  const error = await rejectionOf(() => convert(source, scratchPath('strict.safetensors'), strict))
  t.regex(error.message, /tensor "q": safetensors has no attributes of a tensor/)
  const { skipped } = await convert(GGUF, scratchPath('plain.safetensors'), {
    dequantize,
    copyMetadata: false,
    skip: true,
  })
  t.false(skipped.some(({ message }) => /attributes of a tensor/.test(message)))
})
