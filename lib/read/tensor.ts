import { type InspectOptions, inspect, type Readable } from '#host'
import { invalid, type OptionHint, optionHint, publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { shareTurn } from '../native/event-loop.js'
import { type JobOptions, run } from '../native/job.js'
import {
  allocate,
  checkTarget,
  copyInto,
  copyIntoSync,
  filled,
  sourceGone,
  toBuffer,
  toBufferSync,
} from '../native/memory.js'
import {
  binding,
  type FillsMemory,
  type LoadRequest,
  MAX_BUFFER,
  type NativeControl,
  type NativeMemory,
} from '../native/native.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateFunction,
  validateInteger,
  validateInto,
  validateOneOf,
} from '../values/arguments.js'
import { type Attributes, thaw } from '../values/attributes.js'
import { fileBytes, toFileOrder } from '../values/byte-order.js'
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
import { isQuantized, storageTypeOf } from '../values/storage-type.js'
import { asPart } from './calls.js'
import type { Catalog } from './catalog.js'
import { Component } from './component.js'
import { type Indices, readIndices } from './indices.js'
import { convertIntegers, type IntegerDType, isInteger, LOAD_DTYPES, type LoadDType } from './narrow.js'
import { type NearestOptions, type Neighbor, nearest } from './nearest.js'
import { checkCount, type ElementOf, type Nested, nested, valueAt } from './nested.js'
import { boxes, decoded, loaded, type ReadStreamOptions, readStream } from './read-stream.js'
import { type Range, type Selected, type Shard, shardRanges, sliceRanges, TensorSlice, validateIndex } from './slice.js'
import { CooTensor, CsrTensor } from './sparse.js'
import { type StatsOptions, stats, type TensorStats } from './stats.js'
import { array, type CopyReason, type Store, type TensorRef, type View } from './store.js'
import { type VerifyResult, verifyTensors } from './verify.js'
import { FLOAT32, type WidenOptions, widen } from './widen.js'

/** How a tensor is stored: one of these names, or the file's own name for any other layout. */
export type Layout = 'dense' | 'sparse_csr' | 'sparse_coo' | (string & {})

/** How to load a dense or quantized tensor. */
export interface LoadOptions {
  /**
   * `'float32'` widens the elements to float32. Quantized tensors need this. An integer dtype converts integers; one that does not fit is
   * an error, which names its index in the result.
   */
  as?: LoadDType | undefined
  /** Load only a rectangular part. If the data is stored raw, only that part is read, and its digest is not checked. */
  slice?: readonly Range[] | undefined
  /** Load only one rank's share of a dimension. */
  shard?: Shard | undefined
  /**
   * An array to fill: of the type of the result, or a Uint8Array for its bytes, little-endian, and with exactly the byte length of the
   * result.
   */
  into?: ArrayBufferView | undefined
  /**
   * Whether the array can be transferred to another thread: `postMessage(array, [array.buffer])`. Other arrays have external memory,
   * which runtimes copy or refuse to transfer. Costs one additional copy.
   */
  transferable?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** How to load elements by their indices. */
export interface TakeOptions {
  /** The dimension that the indices are for: 0 by default. Negative numbers count from the last. */
  axis?: number | undefined
  /** The type of the result, as for `load`. */
  as?: LoadDType | undefined
  /**
   * An array to fill: of the type of the result, or a Uint8Array for its bytes, little-endian, and with exactly the byte length of the
   * result.
   */
  into?: ArrayBufferView | undefined
  /** Whether the array can be transferred to another thread, as for `load`. */
  transferable?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** How to load elements in pieces. */
export interface LoadToOptions {
  /** The type of the result, as for `load`. */
  as?: LoadDType | undefined
  signal?: AbortSignal | undefined
}

/** How to load the arrays of a sparse tensor. */
export interface LoadSparseOptions {
  /** Whether the arrays can be transferred to another thread, as for `load`. */
  transferable?: boolean | undefined
  signal?: AbortSignal | undefined
}

/** Allocates an array in the runtime's own memory. */
function ownArray(dtype: DTypeInfo, length: number): TypedArray {
  const byteLength = Math.ceil((length * dtype.bits) / 8)
  return array(dtype, allocate(byteLength), 0, byteLength)
}

/** The Float16Array of runtimes and compilers that have one. */
export type Float16Elements = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : unknown

/** Bytes of elements that are loaded on this thread if they are in the page cache. Native code has the same limit. */
const SMALL = 64 * 2 ** 10

/** The default of `maxElements`. */
const MAX_ELEMENTS = 2 ** 20
/** Maximum bytes of a piece of `loadTo`. */
const WRITTEN = 8 * 2 ** 20
/** The default of `highWaterMark`, in bytes. */
const PIECE = 2 ** 20
/** Encoded data up to this size is decoded as a whole to be streamed. */
const DECODED_WHOLE = 8 * 2 ** 20
/** Bytes of encoded data without frames that the first slice decodes and keeps. */
const KEPT = 32 * 2 ** 20
/** Slices of larger data that are decoded without keeping it. */
const SLICES = 4

/** Properties that few tensors of a file ever need. */
interface Lazy {
  components?: ReadonlyMap<string, Component>
  attributes?: Attributes
  copyReason?: CopyReason
  /** Slices of data without frames that were decoded. */
  slices?: number
}

/** A tensor of an open file. Its data is read lazily. */
export class Tensor<D extends DType | undefined = DType | undefined> {
  /** @internal Unique number of the tensor in this process. */
  readonly [IDENTITY]: number
  // Few fields: a file may have a million tensors, and the garbage collector copies each object twice. The catalog has the rest.
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

  /** The element type; of a sparse tensor, the type of its values. Undefined for unknown types and layouts. */
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

  /** Number of elements: the product of the shape. */
  get size(): number {
    return this.#catalog.elements(this.#ordinal)
  }

  /**
   * Decoded size in bytes: of `data` for a dense tensor, of all arrays for a sparse tensor, of all components for any other layout.
   * Components that the layout does not define are not counted. If the decoded size of a component is unknown, its stored size counts.
   */
  get byteLength(): number {
    return this.#catalog.byteLength(this.#ordinal)
  }

  /**
   * The type in which the elements are stored, for people: the dtype (`bfloat16`), the block type of a GGUF tensor (`q4_k`), or the name of
   * any other layout.
   */
  get storageType(): string {
    return storageTypeOf(this.layout, this.#dtype?.name)
  }

  /** How the tensor loads: as a dense tensor, in one of two sparse forms, or as the components of any other layout. */
  get kind(): 'dense' | 'csr' | 'coo' | 'object' {
    const { layout } = this
    if (layout === 'dense') return this.#dtype === undefined ? 'object' : 'dense'
    return layout === 'sparse_csr' ? 'csr' : layout === 'sparse_coo' ? 'coo' : 'object'
  }

  get layout(): Layout {
    return this.#catalog.layout(this.#ordinal)
  }

  /** @internal */
  static is(value: unknown): value is AnyTensor {
    return typeof value === 'object' && value !== null && #catalog in value
  }

  /** @internal */
  static ref(tensor: AnyTensor): TensorRef {
    return { store: tensor.#store, ordinal: tensor.#ordinal }
  }

  /** The tensor's attributes; empty in formats without tensor attributes. */
  get attributes(): Attributes {
    this.#store.throwIfClosed()
    this.#lazy ??= {}
    this.#lazy.attributes ??= thaw(rethrowNative(() => this.#store.native.tensorAttributes(this.#ordinal)))
    return this.#lazy.attributes
  }

  /** The stored components by role. */
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
   * The elements of a dense tensor: a typed array over the mapping if the file stores them as in memory, otherwise a copy (see
   * `mapped` and `copyReason`). Each access returns the same array, which `file.close()` empties. Writes to it are private to this
   * process and never change the file. The digest is checked only if the data must be decoded; `load()` and `verify()` always
   * check it.
   *
   * @example
   * const { data, shape } = file.tensor('wte') // a Float32Array over the file, and [50257, 768]
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT beyond the maximum size of an array, ZT_NOT_LOCAL for a remote file, ZT_IO,
   * ZT_TRUNCATED
   */
  get data(): ArrayOf<D> {
    this.#store.admit()
    const data = this.#data ?? this.#makeData()
    if (data.byteLength === 0 && this.byteLength > 0) throw sourceGone()
    return data as ArrayOf<D>
  }

  /**
   * The bytes of `data` as in a file, little-endian, over the same memory: for HTTP, hashes and other libraries. It also works for a dense
   * tensor of an unknown type. On a big-endian machine they are a copy, a new one at each access.
   *
   * @example response.end(tensor.bytes)
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING,
   * ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  get bytes(): OwnArrays['uint8'] {
    if (this.layout !== 'dense' || this.#dtype !== undefined) return fileBytes(this.data) as OwnArrays['uint8']
    this.#store.admit()
    return bytesOf(this.#dataComponent().data) as OwnArrays['uint8']
  }

  /** Whether the data aliases the file; of a sparse or composite tensor, whether all of its components do. */
  get mapped(): boolean {
    return this.copyReason === undefined
  }

  /** Why the data is a copy; undefined if it aliases the file. */
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

  /** Whether the layout is neither dense nor sparse: quantized, or unknown. */
  #composite(): boolean {
    return this.layout !== 'dense' && this.layout !== 'sparse_csr' && this.layout !== 'sparse_coo'
  }

  /** The dtype of a dense tensor. Throws for any other tensor. */
  #dense(): DTypeInfo {
    if (this.layout === 'unread') {
      const hint = optionHint('shards', ": open the index without shards: 'none'")
      throw this.#error('ZT_BAD_LAYOUT', `the layout is unread, not dense${hint.text}`, [hint])
    }
    if (this.layout !== 'dense') {
      const instead =
        this.layout === 'sparse_csr'
          ? 'use csr() or loadCsr()'
          : this.layout === 'sparse_coo'
            ? 'use coo() or loadCoo()'
            : isQuantized(this.layout)
              ? "use load({ as: 'float32' }), with slice for a part, or components"
              : 'use components'
      throw this.#error('ZT_BAD_LAYOUT', `the layout is ${this.layout}, not dense: ${instead}`)
    }
    if (this.#dtype === undefined) {
      throw this.#error('ZT_BAD_DTYPE', "the element type is unknown: use bytes, or components.get('data')")
    }
    return this.#dtype
  }

  /** The components that the layout defines; of an unknown layout, all components. */
  #ownComponents(): Component[] {
    return Array.from(this.components.values()).filter(Component.isOwn)
  }

  #dataComponent(): Component {
    return this.components.get('data') as Component
  }

  #dataOrdinal(): number {
    return [...this.components.keys()].indexOf('data')
  }

  #error(code: ZTensorError['code'], message: string, hints?: readonly OptionHint[]): ZTensorError {
    return new ZTensorError(code, `tensor ${JSON.stringify(this.name)}: ${message}`, { tensor: this.name, hints })
  }

  /**
   * Loads the elements of a dense tensor, or with `as: 'float32'` of a quantized one, off the event loop: reads and decodes them, checks
   * the digest, and resolves with a copy that you own. It never reads through the mapping, so truncation of the file is an error and
   * not a signal.
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
  load<A extends IntegerDType>(options: LoadOptions & { as: A }): Promise<OwnArrays[A]>
  load(options?: LoadOptions & { as?: undefined }): Promise<OwnArrayOf<D>>
  load(options?: LoadOptions): Promise<OwnArrayOf<D> | OwnArrays[LoadDType]>
  async load(options?: LoadOptions): Promise<ArrayBufferView> {
    const known = ['as', 'slice', 'shard', 'into', 'transferable', 'signal'] as const
    const given = readOptions(options, known)
    const { as, slice, shard, into, transferable, signal } = given
    if (slice !== undefined && shard !== undefined) throw invalid(TypeError, 'give either slice or shard, not both')
    const movable = this.#checkLoad({ as, into, transferable, signal })
    const to = this.#integers(as)
    const { calls } = this.#store
    return await calls.during(
      'load',
      calls.begin(this.#ordinal),
      to === undefined
        ? this.#load(given, as === 'float32' ? as : undefined, movable)
        : this.#converted(this.#load({ slice, shard, signal }, undefined, false), to, into, signal),
    )
  }

  /** The integer type that the elements are converted to; undefined for none, and for their own. */
  #integers(as: LoadDType | undefined): DTypeInfo | undefined {
    if (as === undefined || as === 'float32') return undefined
    const { name } = this.#dense()
    if (!isInteger(name))
      throw this.#error('ZT_BAD_DTYPE', `only integers are loaded as ${as}, and its elements are ${name}`)
    return name === as ? undefined : dtypeInfo(as)
  }

  /** Converts integers that were loaded, in memory of their own, to another integer type. */
  async #converted(
    loading: Promise<ArrayBufferView>,
    to: DTypeInfo,
    into: unknown,
    signal?: AbortSignal,
  ): Promise<ArrayBufferView> {
    const input = (await loading) as TypedArray
    const from = this.#dense()
    const length = (input.byteLength * 8) / from.bits
    // Checked only now, because the length follows from the slice or the indices.
    const target = optional(into, (value) => validateInto(value, to, length)) ?? ownArray(to, length)
    try {
      await convertIntegers(input, from, target, to, () => this.#store.check(signal))
    } catch (error) {
      // The reason of a signal names another tensor, whose failure stops this one.
      const isOwn = error instanceof ZTensorError && error.code === 'ZT_BAD_DTYPE' && error.tensor === undefined
      if (!isOwn) throw error
      throw this.#error('ZT_BAD_DTYPE', error.message)
    }
    return target
  }

  async #load(
    { slice, shard, into, signal }: LoadOptions,
    as: 'float32' | undefined,
    movable: boolean,
  ): Promise<ArrayBufferView> {
    const quantized = as !== undefined && this.#composite()
    const stored = quantized ? FLOAT32 : this.#dense()
    const dtype = as === undefined ? stored : FLOAT32
    const request: LoadRequest = { widen: as !== undefined }
    const selected = slice === undefined ? undefined : sliceRanges(this.shape, slice, 'slice')
    const part = shard === undefined ? selected : shardRanges(this.shape, shard)
    if (part !== undefined) request.ranges = part.ranges
    const length = part === undefined ? this.size : part.shape.reduce((size, dim) => size * dim, 1)
    const target = movable ? ownArray(dtype, length) : optional(into, (value) => validateInto(value, dtype, length))
    // Only this thread may write into the caller's buffer. If possible, data is read and widened during the copy into it.
    const deferred = target !== undefined && part === undefined && (as !== undefined || this.#plainOffset !== undefined)
    const byteLength = Math.ceil((length * dtype.bits) / 8)
    const isSmall = byteLength <= SMALL && this.#store.memory === undefined && !this.#store.isRemote
    const cached = deferred && !isSmall ? this.#cached(quantized, as !== undefined) : null
    if (cached !== null) return this.#deliver(cached, dtype, target, signal)
    if (isSmall) {
      const waiting = shareTurn(byteLength)
      if (waiting !== undefined) {
        await waiting
        this.#store.check(signal)
        if (target !== undefined) checkTarget(target, byteLength)
      }
      const data = target ?? ownArray(dtype, length)
      if (this.#loadedSmall(quantized, request, data)) {
        toFileOrder(data, dtype)
        // As on another thread: the caller may abort, or close the file, right after this call.
        await undefined
        this.#store.check(signal)
        checkTarget(data, byteLength)
        return data
      }
    }
    if (deferred && (await this.#filled(quantized, as !== undefined, target, signal))) {
      toFileOrder(target, dtype)
      return target
    }
    const stage = await this.#store.stage(this.#ordinal, undefined, signal)
    const { native } = this.#store
    if (deferred) request.deferred = true
    const start = (control: NativeControl) =>
      quantized
        ? native.dequantize(this.#ordinal, request.ranges, deferred, control, stage)
        : native.load(this.#ordinal, this.#dataOrdinal(), request, control, stage)
    // Plain data is read again for each caller: that costs no more than a copy.
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

  /**
   * Loads the elements at a list of indices of one dimension, off the event loop: rows of a table by default, like NumPy's `take`. The
   * result has the tensor's shape, with the number of indices in place of that dimension. Rows that are stored near each other are read
   * with one read or request; of compressed data, only the chunks and frames that contain the rows are decoded, each once. The digest is
   * checked only if all data must be decoded.
   *
   * @example
   * const vectors = await table.take([17, 4, 17]) // 3 rows
   * const floats = await table.take(ids, { as: 'float32' }) // of a quantized or 16-bit table
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE,
   * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG for an index out of bounds, and for
   * packed elements of 4 bits that do not fill whole bytes; the signal's reason
   */
  take<A extends ArrayBufferView>(indices: Indices, options: TakeOptions & { into: A }): Promise<A>
  take(indices: Indices, options: TakeOptions & { as: 'float32' }): Promise<OwnArrays['float32']>
  take<A extends IntegerDType>(indices: Indices, options: TakeOptions & { as: A }): Promise<OwnArrays[A]>
  take(indices: Indices, options?: TakeOptions & { as?: undefined }): Promise<OwnArrayOf<D>>
  take(indices: Indices, options?: TakeOptions): Promise<OwnArrayOf<D> | OwnArrays[LoadDType]>
  async take(indices: Indices, options?: TakeOptions): Promise<ArrayBufferView> {
    const { axis, as, into, transferable, signal } = readOptions(options, [
      'axis',
      'as',
      'into',
      'transferable',
      'signal',
    ])
    const movable = this.#checkLoad({ as, into, transferable, signal })
    const to = this.#integers(as)
    const { calls } = this.#store
    return await calls.during(
      'take',
      calls.begin(this.#ordinal),
      to === undefined
        ? this.#take(indices, { axis, into, signal }, as === 'float32' ? as : undefined, movable)
        : this.#converted(this.#take(indices, { axis, signal }, undefined, false), to, into, signal),
    )
  }

  async #take(
    indices: Indices,
    { axis, into, signal }: TakeOptions,
    as: 'float32' | undefined,
    movable: boolean,
  ): Promise<ArrayBufferView> {
    const quantized = as !== undefined && this.#composite()
    const stored = quantized ? FLOAT32 : this.#dense()
    const dtype = as === undefined ? stored : FLOAT32
    const { shape } = this
    if (shape.length === 0) throw invalid(RangeError, `tensor ${JSON.stringify(this.name)} is a scalar: use load()`)
    const dim = validateIndex('axis', axis ?? 0, shape.length)
    const check = () => this.#store.check(signal)
    const list = await readIndices(indices, shape[dim] as number, check)
    const length = shape.reduce((size, extent, at) => size * (at === dim ? list.length : extent), 1)
    const target = movable ? ownArray(dtype, length) : optional(into, (value) => validateInto(value, dtype, length))
    const component = quantized ? undefined : this.#dataOrdinal()
    const { native } = this.#store
    const taken = [this.#ordinal, component, as !== undefined, dim, list] as const
    const stage = await this.#store.fill(() => native.stageTaken(...taken), signal)
    const memory = await run(this.#store, { signal }, (control) => native.take(...taken, control, stage))
    return this.#deliver(memory, dtype, target, signal)
  }

  /** Checks the options of `load` and `take`. Returns `transferable`. */
  #checkLoad({ as, into, transferable, signal }: LoadOptions): boolean {
    optional(as, (value) => validateOneOf('as', LOAD_DTYPES, value))
    optional(signal, validateAbortSignal)
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    if (movable && into !== undefined) throw invalid(TypeError, 'give either into or transferable, not both')
    signal?.throwIfAborted()
    this.#store.admit()
    return movable
  }

  /** The elements, if they are in the page cache: they are then read during the copy, without another thread. Otherwise null. */
  #cached(quantized: boolean, widened: boolean): NativeMemory | null {
    const { native, path } = this.#store
    return rethrowNative(() => native.atHand(this.#ordinal, quantized ? undefined : this.#dataOrdinal(), widened), path)
  }

  /** Loads small data that is in the page cache on this thread, which takes less time than another thread needs to start. */
  #loadedSmall(quantized: boolean, request: LoadRequest, target: ArrayBufferView): boolean {
    const { native, path } = this.#store
    const component = quantized ? undefined : this.#dataOrdinal()
    const output = new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
    try {
      return native.loadCached(this.#ordinal, component, request, output)
    } catch (thrown) {
      // The read may have found that the file was truncated, which says more.
      this.#store.throwIfClosed()
      throw publicError(thrown, path)
    }
  }

  /** Loads all elements into `target`, if the binding can. */
  async #filled(quantized: boolean, widen: boolean, target: ArrayBufferView, signal?: AbortSignal): Promise<boolean> {
    const native = this.#store.native as FillsMemory
    if (native.loadInto === undefined) return false
    const { byteLength } = target
    const output = () => {
      checkTarget(target, byteLength)
      return new Uint8Array(target.buffer, target.byteOffset, byteLength)
    }
    const component = quantized ? undefined : this.#dataOrdinal()
    const load = native.loadInto.bind(native, this.#ordinal, component, widen, output)
    return run(this.#store, { signal }, load)
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
      toFileOrder(target, dtype)
      return target as TypedArray
    }
    const buffer = await toBuffer(memory, check, sole)
    return array(dtype, buffer, 0, buffer.byteLength)
  }

  /**
   * Returns the elements widened to float32: exactly for 8- and 16-bit types and bool, rounded to nearest (ties to even) for wider
   * integers and float64. `load({ as: 'float32' })` does this off the event loop.
   *
   * A quantized tensor (`zt.quant_group/1`, `zt.mx/1`, `tflite.quantized/1`, and the `gguf.<type>/1` that docs/formats/gguf.md lists) is
   * read from its file and dequantized on all cores. Its digests are checked.
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
    this.#store.admit()
    const target = optional(into, (value) => validateInto(value, FLOAT32, this.size) as Float32Array)
    const stage = this.#store.stageSync(this.#ordinal)
    const memory = rethrowNative(
      () => this.#store.native.dequantizeSync(this.#ordinal, target !== undefined, stage),
      this.#store.path,
    )
    if (target === undefined) return array(FLOAT32, toBufferSync(memory), 0, this.size * 4) as Float32Array
    copyIntoSync(memory, target)
    toFileOrder(target, FLOAT32)
    return target
  }

  /**
   * Returns the elements of a float16 tensor as a Float16Array over the same memory, if the runtime has Float16Array.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for other types and without Float16Array, ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
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
   * Returns a slice of a dense tensor: `[start, stop]`, `[start, stop, step]`, `[index]` or null for each dimension. Missing dimensions
   * are whole. A contiguous slice (whole rows) is a view of the tensor's memory; any other slice is packed into a copy. If `data` would
   * be a copy that does not exist yet, only the bytes, frames or chunks of the slice are read and decoded.
   *
   * @example
   * tensor.slice([[0, 128], null]) // the first 128 rows: no copy
   * tensor.slice([[-1]]) // the last row, as one dimension less
   * tensor.slice([null, [0, null, 2]]) // every other column
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG
   */
  slice(ranges: readonly Range[]): TensorSlice<D & DType> {
    this.#dense()
    return this.#slice(sliceRanges(this.shape, ranges))
  }

  /**
   * Returns one element of a dense tensor. Takes one index for each dimension; negative indices count from the end. If `data` would be
   * a copy that does not exist yet, only this element is read, or the frame or chunk that contains it. For many elements, `data` and
   * `toFloat32()` are faster.
   *
   * @example tensor.at(0, -1) // the last element of the first row
   *
   * @throws TypeError and RangeError ZT_INVALID_ARG for a wrong number of indices, or an index out of bounds; ZTensorError ZT_CLOSED,
   * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  at(...indices: number[]): ElementOf<D & DType> {
    this.#store.admit()
    const dtype = this.#dense()
    if (indices.length !== this.shape.length) {
      const rank = this.shape.length
      const several = rank === 1 ? '1 index' : `${rank} indices, one for each dimension`
      const wanted = rank === 0 ? 'none for a scalar' : several
      throw invalid(RangeError, `indices: expected ${wanted}, got ${indices.length}`)
    }
    const index = this.shape.map((size, dim) => validateIndex(`indices[${dim}]`, indices[dim], size))
    this.#store.admit()
    return this.#named(() => this.#elementAt(dtype, index)) as ElementOf<D & DType>
  }

  #elementAt(dtype: DTypeInfo, index: readonly number[]): ElementOf {
    const flat = index.reduce((before, at, dim) => before * (this.shape[dim] as number) + at, 0)
    const whole = this.#held(dtype)
    if (whole !== undefined) return valueAt(dtype, whole.data, flat)
    if (dtype.bits >= 8) {
      const ranges = index.flatMap((at) => [at, at + 1, 1])
      return valueAt(dtype, this.#slice({ ranges, shape: [] }).data, 0)
    }
    // A slice cannot start inside a byte. Two elements of 4 bits share one; valueAt() throws for 6 bits.
    const offset = this.#plainOffset
    if (offset === undefined || dtype.bits !== 4) return valueAt(dtype, this.data, flat)
    return valueAt(dtype, this.#store.view(dtype, this.#file, offset + Math.floor(flat / 2), 1).data, flat % 2)
  }

  /**
   * Returns the elements of a dense tensor in nested arrays, like NumPy's `tolist()`: bigint for int64 and uint64, boolean for bool,
   * `[real, imaginary]` for complex, otherwise number.
   *
   * @example tensor.toArray() // [[1, 2], [3, 4]]
   *
   * @throws ZTensorError ZT_LIMIT for more than `maxElements` (1,048,576 by default), ZT_CLOSED, ZT_BAD_LAYOUT unless dense,
   * ZT_BAD_DTYPE for 6-bit and unknown types, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
   * RangeError ZT_INVALID_ARG
   */
  toArray(options?: { readonly maxElements?: number | undefined }): Nested<ElementOf<D & DType>> {
    this.#store.admit()
    const { maxElements } = readOptions(options, ['maxElements'])
    const max = optional(maxElements, (value) => validateInteger('maxElements', value)) ?? MAX_ELEMENTS
    const dtype = this.#dense()
    checkCount(this.name, this.size, this.shape, max)
    return this.#named(() => nested(dtype, this.shape, this.data)) as Nested<ElementOf<D & DType>>
  }

  /**
   * Returns the bytes of a dense tensor as a Readable, the elements that `load()` returns, little-endian. They are read on demand in chunks, off the event loop.
   * Compressed data without frames is decoded in order, and its digest is checked at the end. The digest of raw data is not checked.
   *
   * @example await pipeline(tensor.createReadStream(), response)
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type; TypeError and RangeError
   * ZT_INVALID_ARG. The stream is destroyed with ZT_CLOSED if the file is closed, with the signal's reason, or with
   * ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  createReadStream(options?: ReadStreamOptions): Readable {
    const { highWaterMark, signal } = readOptions(options, ['highWaterMark', 'signal'])
    const piece = optional(highWaterMark, (value) => validateInteger('highWaterMark', value, 1)) ?? PIECE
    optional(signal, validateAbortSignal)
    this.#store.admit()
    this.#dense()
    const { calls } = this.#store
    const trace = calls.begin(this.#ordinal)
    return readStream(this.#chunks(piece, undefined, signal), piece, signal, calls, trace)
  }

  /** The bytes that `load()` returns, little-endian, in chunks of at most `piece` bytes. */
  #chunks(piece: number, as: LoadDType | undefined, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    const quantized = as === 'float32' && this.#composite()
    const stored = quantized ? FLOAT32 : this.#dense()
    const bits = Math.max(stored.bits, as === undefined ? 0 : (dtypeInfo(as) as DTypeInfo).bits)
    const divides = quantized || (stored.bits >= 8 && (this.#plainOffset !== undefined || this.#decodesByRange()))
    const load = (slice: readonly Range[] | undefined) =>
      asPart(() => this.load({ slice, as, signal })) as Promise<TypedArray>
    if (divides || as !== undefined || this.#plainOffset !== undefined || this.byteLength <= DECODED_WHOLE) {
      const parts = divides ? boxes(this.shape, Math.max(1, Math.floor((piece * 8) / bits))) : [undefined]
      return loaded(parts, piece, load)
    }
    const ref = { store: this.#store, ordinal: this.#ordinal, component: this.#dataOrdinal() }
    return decoded(ref, piece, signal)
  }

  /**
   * Loads the elements in pieces of at most 8 MiB and passes each to `write`, in order: into a GPU buffer, a socket, memory of another
   * library. Only a piece is in memory, so a tensor may be larger than an array. The bytes are little-endian, `offset` is their position in
   * the result, and the next piece is read when `write` has returned or its promise has resolved. The digest of raw data is not checked;
   * `verify()` does so.
   *
   * @example
   * await tensor.loadTo((bytes, offset) => device.queue.writeBuffer(buffer, offset, bytes))
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT, ZT_BAD_DTYPE, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
   * ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's reason; what `write` throws
   */
  async loadTo(
    write: (bytes: Uint8Array, offset: number) => void | PromiseLike<void>,
    options?: LoadToOptions,
  ): Promise<void> {
    validateFunction('write', write)
    const { as, signal } = readOptions(options, ['as', 'signal'])
    this.#checkLoad({ as, signal })
    this.#integers(as)
    const { calls } = this.#store
    const trace = calls.begin(this.#ordinal)
    const work = async () => {
      let offset = 0
      for await (const bytes of this.#chunks(WRITTEN, as, signal)) {
        await write(bytes, offset)
        this.#store.check(signal)
        offset += bytes.byteLength
        if (trace !== undefined) trace.bytes = offset
      }
    }
    await calls.during('load', trace, work())
  }

  /**
   * Returns the elements of a dense tensor as a Blob: a part of the File or Blob that the file was opened from, which is not read. Libraries
   * take it for data that they load by themselves, such as external data of onnxruntime-web. Undefined if the file was opened from anything
   * else, or if the elements are not stored as in memory.
   *
   * @example const blob = file.tensor('wte').blob()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type
   */
  blob(): Blob | undefined {
    this.#store.admit()
    this.#dense()
    const offset = this.#plainOffset
    return offset === undefined ? undefined : this.#store.blob?.(this.#file, offset, this.byteLength)
  }

  /**
   * Returns one rank's share of a dimension that is divided evenly.
   *
   * @example tensor.shard({ dim: 0, rank: 1, worldSize: 4 }) // the second quarter of the rows
   *
   * @throws RangeError ZT_INVALID_ARG if the dimension does not divide evenly, TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED,
   * ZT_BAD_LAYOUT unless dense, ZT_BAD_DTYPE for an unknown type, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  shard(spec: Shard): TensorSlice<D & DType> {
    this.#dense()
    return this.#slice(shardRanges(this.shape, spec))
  }

  /** Whether parts of the data can be decoded independently. */
  #decodesByRange(): boolean {
    const data = this.#plainOffset === undefined ? this.#dataComponent() : undefined
    return data !== undefined && Component.isFramed(data) && !Component.isDecoded(data)
  }

  #slice({ ranges, shape }: Selected): TensorSlice<D & DType> {
    this.#store.admit()
    const dtype = this.#dense()
    const plan = rethrowNative(() => binding.planSlice([...this.shape], ranges, dtype.bits))
    return TensorSlice.make(this.dtype as D & DType, shape, this.#sliceView(dtype, plan, ranges))
  }

  #sliceView(dtype: DTypeInfo, plan: { start: number; byteLength: number }, ranges: number[]): View {
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
    const buffer = bytes === undefined ? this.#readSlice(ranges) : this.#packed(dtype, plan.byteLength, ranges, bytes)
    const reason = plan.start >= 0 ? this.#dataComponent().copyReason : 'packed'
    return { data: array(dtype, buffer, 0, buffer.byteLength), copyReason: reason }
  }

  /** All elements, if they are in memory, can be aliased, or are decoded as a whole. Undefined if a slice should read only its part. */
  #held(dtype: DTypeInfo): View | undefined {
    if (this.#data !== undefined) return this.#viewed()
    const offset = this.#plainOffset
    if (offset === undefined) {
      const data = this.#dataComponent()
      if (Component.isDecoded(data)) return this.#viewed()
      if (Component.isSliceable(data)) return undefined
      // The first slices of large data keep only their own elements. A loop of slices decodes all of it once, rather than each time.
      if (this.byteLength <= KEPT) return this.#viewed()
      this.#lazy ??= {}
      this.#lazy.slices = (this.#lazy.slices ?? 0) + 1
      return this.#lazy.slices > SLICES ? this.#viewed() : undefined
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
      // A tensor that is too large for one array can still be sliced.
      if (error instanceof ZTensorError && error.code === 'ZT_LIMIT') return undefined
      throw error
    }
  }

  /** The bytes of all elements, if they are in memory; otherwise undefined. */
  #heldBytes(whole: View | undefined): Uint8Array | undefined {
    if (whole !== undefined) return bytesOf(whole.data)
    const offset = this.#plainOffset
    return offset === undefined ? undefined : this.#store.bytesInMemory(this.#file, offset, this.byteLength)
  }

  /** Packs a slice of the bytes of all elements. */
  #packed(dtype: DTypeInfo, byteLength: number, ranges: number[], bytes: Uint8Array): ArrayBuffer {
    const shape = [...this.shape]
    return filled(byteLength, (output) => binding.packSlice(shape, ranges, dtype.bits, bytes, output))
  }

  /** Reads and decodes only the elements of a slice. */
  #readSlice(ranges: number[]): ArrayBuffer {
    const stage = this.#store.stageSync(this.#ordinal)
    const slice = () => this.#store.native.slice(this.#ordinal, this.#dataOrdinal(), ranges, stage)
    return toBufferSync(rethrowNative(slice, this.#store.path))
  }

  /**
   * Returns a sparse matrix in CSR form. Its arrays alias the file if possible, and are validated.
   *
   * @example
   * const { indptr, indices, values } = tensor.csr()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE if
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
   * Returns a sparse tensor in COO form. Its arrays alias the file if possible, and are validated.
   *
   * @example
   * const { coords, values, nnz } = tensor.coo()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE if
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
    this.#store.admit()
    this.#sparse(layout)
    return roles.map((role) => (this.components.get(role) as Component).data)
  }

  /** Whether the format requires sorted or unique indices. */
  #strict(role: string): boolean {
    return Component.isStrict(this.components.get(role) as Component)
  }

  #sparse(layout: Layout): void {
    if (this.layout !== layout) {
      const calls: Record<string, string> = { dense: 'data or load()', sparse_csr: 'csr()', sparse_coo: 'coo()' }
      const instead = calls[this.layout] ?? 'components'
      throw this.#error('ZT_BAD_LAYOUT', `the layout is ${this.layout}, not ${layout}: use ${instead}`)
    }
    if (this.#dtype === undefined)
      throw this.#error('ZT_BAD_DTYPE', 'the type of the values is unknown: use components')
  }

  /** Adds the tensor's name to errors of the kernels, which do not know it. */
  #named<T>(make: () => T): T {
    try {
      return make()
    } catch (error) {
      if (!(error instanceof ZTensorError)) throw error
      const { code, component, rule, hints, message } = error
      throw new ZTensorError(code, `tensor ${JSON.stringify(this.name)}: ${message}`, {
        tensor: this.name,
        component,
        rule,
        hints,
      })
    }
  }

  /**
   * Loads a sparse matrix in CSR form, off the event loop. Checks the digests and resolves with copies that you own.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
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
   * Loads a sparse tensor in COO form, off the event loop. Checks the digests and resolves with copies that you own.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_BAD_LAYOUT for any other layout, ZT_BAD_DTYPE for values of an unknown type, ZT_BAD_SPARSE,
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
    this.#store.admit()
    this.#sparse(layout)
    const { calls } = this.#store
    return await calls.during('load', calls.begin(this.#ordinal), this.#loadArrays(layout, roles, movable, signal))
  }

  async #loadArrays(
    layout: Layout,
    roles: string[],
    movable: boolean,
    signal: AbortSignal | undefined,
  ): Promise<TypedArray[]> {
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
   * Checks this tensor's digests, decoded lengths and data rules. Resolves with all failures.
   *
   * @example if (!(await tensor.verify()).ok) throw new Error('damaged')
   *
   * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
   */
  async verify(options?: JobOptions): Promise<VerifyResult> {
    this.#store.admit()
    const all = rethrowNative(() => this.#store.native.warnings())
    const warnings = all.filter(({ tensor }) => tensor === this.name).map((warning) => Object.freeze(warning))
    const { calls } = this.#store
    const trace = calls.begin(this.#ordinal, true)
    const verifying = verifyTensors(this.#store, Uint32Array.of(this.#ordinal), options, false)
    return { ...(await calls.during('verify', trace, verifying)), warnings }
  }

  /**
   * Computes counts, minimum, maximum, mean, standard deviation and optionally a histogram, on all cores, off the event loop: of the
   * elements of a dense tensor, the stored values of a sparse tensor, or the float32 values of a quantized one. Sums are accumulated in
   * float64, and the result does not depend on the number of cores. The digest is checked only if the data must be decoded.
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

  /**
   * Finds the `k` rows of a table (two dimensions) that are nearest to `query`, by an exact search on all cores, off the event loop: the
   * nearest first, and of equally near ones the first. The table may be of any dtype, compressed, quantized or sparse; elements are rounded
   * to float32, and each is read once. Rows whose score is NaN are left out. The result does not depend on the number of cores. The digest
   * is checked only if the data must be decoded.
   *
   * @param query as many finite numbers as the table has columns
   *
   * @example const [{ row, score }] = await table.nearest(query, { k: 10, metric: 'cosine' })
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_BAD_LAYOUT for layouts without numbers, ZT_CLOSED, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and RangeError ZT_INVALID_ARG; the signal's
   * reason
   */
  nearest(query: ArrayLike<number>, options?: NearestOptions): Promise<Neighbor[]> {
    return nearest({ store: this.#store, ordinal: this.#ordinal }, this.shape, query, options)
  }

  get [Symbol.toStringTag](): string {
    return 'Tensor'
  }

  /** Reads no data. */
  toJSON(): object {
    const { name, dtype, shape, layout, byteLength } = this
    return { name, dtype, shape, layout, byteLength }
  }

  /** Reads no data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { name, dtype, shape, size, byteLength, layout } = this
    return shown('Tensor', { name, dtype, shape, size, byteLength, layout }, options)
  }
}

/** A tensor of any dtype, known or unknown. Checking `dtype` narrows the type of `data`. */
export type AnyTensor = { [D in DType]: Tensor<D> }[DType] | Tensor<undefined>
