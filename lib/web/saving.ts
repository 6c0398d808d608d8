// The part of the binding that writes the tensors of the caller. A file has an instance of its own.

import type {
  FinishedFile,
  BlockType as NativeBlockType,
  SparseSpec,
  SparseStep,
  TensorSpec,
  WriteRequest,
} from '../native/binding.js'
import { nextTurn } from '../native/event-loop.js'
import { detached } from '../write/detached.js'
import { Memory } from './binding.js'
import { maybeText, putValue, settingsMessage, writer } from './conversion.js'
import { type Assembly, readAssembly } from './kept.js'
import { prepareKernels } from './kernels.js'
import { Message, type Reply } from './message.js'
import { Instance, native, type Operation } from './module.js'

export interface KeptFile extends FinishedFile {
  readonly assembly: Assembly | undefined
}

let blockTypes: ReadonlyMap<string, NativeBlockType> = new Map()

function readBlockTypes(reply: Reply): ReadonlyMap<string, NativeBlockType> {
  const all = reply.list(() => {
    const [name, elements, bytes, layout] = [reply.text(), reply.number(), reply.number(), reply.text()]
    const parameters = reply.list(() => ({ name: reply.text(), value: reply.number() }))
    return [name, { elements, bytes, layout, parameters }] as const
  })
  return new Map(all)
}

function maybeAttributes(message: Message, attributes: unknown): void {
  message.flag(attributes !== undefined)
  if (attributes !== undefined) putValue(message, attributes)
}

/** A file that is being written. */
class NativeWriter {
  readonly #instance: Instance
  #isOpen = true

  constructor(instance: Instance) {
    this.#instance = instance
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  #ask(operation: Operation, message: Message = new Message()): Reply {
    return this.#instance.ask(operation, message)
  }

  /** Performs an operation after which the file is given up if it fails. */
  #write(operation: Operation, message: Message = new Message()): Reply {
    try {
      return this.#ask(operation, message)
    } catch (error) {
      this.#isOpen = false
      throw error
    }
  }

  begin({ name, shape, layout, dtype, attributes, components }: TensorSpec): void {
    const message = new Message().text(name).numbers(shape).text(layout).maybe(dtype)
    maybeAttributes(message, attributes)
    message.number(components.length)
    for (const { role, dtype, byteLength } of components) message.text(role).maybe(dtype).number(byteLength)
    this.#ask('announce', message)
  }

  push(bytes: Uint8Array): number {
    return this.#write('push', new Message().maybe(undefined).maybe(undefined).flag(false).bytes(bytes)).number()
  }

  async pushAsync(bytes: Uint8Array, cast: Uint32Array | undefined, blocks: string | undefined): Promise<number> {
    const { byteLength } = bytes
    // A large array is many pieces: the page goes on between them.
    await nextTurn()
    if (bytes.byteLength !== byteLength) throw detached()
    const message = new Message().maybe(cast?.[0]).maybe(cast?.[1])
    maybeText(message, blocks)
    return this.#write('push', message.bytes(bytes)).number()
  }

  take(): Memory {
    const bytes = this.#instance.call('takeWritten', new Message())
    return new Memory(bytes instanceof Uint8Array ? bytes.slice() : new Uint8Array(0))
  }

  foresee(names: string[]): void {
    this.#ask('foresee', new Message().texts(names))
  }

  async addSparse(spec: SparseSpec, arrays: readonly Uint8Array[]): Promise<SparseStep> {
    const message = new Message().text(spec.name).numbers(spec.shape)
    maybeAttributes(message, spec.attributes)
    message.number(arrays.length)
    for (const [at, array] of arrays.entries()) message.number(spec.dtypes[at] as number).bytes(array)
    return this.#step('addSparse', message)
  }

  async continueSparse(): Promise<SparseStep> {
    await nextTurn()
    return this.#step('continueSparse', new Message())
  }

  #step(operation: Operation, message: Message): SparseStep {
    const reply = this.#ask(operation, message)
    return { pending: reply.number(), done: reply.flag() }
  }

  end(): void {
    this.#write('end')
  }

  link(): never {
    throw native({ code: 'ZT_INVALID_ARG', message: 'a browser links to no files: write the link in Node' })
  }

  async finish(): Promise<KeptFile> {
    const reply = this.#ask('complete')
    const rest = new Memory(reply.bytes().slice())
    const assembly = readAssembly(reply)
    await this.abort()
    return { rest, warnings: [], assembly }
  }

  /** Releases the memory. */
  async abort(): Promise<void> {
    this.#isOpen = false
    this.#instance.close()
  }
}

/** What writers need of the binding. */
export const saving = {
  async createWriter(_path: undefined, request: WriteRequest): Promise<NativeWriter> {
    await prepareKernels(writer)
    const instance = await Instance.create(writer)
    try {
      if (blockTypes.size === 0) blockTypes = readBlockTypes(instance.ask('blockTypes', new Message()))
      instance.ask('create', settingsMessage(request))
      return new NativeWriter(instance)
    } catch (error) {
      instance.close()
      throw error
    }
  },
  blockType: (name: string) => blockTypes.get(name) ?? null,
  blockTypes: () => Array.from(blockTypes.keys()),
  async identify(): Promise<never> {
    throw native({ code: 'ZT_INVALID_ARG', message: 'a browser links to no files: write the link in Node' })
  },
}
