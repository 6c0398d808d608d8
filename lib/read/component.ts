import { type InspectOptions, inspect } from 'node:util'
import { rethrowNative } from '../native/errors.js'
import { run } from '../native/job.js'
import { allocate, copyInto, toBuffer, toBufferSync } from '../native/memory.js'
import type { ComponentInfo, NativeControl } from '../native/native.js'
import { optional, readOptions, validateAbortSignal, validateBoolean } from '../values/arguments.js'
import { type DType, type DTypeInfo, dtypes, type TypedArray, uint8 } from '../values/dtype.js'
import { IDENTITY, shown } from '../values/inspect.js'
import { array, type CopyReason, type Place, type Store, type View } from './store.js'

/** One stored part of a tensor, such as the `data` of a dense one or the `indices` of a sparse one. */
export class Component {
  readonly role: string
  /** Undefined where only the layout knows what the bytes are, or the type is not known here. */
  readonly dtype: DType | undefined
  /** Bytes after decoding; undefined where only decoding can tell. */
  readonly byteLength: number | undefined
  /** Bytes in the file. */
  readonly storedLength: number
  /** The file that holds it; undefined for a file in memory. */
  readonly path: string | undefined
  /** Where they stand in the file; undefined for elements that stand in the index. */
  readonly offset: number | undefined
  /** `raw`, `zstd`, `inline`, or the file's own label. */
  readonly encoding: string
  /**
   * As it stands in the file: `crc32c:…` or `sha256:…` over the stored bytes, in zTensor 2 `xxh3:…` or `sha256:…` over the decoded ones.
   * In a zip archive `crc32:…`, over all of the member decoded: of an npz, the array's header too.
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
  static place(component: Component): Place {
    return { store: component.#store, ordinal: component.#tensor, component: component.#ordinal }
  }

  /** @internal Whether the format has its indices rise or be unique. */
  static isStrict(component: Component): boolean {
    return component.#info.strict
  }

  /** @internal Whether it holds elements of its tensor, and does not merely stand beside those that do. */
  static isOwn(component: Component): boolean {
    return component.#info.own
  }

  /** @internal Whether a slice of the tensor reads and decodes only what it touches. */
  static isSliceable(component: Component): boolean {
    return component.#info.sliceable
  }

  /** @internal Whether its data was asked for before. */
  static isDecoded(component: Component): boolean {
    return component.#view !== undefined
  }

  /**
   * The elements, over the mapping where they are stored as they are in memory, otherwise decoded on this
   * thread. The same array at each access. Bytes where the dtype is undefined.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_DECODE, ZT_DIGEST_MISMATCH (of data that has to be decoded),
   * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED
   */
  get data(): TypedArray {
    return this.#viewed().data
  }

  /** Whether `data` aliases the file. */
  get mapped(): boolean {
    return this.copyReason === undefined
  }

  /** Why `data` is a copy; undefined where it aliases the file. */
  get copyReason(): CopyReason | undefined {
    this.#store.throwIfClosed()
    const { file, plainOffset, byteLength } = this.#info
    if (plainOffset === undefined) {
      const { native, isRemote } = this.#store
      const isElsewhere =
        isRemote && byteLength !== 0 && !rethrowNative(() => native.isNear(this.#tensor, this.#ordinal))
      return isElsewhere ? 'remote' : this.#info.copyReason
    }
    return this.#store.copyReason(this.#dtype, file, plainOffset, byteLength ?? 0) ?? this.#viewed().copyReason
  }

  #viewed(): View {
    this.#store.throwIfClosed()
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
   * The elements as a copy that you own, decoded, after the digest was checked, off the event loop.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO,
   * ZT_TRUNCATED; the signal's reason
   */
  async load(options?: {
    /** Whether the array can be moved to another thread, as for `Tensor.load`. */
    transferable?: boolean | undefined
    signal?: AbortSignal | undefined
  }): Promise<TypedArray> {
    const { transferable, signal } = readOptions(options, ['transferable', 'signal'])
    optional(signal, validateAbortSignal)
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    signal?.throwIfAborted()
    this.#store.throwIfClosed()
    const stage = await this.#store.stage(this.#tensor, this.#ordinal, signal)
    const start = (control: NativeControl) =>
      this.#store.native.load(this.#tensor, this.#ordinal, { widen: false }, control, stage)
    // What is stored as it is in memory is read anew for each: that costs no more than a copy would.
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

  /** Never touches data. */
  toJSON(): object {
    const { role, dtype, byteLength, storedLength, offset, encoding, digest } = this
    return { role, dtype, byteLength, storedLength, offset, encoding, digest }
  }

  /** Never touches data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('Component', { ...this.toJSON(), path: this.path }, options)
  }
}
