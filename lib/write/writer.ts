import type { Writable } from 'node:stream'
import { type InspectOptions, inspect, platform } from '#host'
import { onAbort } from '../native/abort.js'
import { publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { run, unopened } from '../native/job.js'
import { toBufferSync } from '../native/memory.js'
import {
  binding,
  type NativeControl,
  type NativeWriter,
  type RemoteRequest,
  type WriteRequest,
} from '../native/native.js'
import { messageOf } from '../native/realm.js'
import { TensorFile } from '../read/file.js'
import { validateText } from '../values/arguments.js'
import { fileBytes } from '../values/byte-order.js'
import type { DType, DTypeInfo, TypedArray } from '../values/dtype.js'
import { checkLength } from '../values/elements.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { shown } from '../values/inspect.js'
import { emitWarnings } from '../values/warning.js'
import { Calls, forgetUnfinished, watchUnfinished } from './calls.js'
import { detached } from './detached.js'
import {
  type AddDenseOptions,
  type AddOptions,
  type Composed,
  type CooInput,
  type CsrInput,
  cooInput,
  csrInput,
  denseInput,
  type ObjectInput,
  objectInput,
  type Part,
  quantizedInput,
  type Sparse,
  streamInput,
  type TensorInput,
} from './input.js'
import { type LinkInput, Links, validateLink } from './link.js'
import { Packets } from './packet.js'
import type { Spool, Stream } from './stream.js'
import { tensorStream } from './tensor-stream.js'

// Pieces up to this size are hashed on the JavaScript thread: passing them to another thread would cost more.
const SMALL = 64 * 2 ** 10
const PIECE = 4 * 2 ** 20
const FULL = 8 * 2 ** 20
/** Bytes that are written to a stream at once. */
const STREAMED = 2 ** 20

/** The arguments of a writer's constructor. */
interface Internals {
  readonly target: string | Stream
  readonly native: NativeWriter
  /** Cancels running native work. */
  readonly control: NativeControl
  /** The binding's name of the format and version. */
  readonly writeFormat: string
  /** The compression level. */
  readonly level?: number | undefined
  readonly maxShard?: number | undefined
  readonly digest?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Where the file is written before it goes to a stream. */
  readonly spool?: Spool | undefined
}

/** A file that is being written. It appears at its path with `finish()`. Calls may overlap; they run in order. */
export class TensorWriter {
  /** The path or URL; undefined for a stream. */
  readonly path: string | undefined
  readonly #native: NativeWriter
  readonly #control: NativeControl
  readonly #outlet: Stream | undefined
  readonly #spool: Spool | undefined
  /** What bytes go to as they are written. Undefined if native code writes a file. */
  readonly #direct: Pick<Stream, 'write'> | undefined
  readonly #writeFormat: string
  /** Undefined for a version that is only edited. */
  readonly #writing: Writing | undefined
  readonly #compresses: boolean
  /** Whether small tensors may be added synchronously: not if they must be compressed to know whether a shard is full. */
  readonly #atOnce: boolean
  readonly #signal: AbortSignal | undefined
  readonly #links: Links
  /** Removes the listener of the signal. */
  #forget: () => void = () => {}
  readonly #packets: Packets
  /** Open streams of tensors. */
  readonly #open = new Set<Writable>()
  readonly #calls = new Calls()
  #ended = false
  /** The path of the file that opens a set. */
  #entry: string | undefined
  /** Why the file was aborted. */
  #failure: unknown
  readonly #unfinished: object

  protected constructor(internals: unknown)
  protected constructor({ target, native, control, ...how }: Internals) {
    this.path = typeof target === 'string' ? target : undefined
    this.#outlet = typeof target === 'string' ? undefined : target
    this.#spool = how.spool
    this.#direct = how.spool === undefined ? this.#outlet : how.spool.path === undefined ? how.spool : undefined
    this.#native = native
    this.#control = control
    this.#writeFormat = how.writeFormat
    this.#writing = writingOfId(how.writeFormat)
    this.#compresses = how.level !== undefined
    this.#atOnce = this.#direct === undefined && (how.level === undefined || how.maxShard === undefined)
    this.#signal = how.signal
    this.#packets = new Packets(native)
    this.#links = new Links(this.path, how.digest)
    this.#unfinished = watchUnfinished(this, this.path)
  }

  /** @internal Queues work on the native writer. */
  static inTurn<T>(writer: TensorWriter, work: (native: NativeWriter) => T): Promise<T> {
    return writer.#calls.make(() =>
      writer.#next(async () => {
        if (writer.#ended) throw writer.#gone()
        return work(writer.#native)
      }),
    )
  }

  /** @internal Queues work whose errors the caller handles. */
  static during<T>(writer: TensorWriter, work: () => Promise<T>): Promise<T> {
    return writer.#calls.turn(work)
  }

  /** @internal The native writer, the stream, and the stream if bytes go to it as they are written: for work that bypasses this class. */
  static partsOf(writer: TensorWriter) {
    return { native: writer.#native, outlet: writer.#outlet, direct: writer.#direct }
  }

  /** @internal The path or URL that opens what was written; undefined for a stream. */
  static entryOf(writer: TensorWriter): string | undefined {
    return writer.#entry ?? writer.path
  }

  /** @internal Throws if tensors with these names, of those that are texts, are more than the index of the file may have. */
  static foresee(writer: TensorWriter, names: readonly unknown[]): void {
    const texts = names.filter((name) => typeof name === 'string')
    rethrowNative(() => writer.#native.foresee(texts))
  }

  /** @internal `isSized`: the sizes of all tensors are known, and are announced before their data. */
  static async make(
    target: string | Stream,
    request: WriteRequest,
    signal?: AbortSignal,
    remote?: RemoteRequest,
    isSized = false,
    Kind: typeof TensorWriter = TensorWriter,
  ): Promise<TensorWriter> {
    const { writeFormat, level, digest, maxShard } = request
    let spool: Spool | undefined
    try {
      if (typeof target !== 'string') spool = await spoolFor(target, request, isSized)
      const path = typeof target === 'string' ? target : spool?.path
      const begin = (control: NativeControl) => binding.createWriter(path, request, control, remote)
      const begun = await TensorWriter.begin(path, signal, begin)
      return new Kind({ target, ...begun, writeFormat, level, digest, maxShard, signal, spool })
    } catch (thrown) {
      if (typeof target !== 'string') target.release()
      await spool?.remove()
      throw thrown
    }
  }

  /** @internal Creates a native writer, and the control that cancels its later work. */
  static async begin(
    path: string | undefined,
    signal: AbortSignal | undefined,
    start: (control: NativeControl) => Promise<NativeWriter>,
  ): Promise<{ native: NativeWriter; control: NativeControl }> {
    let control: NativeControl | undefined
    const starting = (own: NativeControl) => {
      control = own
      return start(own)
    }
    const native = await run(unopened(path), { signal }, starting, 'when undone')
    return { native, control: control as NativeControl }
  }

  /** @internal Opens a pipe, which waits for its reader, and starts to abort the writer when its signal is aborted. */
  static async listen<W extends TensorWriter>(writer: W): Promise<W> {
    const signal = writer.#signal
    try {
      await writer.#outlet?.open(signal)
    } catch (error) {
      await writer.abort()
      throw error
    }
    const abort = () => {
      writer.#control.cancel()
      writer.abort().catch(() => {})
    }
    if (signal !== undefined) writer.#forget = onAbort(signal, abort)
    if (signal?.aborted) await writer.abort()
    signal?.throwIfAborted()
    return writer
  }

  /** Queues work, and converts its native errors to public ones. */
  async #next<T>(work: () => Promise<T>): Promise<T> {
    return this.#calls.turn(async () => {
      try {
        return await work()
      } catch (thrown) {
        if (!this.#signal?.aborted) throw publicError(thrown, this.path)
        // Cleans up before the rejection, so that the caller finds no leftovers.
        await this.#fail(this.#signal.reason)
        throw this.#signal.reason
      }
    })
  }

  /** The error of calls after the end of the writer. Its cause is why the writer ended. */
  #gone(): ZTensorError {
    return ended(this.#failure)
  }

  /**
   * Adds a small dense tensor synchronously, in one native call, if no other call is running. Returns the number of pending bytes, or
   * undefined if the tensor must be queued.
   */
  #addAtOnce(name: string, shape: number[], dtype: DTypeInfo, data: ArrayBufferView): number | undefined {
    const now = this.#atOnce && this.#calls.isIdle && !this.#ended && !this.#signal?.aborted
    if (!now || data.byteLength > SMALL) return undefined
    try {
      return this.#packets.add(name, shape, dtype, data)
    } catch (thrown) {
      throw publicError(thrown, this.path)
    }
  }

  /** Throws if the writer has ended, failed or was aborted. */
  #check(): void {
    this.#signal?.throwIfAborted()
    if (this.#ended || this.#failure !== undefined) throw this.#gone()
    this.#outlet?.throwIfFailed()
  }

  #begin(tensor: Omit<Composed, 'parts'>, parts: Omit<Part, 'data' | 'from'>[]): void {
    const { name, shape, layout, dtype, attributes } = tensor
    this.#check()
    for (const { byteLength: length } of parts) {
      if (Number.isSafeInteger(length)) continue
      const [code, problem] =
        length < 2 ** 53
          ? (['ZT_BAD_SHAPE', 'part of a byte'] as const)
          : (['ZT_LIMIT', 'more than 2^53 - 1 bytes'] as const)
      throw new ZTensorError(code, `tensor ${JSON.stringify(name)}: the shape [${shape.join(', ')}] takes ${problem}`, {
        tensor: name,
      })
    }
    this.#native.begin({
      name,
      shape,
      layout,
      ...(dtype === undefined ? {} : { dtype: dtype.code }),
      ...(attributes === undefined ? {} : { attributes }),
      components: parts.map(({ role, dtype, byteLength }) => ({
        role,
        ...(dtype === undefined ? {} : { dtype: dtype.code }),
        byteLength,
      })),
    })
  }

  /** Writes elements, numbers of a dtype rounded to another one, or numbers quantized to a block type. */
  async #push(data: ArrayBufferView, rounded?: { from: DTypeInfo; to: DTypeInfo }, blocks?: string): Promise<void> {
    const cast = rounded && Uint32Array.of(rounded.from.code, rounded.to.code)
    const { byteLength } = data
    if (cast === undefined && byteLength <= SMALL && !this.#compresses) {
      await this.#pass(this.#native.push(fileBytes(data)))
      return
    }
    for (let at = 0; at < byteLength; at += PIECE) {
      this.#signal?.throwIfAborted()
      if (data.byteLength !== byteLength) throw detached()
      const piece = fileBytes(data, at, Math.min(at + PIECE, byteLength))
      await this.#pass(await this.#native.pushAsync(piece, cast, blocks, this.#control))
    }
  }

  /** Flushes pending bytes if there are enough. */
  async #pass(pending: number): Promise<void> {
    if (this.#direct === undefined) {
      if (pending >= FULL) await this.#native.flush(this.#control)
    } else if (pending >= STREAMED) {
      await this.#direct.write(new Uint8Array(toBufferSync(this.#native.take())))
    }
  }

  /** Aborts the file after an error in the middle of a tensor. */
  async #fail(failure: unknown): Promise<void> {
    this.#failure ??= publicError(failure, this.path)
    forgetUnfinished(this.#unfinished)
    this.#outlet?.destroy()
    await this.#native.abort()
    await this.#spool?.remove()
  }

  async #write({ parts: given, ...tensor }: Composed): Promise<void> {
    // Sorted by role, as in canonical files: otherwise the blobs would be moved at the end.
    const parts = this.#writing?.canonical ? given.sort((a, b) => compareTexts(a.role, b.role)) : given
    const lengths = parts.map((part) => part.data.byteLength)
    await this.#next(async () => {
      this.#begin(tensor, parts)
      try {
        if (parts.some((part, at) => part.data.byteLength !== lengths[at])) throw detached()
        for (const { data, from, dtype: to, blocks } of parts)
          await this.#push(data, from && to && { from, to }, blocks)
        this.#native.end()
      } catch (thrown) {
        await this.#fail(thrown)
        throw thrown
      }
    })
  }

  /**
   * Adds a dense tensor: a typed array, or `{ dtype, shape, data }`. Do not change the array before the promise resolves. `finish()`
   * rejects with the error of a call that you do not await.
   *
   * @example
   * await writer.add('bias', new Float32Array(64))
   * await writer.add('weight', floats, { shape: [256, 64] })
   * await writer.add('half', { dtype: 'bfloat16', shape: [256, 64], data: floats }) // rounds to the nearest
   *
   * @throws ZTensorError ZT_BAD_SHAPE if the array does not have the size of the shape, ZT_BAD_DTYPE for a dtype that the format does not
   * support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the writer, or after an error in the middle of
   * a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void> {
    return this.#calls.make(() => this.#add(name, tensor, options))
  }

  #add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void> | undefined {
    const dense = denseInput(name, tensor, options)
    const { name: checked, attributes, elements } = dense
    checkLength(checked, elements, this.#writing?.padsPacked ?? false)
    const { dtype, shape, data, from } = elements
    if (dense.type !== undefined) return this.#write(quantizedInput(dense, dense.type))
    const atOnce = attributes === undefined && from === undefined
    const pending = atOnce ? this.#addAtOnce(checked, shape, dtype, data) : undefined
    if (pending === undefined) {
      const parts = [{ ...elements, role: 'data' }]
      return this.#write({ name: checked, shape, layout: 'dense', dtype, attributes, parts })
    }
    return pending < FULL ? undefined : this.#next(() => this.#native.flush(this.#control))
  }

  /**
   * Adds a sparse matrix in CSR form. Validates its arrays. For version 2, the columns of each row are sorted, and duplicate columns are
   * rejected.
   *
   * @throws ZTensorError ZT_BAD_SPARSE if the arrays break the layout's rules, ZT_BAD_SHAPE if they do not fit the shape, ZT_BAD_DTYPE and
   * ZT_BAD_LAYOUT for what the format does not support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the
   * writer, or after an error in the middle of a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addCsr(name: string, matrix: CsrInput, options?: AddOptions): Promise<void> {
    return this.#calls.make(() => this.#addSparse(csrInput(name, matrix, options)))
  }

  /**
   * Adds a sparse tensor in COO form. Validates its arrays. Version 2 rejects duplicate coordinates.
   *
   * @throws ZTensorError ZT_BAD_SPARSE if the arrays break the layout's rules, ZT_BAD_SHAPE if they do not fit the shape, ZT_BAD_DTYPE and
   * ZT_BAD_LAYOUT for what the format does not support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the
   * writer, or after an error in the middle of a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addCoo(name: string, tensor: CooInput, options?: AddOptions): Promise<void> {
    return this.#calls.make(() => this.#addSparse(cooInput(name, tensor, options)))
  }

  /** Adds a sparse tensor in one native call, plus one for each MiB that is written to a stream. */
  async #addSparse({ spec, arrays }: Sparse): Promise<void> {
    const lengths = arrays.map((array) => array.byteLength)
    await this.#next(async () => {
      this.#check()
      if (arrays.some((array, at) => array.byteLength !== lengths[at])) throw detached()
      let begun = false
      try {
        const given = arrays.map((array) => fileBytes(array))
        let step = await this.#native.addSparse(spec, given, this.#control)
        begun = true
        await this.#pass(step.pending)
        while (!step.done) {
          step = await this.#native.continueSparse(this.#control)
          await this.#pass(step.pending)
        }
      } catch (thrown) {
        // An error before anything was written leaves the file unchanged.
        if (begun || !this.#native.isOpen) await this.#fail(thrown)
        throw thrown
      }
    })
  }

  /**
   * Adds a tensor of any layout by its components. For `dense`, `sparse_csr` and `sparse_coo`, validates the sizes of the components.
   *
   * @throws ZTensorError ZT_BAD_SHAPE if the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format does not
   * support, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED after the end of the writer, or after an error in the middle of
   * a tensor (its `cause`); TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addObject(name: string, object: ObjectInput): Promise<void> {
    return this.#calls.make(() => this.#write(objectInput(name, object)))
  }

  /**
   * Adds a tensor whose bytes stay in another zTensor 2 file. Needs version 2 and `canonical: false`. The other file is read once, for
   * the digest that identifies it.
   *
   * @example
   * const base = await open('base.zt')
   * await writer.link('embedding', { file: base, tensor: 'model.embed_tokens.weight' })
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX if the name exists, ZT_UNSUPPORTED_ENCODING, ZT_IO; TypeError
   * ZT_INVALID_ARG
   */
  link(name: string, tensor: LinkInput): Promise<void> {
    return this.#calls.make(() => this.#link(name, tensor))
  }

  async #link(name: string, tensor: LinkInput): Promise<void> {
    const checked = validateText('name', name)
    const wanted = validateLink(checked, tensor)
    const link = async () => {
      this.#check()
      const { ordinal, native, linked } = await this.#links.resolve(wanted, this.#signal)
      this.#native.link(native, ordinal, checked, linked)
    }
    await TensorFile.storeOf(wanted.file).calls.hold(() => this.#next(link))
  }

  /**
   * Returns a Writable for the bytes of a dense tensor, little-endian. Write exactly as many bytes as the shape takes. Other calls of the writer wait
   * until the stream has ended. `finish()` rejects with an error of the stream or of a source that is piped into it; it is never an
   * uncaught exception.
   *
   * @example
   * await pipeline(createReadStream('weights.raw'), writer.stream('weights', { dtype: 'float32', shape: [4096, 4096] }))
   *
   * @throws TypeError and RangeError ZT_INVALID_ARG. The stream is destroyed with ZT_BAD_SHAPE for a wrong number of bytes,
   * ZT_BAD_DTYPE, ZT_BAD_INDEX if the name exists, ZT_LIMIT, ZT_IO, ZT_CLOSED, or the signal's reason
   */
  stream(
    name: string,
    tensor: { readonly dtype: DType; readonly shape: readonly number[] },
    options?: AddOptions,
  ): Writable {
    const given = streamInput(name, tensor, options)
    const { dtype, shape } = given
    const bytes = (shape.reduce((product, size) => product * size, 1) * dtype.bits) / 8
    const byteLength = this.#writing?.padsPacked ? Math.ceil(bytes) : bytes
    const stream = tensorStream({
      begin: (ended) =>
        new Promise((resolve, reject) => {
          this.#next(async () => {
            try {
              this.#begin({ ...given, layout: 'dense' }, [{ role: 'data', dtype, byteLength }])
              resolve()
            } catch (thrown) {
              reject(thrown)
              return
            }
            const failure = await ended
            if (failure !== undefined) await this.#fail(failure)
          }).catch(reject)
        }),
      push: (bytes) => this.#push(bytes),
      end: () => rethrowNative(() => this.#native.end()),
      closed: (error, isHeard) => {
        this.#open.delete(stream)
        if (error !== undefined) this.#calls.failed(error, () => isHeard)
      },
      path: this.path,
      signal: this.#signal,
    })
    this.#open.add(stream)
    return stream
  }

  /**
   * Writes the index, syncs the file to disk and publishes it at its path, atomically. A stream has ended when the promise resolves. After
   * an error the path is unchanged. Problems after the file was published are process warnings (`ZTensorWarning`).
   *
   * @throws ZTensorError ZT_EXISTS if the path was created in the meantime, ZT_IO, ZT_CLOSED, the error of a call or stream that was not
   * handled; the signal's reason
   */
  async finish(): Promise<void> {
    const recorded = this.#calls.finishing()
    const end = async () => {
      // The queue goes on a little before the error of a call is recorded.
      await recorded
      this.#signal?.throwIfAborted()
      const unheard = this.#calls.unheard()
      if (unheard !== undefined && !this.#ended) {
        this.#end()
        await this.#fail(unheard.error)
        throw unheard.error
      }
      if (this.#ended || this.#failure !== undefined) throw this.#gone()
      this.#end()
      try {
        const finished = await this.#native.finish(this.#control)
        const { rest, warnings, name } = finished
        emitWarnings(warnings)
        if (name !== undefined && this.path !== undefined) this.#entry = beside(this.path, name)
        if (this.#outlet === undefined) return
        if (this.#spool === undefined) await this.#outlet.write(new Uint8Array(toBufferSync(rest)))
        else await this.#spool.copyTo(this.#outlet, finished, this.#signal)
        await this.#outlet.end()
        await this.#spool?.remove()
      } catch (thrown) {
        await this.#fail(thrown)
        throw thrown
      }
    }
    await this.#next(end).finally(() => this.#forget())
  }

  /** Aborts the file: removes temporary files and leaves the path unchanged. A stream is destroyed. */
  async abort(): Promise<void> {
    this.#forget()
    // Not queued: the running call may wait for a reader of the stream, or for the writer of a tensor's stream.
    this.#outlet?.destroy()
    const reason = this.#signal?.aborted ? this.#signal.reason : ended()
    for (const stream of this.#open) stream.destroy(reason)
    await this.#next(async () => {
      this.#end()
      await this.#native.abort()
      await this.#spool?.remove()
    })
  }

  #end(): void {
    this.#ended = true
    forgetUnfinished(this.#unfinished)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort()
  }

  get [Symbol.toStringTag](): string {
    return 'TensorWriter'
  }

  toJSON(): object {
    return { path: this.path, writing: this.#writeFormat, ended: this.#ended }
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown(this[Symbol.toStringTag], this.toJSON(), options)
  }
}

/**
 * The temporary file of what cannot be written to a stream in order: an index before data whose sizes or checksums are not known, and the
 * canonical form, which orders the data.
 */
async function spoolFor(
  target: Stream,
  { writeFormat, canonical, maxShard }: WriteRequest,
  isSized: boolean,
): Promise<Spool | undefined> {
  // The core rejects several files for a stream.
  if (maxShard !== undefined) return undefined
  const { needsFirst } = writingOfId(writeFormat) as Writing
  const isDirect = !canonical && (needsFirst === 'nothing' || (needsFirst === 'sizes' && isSized))
  return isDirect ? undefined : target.createSpool()
}

const encoder = new TextEncoder()

/** The order of texts by their bytes. */
function compareTexts(a: string, b: string): number {
  const [left, right] = [encoder.encode(a), encoder.encode(b)]
  const at = left.findIndex((byte, at) => byte !== right[at])
  return at < 0 ? left.length - right.length : (left[at] as number) - (right[at] ?? -1)
}

/** The path or URL of a file in the folder of another one. */
function beside(path: string, name: string): string {
  const end = platform === 'win32' ? path.replaceAll('\\', '/').lastIndexOf('/') : path.lastIndexOf('/')
  return `${path.slice(0, end + 1)}${name}`
}

function ended(cause?: unknown): ZTensorError {
  const why = cause === undefined ? '' : ` after an error (${messageOf(cause)})`
  return new ZTensorError('ZT_CLOSED', `the writer has ended${why}: create a new one`, { cause })
}
