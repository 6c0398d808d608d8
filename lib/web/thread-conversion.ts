// A conversion in a worker of its own, in which its source is opened again. The page writes what the worker makes.
import type {
  BeginRequest,
  Begun,
  CheckpointInfo,
  ConversionPlan,
  NativeError,
  PlanRequest,
  TensorRange,
  WriteRequest,
} from '../native/binding.js'
import { publicError } from '../native/errors.js'
import { Control, type NativeFile } from './binding.js'
import type { NativeConversion } from './conversion.js'
import type { Assembly } from './kept.js'
import { reader, type Wasm } from './module.js'
import type { Thread } from './thread.js'
import type { Sink } from './tree.js'
import type { Start } from './worker.js'

type Public<T> = { [K in keyof T]: T[K] }
/** What the wrapper calls; here every result is a promise. */
type Calls = Omit<Public<NativeConversion>, 'create' | 'passBlocks' | 'refusals' | 'stageNext'>

export class ThreadConversion implements Calls {
  readonly #thread: Thread
  readonly #writer: Wasm
  readonly #given: ConstructorParameters<typeof NativeConversion>
  /** Selections that wait for the worker. */
  #selected: [ordinals: Uint32Array, names: string[]][] = []
  #starting: Promise<unknown> | undefined

  constructor(thread: Thread, writer: Wasm, given: ConstructorParameters<typeof NativeConversion>) {
    this.#thread = thread
    this.#writer = writer
    this.#given = given
  }

  select(ordinals: Uint32Array, names: string[]): void {
    this.#selected.push([ordinals, names])
  }

  async #start(file: NativeFile, control: Control): Promise<void> {
    const start: Start = { module: await reader.load(), tree: this.#thread.post(file), known: [] }
    await this.#thread.ask('start', [start], control)
    await this.#thread.ask('conversion', [await this.#writer.load(), this.#given], control)
  }

  async #ready(file: NativeFile, control: Control): Promise<Thread> {
    this.#starting ??= this.#start(file, control)
    await this.#starting
    for (const selected of this.#selected.splice(0)) await this.#thread.ask('select', selected, control)
    return this.#thread
  }

  async selectCheckpoint(
    file: NativeFile,
    location: string,
    _remote: unknown,
    _followLinks: boolean,
    isSure: boolean,
    set: unknown,
    control: Control,
  ): Promise<CheckpointInfo | null> {
    const thread = await this.#ready(file, control)
    return thread.ask('selectCheckpoint', [location, isSure, set], control)
  }

  async plan(file: NativeFile, request: PlanRequest, control: Control): Promise<ConversionPlan> {
    const thread = await this.#ready(file, control)
    return thread.ask('plan', [request], control)
  }

  async refusals(attributes: boolean, withoutAttributes: boolean): Promise<NativeError[]> {
    try {
      return await this.#thread.ask('refusals', [attributes, withoutAttributes], new Control())
    } catch (error) {
      throw publicError(error)
    }
  }

  create(request: WriteRequest, isSized: boolean): Promise<boolean> {
    return this.#thread.ask('create', [request, isSized], new Control())
  }

  begin(_file: NativeFile, _writer: unknown, request: BeginRequest, control: Control): Promise<Begun> {
    return this.#thread.ask('begin', [request], control)
  }

  write(_file: NativeFile, sink: unknown, range: TensorRange, control: Control): Promise<void> {
    return this.#thread.writing(sink as Sink, () => this.#thread.ask('write', [range], control))
  }

  finish(sink: Sink): Promise<Assembly | undefined> {
    return this.#thread.writing(sink, () => this.#thread.ask('finish', [], new Control()))
  }

  close(): void {
    this.#thread.close()
  }
}
