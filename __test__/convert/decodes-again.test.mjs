// What convert writes can be decoded again: every layout that is read, into every format and version that is written. Unsupported
// tensors are rejected before anything is written.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import test from 'ava'
import { convert, create, diff, open, ZTensorError } from 'ztensor'
import { zt10 } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { some } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const TARGETS = [
  ['0.1', { version: '0.1' }],
  ['1.0', { version: '1.0' }],
  ['1.0, zstd', { version: '1.0', compression: { level: 1 }, digest: 'crc32c' }],
  ['1.2', { version: '1.2' }],
  ['2', { version: '2' }],
  ['2, zstd', { version: '2', canonical: false, compression: { level: 1 } }],
  ['safetensors', { format: 'safetensors' }],
  ['btf', { format: 'btf' }],
  ['npz', { format: 'npz' }],
  ['gguf', { format: 'gguf', checkpoint: false }],
]
const FOLDERS = [
  'gguf',
  'tflite',
  'arrow',
  'numpy',
  'pytorch',
  'onnx',
  'openvino',
  'hdf5',
  'keras',
  'flax',
  'paddle',
  'tensorflow',
  '.',
]

const outcome = (read) =>
  Promise.resolve()
    .then(read)
    .catch((error) => {
      if (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') return error
      throw error
    })
const bytesOf = (view) =>
  view instanceof Error ? view.code : createHash('sha256').update(littleEndian(view)).digest('hex')

/** All results of reading a tensor, in a comparable form. */
async function reading(tensor) {
  const floats = await outcome(() => tensor.load({ as: 'float32' }))
  const components = []
  for (const [role, component] of tensor.components) {
    const bytes = await outcome(() => component.load())
    components.push([role, bytesOf(bytes)])
  }
  return {
    dtype: tensor.dtype,
    layout: tensor.layout,
    shape: [...tensor.shape],
    floats: bytesOf(floats),
    sync: bytesOf(await outcome(() => tensor.toFloat32())),
    // The index arrays of sparse tensors have the index type of the target.
    components: /^sparse/.test(tensor.layout) ? undefined : components.sort(([a], [b]) => (a < b ? -1 : 1)),
  }
}

/** The expected results for each tensor of a source. */
const sources = new Map()
function sourceReadings(path, source) {
  if (!sources.has(path))
    sources.set(path, Promise.all(Array.from(source, async ([key, tensor]) => [key, await reading(tensor)])))
  return sources.get(path)
}

for (const [turn, folder] of FOLDERS.entries()) {
  const names = readdirSync(fixturePath(folder)).filter(
    (name) => !/\.(json|py|md|cc|bin|xml\.data|data|txt)$/.test(name),
  )
  for (const [target, options] of folder === '.' ? TARGETS : some(TARGETS, 2, turn)) {
    test(`convert writes tensors that can be decoded again: ${folder === '.' ? 'zTensor, safetensors and BTF' : folder} into ${target}`, async (t) => {
      let converted = 0
      for (const name of names) {
        const source = await open(fixturePath(`${folder}/${name}`)).catch(() => undefined)
        if (source === undefined || source.size === 0) continue
        const path = fixturePath(`${folder}/${name}`)
        const to = scratchPath('out.zt')
        // Each tensor alone: stored, or rejected before anything is written.
        const how = { ...options, copyMetadata: false, copyAttributes: false, skip: true }
        const { skipped } = await convert(path, to, how).catch((error) => {
          if (!error.message.startsWith('no tensor is left: ')) throw error
          return { skipped: error.cause }
        })
        if (skipped.length === source.size) {
          t.false(existsSync(to), name)
          source.close()
          continue
        }
        const left = new Set(skipped.map(({ tensor }) => tensor))
        const made = await open(to)
        const numbered = target === 'btf'
        const remaining = [...source.keys()].filter((key) => !left.has(key))
        t.is(made.size, remaining.length, name)
        const before = new Map(await sourceReadings(path, source))
        for (const [at, key] of remaining.entries()) {
          const after = made.get(numbered ? String(at) : key)
          t.deepEqual(await reading(after), before.get(key), `${name}: ${key}`)
          converted += 1
        }
        t.true((await made.verify()).ok, name)
        made.close()
        if (!numbered && remaining.length > 0) {
          const { changed, removed } = await diff(path, to, { metadata: false })
          t.deepEqual(
            changed.map(({ name: key }) => key),
            [],
            name,
          )
          t.deepEqual(removed.map(({ name: key }) => key).sort(), [...left].sort(), name)
        }
        if (left.size > 0) {
          const never = scratchPath('never')
          t.truthy(
            await rejectionOf(() => convert(path, never, { ...options, copyMetadata: false, copyAttributes: false })),
            name,
          )
          t.false(existsSync(never), name)
        }
        source.close()
      }
      t.true(converted > 0 || folder !== '.')
    })
  }
}

test('the default version of .zt keeps quantized tensors and their other attributes', async (t) => {
  for (const [name, options] of [
    ['gguf/types.gguf', {}],
    ['gguf/types.gguf', { compression: { level: 1, minSavings: 0 }, digest: 'sha256' }],
  ]) {
    const to = scratchPath('quantized.zt')
    const result = await convert(fixturePath(name), to, options)
    t.deepEqual(result.skipped, [])
    const [source, made] = [await open(fixturePath(name)), await open(to)]
    t.is(made.version, '1.0')
    for (const tensor of source.values()) {
      const after = made.tensor(tensor.name)
      t.deepEqual(await reading(after), await reading(tensor), tensor.name)
      t.is(after.storageType, tensor.storageType)
      t.deepEqual(after.attributes, tensor.attributes)
      t.deepEqual([...after.components.values()].map(({ dtype }) => dtype), [...tensor.components.values()].map(({ dtype }) => dtype)) // biome-ignore format: one claim
    }
    // And from there on.
    const again = scratchPath('again.zt')
    await convert(to, again, { version: '1.2' })
    t.true((await diff(fixturePath(name), again, { metadata: false })).same)
    source.close()
    made.close()
  }
})

test('an object of version 1.0 keeps the dtypes of its components, next to its own attributes', async (t) => {
  const path = scratchPath('object.zt')
  const writer = await create(path)
  const data = Float64Array.of(1, 2)
  await writer.addObject('x', { layout: 'x.y/1', shape: [2], attributes: { a: 1 }, components: { s: { dtype: 'float64', data }, raw: { data: Uint8Array.of(7) } } }) // biome-ignore format: one object
  await writer.finish()
  const file = await open(path)
  const x = file.tensor('x')
  t.deepEqual([x.dtype, x.layout, x.attributes], [undefined, 'x.y/1', { a: 1 }])
  t.deepEqual(x.components.get('s').data, data)
  t.is(x.components.get('raw').dtype, undefined)
  file.close()
})

test('an invalid record of dtypes is an ordinary attribute', async (t) => {
  for (const value of [
    7,
    'none',
    {},
    { components: 3 },
    { tensor: 'float32', components: {} },
    { components: { data: 'none' } },
    { components: { 3: 4 } },
  ]) {
    // biome-ignore format: one list
    const part = { dtype: 'float32', shape: [1], format: 'x.y/1', components: { data: { bytes: Buffer.alloc(4) } } }
    const file = await open(zt10({ x: { ...part, attributes: { 'ztensor:dtypes': value, b: 1 } } }))
    const { dtype, attributes } = file.tensor('x')
    t.deepEqual([dtype, attributes], ['float32', { 'ztensor:dtypes': value, b: 1 }], JSON.stringify(value))
    file.close()
  }
  // Elements that do not fill the bytes would leave out the last ones.
  const bytes = Buffer.from([1, 2, 3, 4, 5])
  const uneven = { dtype: 'uint8', shape: [1], format: 'x.y/1', components: { data: { bytes }, whole: { bytes: bytes.subarray(1) } } } // biome-ignore format: one tensor
  const types = { components: { data: 'int32', whole: 'int32' } }
  const odd = await open(zt10({ u: { ...uneven, attributes: { 'ztensor:dtypes': types } } }))
  const [data, whole] = ['data', 'whole'].map((role) => odd.tensor('u').components.get(role))
  t.deepEqual([data.dtype, data.data, whole.dtype], [undefined, Uint8Array.from(bytes), 'int32'])
  t.like(
    odd.warnings.find(({ code }) => code === 'ZT_WARN_UNKNOWN_TYPE'),
    { tensor: 'u', component: 'data' },
  )
  t.regex(odd.warnings.map(({ message }) => message).join(), /5 bytes are not a whole number of int32 elements/)
  odd.close()
  // For a known layout it adds nothing to the layout.
  const dense = { dtype: 'float32', shape: [1], format: 'dense', components: { data: { bytes: Buffer.alloc(4) } } }
  const recorded = { tensor: 'none', components: { data: 'int32', none: 'int8' } }
  const file = await open(zt10({ x: { ...dense, attributes: { 'ztensor:dtypes': recorded } } }))
  t.deepEqual(file.tensor('x').data, Float32Array.of(0))
  file.close()
})
