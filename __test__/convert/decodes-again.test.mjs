// What convert writes can be decoded again: every layout that is read, into every format and version that is written. What a target
// cannot hold is refused before anything is written.
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import test from 'ava'
import { convert, diff, open, ZTensorError } from 'ztensor'
import { viewBytes } from '../helpers/bytes.mjs'
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
  view instanceof Error ? view.code : createHash('sha256').update(viewBytes(view)).digest('hex')

/** All that reading a tensor gives, in a form that can be compared. */
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
    // The index arrays of sparse tensors have the type that the target has for them.
    components: /^sparse/.test(tensor.layout) ? undefined : components.sort(([a], [b]) => (a < b ? -1 : 1)),
  }
}

/** Of each tensor of a source: what every target is held against. */
const sources = new Map()
function sourceReadings(path, source) {
  if (!sources.has(path))
    sources.set(path, Promise.all(Array.from(source, async ([key, tensor]) => [key, await reading(tensor)])))
  return sources.get(path)
}

for (const folder of FOLDERS) {
  const names = readdirSync(fixturePath(folder)).filter(
    (name) => !/\.(json|py|md|cc|bin|xml\.data|data|txt)$/.test(name),
  )
  for (const [target, options] of TARGETS) {
    test(`convert writes what can be decoded again: ${folder === '.' ? 'zTensor, safetensors and BTF' : folder} into ${target}`, async (t) => {
      let converted = 0
      for (const name of names) {
        const source = await open(fixturePath(`${folder}/${name}`)).catch(() => undefined)
        if (source === undefined || source.size === 0) continue
        const path = fixturePath(`${folder}/${name}`)
        const to = scratchPath('out.zt')
        // Each tensor alone: held, or refused before anything is written.
        const how = { ...options, attributes: false, skip: true }
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
        const kept = [...source.keys()].filter((key) => !left.has(key))
        t.is(made.size, kept.length, name)
        const before = new Map(await sourceReadings(path, source))
        for (const [at, key] of kept.entries()) {
          const after = made.get(numbered ? String(at) : key)
          t.deepEqual(await reading(after), before.get(key), `${name}: ${key}`)
          converted += 1
        }
        t.true((await made.verify()).ok, name)
        made.close()
        if (!numbered && kept.length > 0) {
          const { changed, removed } = await diff(path, to, { attributes: false })
          t.deepEqual(
            changed.map(({ name: key }) => key),
            [],
            name,
          )
          t.deepEqual(removed.map(({ name: key }) => key).sort(), [...left].sort(), name)
        }
        if (left.size > 0) {
          const never = scratchPath('never')
          t.truthy(await rejectionOf(() => convert(path, never, { ...options, attributes: false })), name)
          t.false(existsSync(never), name)
        }
        source.close()
      }
      t.true(converted > 0 || folder !== '.')
    })
  }
}
