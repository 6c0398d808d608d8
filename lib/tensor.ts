import { inspect } from 'node:util'
import { aSignal, aTarget, oneOf, optional, options } from './arguments.js'
import { type Attributes, thaw } from './attributes.js'
import type { Catalog } from './catalog.js'
import { Component } from './component.js'
import { type Cut, flatRanges, type Range, type Shard, shardRanges } from './cut.js'
import {
  bytesOf,
  type DType,
  type DTypeArrays,
  type DTypeInfo,
  dtypeInfo,
  type IndexArray,
  type TypedArray,
} from './dtype.js'
import { calling, invalid, ZTensorError } from './errors.js'
import { type JobOptions, run } from './job.js'
import { copyInto, copyIntoSync, filled, sourceGone, toBuffer, toBufferSync } from './memory.js'
import { binding, type LoadRequest, MAX_BUFFER, type NativeControl, type NativeMemory } from './native.js'
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
  signal?: AbortSignal | undefined
}

/** The Float16Array of runtimes and compilers that have one. */
export type Float16Elements = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : unknown

/** What few tensors of a file are asked for. */
interface Lazy {
  components?: ReadonlyMap<string, Component>
  attributes?: Attributes
  copyReason?: CopyReason
}

/** A tensor of an open file. Making one reads nothing; its data is read when asked for. */
export class Tensor<D extends DType = DType> {
  readonly name: string
  /** The type of the elements, or of a sparse tensor's values. Undefined for a composite that does not say. */
  readonly dtype: D
  readonly shape: readonly number[]
  // Few fields: a file may have a million tensors, and the collector copies each object twice.
  readonly #catalog: Catalog
  readonly #ordinal: number
  #data: TypedArray | undefined
  #lazy: Lazy | undefined

  private constructor(catalog: Catalog, ordinal: number) {
    this.name = catalog.name(ordinal)
    this.dtype = catalog.dtype(ordinal)?.name as D
    this.shape = catalog.shape(ordinal)
    this.#catalog = catalog
    this.#ordinal = ordinal
  }

  /** @internal */
  static make(catalog: Catalog, ordinal: number): AnyTensor {
    return new Tensor(catalog, ordinal) as AnyTensor
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
    return typeof value === 'object' && value !== null && #store in value
  }

  /** @internal */
  static place(tensor: AnyTensor): Place {
    return { store: tensor.#store, ordinal: tensor.#ordinal }
  }

  /** The tensor's own attributes; empty in formats that have none. */
  get attributes(): Attributes {
    this.#store.throwIfClosed()
    this.#lazy ??= {}
    this.#lazy.attributes ??= thaw(calling(() => this.#store.native.tensorAttributes(this.#ordinal)))
    return this.#lazy.attributes
  }

  /** The stored parts by their roles. */
  get components(): ReadonlyMap<string, Component> {
    this.#store.throwIfClosed()
    this.#lazy ??= {}
    if (this.#lazy.components === undefined) {
      const infos = calling(() => this.#store.native.components(this.#ordinal))
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
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE of an unknown type, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT beyond what one array can hold, ZT_IO, ZT_TRUNCATED
   */
  get data(): DTypeArrays[D] {
    this.#store.throwIfClosed()
    const data = this.#data ?? this.#makeData()
    if (data.byteLength === 0 && this.byteLength > 0) throw sourceGone()
    return data as DTypeArrays[D]
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
   * The elements of a dense tensor, or with `as: 'float32'` of a quantized one, in memory of your own: read off the event loop, decoded, their digest
   * checked. Never touches the mapping, so a file cut short meanwhile is an error and no signal.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE,
   * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the
   * signal's reason
   */
  load(options: LoadOptions & { as: 'float32' }): Promise<Float32Array>
  load(options?: LoadOptions & { as?: undefined }): Promise<DTypeArrays[D]>
  load(options?: LoadOptions): Promise<DTypeArrays[D] | Float32Array>
  async load(given?: LoadOptions): Promise<DTypeArrays[D] | Float32Array> {
    const { as, slice, shard, into, signal } = options(given, ['as', 'slice', 'shard', 'into', 'signal'])
    optional(as, (value) => oneOf('as', ['float32'], value))
    optional(signal, aSignal)
    if (slice !== undefined && shard !== undefined) throw invalid(TypeError, 'slice and shard exclude each other')
    signal?.throwIfAborted()
    this.#store.throwIfClosed()
    const quantized = as !== undefined && this.#composite()
    const stored = quantized ? FLOAT32 : this.#dense()
    const dtype = as === undefined ? stored : FLOAT32
    const request: LoadRequest = { widen: as !== undefined }
    if (slice !== undefined) request.ranges = flatRanges(this.shape, slice, 'slice')
    if (shard !== undefined) request.ranges = shardRanges(this.shape, shard)
    const length = request.ranges === undefined ? this.size : sizeOf(request.ranges)
    const target = optional(into, (value) => aTarget(value, dtype, length))
    const stage = await this.#store.stage(this.#ordinal, undefined, signal)
    const { native } = this.#store
    const start = (control: NativeControl) =>
      quantized
        ? native.dequantize(this.#ordinal, request.ranges, control, stage)
        : native.load(this.#ordinal, this.#dataOrdinal(), request, control, stage)
    // What is stored as it is in memory is read anew for each: that costs no more than a copy would.
    const decodes = request.ranges === undefined && (quantized || this.#plainOffset === undefined)
    const { value: memory, sole } = decodes
      ? await this.#store.shared.join(`${this.#ordinal} ${dtype.name}`, this.#store, signal, start)
      : { value: await run(this.#store, { signal }, start), sole: true }
    return (await this.#deliver(memory, dtype, target, signal, sole)) as DTypeArrays[D] | Float32Array
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
   * A quantized tensor (`zt.quant_group/1`, `zt.mx/1`, and `gguf.<type>/1` of q4_0, q4_1, q5_0, q5_1, q8_0 and q2_k to
   * q6_k) is read from its file, its digests checked, and decoded on all cores.
   *
   * @throws ZTensorError what `data` throws, and ZT_BAD_DTYPE for complex and 6-bit types; of quantized tensors what
   * `load` throws, and ZT_BAD_LAYOUT of other layouts
   */
  toFloat32(given?: WidenOptions): Float32Array {
    const { into } = options(given, ['into'])
    if (this.#composite()) return this.#dequantized(into)
    const dtype = this.#dense()
    return this.#named(() => widen(this.data, dtype, this.size, into))
  }

  #dequantized(into: unknown): Float32Array {
    this.#store.throwIfClosed()
    const target = optional(into, (value) => aTarget(value, FLOAT32, this.size) as Float32Array)
    const stage = this.#store.stageSync(this.#ordinal)
    const memory = calling(() => this.#store.native.dequantizeSync(this.#ordinal, stage), this.#store.path)
    if (target === undefined) return array(FLOAT32, toBufferSync(memory), 0, this.size * 4) as Float32Array
    copyIntoSync(memory, target)
    return target
  }

  /**
   * The elements of a float16 tensor as a Float16Array over the same memory, where the runtime has one.
   *
   * @throws ZTensorError what `data` throws, and ZT_BAD_DTYPE for other types and where there is no Float16Array
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
   * A rectangular part: `[start, stop]` or null for each dimension, the missing ones whole. A cut that is one
   * run of memory (whole rows) shares the tensor's; others are packed into memory of their own.
   *
   * @throws ZTensorError what `data` throws; TypeError and RangeError ZT_INVALID_ARG
   */
  slice(ranges: readonly Range[]): Cut<D> {
    this.#dense()
    return this.#cut(flatRanges(this.shape, ranges))
  }

  /**
   * One rank's even share of a dimension.
   *
   * @throws ZTensorError what `data` throws; RangeError ZT_INVALID_ARG where the dimension does not divide
   */
  shard(spec: Shard): Cut<D> {
    this.#dense()
    return this.#cut(shardRanges(this.shape, spec))
  }

  #cut(ranges: number[]): Cut<D> {
    this.#store.throwIfClosed()
    const dtype = this.#dense()
    const shape = [...this.shape]
    const plan = calling(() => binding.planCut(shape, ranges, dtype.bits))
    const view = this.#cutView(dtype, plan, ranges)
    return {
      dtype: this.dtype,
      shape: plan.shape,
      data: view.data as DTypeArrays[D],
      mapped: view.copyReason === undefined,
      copyReason: view.copyReason,
    }
  }

  #cutView(dtype: DTypeInfo, plan: { start: number; byteLength: number }, ranges: number[]): View {
    const offset = this.#plainOffset
    // One run of data that cannot be aliased whole is taken by itself.
    const alone = offset !== undefined && this.#data === undefined && plan.start >= 0
    if (alone && this.#store.copyReason(dtype, this.#file, offset, this.byteLength) !== undefined) {
      return this.#store.view(dtype, this.#file, offset + plan.start, plan.byteLength)
    }
    // The kernels take bytes, of which an array may hold fewer than of the elements.
    const apart = offset !== undefined && plan.start < 0 && this.byteLength > MAX_BUFFER
    const whole = this.#decodesByRange() || apart ? undefined : this.#wholeOrTooLarge()
    if (whole === undefined) {
      const stage = this.#store.stageSync(this.#ordinal)
      const cut = () => this.#store.native.cut(this.#ordinal, this.#dataOrdinal(), ranges, stage)
      const buffer = toBufferSync(calling(cut, this.#store.path))
      return { data: array(dtype, buffer, 0, buffer.byteLength), copyReason: 'packed' }
    }
    if (plan.start >= 0) {
      const width = dtype.array.BYTES_PER_ELEMENT
      const data = whole.data.subarray(plan.start / width, (plan.start + plan.byteLength) / width)
      return { data, copyReason: whole.copyReason }
    }
    const shape = [...this.shape]
    const buffer = filled(plan.byteLength, {
      into: (output) => binding.packCut(shape, ranges, dtype.bits, bytesOf(whole.data), output),
      block: () => binding.packCutBlock(shape, ranges, dtype.bits, bytesOf(whole.data)),
    })
    return { data: array(dtype, buffer, 0, plan.byteLength), copyReason: 'packed' }
  }

  /** Whether a cut decodes no more than what it touches; where all is decoded already it needs to decode nothing. */
  #decodesByRange(): boolean {
    const data = this.#plainOffset === undefined ? this.#dataComponent() : undefined
    return data?.encoding === 'zt.zstd-seekable/1' && !Component.isDecoded(data)
  }

  /** All elements, unless no array can hold them. */
  #wholeOrTooLarge(): View | undefined {
    try {
      return this.#viewed()
    } catch (error) {
      if (error instanceof ZTensorError && error.code === 'ZT_LIMIT' && this.#plainOffset !== undefined)
        return undefined
      throw error
    }
  }

  /**
   * A sparse matrix stored by rows, over the mapping where it can be, after its arrays were checked.
   *
   * @throws ZTensorError ZT_BAD_LAYOUT unless it is one, ZT_BAD_SPARSE where the arrays break the layout's
   * rules, and what `data` of a component throws
   */
  csr(): CsrTensor<D> {
    const [values, indices, indptr] = this.#sparseArrays('sparse_csr', ['values', 'indices', 'indptr'])
    return this.#named(() =>
      CsrTensor.make(
        this.shape,
        this.dtype,
        values as DTypeArrays[D],
        indices as IndexArray,
        indptr as IndexArray,
      ).check(this.#strict('indices')),
    )
  }

  /**
   * A sparse tensor stored by coordinates, over the mapping where it can be, after its arrays were checked.
   *
   * @throws ZTensorError ZT_BAD_LAYOUT unless it is one, ZT_BAD_SPARSE where the arrays break the layout's
   * rules, and what `data` of a component throws
   */
  coo(): CooTensor<D> {
    const [values, coords] = this.#sparseArrays('sparse_coo', ['values', 'coords'])
    return this.#named(() =>
      CooTensor.make(this.shape, this.dtype, values as DTypeArrays[D], coords as IndexArray).check(
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
    if (this.layout !== layout) throw this.#error('ZT_BAD_LAYOUT', `the layout is ${this.layout}, not ${layout}`)
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

  /** What `csr()` gives, in memory of your own, digests checked, off the event loop. */
  async loadCsr(given?: { signal?: AbortSignal | undefined }): Promise<CsrTensor<D>> {
    const [values, indices, indptr] = await this.#loadSparse('sparse_csr', ['values', 'indices', 'indptr'], given)
    return CsrTensor.make(this.shape, this.dtype, values as DTypeArrays[D], indices as IndexArray, indptr as IndexArray)
  }

  /** What `coo()` gives, in memory of your own, digests checked, off the event loop. */
  async loadCoo(given?: { signal?: AbortSignal | undefined }): Promise<CooTensor<D>> {
    const [values, coords] = await this.#loadSparse('sparse_coo', ['values', 'coords'], given)
    return CooTensor.make(this.shape, this.dtype, values as DTypeArrays[D], coords as IndexArray)
  }

  async #loadSparse(
    layout: Layout,
    roles: string[],
    given?: { signal?: AbortSignal | undefined },
  ): Promise<TypedArray[]> {
    const { signal } = options(given, ['signal'])
    optional(signal, aSignal)
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
    for (const [at, memory] of memories.entries())
      arrays.push(await this.#deliver(memory, dtypes[at] as DTypeInfo, undefined, signal, sole))
    return arrays
  }

  /** Checks this tensor's digests, decoded lengths and data rules. */
  async verify(given?: JobOptions): Promise<VerifyResult> {
    return verifyTensors(this.#store, Uint32Array.of(this.#ordinal), given)
  }

  /**
   * Counts, extremes, mean, standard deviation and perhaps a histogram of the elements, on all cores, off the event loop:
   * of the stored values of a sparse tensor, of the float32 values of a quantized one. Sums are kept in float64, and the
   * result is the same for any number of cores. Digests of data that need not be decoded are not checked.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, and what `load` throws; TypeError and RangeError
   * ZT_INVALID_ARG; the signal's reason
   */
  stats(given?: StatsOptions): Promise<TensorStats> {
    return stats({ store: this.#store, ordinal: this.#ordinal }, given)
  }

  toJSON(): object {
    const { name, dtype, shape, layout, byteLength } = this
    return { name, dtype, shape, layout, byteLength }
  }

  /** Never touches data. */
  [inspect.custom](_depth: number, options: import('node:util').InspectOptions): string {
    const { name, dtype, shape, size, byteLength, layout } = this
    return `Tensor ${inspect({ name, dtype, shape, size, byteLength, layout }, options)}`
  }
}

/** A tensor of any dtype: checking `dtype` narrows `data`. */
export type AnyTensor = { [D in DType]: Tensor<D> }[DType]

/** Elements in flat ranges. */
function sizeOf(ranges: number[]): number {
  let size = 1
  for (let at = 0; at < ranges.length; at += 2) size *= (ranges[at + 1] as number) - (ranges[at] as number)
  return size
}
