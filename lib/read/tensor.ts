import type { Readable } from 'node:stream'
import { inspect } from 'node:util'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import { allocate, copyInto, copyIntoSync, filled, sourceGone, toBuffer, toBufferSync } from '../native/memory.js'
import { binding, type LoadRequest, MAX_BUFFER, type NativeControl, type NativeMemory } from '../native/native.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateInteger,
  validateInto,
  validateOneOf,
} from '../values/arguments.js'
import { type Attributes, thaw } from '../values/attributes.js'
import {
  type ArrayOf,
  bytesOf,
  type DType,
  type DTypeArrays,
  type DTypeInfo,
  dtypeInfo,
  type IndexArray,
  type OwnArrayOf,
  type OwnArrays,
  type TypedArray,
} from '../values/dtype.js'
import { IDENTITY, shown } from '../values/inspect.js'
import type { Catalog } from './catalog.js'
import { Component } from './component.js'
import { checkCount, type ElementOf, type Nested, nested, valueAt } from './nested.js'
import { boxes, type ReadStreamOptions, readStream } from './read-stream.js'
import { type Range, type Selected, type Shard, shardRanges, sliceRanges, TensorSlice, validateIndex } from './slice.js'
import { CooTensor, CsrTensor } from './sparse.js'
import { type StatsOptions, stats, type TensorStats } from './stats.js'
import { array, type CopyReason, type Place, type Store, type View } from './store.js'
import { type VerifyResult, verifyTensors } from './verify.js'
import { FLOAT32, type WidenOptions, widen } from './widen.js'

/** How the components of a tensor make it up: one of these in every format, otherwise the file's own label. */
export type Layout = 'dense' | 'sparse_csr' | 'sparse_coo' | (string & {})

/** What to load of a dense or quantized tensor, and where to. */
export interface LoadOptions {
  /** Widen the elements to float32; a quantized tensor has no other elements to give. */
  as?: 'float32' | undefined
  /** Only a rectangular part. Where the data is stored raw only that part is read, and no digest checked. */
  slice?: readonly Range[] | undefined
  /** Only one rank's share of a dimension. */
  shard?: Shard | undefined
  /** An array to fill, of exactly the length and of the type that would be made. */
  into?: ArrayBufferView | undefined
  /**
   * Whether the array can be moved to another thread: `postMessage(array, [array.buffer])`. The memory of other arrays belongs to native
   * code, and runtimes copy it or throw. Costs one more copy.
   */
  transferable?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** How to load the arrays of a sparse tensor. */
export interface LoadSparseOptions {
  /** Whether the arrays can be moved to another thread, as for `load`. */
  transferable?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** An array in memory of the runtime's own. */
function ownArray(dtype: DTypeInfo, length: number): TypedArray {
  const byteLength = Math.ceil((length * dtype.bits) / 8)
  return array(dtype, allocate(byteLength), 0, byteLength)
}

/** The Float16Array of runtimes and compilers that have one. */
export type Float16Elements = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : unknown

/** Elements that toArray() gives unless it is told otherwise. */
const MOST_ELEMENTS = 2 ** 20
/** Bytes of a piece of a stream. */
const PIECE = 2 ** 20

/** What few tensors of a file are asked for. */
interface Lazy {
  components?: ReadonlyMap<string, Component>
  attributes?: Attributes
  copyReason?: CopyReason
}

/** A tensor of an open file. Making one reads nothing; its data is read when asked for. */
export class Tensor<D extends DType | undefined = DType | undefined> {
  /** @internal No two tensors of the process have the same. */
  readonly [IDENTITY]: number
  // Few fields: a file may have a million tensors, and the collector copies each object twice. What the catalog knows is asked of it.
  readonly #catalog: Catalog
  #data: TypedArray | undefined
  #lazy: Lazy | undefined

  private constructor(catalog: Catalog, ordinal: number) {
    this[IDENTITY] = catalog.first + ordinal
    this.#catalog = catalog
  }

  /** @internal */
  static make(catalog: Catalog, ordinal: number): AnyTensor {
    return new Tensor(catalog, ordinal) as AnyTensor
  }

  get name(): string {
    return this.#catalog.name(this.#ordinal)
  }

  /** The type of the elements, or of a sparse tensor's values. Undefined for a type or a composite that is not known here. */
  get dtype(): D {
    return this.#dtype?.name as D
  }

  get shape(): readonly number[] {
    return this.#catalog.shape(this.#ordinal)
  }

  get #ordinal(): number {
    return this[IDENTITY] - this.#catalog.first
  }

  get #store(): Store {
    return this.#catalog.store
  }

  get #dtype(): DTypeInfo | undefined {
    return this.#catalog.dtype(this.#ordinal)
  }

  get #plainOffset(): number | undefined {
    return this.#catalog.plainOffset(this.#ordinal)
  }

  get #file(): number {
    return this.#catalog.file(this.#ordinal)
  }

  /** Elements: the product of the shape. */
  get size(): number {
    return this.#catalog.elements(this.#ordinal)
  }

  /**
   * Bytes of the elements after decoding: of `data` of a dense tensor, of all arrays of a sparse one, of all components of
   * any other layout. Components beside those of the layout do not count. Of a component whose size only decoding can
   * tell, the stored bytes.
   */
  get byteLength(): number {
    return this.#catalog.byteLength(this.#ordinal)
  }

  get layout(): Layout {
    return this.#catalog.layout(this.#ordinal)
  }

  /** @internal */
  static is(value: unknown): value is AnyTensor {
    return typeof value === 'object' && value !== null && #catalog in value
  }

  /** @internal */
  static place(tensor: AnyTensor): Place {
    return { store: tensor.#store, ordinal: tensor.#ordinal }
  }

  /** The tensor's own attributes; empty in formats that have none. */
  get attributes(): Attributes {
    this.#store.throwIfClosed()
    this.#lazy ??= {}
    this.#lazy.attributes ??= thaw(rethrowNative(() => this.#store.native.tensorAttributes(this.#ordinal)))
    return this.#lazy.attributes
  }

  /** The stored parts by their roles. */
  get components(): ReadonlyMap<string, Component> {
    this.#store.throwIfClosed()
    this.#lazy ??= {}
    if (this.#lazy.components === undefined) {
      const infos = rethrowNative(() => this.#store.native.components(this.#ordinal))
      const make = (info: (typeof infos)[number], at: number) => Component.make(this.#store, this.#ordinal, at, info)
      this.#lazy.components = new Map(infos.map((info, at) => [info.role, make(info, at)]))
    }
    return this.#lazy.components
  }

  /**
   * The elements of a dense tensor: a typed array over the mapping where the file stores them as they are in
   * memory, otherwise a copy (see `mapped` and `copyReason`). The same array at each access; empty after the
   * file's `close()`. Writing to it changes this process's view only, never the file. Digests of data that
   * need not be decoded are not checked here: `load()` and `verify()` do.
   *
   * @example
   * const { data, shape } = file.tensor('wte') // a Float32Array over the file, and [50257, 768]
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT beyond what one array can hold, ZT_IO, ZT_TRUNCATED
   */
  get data(): ArrayOf<D> {
    this.#store.throwIfClosed()
    const data = this.#data ?? this.#makeData()
    if (data.byteLength === 0 && this.byteLength > 0) throw sourceGone()
    return data as ArrayOf<D>
  }

  /**
   * The bytes of `data`, over the same memory: for HTTP, hashes and other libraries. Of a dense tensor whose type is not known
   * here, its bytes.
   *
   * @example response.end(tensor.bytes)
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING,
   * ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  get bytes(): Uint8Array {
    if (this.layout !== 'dense' || this.#dtype !== undefined) return bytesOf(this.data)
    this.#store.throwIfClosed()
    return bytesOf(this.#dataComponent().data)
  }

  /** Whether the data aliases the file; of a sparse or composite tensor, whether that of each of its components does. */
  get mapped(): boolean {
    return this.copyReason === undefined
  }

  /** Why the data is a copy; undefined where it aliases the file. */
  get copyReason(): CopyReason | undefined {
    this.#store.throwIfClosed()
    if (this.#plainOffset !== undefined) {
      const dtype = this.#dense()
      return this.#store.copyReason(dtype, this.#file, this.#plainOffset, this.byteLength) ?? this.#viewed().copyReason
    }
    for (const component of this.#ownComponents()) {
      if (component.copyReason !== undefined) return component.copyReason
    }
    return undefined
  }

  #viewed(): View {
    return { data: this.data, copyReason: this.#lazy?.copyReason }
  }

  #makeData(): TypedArray {
    const dtype = this.#dense()
    const offset = this.#plainOffset
    const view =
      offset === undefined ? this.#dataComponent() : this.#store.view(dtype, this.#file, offset, this.byteLength)
    const { data, copyReason } = view
    if (copyReason !== undefined) {
      this.#lazy ??= {}
      this.#lazy.copyReason = copyReason
    }
    this.#data = data
    return data
  }

  /** Whether the layout is neither dense nor sparse: quantized, or not known here. */
  #composite(): boolean {
    return this.layout !== 'dense' && this.layout !== 'sparse_csr' && this.layout !== 'sparse_coo'
  }

  /** The dtype of a dense tensor. */
  #dense(): DTypeInfo {
    if (this.layout !== 'dense') {
      const instead =
        this.layout === 'sparse_csr'
          ? 'use csr() or loadCsr()'
          : this.layout === 'sparse_coo'
            ? 'use coo() or loadCoo()'
            : this.layout === 'unread'
              ? "open the index without shards: 'none'"
              : 'use components, or toFloat32() if it is a quantized one'
      throw this.#error('ZT_BAD_LAYOUT', `the layout is ${this.layout}, not dense: ${instead}`)
    }
    if (this.#dtype === undefined) {
      throw this.#error('ZT_BAD_DTYPE', "the element type is not known here: components.get('data') has the bytes")
    }
    return this.#dtype
  }

  /** The components that hold the elements: those of the layout, or all where only the file's own layout knows. */
  #ownComponents(): Component[] {
    return Array.from(this.components.values()).filter(Component.isOwn)
  }

  #dataComponent(): Component {
    return this.components.get('data') as Component
  }

  #dataOrdinal(): number {
    return [...this.components.keys()].indexOf('data')
  }

  #error(code: ZTensorError['code'], message: string): ZTensorError {
    return new ZTensorError(code, `tensor ${JSON.stringify(this.name)}: ${message}`, { tensor: this.name })
  }

  /**
   * The elements of a dense tensor, or with `as: 'float32'` of a quantized one, as a copy that you own: read off the event loop, decoded, their digest
   * checked. Never touches the mapping, so a file truncated meanwhile is an error and no signal.
   *
   * @example
   * const weights = await tensor.load()
   * const floats = await tensor.load({ as: 'float32', slice: [[0, 128]] }) // the first 128 rows
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE,
   * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the
   * signal's reason
   */
  load<A extends ArrayBufferView>(options: LoadOptions & { into: A }): Promise<A>
  load(options: LoadOptions & { as: 'float32' }): Promise<OwnArrays['float32']>
  load(options?: LoadOptions & { as?: undefined }): Promise<OwnArrayOf<D>>
  load(options?: LoadOptions): Promise<OwnArrayOf<D> | OwnArrays['float32']>
  async load(options?: LoadOptions): Promise<ArrayBufferView> {
    const known = ['as', 'slice', 'shard', 'into', 'transferable', 'signal'] as const
    const { as, slice, shard, into, transferable, signal } = readOptions(options, known)
    optional(as, (value) => validateOneOf('as', ['float32'], value))
    optional(signal, validateAbortSignal)
    if (slice !== undefined && shard !== undefined) throw invalid(TypeError, 'give either slice or shard, not both')
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    if (movable && into !== undefined) throw invalid(TypeError, 'give either into or transferable, not both')
    signal?.throwIfAborted()
    this.#store.throwIfClosed()
    const quantized = as !== undefined && this.#composite()
    const stored = quantized ? FLOAT32 : this.#dense()
    const dtype = as === undefined ? stored : FLOAT32
    const request: LoadRequest = { widen: as !== undefined }
    const selected = slice === undefined ? undefined : sliceRanges(this.shape, slice, 'slice')
    const part = shard === undefined ? selected : shardRanges(this.shape, shard)
    if (part !== undefined) request.ranges = part.ranges
    const length = part === undefined ? this.size : part.shape.reduce((size, dim) => size * dim, 1)
    const target = movable ? ownArray(dtype, length) : optional(into, (value) => validateInto(value, dtype, length))
    // Only this thread may write into a buffer that the caller provides: what can be is read, and made into float32, as it is put there.
    const deferred = target !== undefined && part === undefined && (as !== undefined || this.#plainOffset !== undefined)
    const cached = deferred ? this.#cached(quantized, as !== undefined) : null
    if (cached !== null) return this.#deliver(cached, dtype, target, signal)
    const stage = await this.#store.stage(this.#ordinal, undefined, signal)
    const { native } = this.#store
    if (deferred) request.deferred = true
    const start = (control: NativeControl) =>
      quantized
        ? native.dequantize(this.#ordinal, request.ranges, deferred, control, stage)
        : native.load(this.#ordinal, this.#dataOrdinal(), request, control, stage)
    // What is stored as it is in memory is read anew for each: that costs no more than a copy would.
    const decodes = request.ranges === undefined && (quantized || this.#plainOffset === undefined)
    const { value: memory, sole } = decodes
      ? await this.#store.shared.join(
          `${this.#ordinal} ${deferred ? 'deferred' : dtype.name}`,
          this.#store,
          signal,
          start,
        )
      : { value: await run(this.#store, { signal }, start), sole: true }
    return this.#deliver(memory, dtype, target, signal, sole)
  }

  /** The elements where they are in the page cache, to be read as they are put into their place: no other thread is needed then. */
  #cached(quantized: boolean, widened: boolean): NativeMemory | null {
    const { native, path } = this.#store
    return rethrowNative(() => native.atHand(this.#ordinal, quantized ? undefined : this.#dataOrdinal(), widened), path)
  }

  async #deliver(
    memory: NativeMemory,
    dtype: DTypeInfo,
    target?: ArrayBufferView,
    signal?: AbortSignal,
    sole = true,
  ): Promise<TypedArray> {
    const check = () => this.#store.check(signal)
    if (target !== undefined) {
      await copyInto(memory, target, check, sole)
      return target as TypedArray
    }
    const buffer = await toBuffer(memory, check, sole)
    return array(dtype, buffer, 0, buffer.byteLength)
  }

  /**
   * The elements widened to float32: exactly for the 8- and 16-bit types and bool, to the nearest (ties to
   * even) for wider integers and float64. `load({ as: 'float32' })` does the same off the event loop.
   *
   * A quantized tensor (`zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1`, and `gguf.<type>/1` of the types that docs/formats.md lists) is read from its file, its digests checked, and decoded on all cores.
   *
   * @example const floats = tensor.toFloat32()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense or quantized, ZT_BAD_DTYPE for complex, 6-bit and unknown types,
   * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG for
   * `into`
   */
  toFloat32(options?: WidenOptions): Float32Array {
    const { into } = readOptions(options, ['into'])
    if (this.#composite()) return this.#dequantized(into)
    const dtype = this.#dense()
    return this.#named(() => widen(this.data, dtype, this.size, into))
  }

  #dequantized(into: unknown): Float32Array {
    this.#store.throwIfClosed()
    const target = optional(into, (value) => validateInto(value, FLOAT32, this.size) as Float32Array)
    const stage = this.#store.stageSync(this.#ordinal)
    const memory = rethrowNative(
      () => this.#store.native.dequantizeSync(this.#ordinal, target !== undefined, stage),
      this.#store.path,
    )
    if (target === undefined) return array(FLOAT32, toBufferSync(memory), 0, this.size * 4) as Float32Array
    copyIntoSync(memory, target)
    return target
  }

  /**
   * The elements of a float16 tensor as a Float16Array over the same memory, where the runtime has one.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for other types and where there is no Float16Array, ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
   * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  float16(): Float16Elements {
    if (this.#dense().name !== 'float16')
      throw this.#error('ZT_BAD_DTYPE', `the elements are ${this.dtype}, not float16`)
    const { Float16Array } = globalThis as unknown as { Float16Array?: DTypeInfo['array'] }
    if (Float16Array === undefined)
      throw this.#error('ZT_BAD_DTYPE', 'this runtime has no Float16Array: use toFloat32()')
    const { buffer, byteOffset, length } = this.data
    return new Float16Array(buffer, byteOffset, length) as Float16Elements
  }

  /**
   * A part: `[start, stop]`, `[start, stop, step]`, `[index]` or null for each dimension, the missing ones whole. A slice that
   * is one run of memory (whole rows) shares the tensor's; others are packed into memory of their own. Where `data` would be a copy
   * that is not made yet, only the bytes, frames or chunks that the slice touches are read and decoded.
   *
   * @example
   * tensor.slice([[0, 128], null]) // the first 128 rows: no copy
   * tensor.slice([[-1]]) // the last row, as one dimension less
   * tensor.slice([null, [0, null, 2]]) // every other column
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG
   */
  slice(ranges: readonly Range[]): TensorSlice<D & DType> {
    this.#dense()
    return this.#slice(sliceRanges(this.shape, ranges))
  }

  /**
   * One element of a dense tensor, by an index for each dimension; negative ones count from the end. Where `data` would be a
   * copy that is not made yet, only this element is read, or the frame or chunk that it is in. Many elements are faster in `data`,
   * or `toFloat32()`.
   *
   * @example tensor.at(0, -1) // the last element of the first row
   *
   * @throws TypeError and RangeError ZT_INVALID_ARG for indices of another number or outside the shape; ZTensorError ZT_CLOSED,
   * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  at(...indices: number[]): ElementOf<D & DType> {
    this.#store.throwIfClosed()
    const dtype = this.#dense()
    if (indices.length !== this.shape.length) {
      const rank = this.shape.length
      const several = rank === 1 ? '1 index' : `${rank} indices, one for each dimension`
      const wanted = rank === 0 ? 'none for a tensor without dimensions' : several
      throw invalid(RangeError, `indices: expected ${wanted}, got ${indices.length}`)
    }
    const place = this.shape.map((size, dim) => validateIndex(`indices[${dim}]`, indices[dim], size))
    this.#store.throwIfClosed()
    return this.#named(() => this.#elementAt(dtype, place)) as ElementOf<D & DType>
  }

  #elementAt(dtype: DTypeInfo, place: readonly number[]): ElementOf {
    const flat = place.reduce((before, index, dim) => before * (this.shape[dim] as number) + index, 0)
    const whole = this.#held(dtype)
    if (whole !== undefined) return valueAt(dtype, whole.data, flat)
    if (dtype.bits >= 8) {
      const ranges = place.flatMap((index) => [index, index + 1, 1])
      return valueAt(dtype, this.#slice({ ranges, shape: [] }).data, 0)
    }
    // No slice starts inside a byte. Two elements of 4 bits share one; those of 6 bits have no value here.
    const offset = this.#plainOffset
    if (offset === undefined || dtype.bits !== 4) return valueAt(dtype, this.data, flat)
    return valueAt(dtype, this.#store.view(dtype, this.#file, offset + Math.floor(flat / 2), 1).data, flat % 2)
  }

  /**
   * The elements of a dense tensor in nested arrays, as NumPy's `tolist()` gives them: bigints for int64 and uint64, booleans for
   * bool, `[real, imaginary]` for complex numbers, else numbers.
   *
   * @example tensor.toArray() // [[1, 2], [3, 4]]
   *
   * @throws ZTensorError ZT_LIMIT for more than `maxElements` (1,048,576 by default), ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
   * ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
   * RangeError ZT_INVALID_ARG
   */
  toArray(options?: { readonly maxElements?: number | undefined }): Nested<ElementOf<D & DType>> {
    this.#store.throwIfClosed()
    const { maxElements } = readOptions(options, ['maxElements'])
    const most = optional(maxElements, (value) => validateInteger('maxElements', value)) ?? MOST_ELEMENTS
    const dtype = this.#dense()
    checkCount(this.name, this.size, this.shape, most)
    return this.#named(() => nested(dtype, this.shape, this.data)) as Nested<ElementOf<D & DType>>
  }

  /**
   * The bytes of a dense tensor as a stream, read off the event loop in pieces as they are wanted: those that `load()` gives. What
   * is stored compressed, without frames, is decoded whole first, its digest checked; of what is stored raw no digest is.
   *
   * @example await pipeline(tensor.createReadStream(), response)
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type; TypeError and RangeError
   * ZT_INVALID_ARG. The stream is destroyed with ZT_CLOSED where the file is closed meanwhile, with the signal's reason, or with
   * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  createReadStream(options?: ReadStreamOptions): Readable {
    const { highWaterMark, signal } = readOptions(options, ['highWaterMark', 'signal'])
    const piece = optional(highWaterMark, (value) => validateInteger('highWaterMark', value, 1)) ?? PIECE
    optional(signal, validateAbortSignal)
    this.#store.throwIfClosed()
    const dtype = this.#dense()
    const divides = dtype.bits >= 8 && (this.#plainOffset !== undefined || this.#decodesByRange())
    const parts = divides ? boxes(this.shape, Math.max(1, Math.floor((piece * 8) / dtype.bits))) : [undefined]
    const load = (slice: readonly Range[] | undefined) => this.load({ slice, signal }) as Promise<TypedArray>
    return readStream(parts, load, piece, signal)
  }

  /**
   * One rank's even share of a dimension.
   *
   * @example tensor.shard({ dim: 0, rank: 1, worldSize: 4 }) // the second quarter of the rows
   *
   * @throws RangeError ZT_INVALID_ARG where the dimension does not divide, TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED,
   * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  shard(spec: Shard): TensorSlice<D & DType> {
    this.#dense()
    return this.#slice(shardRanges(this.shape, spec))
  }

  /** Whether a part of the data is decoded alone. */
  #decodesByRange(): boolean {
    const data = this.#plainOffset === undefined ? this.#dataComponent() : undefined
    return data?.encoding === 'zt.zstd-seekable/1' && !Component.isDecoded(data)
  }

  #slice({ ranges, shape }: Selected): TensorSlice<D & DType> {
    this.#store.throwIfClosed()
    const dtype = this.#dense()
    const plan = rethrowNative(() => binding.planSlice([...this.shape], ranges, dtype.bits))
    return TensorSlice.make(this.dtype as D & DType, shape, this.#cutView(dtype, plan, ranges))
  }

  #cutView(dtype: DTypeInfo, plan: { start: number; byteLength: number }, ranges: number[]): View {
    const whole = this.#held(dtype)
    const offset = this.#plainOffset
    if (plan.start >= 0 && whole !== undefined) {
      const width = dtype.array.BYTES_PER_ELEMENT
      const data = whole.data.subarray(plan.start / width, (plan.start + plan.byteLength) / width)
      return { data, copyReason: whole.copyReason }
    }
    if (plan.start >= 0 && offset !== undefined) {
      return this.#store.view(dtype, this.#file, offset + plan.start, plan.byteLength)
    }
    const bytes = this.byteLength > MAX_BUFFER ? undefined : this.#heldBytes(whole)
    const buffer = bytes === undefined ? this.#readCut(ranges) : this.#packed(dtype, plan.byteLength, ranges, bytes)
    const reason = plan.start >= 0 ? this.#dataComponent().copyReason : 'packed'
    return { data: array(dtype, buffer, 0, buffer.byteLength), copyReason: reason }
  }

  /**
   * All elements, where they are in memory or aliased, or no part of them can be had alone. Undefined where a slice is to read
   * only what it touches.
   */
  #held(dtype: DTypeInfo): View | undefined {
    if (this.#data !== undefined) return this.#viewed()
    const offset = this.#plainOffset
    if (offset === undefined) {
      const data = this.#dataComponent()
      return Component.isSliceable(data) && !Component.isDecoded(data) ? undefined : this.#viewed()
    }
    const alias = this.#aliased(dtype, offset)
    if (alias === undefined) return undefined
    this.#data = alias
    return { data: alias, copyReason: undefined }
  }

  #aliased(dtype: DTypeInfo, offset: number): TypedArray | undefined {
    try {
      const alias = this.#store.alias(dtype, this.#file, offset, this.byteLength)
      return typeof alias === 'string' ? undefined : alias
    } catch (error) {
      // Of more elements than an array can have, a part can be had.
      if (error instanceof ZTensorError && error.code === 'ZT_LIMIT') return undefined
      throw error
    }
  }

  /** The bytes of all elements as they are in memory; undefined where they are not. */
  #heldBytes(whole: View | undefined): Uint8Array | undefined {
    if (whole !== undefined) return bytesOf(whole.data)
    const offset = this.#plainOffset
    return offset === undefined ? undefined : this.#store.bytesInMemory(this.#file, offset, this.byteLength)
  }

  /** A slice of the bytes of all elements. */
  #packed(dtype: DTypeInfo, byteLength: number, ranges: number[], bytes: Uint8Array): ArrayBuffer {
    const shape = [...this.shape]
    return filled(byteLength, {
      into: (output) => binding.packSlice(shape, ranges, dtype.bits, bytes, output),
      block: () => binding.packSliceBlock(shape, ranges, dtype.bits, bytes),
    })
  }

  /** A slice that reads and decodes only what it touches. */
  #readCut(ranges: number[]): ArrayBuffer {
    const stage = this.#store.stageSync(this.#ordinal)
    const slice = () => this.#store.native.slice(this.#ordinal, this.#dataOrdinal(), ranges, stage)
    return toBufferSync(rethrowNative(slice, this.#store.path))
  }

  /**
   * A sparse matrix stored by rows, over the mapping where it can be, after its arrays were checked.
   *
   * @example
   * const { indptr, indices, values } = tensor.csr()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE where
   * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
   * ZT_IO, ZT_TRUNCATED
   */
  csr(): CsrTensor<D & DType> {
    const [values, indices, indptr] = this.#sparseArrays('sparse_csr', ['values', 'indices', 'indptr'])
    return this.#named(() =>
      CsrTensor.make(
        this.shape,
        this.dtype as D & DType,
        values as DTypeArrays[D & DType],
        indices as IndexArray,
        indptr as IndexArray,
      ).check(this.#strict('indices')),
    )
  }

  /**
   * A sparse tensor stored by coordinates, over the mapping where it can be, after its arrays were checked.
   *
   * @example
   * const { coords, values, nnz } = tensor.coo()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE where
   * the arrays break the layout's rules, ZT_DECODE, ZT_DIGEST_MISMATCH (of encoded arrays), ZT_UNSUPPORTED_ENCODING, ZT_LIMIT,
   * ZT_IO, ZT_TRUNCATED
   */
  coo(): CooTensor<D & DType> {
    const [values, coords] = this.#sparseArrays('sparse_coo', ['values', 'coords'])
    return this.#named(() =>
      CooTensor.make(this.shape, this.dtype as D & DType, values as DTypeArrays[D & DType], coords as IndexArray).check(
        this.#strict('coords'),
      ),
    )
  }

  #sparseArrays(layout: Layout, roles: string[]): TypedArray[] {
    this.#store.throwIfClosed()
    this.#sparse(layout)
    return roles.map((role) => (this.components.get(role) as Component).data)
  }

  /** Whether the format has its indices rise or be unique. */
  #strict(role: string): boolean {
    return Component.isStrict(this.components.get(role) as Component)
  }

  #sparse(layout: Layout): void {
    if (this.layout !== layout) {
      const calls: Record<string, string> = { dense: 'data or load()', sparse_csr: 'csr()', sparse_coo: 'coo()' }
      const instead = calls[this.layout] ?? 'components'
      throw this.#error('ZT_BAD_LAYOUT', `the layout is ${this.layout}, not ${layout}: use ${instead}`)
    }
    if (this.#dtype === undefined) throw this.#error('ZT_BAD_DTYPE', 'the type of the values is not known here')
  }

  /** Adds the tensor's name to an error of the kernels, which do not know it. */
  #named<T>(make: () => T): T {
    try {
      return make()
    } catch (error) {
      if (!(error instanceof ZTensorError)) throw error
      const { code, component, rule, message } = error
      throw new ZTensorError(code, `tensor ${JSON.stringify(this.name)}: ${message}`, {
        tensor: this.name,
        component,
        rule,
      })
    }
  }

  /**
   * What `csr()` gives, as a copy that you own, digests checked, off the event loop.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
   * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
   * reason
   */
  async loadCsr(options?: LoadSparseOptions): Promise<CsrTensor<D & DType>> {
    const [values, indices, indptr] = await this.#loadSparse('sparse_csr', ['values', 'indices', 'indptr'], options)
    return CsrTensor.make(
      this.shape,
      this.dtype as D & DType,
      values as DTypeArrays[D & DType],
      indices as IndexArray,
      indptr as IndexArray,
    )
  }

  /**
   * What `coo()` gives, as a copy that you own, digests checked, off the event loop.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless it is one, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
   * ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError ZT_INVALID_ARG; the signal's
   * reason
   */
  async loadCoo(options?: LoadSparseOptions): Promise<CooTensor<D & DType>> {
    const [values, coords] = await this.#loadSparse('sparse_coo', ['values', 'coords'], options)
    return CooTensor.make(this.shape, this.dtype as D & DType, values as DTypeArrays[D & DType], coords as IndexArray)
  }

  async #loadSparse(layout: Layout, roles: string[], options?: LoadSparseOptions): Promise<TypedArray[]> {
    const { transferable, signal } = readOptions(options, ['transferable', 'signal'])
    optional(signal, validateAbortSignal)
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    signal?.throwIfAborted()
    this.#store.throwIfClosed()
    this.#sparse(layout)
    const stage = await this.#store.stage(this.#ordinal, undefined, signal)
    const start = (control: NativeControl) => this.#store.native.loadSparse(this.#ordinal, control, stage)
    const { value: memories, sole } = await this.#store.shared.join(
      `${this.#ordinal} ${layout}`,
      this.#store,
      signal,
      start,
    )
    const dtypes = roles.map((role) => dtypeInfo(this.components.get(role)?.dtype as string) as DTypeInfo)
    const arrays: TypedArray[] = []
    for (const [at, memory] of memories.entries()) {
      const dtype = dtypes[at] as DTypeInfo
      const target = movable ? array(dtype, allocate(memory.byteLength), 0, memory.byteLength) : undefined
      arrays.push(await this.#deliver(memory, dtype, target, signal, sole))
    }
    return arrays
  }

  /**
   * Checks this tensor's digests, decoded lengths and data rules. Resolves with what failed.
   *
   * @example if (!(await tensor.verify()).ok) throw new Error('damaged')
   *
   * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
   */
  async verify(options?: JobOptions): Promise<VerifyResult> {
    this.#store.throwIfClosed()
    const all = rethrowNative(() => this.#store.native.warnings())
    const warnings = all.filter(({ tensor }) => tensor === this.name).map((warning) => Object.freeze(warning))
    return { ...(await verifyTensors(this.#store, Uint32Array.of(this.#ordinal), options, false)), warnings }
  }

  /**
   * Counts, extremes, mean, standard deviation and perhaps a histogram of the elements, on all cores, off the event loop:
   * of the stored values of a sparse tensor, of the float32 values of a quantized one. Sums are kept in float64, and the
   * result is the same for any number of cores. Digests of data that need not be decoded are not checked.
   *
   * @example const { min, max, mean, nan } = await tensor.stats()
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_BAD_LAYOUT for layouts without numbers, ZT_CLOSED, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's
   * reason
   */
  stats(options?: StatsOptions): Promise<TensorStats> {
    return stats({ store: this.#store, ordinal: this.#ordinal }, options)
  }

  get [Symbol.toStringTag](): string {
    return 'Tensor'
  }

  /** Never touches data. */
  toJSON(): object {
    const { name, dtype, shape, layout, byteLength } = this
    return { name, dtype, shape, layout, byteLength }
  }

  /** Never touches data. */
  [inspect.custom](_depth: number, options: import('node:util').InspectOptions): string {
    const { name, dtype, shape, size, byteLength, layout } = this
    return shown('Tensor', { name, dtype, shape, size, byteLength, layout }, options)
  }
}

/** A tensor of any dtype, or of none that is known here: checking `dtype` narrows `data`. */
export type AnyTensor = { [D in DType]: Tensor<D> }[DType] | Tensor<undefined>
