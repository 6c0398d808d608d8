import { reasons } from '#host'
import { channels, publish, timed } from '../native/channels.js'
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
import { Calls } from './calls.js'

/** Why data is a copy instead of an alias of the file. */
export type CopyReason =
  /** It is stored compressed. */
  | 'encoded'
  /** Its offset is not a multiple of its element size. */
  | 'misaligned'
  /** The runtime does not allow external ArrayBuffers (Electron), or not of this size. */
  | 'runtime'
  /** The system refused to map the file. */
  | 'map-failed'
  /** The file is read, not mapped: because of `open(…, { io: 'read' })`, or because it is on a network file system. */
  | 'io'
  /** It is stored in the other byte order. */
  | 'byte-order'
  /** It is stored in another element order, such as column-major. */
  | 'reordered'
  /** It is stored in the index. */
  | 'inline'
  /** It is a slice that is not contiguous in memory. */
  | 'packed'
  /** The file is remote: `load()` fetches the data, and `prefetch()` stores it in the cache, if `open` was given one. */
  | 'remote'

/** One of the files that hold the tensors. */
export interface FilePart {
  /** The path; undefined for a file in memory, and with `shards: 'none'`. */
  readonly path: string | undefined
  /** Its name in the shard table of a zTensor 2 file. */
  readonly name?: string
  readonly byteLength: number
}

/** An array, and why it is a copy if it does not alias the file. */
export interface View<A extends TypedArray = TypedArray> {
  readonly data: A
  readonly copyReason: CopyReason | undefined
}

/** Identifies a tensor of an open file, or one of its components. */
export interface TensorRef {
  readonly store: Store
  readonly ordinal: number
  readonly component?: number | undefined
}

// Creating an ArrayBuffer takes 1.3 µs, a view 0.3 µs: in a file of many tensors, small tensors share buffers (windows).
const MANY_TENSORS = 4096
const SMALL = 64 * 2 ** 10
const WINDOW = 2 ** 20
/** If the runtime refuses an alias of up to this size, it refuses all aliases. */
const LARGE = 2 ** 32

/** How a file was opened. */
export interface Origin {
  /** The options of the call. */
  readonly request?: OpenRequest | undefined
  readonly path?: string
  /** The name of the folder that a browser opened by its handle. */
  readonly folder?: string
  readonly memory?: Uint8Array
  /** Memory over the mapping of each file, shared with other threads. */
  readonly common?: readonly SharedArrayBuffer[] | undefined
  readonly onMappingLost?: ((error: ZTensorError) => void) | undefined
  /** A part of a file as a Blob, if the file has one. */
  readonly blob?: ((file: number, offset: number, length: number) => Blob | undefined) | undefined
}

let stores = 0

/** The store of each buffer, so that `onMappingLost` lives as long as the buffers. */
const listening = new WeakMap<ArrayBufferLike, Store>()

/** The bytes of an open file: creates aliases and copies, and closes them. */
export class Store implements Losable {
  /** Cancels running jobs. */
  readonly jobs = new Set<() => void>()
  /** Running decoding jobs. */
  readonly shared = new SharedWork()
  /** The calls in flight. */
  readonly calls = new Calls(this)
  readonly native: NativeFile
  readonly format: string
  /** Unique number of the store in this process. */
  readonly number: number = stores++
  readonly path: string | undefined
  readonly folder: string | undefined
  readonly request: OpenRequest | undefined
  /** The caller's memory, if the file is in memory. */
  readonly memory: Uint8Array | undefined
  /** Memory of each file that is shared with other threads. It outlives this store. */
  readonly #common: readonly SharedArrayBuffer[] | undefined
  readonly #length: number
  readonly #windowed: boolean
  /** The windows of each file, by file number and start offset. */
  readonly #windows: Map<number, ArrayBuffer | CopyReason>[] = []
  /** The last window: tensors are mostly accessed in file order. */
  #last: { file: number; start: number; window: ArrayBuffer | CopyReason } | undefined
  #aliases: ArrayBuffer[] = []
  /** Whether the runtime refuses aliases. */
  #refused = false
  /** The files that could not be mapped, and why. */
  readonly #unmapped = new Map<number, 'map-failed' | 'io'>()
  /** Whether reading the bytes is asynchronous: a remote file, or a ByteSource. */
  readonly isRemote: boolean
  #files: readonly FilePart[] | undefined
  #closed = false
  readonly onMappingLost: ((error: ZTensorError) => void) | undefined
  readonly blob: Origin['blob']
  #watched: WeakRef<Losable> | undefined
  /** The process-wide count of losses when this file was last checked. */
  #losses = losses()
  /** The path of the truncated file. */
  #lost: string | undefined
  /** Whether a call has thrown the loss to the caller. */
  #lossThrown = false

  constructor(native: NativeFile, origin: Origin) {
    this.native = native
    this.format = native.format
    this.onMappingLost = origin.onMappingLost
    this.blob = origin.blob
    this.path = origin.path
    this.folder = origin.folder
    this.request = origin.request
    this.memory = origin.memory
    this.#common = origin.common
    this.#length = native.byteLength
    this.isRemote = native.isRemote
    // A window of a remote file may include bytes that are not in the cache.
    this.#windowed = native.size > MANY_TENSORS && !native.isRemote
  }

  /** Whether new calls are refused: the file is closed, or will be after its calls in flight. */
  get closed(): boolean {
    return this.#closed || this.calls.draining
  }

  /** Throws for a new call of a closed file or one that drains. Calls in flight use `throwIfClosed`. */
  admit(): void {
    this.throwIfClosed()
    if (this.calls.refuses)
      throw new ZTensorError('ZT_CLOSED', `${this.#name} is being closed and takes no new calls; open it again`)
  }

  /** Throws ZT_CLOSED for a closed file, and ZT_MAPPING_LOST for one that was truncated while it was mapped. */
  throwIfClosed(): void {
    if (this.#closed) {
      throw new ZTensorError('ZT_CLOSED', `${this.#name} is closed, and so are its tensors and views; open it again`)
    }
    if (this.#lost === undefined && losses() === this.#losses) return
    const loss = this.#loss()
    if (loss === undefined) return
    this.#lossThrown = true
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
    return this.#lossThrown && this.onMappingLost === undefined ? undefined : loss
  }

  /** Cancels running jobs, empties all views and unmaps the file. */
  close(): void {
    if (this.#closed) return
    const began = timed(channels.close)
    const stopped = this.calls.count
    this.#closed = true
    for (const cancel of this.jobs) cancel()
    const aliases = this.#aliases
    this.#aliases = []
    this.#windows.length = 0
    this.#last = undefined
    if (this.#watched !== undefined) unwatch(this.#watched)
    rethrowNative(() => this.native.close(aliases), this.path)
    this.calls.closed()
    if (began === undefined) return
    const { path: source, format } = this
    publish('close', { source, format, bytes: this.#length, milliseconds: performance.now() - began, stopped })
  }

  /** Returns an array of `byteLength` bytes at `offset` of a file: an alias if possible, otherwise a copy. */
  view(dtype: DTypeInfo, file: number, offset: number, byteLength: number): View {
    const alias = this.alias(dtype, file, offset, byteLength)
    if (typeof alias === 'string') return this.#copy(dtype, file, offset, byteLength, alias)
    return { data: alias, copyReason: undefined }
  }

  /** Returns an alias of `byteLength` bytes at `offset` of a file, or the reason why there is none. */
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
      const message = 'the data is in a shard, which an index in memory cannot locate: open the index by its path'
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

  /** A view of the caller's memory, after checking that it was not detached; undefined if the file is not in memory. */
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

  /** The files, by file number. */
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
    // A runtime that refuses a very large alias may still allow smaller ones.
    else if (byteLength <= LARGE) this.#refused = true
    return alias
  }

  /** Watches for truncation as long as the buffer lives. */
  #listen(buffer: ArrayBufferLike): void {
    this.#watched ??= watch(this)
    if (this.onMappingLost !== undefined) listening.set(buffer, this)
  }

  /** Why an alias is known to be impossible; undefined if it has not been tried. */
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

  /** Stages a tensor or component that is in the caller's memory, so that native threads can read it. */
  stageSync(ordinal: number, component?: number): NativeStage | undefined {
    return this.fillSync(() => this.native.stage(ordinal, component))
  }

  /** Like `stageSync`, without blocking the event loop. */
  async stage(ordinal: number, component?: number, signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.fill(() => this.native.stage(ordinal, component), signal)
  }

  /** Stages all of the caller's memory, for work that reads more than tensors. */
  async stageAll(signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.fill(() => this.native.stageAll(), signal)
  }

  /** Fills a stage from the caller's memory; undefined if the file is not in memory. */
  async fill(builder: () => NativeStageBuilder, signal?: AbortSignal): Promise<NativeStage | undefined> {
    return this.memory && stage(this.memory, rethrowNative(builder), () => this.check(signal))
  }

  /** Like `fill`, synchronously. */
  fillSync(builder: () => NativeStageBuilder): NativeStage | undefined {
    return this.memory && stageSync(this.memory, rethrowNative(builder))
  }

  /** Throws if work must stop: the signal's reason, ZT_CLOSED or ZT_MAPPING_LOST. */
  check(signal?: AbortSignal): void {
    signal?.throwIfAborted()
    this.throwIfClosed()
  }

  /** Why a view of a range would be a copy, as far as that is known without creating it. */
  copyReason(dtype: DTypeInfo, file: number, offset: number, byteLength: number): CopyReason | undefined {
    if (byteLength === 0) return undefined
    if (this.isRemote && !rethrowNative(() => this.native.isCopied(file, offset, byteLength))) return 'remote'
    if ((offset + (this.memory?.byteOffset ?? 0)) % dtype.array.BYTES_PER_ELEMENT !== 0) return 'misaligned'
    if (this.memory !== undefined || this.#common !== undefined) return undefined
    return this.#refusal(file, byteLength)
  }
}

/** The error of a synchronous call for data of a remote file. */
function notLocal(): ZTensorError {
  return new ZTensorError('ZT_NOT_LOCAL', reasons.notLocal)
}

/** Creates an array of a dtype over a part of a buffer. */
export function array(dtype: DTypeInfo, buffer: ArrayBufferLike, byteOffset: number, byteLength: number): TypedArray {
  const length = byteLength / dtype.array.BYTES_PER_ELEMENT
  try {
    return new dtype.array(buffer, byteOffset, length)
  } catch (cause) {
    throw tooLarge(`${length} elements`, cause)
  }
}
