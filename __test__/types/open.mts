import {
  type AnyLoadedTensor,
  type AnyTensor,
  type AttributeValue,
  type ConvertOptions,
  type CooTensor,
  type CsrTensor,
  diff,
  type FileDiff,
  type Format,
  type Loaded,
  type LoadedObject,
  LoadedTensor,
  loadFile,
  type OpenOptions,
  open,
  openSync,
  saveFile,
  type Tensor,
  TensorFile,
  type VerifyResult,
  verify,
  type Warning,
} from 'ztensor'
import { type Equal, holds } from './equal.js'

// Sources: a path, a file URL, bytes.
const file = openSync('model.zt')
holds<Equal<typeof file, TensorFile>>()
openSync(new URL('file:///model.zt'))
openSync(new Uint8Array(8))
openSync(Buffer.alloc(8))
openSync(new ArrayBuffer(8))
// @ts-expect-error: a number is not a source
openSync(3)
// @ts-expect-error: a file is made by open, never by `new`
new TensorFile()

// Options.
openSync('model.bin', {
  format: 'safetensors',
  verify: true,
  maxIndexBytes: 1e9,
  maxDecodedBytes: 1e9,
  maxRank: 8,
  maxAttributeValues: 10,
})
// @ts-expect-error: no such format
openSync('model.bin', { format: 'gguf2' })
// @ts-expect-error: an option that is misspelt
openSync('model.bin', { verfiy: true })
// Under exactOptionalPropertyTypes too an option may be passed on without a value.
const options: OpenOptions = { verify: undefined }
// @ts-expect-error: there is nothing to abort in a synchronous call
openSync('model.zt', { signal: AbortSignal.timeout(1) })

const pending = open('model.zt', { ...options, signal: AbortSignal.timeout(1) })
holds<Equal<typeof pending, Promise<TensorFile>>>()
const verified = verify('model.zt', { onProgress: ({ bytes, totalBytes }) => bytes / totalBytes })
holds<Equal<typeof verified, Promise<VerifyResult>>>()

// A tensor by name.
holds<Equal<ReturnType<typeof file.get>, AnyTensor | undefined>>()
const any = file.tensor('wte')
holds<Equal<typeof any, AnyTensor>>()
const float32 = file.tensor('wte', { dtype: 'float32' })
holds<Equal<typeof float32, Tensor<'float32'>>>()
holds<Equal<typeof float32.data, Float32Array>>()
// @ts-expect-error: no such dtype
file.tensor('wte', { dtype: 'float' })

// A ReadonlyMap.
file satisfies ReadonlyMap<string, AnyTensor>
for (const [name, tensor] of file) {
  holds<Equal<typeof name, string>>()
  holds<Equal<typeof tensor, AnyTensor>>()
}
const byName: Map<string, AnyTensor> = new Map(file)
file.forEach((tensor, name, map) => {
  tensor satisfies AnyTensor
  name satisfies string
  map satisfies ReadonlyMap<string, AnyTensor>
  byName.delete(name)
})
// @ts-expect-error: read-only
file.size = 3
// @ts-expect-error: read-only
file.set('a', any)

// The properties of a file.
holds<Equal<typeof file.format, Format | 'mixed'>>()
'zt' satisfies typeof file.format
holds<Equal<typeof file.version, string | undefined>>()
holds<Equal<typeof file.path, string | undefined>>()
holds<Equal<typeof file.byteLength, number>>()
holds<Equal<typeof file.warnings, readonly Warning[]>>()
// @ts-expect-error: read-only
file.warnings.push({ code: '', message: '' })

const loaded = await file.load({
  names: ['wte'],
  concurrency: 2,
  onProgress: ({ tensors }) => tensors,
  signal: AbortSignal.timeout(1),
})
holds<Equal<typeof loaded, Map<string, Loaded>>>()
holds<Equal<Loaded, AnyLoadedTensor | CsrTensor | CooTensor | LoadedObject>>()
const one = loaded.get('wte')
if (one instanceof LoadedTensor) one.shape satisfies readonly number[]
if (one instanceof LoadedTensor && one.dtype === 'float32') {
  one.data satisfies Float32Array
  one.data.buffer satisfies ArrayBuffer
}
// names, options, or both.
await file.load(['wte'], { concurrency: 2 })
await file.prefetch(new Set(['wte']), { concurrentBytes: 1 })
await file.prefetch({ names: ['wte'] })
file.evict()
file.evict(['wte'])
// @ts-expect-error: slices are of tensors
await file.load({ slices: {} })

file.metadata['license'] satisfies AttributeValue | undefined
// @ts-expect-error: read-only
file.metadata['license'] = 'MIT'

await saveFile('out.safetensors', {
  array: new Float32Array(2),
  shaped: { shape: [1, 2], data: new Float32Array(2) },
  slice: float32.slice([[0, 1]]),
  loaded: (await loadFile('in.zt')).get('x') as Loaded,
})
await saveFile('out.zt', await loadFile('in.zt', { names: ['x'] }), { version: '2' })
const difference = await diff(file, 'other.zt', { rtol: 0.1 })
holds<Equal<typeof difference, FileDiff>>()

// Names of mixtures and block types are completed, and others are allowed: the addon checks them.
const how: ConvertOptions['quantize'][] = ['q4_k_m', 'q9_x', { '*': 'q6_k' }, { '*': 'q9_x' }]
holds<Equal<(typeof how)[number], ConvertOptions['quantize']>>()
