import { Writable } from 'node:stream'
import { anObject, aSignal, aText, aTypedArray, aWholeNumber, optional, options, wrongType } from './arguments.js'
import { type AttributeInput, freezeMap } from './attributes.js'
import {
  bytesOf,
  type DType,
  type DTypeInfo,
  dtypeInfo,
  dtypeOfArray,
  type IndexArray,
  type TypedArray,
} from './dtype.js'
import { calling, invalid, publicError, ZTensorError } from './errors.js'
import { run, unopened } from './job.js'
import { aLink, type LinkInput, Links } from './link.js'
import { toBufferSync } from './memory.js'
import { binding, type NativeControl, type NativeWriter, type SparseSpec, type WriteRequest } from './native.js'
import { isWritable, Outlet } from './outlet.js'
import { Packets } from './packet.js'
import { urlText } from './realm.js'
import { indexCode } from './sparse.js'
import { specialFile } from './special-file.js'
import { forgetUnfinished, watchUnfinished } from './unfinished.js'
import { type CreateOptions, targetPath, writeRequest } from './write-options.js'
import { emitWarnings } from './write-warnings.js'

/** Elements with their type and shape, for types that no array of JavaScript has. */
export interface TensorInput {
  readonly dtype: DType
  readonly shape: readonly number[]
  /** The elements, by their bits: an array of any type with exactly the bytes. */
  readonly data: ArrayBufferView
}

/** A matrix by rows, as `CsrTensor` has it. */
export interface CsrInput {
  readonly shape: readonly [rows: number, columns: number]
  readonly dtype?: DType | undefined
  readonly values: TypedArray
  readonly indices: IndexArray
  readonly indptr: IndexArray
}

/** A tensor by coordinates, as `CooTensor` has it: `coords` is dimension-major. */
export interface CooInput {
  readonly shape: readonly number[]
  readonly dtype?: DType | undefined
  readonly values: TypedArray
  readonly coords: IndexArray
}

/** A tensor of any layout, by its components. */
export interface ObjectInput {
  readonly layout: string
  readonly shape: readonly number[]
  /** 1.0 asks for one; uint8 where there is none. */
  readonly dtype?: DType | undefined
  readonly attributes?: AttributeInput | undefined
  readonly components: Readonly<Record<string, { readonly dtype?: DType | undefined; readonly data: ArrayBufferView }>>
}

/** What goes with a tensor. */
export interface AddOptions {
  readonly attributes?: AttributeInput | undefined
}

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
  readonly dialect: string
  /** Of the compression. */
  readonly level?: number | undefined
  readonly maxShard?: number | undefined
  readonly digest?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface Part {
  role: string
  dtype: DTypeInfo | undefined
  bytes: Uint8Array
}

function aDType(name: string, value: unknown): DTypeInfo {
  const info = typeof value === 'string' ? dtypeInfo(value) : undefined
  if (info === undefined) throw wrongType(name, 'the name of a dtype', value)
  return info
}

function aShape(value: unknown): number[] {
  if (!Array.isArray(value)) throw wrongType('shape', 'an array of sizes', value)
  const shape: number[] = []
  // Holes too, which map() passes over; and no name is made for what is right.
  for (let dim = 0; dim < value.length; dim++) {
    const size: unknown = value[dim]
    shape.push(
      typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : aWholeNumber(`shape[${dim}]`, size),
    )
  }
  return shape
}

function aView(name: string, value: unknown): ArrayBufferView {
  if (!ArrayBuffer.isView(value)) throw wrongType(name, 'a typed array or DataView', value)
  return value
}

/** A file being written. Nothing is at its path before `finish()`; calls may overlap and are done in their order. */
export class TensorWriter {
  /** Undefined for a file that is written into a stream. */
  readonly path: string | undefined
  readonly #native: NativeWriter
  readonly #control: NativeControl
  readonly #outlet: Outlet | undefined
  readonly #dialect: string
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
  #queue: Promise<unknown> = Promise.resolve()
  /** Calls that have not had their turn yet, or are having it. */
  #waiting = 0
  #ended = false
  readonly #unfinished: object

  protected constructor(internals: unknown)
  protected constructor({ target, native, control, ...how }: Internals) {
    this.path = typeof target === 'string' ? target : undefined
    this.#outlet = typeof target === 'string' ? undefined : target
    this.#native = native
    this.#control = control
    this.#dialect = how.dialect
    this.#compresses = how.level !== undefined
    this.#atOnce = this.#outlet === undefined && (how.level === undefined || how.maxShard === undefined)
    this.#signal = how.signal
    this.#packets = new Packets(native)
    this.#links = new Links(this.path, how.digest)
    this.#unfinished = watchUnfinished(this, this.path)
  }

  /** @internal Does something with the binding's side when its turn comes. */
  static inTurn<T>(writer: TensorWriter, work: (native: NativeWriter) => T): Promise<T> {
    return writer.#next(async () => {
      if (writer.#ended) throw ended()
      return work(writer.#native)
    })
  }

  /** @internal Does something when its turn comes, whose errors are the caller's own. */
  static during<T>(writer: TensorWriter, work: () => Promise<T>): Promise<T> {
    return writer.#turn(work)
  }

  /** @internal The binding's side, and the stream, for work that is done without the writer. */
  static partsOf(writer: TensorWriter): { native: NativeWriter; outlet: Outlet | undefined } {
    return { native: writer.#native, outlet: writer.#outlet }
  }

  /** @internal */
  static async make(target: string | Outlet, request: WriteRequest, signal?: AbortSignal): Promise<TensorWriter> {
    const path = typeof target === 'string' ? target : undefined
    const { dialect, level, digest, maxShard } = request
    try {
      const begin = (control: NativeControl) => binding.createWriter(path, request, control)
      const begun = await TensorWriter.begin(path, signal, begin)
      return new TensorWriter({ target, ...begun, dialect, level, digest, maxShard, signal })
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

  /** Does one thing after the other, whatever the caller waits for. */
  async #turn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work)
    this.#waiting += 1
    const done = () => {
      this.#waiting -= 1
    }
    this.#queue = turn.then(done, done)
    return turn
  }

  /** The same with errors that are the binding's. */
  async #next<T>(work: () => Promise<T>): Promise<T> {
    return this.#turn(async () => {
      try {
        return await work()
      } catch (thrown) {
        if (!this.#signal?.aborted) throw publicError(thrown, this.path)
        // Whoever hears of the signal finds nothing left behind.
        await this.#giveUp()
        throw this.#signal.reason
      }
    })
  }

  /**
   * Adds a small dense tensor at once, in one crossing, where nothing else is under way; gives the bytes that wait then, or
   * undefined where it has to take its turn.
   */
  #addAtOnce(name: string, shape: number[], dtype: DTypeInfo, data: ArrayBufferView): number | undefined {
    const now = this.#atOnce && this.#waiting === 0 && !this.#ended && !this.#signal?.aborted
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
    if (this.#ended) throw ended()
    this.#outlet?.throwIfFailed()
  }

  #begin(
    name: string,
    shape: number[],
    layout: string,
    dtype: DTypeInfo | undefined,
    attributes: unknown,
    parts: Omit<Part, 'bytes'>[],
    lengths: number[],
  ): void {
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
  async #giveUp(): Promise<void> {
    forgetUnfinished(this.#unfinished)
    this.#outlet?.destroy()
    await this.#native.abort()
  }

  async #write(
    name: string,
    shape: number[],
    layout: string,
    dtype: DTypeInfo | undefined,
    attributes: unknown,
    given: Part[],
  ): Promise<void> {
    // In the order of their names, which is that of canonical files: else the blobs would have to be moved at the end.
    const parts =
      this.#dialect === '2' ? given.sort((a, b) => Buffer.compare(Buffer.from(a.role), Buffer.from(b.role))) : given
    const lengths = parts.map((part) => part.bytes.byteLength)
    await this.#next(async () => {
      this.#begin(name, shape, layout, dtype, attributes, parts, lengths)
      try {
        if (parts.some((part, at) => part.bytes.byteLength !== lengths[at])) throw detached()
        for (const { bytes } of parts) await this.#push(bytes)
        this.#native.end()
      } catch (thrown) {
        await this.#giveUp()
        throw thrown
      }
    })
  }

  /**
   * Adds a dense tensor: a typed array (of one dimension), or `{ dtype, shape, data }`.
   *
   * @throws ZTensorError ZT_BAD_SHAPE, ZT_BAD_DTYPE, ZT_BAD_INDEX (the name is there), ZT_IO; TypeError ZT_INVALID_ARG
   */
  async add(name: string, tensor: TypedArray | TensorInput, given?: AddOptions): Promise<void> {
    const checked = aText('name', name)
    const attributes = given === undefined ? undefined : ownAttributes(options(given, ['attributes']))
    const input = ArrayBuffer.isView(tensor) ? ownInput(tensor) : tensor
    if (typeof input !== 'object' || input === null)
      throw wrongType('tensor', 'a typed array or { dtype, shape, data }', input)
    const dtype = aDType('dtype', input.dtype)
    const data = aView('data', input.data)
    const shape = aShape(input.shape)
    const pending = attributes === undefined ? this.#addAtOnce(checked, shape, dtype, data) : undefined
    if (pending === undefined) {
      await this.#write(checked, shape, 'dense', dtype, attributes, [{ role: 'data', dtype, bytes: bytesOf(data) }])
    } else if (pending >= FULL) {
      await this.#next(() => this.#native.flush(this.#control))
    }
  }

  /**
   * Adds a sparse matrix by rows, after checking that it is one. Version 2 asks for rows whose columns rise: they are
   * sorted, and a column that stands twice in a row is refused.
   *
   * @throws ZTensorError what `add` throws, ZT_BAD_SPARSE
   */
  async addCsr(name: string, matrix: CsrInput, given?: AddOptions): Promise<void> {
    const checked = aText('name', name)
    const attributes = ownAttributes(options(given, ['attributes']))
    const shape = aShape(anObject('matrix', matrix).shape)
    const { values, dtype } = valuesOf(matrix)
    const { indices, indptr } = matrix
    const dtypes = [dtype.code, indexCode('indices', indices), indexCode('indptr', indptr)]
    await this.#addSparse({ name: checked, shape, attributes, dtypes }, [values, indices, indptr])
  }

  /**
   * Adds a sparse tensor by coordinates, after checking that it is one. Version 2 refuses a cell that stands twice.
   *
   * @throws ZTensorError what `add` throws, ZT_BAD_SPARSE
   */
  async addCoo(name: string, tensor: CooInput, given?: AddOptions): Promise<void> {
    const checked = aText('name', name)
    const attributes = ownAttributes(options(given, ['attributes']))
    const shape = aShape(anObject('tensor', tensor).shape)
    const { values, dtype } = valuesOf(tensor)
    const { coords } = tensor
    const dtypes = [dtype.code, indexCode('coords', coords)]
    await this.#addSparse({ name: checked, shape, attributes, dtypes }, [values, coords])
  }

  /** Adds the sparse tensor that these arrays are, in one crossing; in one more for each MiB that a stream takes. */
  async #addSparse({ attributes, ...tensor }: SparseSpec, arrays: TypedArray[]): Promise<void> {
    const spec = attributes === undefined ? tensor : { ...tensor, attributes }
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
        if (begun || !this.#native.isOpen) await this.#giveUp()
        throw thrown
      }
    })
  }

  /**
   * Adds a tensor of any layout by its components. Those of `dense`, `sparse_csr` and `sparse_coo` are checked
   * against the layout's rules on sizes.
   *
   * @throws ZTensorError what `add` throws, ZT_BAD_LAYOUT
   */
  async addObject(name: string, object: ObjectInput): Promise<void> {
    const checked = aText('name', name)
    const components = anObject('components', anObject('object', object).components)
    const parts = Object.entries(components).map(([role, component]) => ({
      role: aText('a role of components', role),
      dtype: optional(anObject(`components.${role}`, component).dtype, (value) =>
        aDType(`components.${role}.dtype`, value),
      ),
      bytes: bytesOf(aView(`components.${role}.data`, component.data)),
    }))
    const dtype = optional(object.dtype, (value) => aDType('dtype', value))
    const layout = aText('layout', object.layout)
    const sparse = /^(?:zt\.)?sparse_(csr|coo)(?:\/1)?$/.exec(layout)?.[1]
    if (sparse !== undefined) {
      throw invalid(TypeError, `layout ${layout} is written by ${sparse === 'csr' ? 'addCsr()' : 'addCoo()'}`)
    }
    await this.#write(checked, aShape(object.shape), layout, dtype, ownAttributes(object), parts)
  }

  /**
   * Adds a tensor whose bytes stay in another zTensor 2 file: zTensor 2 only, with `canonical: false`. The other file is
   * read once, for the digest by which readers know it.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX (the name is there), ZT_UNSUPPORTED_ENCODING, ZT_IO; TypeError
   * ZT_INVALID_ARG
   */
  async link(name: string, tensor: LinkInput): Promise<void> {
    const checked = aText('name', name)
    const wanted = aLink(checked, tensor)
    await this.#next(async () => {
      if (this.#ended) throw new ZTensorError('ZT_CLOSED', 'the writer has ended; create another one')
      const { ordinal, native, linked } = await this.#links.resolve(wanted, this.#signal)
      this.#native.link(native, ordinal, checked, linked)
    })
  }

  /**
   * A stream into a dense tensor: bytes as they come, as many as the shape asks for by its end. Other calls wait
   * until it has ended.
   */
  stream(
    name: string,
    tensor: { readonly dtype: DType; readonly shape: readonly number[] },
    given?: AddOptions,
  ): Writable {
    const checked = aText('name', name)
    const attributes = ownAttributes(options(given, ['attributes']))
    const dtype = aDType('dtype', anObject('tensor', tensor).dtype)
    const shape = aShape(tensor.shape)
    const bytes = (shape.reduce((product, size) => product * size, 1) * dtype.bits) / 8
    // The last byte of a packed type is padded in version 2.
    const byteLength = this.#dialect === '2' ? Math.ceil(bytes) : bytes
    let done: (() => void) | undefined
    const ended = new Promise<void>((resolve) => {
      done = resolve
    })
    let complete = false
    const begun = new Promise<void>((resolve, reject) => {
      this.#next(async () => {
        try {
          this.#begin(checked, shape, 'dense', dtype, attributes, [{ role: 'data', dtype }], [byteLength])
          resolve()
        } catch (thrown) {
          reject(publicError(thrown, this.path))
          return
        }
        await ended
        if (!complete) await this.#giveUp()
      }).catch(() => {})
    })
    begun.catch(() => {})
    const settle = (work: Promise<unknown>, callback: (error?: Error | null) => void) =>
      work.then(
        () => callback(),
        (thrown) => callback(publicError(thrown, this.path) as Error),
      )
    const stream = new Writable({
      highWaterMark: PIECE,
      decodeStrings: true,
      write: (chunk: Uint8Array, _encoding, callback) => {
        settle(
          begun.then(() => this.#push(bytesOf(chunk))),
          callback,
        )
      },
      final: (callback) => {
        const end = () => {
          calling(() => this.#native.end())
          complete = true
          this.#open.delete(stream)
        }
        settle(begun.then(end), callback)
      },
      destroy: (error, callback) => {
        this.#open.delete(stream)
        done?.()
        callback(error)
      },
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
    const end = async () => {
      this.#signal?.throwIfAborted()
      this.#end()
      try {
        const { rest, warnings } = await this.#native.finish(this.#control)
        emitWarnings(warnings)
        if (this.#outlet === undefined) return
        await this.#outlet.write(new Uint8Array(toBufferSync(rest)))
        await this.#outlet.end()
      } catch (thrown) {
        await this.#giveUp()
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
    for (const stream of this.#open) stream.destroy(stream.listenerCount('error') > 0 ? reason : undefined)
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
}

function ownInput(array: ArrayBufferView): TensorInput {
  const dtype = dtypeOfArray(array)
  if (dtype === undefined) throw wrongType('tensor', 'an array whose type is a dtype, or { dtype, shape, data }', array)
  return { dtype, shape: [(array as TypedArray).length], data: array }
}

function ended(): ZTensorError {
  return new ZTensorError('ZT_CLOSED', 'the writer has ended; create another one')
}

function detached(): ZTensorError {
  return new ZTensorError('ZT_CLOSED', 'the array to write was detached or resized meanwhile')
}

/** A tensor's attributes as they are now: the caller may change them before their turn. */
function ownAttributes({ attributes }: AddOptions): unknown {
  return attributes === undefined ? undefined : freezeMap('attributes', attributes)
}

/** A sparse tensor's values and their dtype. */
function valuesOf(tensor: { readonly dtype?: DType | undefined; readonly values: TypedArray }) {
  const values = aTypedArray('values', tensor.values)
  const dtype = aDType('dtype', tensor.dtype ?? dtypeOfArray(values))
  if (dtype.bits < 8) throw new ZTensorError('ZT_BAD_DTYPE', `${dtype.name} is packed: sparse tensors have whole bytes`)
  return { values, dtype }
}

/**
 * Begins a file: written beside its path, it appears there with `finish()`. Or into a Node Writable, a pipe or a character device,
 * which get the same bytes as they come; formats whose index comes first (safetensors, BTF) cannot be written so. A pipe that nobody
 * reads is waited for.
 *
 * @throws ZTensorError ZT_EXISTS unless `overwrite`, ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function create(target: string | URL | Writable, given?: CreateOptions): Promise<TensorWriter> {
  const request = writeRequest(given)
  const signal = optional(options(given, ['signal']).signal, aSignal)
  signal?.throwIfAborted()
  return TensorWriter.heed(
    await TensorWriter.make(await aTarget('path', target, request.overwrite)(signal), request, signal),
  )
}

/** Checks where to write to; gives that once it is wanted, since a stream is listened to from then on. */
export function aTarget(
  name: string,
  target: unknown,
  overwrite = false,
): (signal?: AbortSignal) => Promise<string | Outlet> {
  if (typeof target === 'string' || urlText(target) !== undefined) {
    const path = targetPath(target as string | URL)
    return async (signal) => {
      const stream = await specialFile(path, signal)
      return stream === undefined ? path : new Outlet(stream, true)
    }
  }
  if (!isWritable(target)) throw wrongType(name, 'a string, a file URL or a Node Writable', target)
  if (overwrite) throw invalid(TypeError, 'overwrite is for paths: a stream replaces nothing')
  return async () => new Outlet(target)
}
