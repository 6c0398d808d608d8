// A file whose bytes a worker reads and decodes. The page has the index, which synchronous calls need.
import type * as Binding from '../native/binding.js'
import type {
  DivisionRequest,
  Loaded,
  LoadRequest,
  NearestRequest,
  OpenRequest,
  StatsRequest,
} from '../native/binding.js'
import { registerThrown } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { type Control, Memory, NativeFile, type Opened, type Opening } from './binding.js'
import { Channel } from './channel.js'
import { native, reader, type Thrown } from './module.js'
import type { FileSource, Tree } from './tree.js'
import type { Found, PostedTree } from './worker.js'

type Comparison = Parameters<NonNullable<NativeFile['worker']>['compare']>

/** A worker, and what it asks this side for. */
class Thread {
  readonly #worker: Worker
  readonly #channel: Channel
  readonly #trees = new Map<number, Tree>()
  /** The files that this side reads. */
  readonly #sources: FileSource[] = []
  #isStarted = false

  constructor() {
    this.#worker = startWorker()
    this.#channel = new Channel(this.#worker, (what, args, { signal }) =>
      what === 'find' ? this.#find(args, signal) : this.#read(args, signal),
    )
    this.#worker.onmessage = ({ data }) => {
      this.#isStarted = true
      this.#channel.take(data)
    }
    this.#worker.onmessageerror = () => this.#fail('a message could not be read')
    this.#worker.onerror = (event) => {
      event.preventDefault()
      this.#fail(event.message ?? '')
    }
  }

  /** Makes a call. */
  async ask<T>(what: string, args: readonly unknown[], control: Control): Promise<T> {
    try {
      return await this.#channel.ask<T>(what, args, control)
    } catch (error) {
      const { cause } = error as { cause?: unknown }
      throw cause === undefined || error === control.signal.reason
        ? error
        : Object.assign(error as Error, { thrown: registerThrown(cause) })
    }
  }

  /** Lets the worker find the files of a tree, while `work` runs. */
  async with<T>(openings: readonly Opening[], work: (trees: PostedTree[]) => Promise<T>): Promise<T> {
    const trees = openings.map(({ tree, request }) => {
      const number = nextTree++
      this.#trees.set(number, tree)
      return { number, roots: tree.roots, request }
    })
    try {
      return await work(trees)
    } finally {
      for (const { number } of trees) this.#trees.delete(number)
    }
  }

  close(): void {
    this.#end(native({ code: 'ZT_CLOSED', message: 'the file is closed' }))
  }

  #end(error: Error): void {
    this.#channel.end(error)
    this.#worker.terminate()
  }

  #fail(why: string): void {
    const reason: Thrown = this.#isStarted
      ? { code: 'ZT_INTERNAL', message: `the worker of the file has ended: ${why}; close the file` }
      : {
          code: 'ZT_IO',
          message: `worker.js of @ztensor/web did not start: put it next to the JavaScript of the page, or open files without worker. ${why}`,
        }
    this.#end(native(reason))
  }

  async #find([number, name]: readonly unknown[], signal: AbortSignal): Promise<Found | undefined> {
    const found = await this.#trees.get(number as number)?.find(name as string, signal)
    if (found === undefined) return undefined
    if ('names' in found) return { kind: 'folder', names: found.names }
    if (found.posted !== undefined) return found.posted
    this.#sources.push(found)
    return { kind: 'page', number: this.#sources.length - 1, byteLength: found.byteLength }
  }

  /** Copies the bytes, which may be the caller's. */
  async #read([number, offset, length]: readonly unknown[], signal: AbortSignal): Promise<ArrayBufferLike> {
    const source = this.#sources[number as number] as FileSource
    return (await source.read(offset as number, length as number, signal)).slice().buffer
  }
}

let nextTree = 0

function startWorker(): Worker {
  try {
    return new Worker(new URL('worker.js', import.meta.url), { type: 'module' })
  } catch (error) {
    const message = `worker.js of @ztensor/web did not start: open files without worker. ${messageOf(error)}`
    throw native({ code: 'ZT_IO', message, thrown: registerThrown(error) })
  }
}

const memory = async (buffer: Promise<ArrayBuffer>): Promise<Memory> => new Memory(new Uint8Array(await buffer))

export class WorkerFile extends NativeFile {
  readonly #thread: Thread
  override readonly worker = {
    compare: (files: Comparison[0], request: Comparison[1], control: Control): Promise<Binding.NativeComparison[]> =>
      this.#thread.with(files, (trees) => this.#thread.ask('compare', [trees, request], control)),
  }

  private constructor(thread: Thread, opened: Opened) {
    super(opened)
    this.#thread = thread
  }

  static override async open(tree: Tree, request: OpenRequest, control: Control): Promise<WorkerFile> {
    const thread = new Thread()
    try {
      const { opened, known } = await NativeFile.opened(tree, request, control)
      const module = await reader.load()
      await thread.with([opened], ([tree]) => thread.ask('start', [{ module, tree, known }], control))
      return new WorkerFile(thread, opened)
    } catch (error) {
      thread.close()
      throw error
    }
  }

  override close(): void {
    super.close()
    this.#thread.close()
  }

  override load(ordinal: number, component: number, request: LoadRequest, control: Control): Promise<Memory> {
    return memory(this.#thread.ask('load', [ordinal, component, request], control))
  }

  /** The worker has no access to the caller's memory. */
  override async loadInto(): Promise<boolean> {
    return false
  }

  override dequantize(...[ordinal, ranges, deferred, control]: Parameters<NativeFile['dequantize']>): Promise<Memory> {
    return memory(this.#thread.ask('dequantize', [ordinal, ranges, deferred], control))
  }

  override take(
    ...[ordinal, component, widen, axis, indices, control]: Parameters<NativeFile['take']>
  ): Promise<Memory> {
    return memory(this.#thread.ask('take', [ordinal, component, widen, axis, indices], control))
  }

  override async loadSparse(ordinal: number, control: Control): Promise<Memory[]> {
    const buffers = await this.#thread.ask<ArrayBuffer[]>('loadSparse', [ordinal], control)
    return buffers.map((buffer) => new Memory(new Uint8Array(buffer)))
  }

  override async loadBatch(
    ordinals: Uint32Array,
    _atOnce: number,
    control: Control,
    _stage?: unknown,
    division?: DivisionRequest | null,
  ): Promise<Loaded> {
    type Reply = [buffers: ArrayBuffer[], locations: Float64Array<ArrayBuffer>]
    const [buffers, locations] = await this.#thread.ask<Reply>('loadBatch', [ordinals, division], control)
    const blocks = buffers.map((buffer) => new Memory(new Uint8Array(buffer)))
    return { blocks: blocks as unknown as Loaded['blocks'], locations }
  }

  override stats(ordinal: number, request: StatsRequest, control: Control): Promise<Binding.TensorStats> {
    return this.#thread.ask('stats', [ordinal, request], control)
  }

  override nearest(ordinal: number, request: NearestRequest, control: Control): Promise<Binding.Nearest> {
    return this.#thread.ask('nearest', [ordinal, request], control)
  }

  override verify(ordinals: Uint32Array, control: Control): Promise<Binding.Verified> {
    return this.#thread.ask('verify', [ordinals], control)
  }

  override canonical(control: Control): Promise<Binding.Verified> {
    return this.#thread.ask('canonical', [], control)
  }

  override contentDigest(algorithm: string, control: Control): Promise<string> {
    return this.#thread.ask('contentDigest', [algorithm], control)
  }
}
