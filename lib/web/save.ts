// `create` and `saveFile` in browsers: write the caller's tensors to a stream, a file or a Blob.

import { extname } from '#host'
import { onAbort } from '../native/abort.js'
import { invalid, publicError, ZTensorError } from '../native/errors.js'
import { toBufferSync } from '../native/memory.js'
import type { FinishedFile } from '../native/native.js'
import { optional, readOptions, validateAbortSignal } from '../values/arguments.js'
import { checkRemoved } from '../values/attribute-input.js'
import { withFormatOf } from '../values/formats.js'
import { CREATE_OPTIONS, type CreateOptions, writeRequest } from '../write/options.js'
import { type SaveFileOptions, saveTensors, type Tensors } from '../write/save-tensors.js'
import type { Spool, Stream } from '../write/stream.js'
import { TensorWriter } from '../write/writer.js'
import { BlobTarget, type Target } from './blob-target.js'
import { KeptData } from './kept.js'
import { nameOf, targetOf, type WebTarget } from './output.js'
import type { KeptFile } from './saving.js'

/** Keeps the data of a file whose index comes first. */
class BlobSpool extends KeptData implements Spool {
  readonly path = undefined

  async copyTo(stream: Stream, finished: FinishedFile, signal: AbortSignal | undefined): Promise<void> {
    const { rest, assembly } = finished as KeptFile
    await this.write(new Uint8Array(toBufferSync(rest)))
    if (assembly === undefined) throw new ZTensorError('ZT_INTERNAL', 'the index comes behind the data that was kept')
    await this.assemble(assembly, stream, signal)
  }
}

/** A target as a stream. */
class TargetStream implements Stream {
  readonly #target: Target
  readonly #signal: AbortSignal | undefined
  #failure: unknown
  #isDone = false

  constructor(target: Target, signal: AbortSignal | undefined) {
    this.#target = target
    this.#signal = signal
  }

  get blob(): Blob | undefined {
    return this.#isDone && this.#failure === undefined && this.#target instanceof BlobTarget
      ? this.#target.blob
      : undefined
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    this.throwIfFailed()
    try {
      await work()
    } catch (error) {
      this.#failure ??= error
    }
    this.throwIfFailed()
  }

  async open(signal: AbortSignal | undefined): Promise<void> {
    const forget = signal === undefined ? undefined : onAbort(signal, () => void this.#target.abort(signal.reason))
    try {
      await this.#attempt(() => this.#target.open())
    } finally {
      forget?.()
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#attempt(() => this.#target.write(bytes as Uint8Array<ArrayBuffer>))
  }

  async end(): Promise<void> {
    await this.#attempt(() => this.#target.close())
    this.#isDone = true
  }

  release(): void {
    this.#isDone = true
    this.#target.release()
  }

  destroy(): void {
    if (this.#isDone) return
    this.#isDone = true
    const closed = new ZTensorError('ZT_IO', 'the stream was destroyed before the file was complete')
    this.#failure ??= closed
    void this.#target.abort(this.#signal?.aborted ? this.#signal.reason : this.#failure)
  }

  throwIfFailed(): void {
    if (this.#failure !== undefined) throw publicError(this.#failure)
  }

  async createSpool(): Promise<Spool> {
    return new BlobSpool()
  }
}

/** A writer in a browser. Without a target, `blob` is the file after `finish()`. */
export class WebTensorWriter extends TensorWriter {
  /** The file, after `finish()`, if the writer has no target. */
  get blob(): Blob | undefined {
    return (TensorWriter.partsOf(this).outlet as TargetStream).blob
  }
}

/** How to write a file in a browser: as in Node, without what needs a path. */
export type WebCreateOptions = Omit<CreateOptions, 'maxShardBytes' | 'overwrite' | 'remote'>

/** How to write all tensors of a file in a browser. */
export type WebSaveFileOptions = Omit<SaveFileOptions, 'maxShardBytes' | 'overwrite' | 'remote'>

/** Options of Node, and why a browser does not have them. */
const OF_NODE: Readonly<Record<string, string>> = {
  maxShardBytes: 'writes several files next to each other: write one file, or write in Node',
  overwrite: 'is for paths: a stream or a handle is always written',
  remote: 'is for object stores: write to a stream of your own',
}

/** Creates a writer, as `create` in Node, after the module was loaded by `load`. */
export async function createWriter(
  load: () => Promise<void>,
  target: WebTarget | null | undefined,
  options: WebCreateOptions | undefined,
): Promise<WebTensorWriter> {
  const read = readOptions(options as CreateOptions, CREATE_OPTIONS)
  for (const [option, why] of Object.entries(OF_NODE))
    if (read[option as keyof CreateOptions] !== undefined) throw invalid(TypeError, `${option} ${why}`, { option })
  const signal = optional(read.signal, validateAbortSignal)
  const to = targetOf(target)
  checkRemoved(read)
  const request = writeRequest(withFormatOf(read, nameOf(target), (name) => extname(name) === ''))
  signal?.throwIfAborted()
  await load()
  const stream = new TargetStream(to, signal)
  const writer = await TensorWriter.make(stream, request, signal, undefined, false, WebTensorWriter)
  try {
    return await TensorWriter.listen(writer as WebTensorWriter)
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  }
}

/** Writes tensors in one call, as `saveFile` in Node. */
export async function saveAll(
  load: () => Promise<void>,
  target: WebTarget | null | undefined,
  tensors: Tensors,
  options: WebSaveFileOptions | undefined,
): Promise<{ readonly blob?: Blob | undefined }> {
  const create = (to: WebTarget | null | undefined, read: CreateOptions) =>
    createWriter(load, to, Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined)))
  const { blob } = (await saveTensors(create, target, tensors, options)) as WebTensorWriter
  return blob === undefined ? {} : { blob }
}
