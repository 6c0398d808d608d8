import type { Writable } from 'node:stream'
import { type InspectOptions, inspect } from 'node:util'
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
import { optional, readOptions, validateAbortSignal, validateText } from '../values/arguments.js'
import { bytesOf, type DType, type DTypeInfo, type TypedArray } from '../values/dtype.js'
import { checkLength } from '../values/elements.js'
import { shown } from '../values/inspect.js'
import { Calls, forgetUnfinished, watchUnfinished } from './calls.js'
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
  type Sparse,
  streamInput,
  type TensorInput,
} from './input.js'
import { type LinkInput, Links, validateLink } from './link.js'
import { CREATE_OPTIONS, type CreateOptions, withFormat, writeRequest } from './options.js'
import { Outlet } from './outlet.js'
import { Packets } from './packet.js'
import { validateTarget } from './target.js'
import { emitWarnings } from './warnings.js'

// Below this a piece is taken on the JavaScript thread: a crossing costs more than its hash.
const SMALL = 64 * 2 ** 10
const PIECE = 4 * 2 ** 20
const FULL = 8 * 2 ** 20
/** What a stream gets at once. */
const STREAMED = 2 ** 20

/** What a writer is made of. */
interface Internals {
  readonly target: string | Outlet
  readonly native: NativeWriter
  /** Stops what is under way on the binding's side. */
  readonly control: NativeControl
  /** What the binding calls the format and version. */
  readonly writeFormat: string
  /** Of the compression. */
  readonly level?: number | undefined
  readonly maxShard?: number | undefined
  readonly digest?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** A file being written. Nothing is at its path before `finish()`; calls may overlap and are done in their order. */
export class TensorWriter {
  /** Undefined for a file that is written into a stream. */
  readonly path: string | undefined
  readonly #native: NativeWriter
  readonly #control: NativeControl
  readonly #outlet: Outlet | undefined
  readonly #writeFormat: string
  readonly #compresses: boolean
  /** Whether small tensors may be added at once: where none has to be compressed on this thread to know if its file is full. */
  readonly #atOnce: boolean
  readonly #signal: AbortSignal | undefined
  readonly #links: Links
  /** Stops listening to the signal. */
  #forget: () => void = () => {}
  readonly #packets: Packets
  /** Streams of tensors that have not ended. */
  readonly #open = new Set<Writable>()
  readonly #calls = new Calls()
  #ended = false
  /** Why the file was given up. */
  #failure: unknown
  readonly #unfinished: object

  protected constructor(internals: unknown)
  protected constructor({ target, native, control, ...how }: Internals) {
    this.path = typeof target === 'string' ? target : undefined
    this.#outlet = typeof target === 'string' ? undefined : target
    this.#native = native
    this.#control = control
    this.#writeFormat = how.writeFormat
    this.#compresses = how.level !== undefined
    this.#atOnce = this.#outlet === undefined && (how.level === undefined || how.maxShard === undefined)
    this.#signal = how.signal
    this.#packets = new Packets(native)
    this.#links = new Links(this.path, how.digest)
    this.#unfinished = watchUnfinished(this, this.path)
  }

  /** @internal Does something with the binding's side when its turn comes. */
  static inTurn<T>(writer: TensorWriter, work: (native: NativeWriter) => T): Promise<T> {
    return writer.#calls.make(() =>
      writer.#next(async () => {
        if (writer.#ended) throw writer.#gone()
        return work(writer.#native)
      }),
    )
  }

  /** @internal Does something when its turn comes, whose errors are the caller's own. */
  static during<T>(writer: TensorWriter, work: () => Promise<T>): Promise<T> {
    return writer.#calls.turn(work)
  }

  /** @internal The binding's side, and the stream, for work that is done without the writer. */
  static partsOf(writer: TensorWriter): { native: NativeWriter; outlet: Outlet | undefined } {
    return { native: writer.#native, outlet: writer.#outlet }
  }

  /** @internal */
  static async make(
    target: string | Outlet,
    request: WriteRequest,
    signal?: AbortSignal,
    remote?: RemoteRequest,
  ): Promise<TensorWriter> {
    const path = typeof target === 'string' ? target : undefined
    const { writeFormat, level, digest, maxShard } = request
    try {
      const begin = (control: NativeControl) => binding.createWriter(path, request, control, remote)
      const begun = await TensorWriter.begin(path, signal, begin)
      return new TensorWriter({ target, ...begun, writeFormat, level, digest, maxShard, signal })
    } catch (thrown) {
      if (target instanceof Outlet) target.release()
      throw thrown
    }
  }

  /** @internal Begins a file on the binding's side. The control is for all that follows. */
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

  /** @internal Has the signal give the file up from now on. */
  static async heed<W extends TensorWriter>(writer: W): Promise<W> {
    const signal = writer.#signal
    const giveUp = () => {
      writer.#control.cancel()
      writer.abort().catch(() => {})
    }
    writer.#forget = () => signal?.removeEventListener('abort', giveUp)
    signal?.addEventListener('abort', giveUp)
    if (signal?.aborted) await writer.abort()
    signal?.throwIfAborted()
    return writer
  }

  /** Does something when its turn comes, whose errors are the binding's. */
  async #next<T>(work: () => Promise<T>): Promise<T> {
    return this.#calls.turn(async () => {
      try {
        return await work()
      } catch (thrown) {
        if (!this.#signal?.aborted) throw publicError(thrown, this.path)
        // Whoever hears of the signal finds nothing left behind.
        await this.#giveUp(this.#signal.reason)
        throw this.#signal.reason
      }
    })
  }

  /** The error of what is called once the writer has ended, with why it ended as the cause. */
  #gone(): ZTensorError {
    return ended(this.#failure)
  }

  /**
   * Adds a small dense tensor at once, in one crossing, where nothing else is under way; gives the bytes that wait then, or
   * undefined where it has to take its turn.
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

  /** Throws where nothing can be added any more. */
  #check(): void {
    this.#signal?.throwIfAborted()
    if (this.#ended || this.#failure !== undefined) throw this.#gone()
    this.#outlet?.throwIfFailed()
  }

  #begin(tensor: Omit<Composed, 'parts'>, parts: Omit<Part, 'bytes'>[], lengths: number[]): void {
    const { name, shape, layout, dtype, attributes } = tensor
    this.#check()
    for (const length of lengths) {
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
      components: parts.map((part, at) => ({
        role: part.role,
        ...(part.dtype === undefined ? {} : { dtype: part.dtype.code }),
        byteLength: lengths[at] as number,
      })),
    })
  }

  async #push(bytes: Uint8Array): Promise<void> {
    if (bytes.byteLength <= SMALL && !this.#compresses) {
      await this.#pass(this.#native.push(bytes))
      return
    }
    const { byteLength } = bytes
    for (let at = 0; at < byteLength; at += PIECE) {
      this.#signal?.throwIfAborted()
      if (bytes.byteLength !== byteLength) throw detached()
      await this.#pass(await this.#native.pushAsync(bytes.subarray(at, at + PIECE), this.#control))
    }
  }

  /** Passes on what waits, once there is enough of it. */
  async #pass(pending: number): Promise<void> {
    if (this.#outlet === undefined) {
      if (pending >= FULL) await this.#native.flush(this.#control)
    } else if (pending >= STREAMED) {
      await this.#outlet.write(new Uint8Array(toBufferSync(this.#native.take())))
    }
  }

  /** Half a file cannot go on. */
  async #giveUp(failure: unknown): Promise<void> {
    this.#failure ??= publicError(failure, this.path)
    forgetUnfinished(this.#unfinished)
    this.#outlet?.destroy()
    await this.#native.abort()
  }

  async #write({ parts: given, ...tensor }: Composed): Promise<void> {
    // In the order of their names, which is that of canonical files: else the blobs would have to be moved at the end.
    const parts =
      this.#writeFormat === '2' ? given.sort((a, b) => Buffer.compare(Buffer.from(a.role), Buffer.from(b.role))) : given
    const lengths = parts.map((part) => part.bytes.byteLength)
    await this.#next(async () => {
      this.#begin(tensor, parts, lengths)
      try {
        if (parts.some((part, at) => part.bytes.byteLength !== lengths[at])) throw detached()
        for (const { bytes } of parts) await this.#push(bytes)
        this.#native.end()
      } catch (thrown) {
        await this.#giveUp(thrown)
        throw thrown
      }
    })
  }

  /**
   * Adds a dense tensor: a typed array, or `{ dtype, shape, data }`. The array is read when the call has its turn: do not
   * change it before the promise resolves. An error that nobody waits for fails `finish()`.
   *
   * @example
   * await writer.add('bias', new Float32Array(64))
   * await writer.add('weight', floats, { shape: [256, 64] })
   * await writer.add('half', { dtype: 'bfloat16', shape: [256, 64], data: floats }) // rounds to the nearest
   *
   * @throws ZTensorError ZT_BAD_SHAPE where the array does not fill the shape, ZT_BAD_DTYPE for a type that the format cannot
   * hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
   * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void> {
    return this.#calls.make(() => this.#add(name, tensor, options))
  }

  #add(name: string, tensor: TypedArray | TensorInput, options?: AddDenseOptions): Promise<void> | undefined {
    const { name: checked, attributes, elements } = denseInput(name, tensor, options)
    checkLength(checked, elements, this.#writeFormat === '2')
    const { dtype, shape, data } = elements
    const pending = attributes === undefined ? this.#addAtOnce(checked, shape, dtype, data) : undefined
    if (pending === undefined) {
      const parts = [{ role: 'data', dtype, bytes: bytesOf(data) }]
      return this.#write({ name: checked, shape, layout: 'dense', dtype, attributes, parts })
    }
    return pending < FULL ? undefined : this.#next(() => this.#native.flush(this.#control))
  }

  /**
   * Adds a sparse matrix by rows, after checking that it is one. Version 2 asks for rows whose columns rise: they are
   * sorted, and a column that stands twice in a row is refused.
   *
   * @throws ZTensorError ZT_BAD_SPARSE where the arrays break the layout's rules, ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
   * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
   * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addCsr(name: string, matrix: CsrInput, options?: AddOptions): Promise<void> {
    return this.#calls.make(() => this.#addSparse(csrInput(name, matrix, options)))
  }

  /**
   * Adds a sparse tensor by coordinates, after checking that it is one. Version 2 refuses a cell that stands twice.
   *
   * @throws ZTensorError ZT_BAD_SPARSE where the arrays break the layout's rules, ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
   * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
   * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addCoo(name: string, tensor: CooInput, options?: AddOptions): Promise<void> {
    return this.#calls.make(() => this.#addSparse(cooInput(name, tensor, options)))
  }

  /** Adds the sparse tensor that these arrays are, in one crossing; in one more for each MiB that a stream takes. */
  async #addSparse({ spec, arrays }: Sparse): Promise<void> {
    const given = arrays.map((array) => bytesOf(array))
    const lengths = given.map((bytes) => bytes.byteLength)
    await this.#next(async () => {
      this.#check()
      if (given.some((bytes, at) => bytes.byteLength !== lengths[at])) throw detached()
      let begun = false
      try {
        let step = await this.#native.addSparse(spec, given, this.#control)
        begun = true
        await this.#pass(step.pending)
        while (!step.done) {
          step = await this.#native.continueSparse(this.#control)
          await this.#pass(step.pending)
        }
      } catch (thrown) {
        // What is refused before anything is written leaves the file as it was.
        if (begun || !this.#native.isOpen) await this.#giveUp(thrown)
        throw thrown
      }
    })
  }

  /**
   * Adds a tensor of any layout by its components. Those of `dense`, `sparse_csr` and `sparse_coo` are checked
   * against the layout's rules on sizes.
   *
   * @throws ZTensorError ZT_BAD_SHAPE where the arrays do not fit the shape, ZT_BAD_DTYPE and ZT_BAD_LAYOUT for what the format
   * cannot hold, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED after an error in the middle of a tensor (its
   * `cause`) or the end of the writer; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  addObject(name: string, object: ObjectInput): Promise<void> {
    return this.#calls.make(() => this.#write(objectInput(name, object)))
  }

  /**
   * Adds a tensor whose bytes stay in another zTensor 2 file: zTensor 2 only, with `canonical: false`. The other file is
   * read once, for the digest by which readers know it.
   *
   * @example
   * const base = await open('base.zt')
   * await writer.link('embedding', { file: base, tensor: 'model.embed_tokens.weight' })
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX (the name is there), ZT_UNSUPPORTED_ENCODING, ZT_IO; TypeError
   * ZT_INVALID_ARG
   */
  link(name: string, tensor: LinkInput): Promise<void> {
    return this.#calls.make(() => this.#link(name, tensor))
  }

  async #link(name: string, tensor: LinkInput): Promise<void> {
    const checked = validateText('name', name)
    const wanted = validateLink(checked, tensor)
    await this.#next(async () => {
      this.#check()
      const { ordinal, native, linked } = await this.#links.resolve(wanted, this.#signal)
      this.#native.link(native, ordinal, checked, linked)
    })
  }

  /**
   * A stream into a dense tensor: bytes as they come, as many as the shape asks for by its end. Other calls wait
   * until it has ended. Its errors, and the death of a source that is piped into it, fail `finish()`, and never the process.
   *
   * @example
   * await pipeline(createReadStream('weights.raw'), writer.stream('weights', { dtype: 'float32', shape: [4096, 4096] }))
   *
   * @throws TypeError and RangeError ZT_INVALID_ARG. The stream is destroyed with ZT_BAD_SHAPE where the bytes are not as many as the
   * shape takes, ZT_BAD_DTYPE, ZT_BAD_INDEX where the name is taken, ZT_LIMIT, ZT_IO, ZT_CLOSED, or the signal's reason
   */
  stream(
    name: string,
    tensor: { readonly dtype: DType; readonly shape: readonly number[] },
    options?: AddOptions,
  ): Writable {
    const given = streamInput(name, tensor, options)
    const { dtype, shape } = given
    const bytes = (shape.reduce((product, size) => product * size, 1) * dtype.bits) / 8
    // The last byte of a packed type is padded in version 2.
    const byteLength = this.#writeFormat === '2' ? Math.ceil(bytes) : bytes
    // Here, since it loads Node's streams.
    const { TensorStream } = require('../deferred.js') as typeof import('../deferred.js')
    const stream: Writable = new TensorStream({
      begin: (ended) =>
        new Promise((resolve, reject) => {
          this.#next(async () => {
            try {
              this.#begin({ ...given, layout: 'dense' }, [{ role: 'data', dtype }], [byteLength])
              resolve()
            } catch (thrown) {
              reject(thrown)
              return
            }
            const failure = await ended
            if (failure !== undefined) await this.#giveUp(failure)
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
   * Writes the index, puts file and folder on the disk, and moves the file to its path: from then on it is there
   * whole. A stream is ended, and has taken everything when this resolves. An error means that the path leads to what it led to
   * before; what goes wrong once the file is there is a warning of the process (`ZTensorWarning`).
   *
   * @throws ZTensorError ZT_EXISTS where somebody took the path meanwhile, ZT_IO, ZT_CLOSED
   */
  async finish(): Promise<void> {
    this.#calls.finishing()
    const end = async () => {
      this.#signal?.throwIfAborted()
      const unheard = this.#calls.unheard()
      if (unheard !== undefined && !this.#ended) {
        this.#end()
        await this.#giveUp(unheard.error)
        throw unheard.error
      }
      if (this.#ended || this.#failure !== undefined) throw this.#gone()
      this.#end()
      try {
        const { rest, warnings } = await this.#native.finish(this.#control)
        emitWarnings(warnings)
        if (this.#outlet === undefined) return
        await this.#outlet.write(new Uint8Array(toBufferSync(rest)))
        await this.#outlet.end()
      } catch (thrown) {
        await this.#giveUp(thrown)
        throw thrown
      }
    }
    await this.#next(end).finally(() => this.#forget())
  }

  /** Gives the file up: nothing is left behind, and what was at the path stays. A stream is destroyed, at once. */
  async abort(): Promise<void> {
    this.#forget()
    // Not in their turn: the call before it may be waiting for whoever reads the stream, or for whoever writes into one of a
    // tensor.
    this.#outlet?.destroy()
    const reason = this.#signal?.aborted ? this.#signal.reason : ended()
    for (const stream of this.#open) stream.destroy(reason)
    await this.#next(async () => {
      this.#end()
      await this.#native.abort()
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

function ended(cause?: unknown): ZTensorError {
  const why = cause === undefined ? '' : ` after an error (${messageOf(cause)})`
  return new ZTensorError('ZT_CLOSED', `the writer has ended${why}; create another one`, { cause })
}

function detached(): ZTensorError {
  return new ZTensorError('ZT_CLOSED', 'the array to write was detached or resized before it was written')
}

/**
 * Begins a file: written beside its path, it appears there with `finish()`. Or into a Node Writable, a pipe or a character device,
 * which get the same bytes as they come; formats whose index comes first (safetensors, BTF) cannot be written so. A pipe that nobody
 * reads is waited for. Or into a store of objects, by an `s3:`, `gs:` or `az:` URL: the object appears with `finish()`.
 *
 * @example
 * const writer = await create('model.zt')
 * await writer.add('weight', new Float32Array(6), { shape: [2, 3] })
 * await writer.finish() // the file appears only now
 *
 * @throws ZTensorError ZT_EXISTS unless `overwrite`, ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function create(target: string | URL | Writable, options?: CreateOptions): Promise<TensorWriter> {
  const read = readOptions(options, CREATE_OPTIONS)
  const signal = optional(read.signal, validateAbortSignal)
  const { path, remote, begin } = validateTarget('path', target, read)
  const request = writeRequest(withFormat(read, path))
  signal?.throwIfAborted()
  return TensorWriter.heed(await TensorWriter.make(await begin(signal), request, signal, remote))
}
