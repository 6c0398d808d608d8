import { type InspectOptions, inspect } from '#host'
import { rethrowNative } from '../native/errors.js'
import { run } from '../native/job.js'
import { allocate, copyInto, toBuffer, toBufferSync } from '../native/memory.js'
import type { ComponentInfo, NativeControl } from '../native/native.js'
import { optional, readOptions, validateAbortSignal, validateBoolean } from '../values/arguments.js'
import { type DType, type DTypeInfo, dtypes, type TypedArray, uint8 } from '../values/dtype.js'
import { IDENTITY, shown } from '../values/inspect.js'
import { array, type CopyReason, type Store, type TensorRef, type View } from './store.js'

/** One stored array of a tensor, such as the `data` of a dense tensor or the `indices` of a sparse one. */
export class Component {
  readonly role: string
  /** The element type; undefined if it is unknown, or if only the layout defines the meaning of the bytes. */
  readonly dtype: DType | undefined
  /** Size in bytes after decoding; undefined if it is not known before decoding. */
  readonly byteLength: number | undefined
  /** Size in the file, in bytes. */
  readonly storedLength: number
  /** The path of the file that holds it; undefined for a file in memory. */
  readonly path: string | undefined
  /** Offset of the bytes in the file; undefined for elements that are stored in the index. */
  readonly offset: number | undefined
  /** `raw`, `zstd`, `inline`, or the file's own label. */
  readonly encoding: string
  /**
   * The digest in the file: `crc32c:…` or `sha256:…` of the stored bytes, in zTensor 2 `xxh3:…` or `sha256:…` of the decoded bytes.
   * In a zip archive it is `crc32:…` of the decoded member, which in an npz includes the array's header.
   */
  readonly digest: string | undefined
  /** @internal The file and the tensor. */
  readonly [IDENTITY]: string
  readonly #store: Store
  readonly #tensor: number
  readonly #ordinal: number
  readonly #info: ComponentInfo
  readonly #dtype: DTypeInfo
  #view: View | undefined

  private constructor(store: Store, tensor: number, ordinal: number, info: ComponentInfo) {
    const dtype = info.dtype === undefined ? undefined : dtypes[info.dtype]
    this.role = info.role
    this.dtype = dtype?.name
    this.byteLength = info.byteLength
    this.storedLength = info.storedLength
    this.offset = info.offset
    this.encoding = info.encoding
    this.digest = info.digest
    this.path = store.files[info.file]?.path
    this[IDENTITY] = `${store.number}/${tensor}`
    this.#store = store
    this.#tensor = tensor
    this.#ordinal = ordinal
    this.#info = info
    this.#dtype = dtype ?? uint8
  }

  /** @internal */
  static make(store: Store, tensor: number, ordinal: number, info: ComponentInfo): Component {
    return new Component(store, tensor, ordinal, info)
  }

  /** @internal */
  static is(value: unknown): value is Component {
    return typeof value === 'object' && value !== null && #store in value
  }

  /** @internal */
  static ref(component: Component): TensorRef {
    return { store: component.#store, ordinal: component.#tensor, component: component.#ordinal }
  }

  /** @internal Whether the format requires sorted or unique indices. */
  static isStrict(component: Component): boolean {
    return component.#info.strict
  }

  /** @internal Whether the layout defines this component, as opposed to an additional one. */
  static isOwn(component: Component): boolean {
    return component.#info.own
  }

  /** @internal Whether a slice of the tensor reads and decodes only what it touches. */
  static isSliceable(component: Component): boolean {
    return component.#info.sliceable
  }

  /** @internal Whether it consists of frames that can be decoded independently. */
  static isFramed(component: Component): boolean {
    return component.#info.framed
  }

  /** @internal Whether `data` was read before. */
  static isDecoded(component: Component): boolean {
    return component.#view !== undefined
  }

  /**
   * The elements: a view of the mapping if they are stored as in memory, otherwise a copy that is decoded on this
   * thread. Each access returns the same array. It holds bytes if the dtype is undefined.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_DECODE, ZT_DIGEST_MISMATCH (if the data must be decoded),
   * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  get data(): TypedArray {
    return this.#viewed().data
  }

  /** Whether `data` aliases the file. */
  get mapped(): boolean {
    return this.copyReason === undefined
  }

  /** Why `data` is a copy; undefined if it aliases the file. */
  get copyReason(): CopyReason | undefined {
    this.#store.throwIfClosed()
    const { file, plainOffset, byteLength } = this.#info
    if (plainOffset === undefined) {
      const { native, isRemote } = this.#store
      const isUncached =
        isRemote && byteLength !== 0 && !rethrowNative(() => native.isNear(this.#tensor, this.#ordinal))
      return isUncached ? 'remote' : this.#info.copyReason
    }
    return this.#store.copyReason(this.#dtype, file, plainOffset, byteLength ?? 0) ?? this.#viewed().copyReason
  }

  #viewed(): View {
    this.#store.admit()
    this.#view ??= this.#make()
    return this.#view
  }

  #make(): View {
    const { file, plainOffset, byteLength, copyReason } = this.#info
    if (plainOffset !== undefined) return this.#store.view(this.#dtype, file, plainOffset, byteLength ?? 0)
    const stage = this.#info.offset === undefined ? undefined : this.#store.stageSync(this.#tensor, this.#ordinal)
    const memory = rethrowNative(() => this.#store.native.decode(this.#tensor, this.#ordinal, stage), this.#store.path)
    return { data: this.#array(toBufferSync(memory)), copyReason }
  }

  #array(buffer: ArrayBuffer): TypedArray {
    return array(this.#dtype, buffer, 0, buffer.byteLength)
  }

  /**
   * Loads the elements off the event loop: decodes them, checks the digest, and returns a copy that you own.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
   * ZT_TRUNCATED; the signal's reason
   */
  async load(options?: {
    /** Whether the array can be transferred to another thread, as for `Tensor.load`. */
    transferable?: boolean | undefined
    signal?: AbortSignal | undefined
  }): Promise<TypedArray> {
    const { transferable, signal } = readOptions(options, ['transferable', 'signal'])
    optional(signal, validateAbortSignal)
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    signal?.throwIfAborted()
    const { calls } = this.#store
    return await calls.during('load', calls.begin(this.#tensor), this.#load(movable, signal))
  }

  async #load(movable: boolean, signal: AbortSignal | undefined): Promise<TypedArray> {
    const stage = await this.#store.stage(this.#tensor, this.#ordinal, signal)
    const start = (control: NativeControl) =>
      this.#store.native.load(this.#tensor, this.#ordinal, { widen: false }, control, stage)
    // Plain data is read again for each caller: that costs no more than a copy.
    const { value: memory, sole } =
      this.#info.plainOffset === undefined
        ? await this.#store.shared.join(`${this.#tensor}/${this.#ordinal}`, this.#store, signal, start)
        : { value: await run(this.#store, { signal }, start), sole: true }
    const check = () => this.#store.check(signal)
    if (!movable) return this.#array(await toBuffer(memory, check, sole))
    const target = this.#array(allocate(memory.byteLength))
    await copyInto(memory, target, check, sole)
    return target
  }

  get [Symbol.toStringTag](): string {
    return 'Component'
  }

  /** Reads no data. */
  toJSON(): object {
    const { role, dtype, byteLength, storedLength, offset, encoding, digest } = this
    return { role, dtype, byteLength, storedLength, offset, encoding, digest }
  }

  /** Reads no data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('Component', { ...this.toJSON(), path: this.path }, options)
  }
}
