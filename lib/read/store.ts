import { rethrowNative, tooLarge, ZTensorError } from '../native/errors.js'
import { type Losable, losses, mappingLost, unwatch, watch } from '../native/lost-mapping.js'
import { allocate, pieces, sourceGone, stage, stageSync } from '../native/memory.js'
import {
  MAX_BUFFER,
  made,
  type NativeFile,
  type NativeStage,
  type NativeStageBuilder,
  type OpenRequest,
} from '../native/native.js'
import { SharedWork } from '../native/shared-work.js'
import type { DTypeInfo, TypedArray } from '../values/dtype.js'

/** Why data is a copy instead of an alias of the file. */
export type CopyReason =
  /** It is stored compressed. */
  | 'encoded'
  /** It stands at an offset that its element type does not allow. */
  | 'misaligned'
  /** The runtime forbids arrays over foreign memory (Electron), or ones of this size. */
  | 'runtime'
  /** The system refused to map the file. */
  | 'map-failed'
  /** The file is read, not mapped: as `open(…, { io: 'read' })` asks, or because it lies on a network file system. */
  | 'io'
  /** It is stored in the byte order that this machine does not have. */
  | 'byte-order'
  /** It is stored in another order of elements. */
  | 'reordered'
  /** It stands in the file's index. */
  | 'inline'
  /** It is a slice that is not one run of memory. */
  | 'packed'
  /** The data is not on this machine: `load()` fetches it, and `prefetch()` keeps it where the file was opened with a cache. */
  | 'remote'

/** One of the files that hold the tensors. */
export interface FilePart {
  /** Undefined for a file in memory, and for one that was not looked for. */
  readonly path: string | undefined
  /** What the shard table of a zTensor 2 file calls it. */
  readonly name?: string
  readonly byteLength: number
}

/** Data, and whether it aliases the file. */
export interface View<A extends TypedArray = TypedArray> {
  readonly data: A
  readonly copyReason: CopyReason | undefined
}

/** Where a tensor, or one component of it, is to be found. */
export interface Place {
  readonly store: Store
  readonly ordinal: number
  readonly component?: number | undefined
}

// Making an ArrayBuffer costs 1.3 µs, a view on one 0.3: in a file of many tensors the small ones share.
const MANY_TENSORS = 4096
const SMALL = 64 * 2 ** 10
const WINDOW = 2 ** 20
/** Up to here a refusal speaks of all aliases, not of this one's size. */
const LARGE = 2 ** 32

/** Where a file came from. */
export interface Origin {
  /** The options that it was opened with. */
  readonly request?: OpenRequest | undefined
  readonly path?: string
  readonly memory?: Uint8Array
  /** Memory over the mapping of each file that other threads have too. */
  readonly common?: readonly SharedArrayBuffer[] | undefined
  readonly onMappingLost?: ((error: ZTensorError) => void) | undefined
}

let stores = 0

/** The stores of buffers in use, so that a listener to losses lives as long as there is something to lose. */
const listening = new WeakMap<ArrayBufferLike, Store>()

/** An open file's bytes: aliases and copies of them, and their common end. */
export class Store implements Losable {
  /** Cancels of work under way. */
  readonly jobs = new Set<() => void>()
  /** Decoding under way. */
  readonly shared = new SharedWork()
  readonly native: NativeFile
  /** By which it is told from the other stores of the process. */
  readonly number: number = stores++
  readonly path: string | undefined
  readonly request: OpenRequest | undefined
  /** The caller's memory, where the file is not one on disk. */
  readonly memory: Uint8Array | undefined
  /** What other threads have of each file, too; it outlives this store. */
  readonly #common: readonly SharedArrayBuffer[] | undefined
  readonly #length: number
  readonly #windowed: boolean
  /** Of each file, by their numbers. */
  readonly #windows: Map<number, ArrayBuffer | CopyReason>[] = []
  /** The window asked for last: tensors are mostly asked for in the order in which they stand. */
  #last: { file: number; start: number; window: ArrayBuffer | CopyReason } | undefined
  #aliases: ArrayBuffer[] = []
  /** Whether the runtime refuses aliases. */
  #refused = false
  /** The files that are not mapped, and why. */
  readonly #unmapped = new Map<number, 'map-failed' | 'io'>()
  /** Whether the bytes are elsewhere, so that nothing here can wait for them. */
  readonly isRemote: boolean
  #files: readonly FilePart[] | undefined
  #closed = false
  readonly onMappingLost: ((error: ZTensorError) => void) | undefined
  #watched: WeakRef<Losable> | undefined
  /** Losses in the process when this file was last known to be whole. */
  #losses = losses()
  /** The path of the file that was lost. */
  #lost: string | undefined
  /** Whether a call failed of the loss, which tells the caller. */
  #told = false

  constructor(native: NativeFile, origin: Origin) {
    this.native = native
    this.onMappingLost = origin.onMappingLost
    this.path = origin.path
    this.request = origin.request
    this.memory = origin.memory
    this.#common = origin.common
    this.#length = native.byteLength
    this.isRemote = native.isRemote
    // A window of a far file may hold what was not kept.
    this.#windowed = native.size > MANY_TENSORS && !native.isRemote
  }

  get closed(): boolean {
    return this.#closed
  }

  /** ZT_CLOSED of a closed file, ZT_MAPPING_LOST of one that was truncated while it was mapped. */
  throwIfClosed(): void {
    if (this.#closed) {
      throw new ZTensorError('ZT_CLOSED', `${this.#name} is closed, and its tensors and views with it; open it again`)
    }
    if (this.#lost === undefined && losses() === this.#losses) return
    const loss = this.#loss()
    if (loss === undefined) return
    this.#told = true
    throw loss
  }

  get #name(): string {
    return this.path === undefined ? 'the file' : `'${this.path}'`
  }

  #loss(): ZTensorError | undefined {
    this.#losses = losses()
    this.#lost ??= this.native.lostFile() ?? undefined
    return this.#lost === undefined ? undefined : mappingLost(`'${this.#lost}'`)
  }

  takeLoss(): ZTensorError | undefined {
    const loss = this.#closed ? undefined : this.#loss()
    return this.#told && this.onMappingLost === undefined ? undefined : loss
  }

  /** Views become empty, work under way ends, the mapping goes. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    for (const cancel of this.jobs) cancel()
    const aliases = this.#aliases
    this.#aliases = []
    this.#windows.length = 0
    this.#last = undefined
    if (this.#watched !== undefined) unwatch(this.#watched)
    rethrowNative(() => this.native.close(aliases), this.path)
  }

  /** An array over `byteLength` bytes at `offset` of a file: an alias where that is possible, else a copy. */
  view(dtype: DTypeInfo, file: number, offset: number, byteLength: number): View {
    const alias = this.alias(dtype, file, offset, byteLength)
    if (typeof alias === 'string') return this.#copy(dtype, file, offset, byteLength, alias)
    return { data: alias, copyReason: undefined }
  }

  /** The same where it is an alias; why there is none otherwise. */
  alias(dtype: DTypeInfo, file: number, offset: number, byteLength: number): TypedArray | CopyReason {
    this.throwIfClosed()
    if (byteLength === 0) return array(dtype, new ArrayBuffer(0), 0, 0)
    const bytes = this.bytesInMemory(file, offset, byteLength)
    if (bytes !== undefined) {
      const { buffer, byteOffset } = bytes
      return byteOffset % dtype.array.BYTES_PER_ELEMENT === 0
        ? array(dtype, buffer, byteOffset, byteLength)
        : 'misaligned'
    }
    if (this.memory !== undefined) {
      const message =
        'its data is in a shard, and a file in memory has no folder to look in: open the index by its path'
      throw new ZTensorError('ZT_IO', message)
    }
    if (offset % dtype.array.BYTES_PER_ELEMENT !== 0) return 'misaligned'
    const common = this.#common?.[file]
    if (common !== undefined) {
      this.#listen(common)
      return array(dtype, common, offset, byteLength)
    }
    if (this.#windowed && byteLength <= SMALL) {
      const start = offset - (offset % WINDOW)
      const window = this.#window(file, start)
      return typeof window === 'string' ? window : array(dtype, window, offset - start, byteLength)
    }
    const alias = this.#alias(file, offset, byteLength)
    return typeof alias === 'string' ? alias : array(dtype, alias, 0, byteLength)
  }

  /** Bytes of the caller's memory, once it is sure to be there still; undefined where the file is not that. */
  bytesInMemory(file: number, offset: number, byteLength: number): Uint8Array | undefined {
    if (this.memory === undefined || file !== 0) return undefined
    if (this.memory.byteLength < this.#length) throw sourceGone()
    return this.memory.subarray(offset, offset + byteLength)
  }

  #window(file: number, start: number): ArrayBuffer | CopyReason {
    if (this.#last?.start === start && this.#last.file === file) return this.#last.window
    this.#windows[file] ??= new Map()
    const windows = this.#windows[file]
    let window = windows.get(start)
    if (window === undefined) {
      const { byteLength } = this.files[file] as FilePart
      window = this.#alias(file, start, Math.min(WINDOW + SMALL, byteLength - start))
      windows.set(start, window)
    }
    this.#last = { file, start, window }
    return window
  }

  /** The files, by their numbers. */
  get files(): readonly FilePart[] {
    this.throwIfClosed()
    this.#files ??= Object.freeze(this.#listFiles().map((file) => Object.freeze(file)))
    return this.#files
  }

  #listFiles(): FilePart[] {
    if (this.memory !== undefined) return [{ path: undefined, byteLength: this.#length }]
    return rethrowNative(() => this.native.files()).map(({ path, name, byteLength }) => ({
      path,
      ...(name === undefined ? {} : { name }),
      byteLength,
    }))
  }

  #alias(file: number, offset: number, byteLength: number): ArrayBuffer | CopyReason {
    const refusal = this.#refusal(file, byteLength)
    if (refusal !== undefined) return refusal
    const alias = made(rethrowNative(() => this.native.alias(file, offset, byteLength), this.path))
    if (alias === 'remote') throw notLocal()
    if (typeof alias !== 'string') {
      this.#listen(alias)
      this.#aliases.push(alias)
    } else if (alias !== 'runtime') this.#unmapped.set(file, alias)
    // A runtime that refuses a very large alias may still take smaller ones.
    else if (byteLength <= LARGE) this.#refused = true
    return alias
  }

  /** Hears of a loss for as long as the buffer lives. */
  #listen(buffer: ArrayBufferLike): void {
    this.#watched ??= watch(this)
    if (this.onMappingLost !== undefined) listening.set(buffer, this)
  }

  /** What is known to be refused without asking again. */
  #refusal(file: number, byteLength: number): CopyReason | undefined {
    if (byteLength > MAX_BUFFER || this.#refused) return 'runtime'
    return this.#unmapped.get(file)
  }

  #copy(dtype: DTypeInfo, file: number, offset: number, byteLength: number, copyReason: CopyReason): View {
    const data = array(dtype, allocate(byteLength), 0, byteLength)
    const bytes = this.bytesInMemory(file, offset, byteLength)
    if (bytes !== undefined) {
      new Uint8Array(data.buffer).set(bytes)
      return { data, copyReason }
    }
    for (const [at, piece] of pieces(data.buffer, 0, byteLength)) {
      rethrowNative(() => this.native.readInto(file, offset + at, piece), this.path)
    }
    return { data, copyReason }
  }

  /** What native code needs to read a tensor, or one component of it, that is in the caller's memory. */
  stageSync(ordinal: number, component?: number): NativeStage | undefined {
    return this.fillSync(() => this.native.stage(ordinal, component))
  }

  /** The same, without holding the event loop up. */
  async stage(ordinal: number, component?: number, signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.fill(() => this.native.stage(ordinal, component), signal)
  }

  /** All of the caller's memory, for what looks at more than tensors. */
  async stageAll(signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.fill(() => this.native.stageAll(), signal)
  }

  /** Fills a stage with the caller's memory, where the file is that. */
  async fill(builder: () => NativeStageBuilder, signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.memory && stage(this.memory, rethrowNative(builder), () => this.check(signal))
  }

  /** The same, on this thread at once. */
  fillSync(builder: () => NativeStageBuilder): NativeStage | undefined {
    return this.memory && stageSync(this.memory, rethrowNative(builder))
  }

  /** Throws where work should not go on: the signal's reason, or ZT_CLOSED. */
  check(signal?: AbortSignal): void {
    signal?.throwIfAborted()
    this.throwIfClosed()
  }

  /** Why a view of a range would be a copy, as far as that is known without making one. */
  copyReason(dtype: DTypeInfo, file: number, offset: number, byteLength: number): CopyReason | undefined {
    if (byteLength === 0) return undefined
    if (this.isRemote && !rethrowNative(() => this.native.isCopied(file, offset, byteLength))) return 'remote'
    if ((offset + (this.memory?.byteOffset ?? 0)) % dtype.array.BYTES_PER_ELEMENT !== 0) return 'misaligned'
    if (this.memory !== undefined || this.#common !== undefined) return undefined
    return this.#refusal(file, byteLength)
  }
}

/** The error for data that is elsewhere, asked for by a call that cannot wait. */
function notLocal(): ZTensorError {
  const message =
    'the data is not on this machine, and nothing here waits for a network: await load(), or open the URL with remote: { cache: folder } and await prefetch() first'
  return new ZTensorError('ZT_NOT_LOCAL', message)
}

/** An array of a dtype over a part of a buffer. */
export function array(dtype: DTypeInfo, buffer: ArrayBufferLike, byteOffset: number, byteLength: number): TypedArray {
  const length = byteLength / dtype.array.BYTES_PER_ELEMENT
  try {
    return new dtype.array(buffer, byteOffset, length)
  } catch (cause) {
    throw tooLarge(`${length} elements`, cause)
  }
}
