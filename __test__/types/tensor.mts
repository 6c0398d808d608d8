import type { Readable } from 'node:stream'
import {
  type AnyTensor,
  type Comparison,
  type Component,
  compare,
  type Nested,
  type Tensor,
  type TensorSlice,
  type TensorStats,
  toFloat32,
} from 'ztensor'
import { type Equal, holds } from './equal.js'

declare const tensor: AnyTensor
holds<Equal<typeof tensor.name, string>>()
holds<Equal<typeof tensor.shape, readonly number[]>>()
holds<Equal<typeof tensor.size, number>>()
holds<Equal<typeof tensor.byteLength, number>>()
holds<Equal<typeof tensor.mapped, boolean>>()
tensor.copyReason satisfies string | undefined
// @ts-expect-error: read-only
tensor.shape.push(1)
// @ts-expect-error: read-only
tensor.name = 'other'

const component = tensor.components.get('data')
holds<Equal<typeof component, Component | undefined>>()
if (component !== undefined) {
  // Its length may be unknown before it is decoded.
  holds<Equal<typeof component.byteLength, number | undefined>>()
  holds<Equal<typeof component.storedLength, number>>()
}

declare const half: Tensor<'float16'>
holds<Equal<typeof half.data, Uint16Array>>()
const loaded = await half.load()
loaded satisfies Uint16Array
// In TypeScript that tells one from a shared one, and in TypeScript that does not.
loaded.buffer satisfies ArrayBuffer
const filled = await half.load({ into: new Uint8Array(new SharedArrayBuffer(8)) })
filled satisfies Uint8Array
const widened = await half.load({ as: 'float32', signal: AbortSignal.timeout(1) })
widened satisfies Float32Array
widened.buffer satisfies ArrayBuffer
const now = half.toFloat32({ into: new Float32Array(4) })
holds<Equal<typeof now, Float32Array>>()
// @ts-expect-error: widening is to float32 only
await half.load({ as: 'float64' })
declare const ids: Tensor<'int64'>
const narrow = await ids.load({ as: 'int32' })
narrow satisfies Int32Array
const taken = await ids.take([0, 1], { as: 'uint8' })
taken satisfies Uint8Array
// @ts-expect-error: integers are converted to integers only
await ids.take([0], { as: 'bool' })
// @ts-expect-error: the target of a widening is a Float32Array
half.toFloat32({ into: new Float64Array(4) })

const slice = half.slice([[0, 128], null])
holds<Equal<typeof slice, TensorSlice<'float16'>>>()
holds<Equal<typeof slice.data, Uint16Array>>()
const shard = half.shard({ dim: 0, rank: 1, worldSize: 2 })
holds<Equal<typeof shard, TensorSlice<'float16'>>>()
half.slice([[0], [-3, null], [0, 100, 2]])
// @ts-expect-error: a range is of numbers
half.slice([['0', 1]])
// @ts-expect-error: a single index is a list, too
half.slice([0])
// @ts-expect-error: a shard is of a number of shards
half.shard({ dim: 0, rank: 1 })
type Float16Elements = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : unknown
holds<Equal<ReturnType<typeof half.float16>, Float16Elements>>()

slice.toFloat32() satisfies Float32Array
half.bytes satisfies Uint8Array
const element = half.at(0, -1)
holds<Equal<typeof element, number>>()
declare const longs: Tensor<'int64'>
holds<Equal<ReturnType<typeof longs.at>, bigint>>()
const nested = longs.toArray({ maxElements: 10 })
holds<Equal<typeof nested, Nested<bigint>>>()
half.createReadStream({ signal: AbortSignal.timeout(1) }) satisfies Readable

const fromSlice = toFloat32(slice.data, slice.dtype)
holds<Equal<typeof fromSlice, Float32Array>>()
// @ts-expect-error: the elements are of the array type of their dtype
toFloat32(slice.data, 'int64')

const stats = await half.stats({ bins: 8, range: [0, 1] })
holds<Equal<typeof stats, TensorStats>>()
// @ts-expect-error: a range has two edges
await half.stats({ bins: 8, range: [0] })
const comparison = await compare(half, half.components.get('data') as Component, { atol: 1 })
holds<Equal<typeof comparison, Comparison>>()
// @ts-expect-error: arrays are not compared, tensors are
await compare(half, half.data)

// `kind` narrows the results of `file.load`, and the bytes are those of an ArrayBuffer.
declare const anyLoaded: import('ztensor').Loaded | undefined
if (anyLoaded?.kind === 'dense') {
  const count: number = anyLoaded.data.length
  void count
} else if (anyLoaded?.kind === 'csr') void anyLoaded.indptr
else if (anyLoaded?.kind === 'coo') void anyLoaded.coords
else if (anyLoaded?.kind === 'object') void anyLoaded.components
declare const anyTensor: import('ztensor').AnyTensor
const kind: 'dense' | 'csr' | 'coo' | 'object' = anyTensor.kind
void kind
const owned: ReturnType<typeof Uint8Array.of> = anyTensor.bytes
void owned
