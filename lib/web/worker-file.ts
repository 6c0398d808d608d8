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
import { type Control, Memory, NativeFile, type Opened } from './binding.js'
import { reader } from './module.js'
import { Thread } from './thread.js'
import type { Tree } from './tree.js'

type Comparison = Parameters<NonNullable<NativeFile['worker']>['compare']>

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
    const thread = new Thread({ what: 'the file', afterwards: 'close the file', instead: 'open files' })
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
