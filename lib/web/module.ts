// The WebAssembly modules, and their instances. An instance has one file: memory of WebAssembly never shrinks, and a trap ends only that file.
import type { NativeError } from '../native/binding.js'
import { ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { Message, Reply } from './message.js'

/** What can be compiled: the location of `ztensor.wasm`, its bytes, a response with them, or the compiled module. */
export type WasmSource = string | URL | Response | BufferSource | WebAssembly.Module

/** All operations, by number. crates/web has the same list. */
const OPERATIONS = [
  'seed',
  'tell',
  'tellFolder',
  'add',
  'open',
  'index',
  'close',
  'forget',
  'components',
  'attributes',
  'outline',
  'find',
  'findAll',
  'similar',
  'direct',
  'spans',
  'next',
  'checkTotal',
  'storedBytes',
  'plan',
  'damage',
  'load',
  'dequantize',
  'take',
  'sparse',
  'batch',
  'stats',
  'nearest',
  'verify',
  'canonical',
  'contentDigest',
  'compare',
  'defer',
  'fill',
  'hashing',
  'hash',
  'hashed',
  'toFloat32',
  'castElements',
  'planSlice',
  'packSlice',
  'shardRanges',
  'checkCsr',
  'csrToDense',
  'csrCoordsDtype',
  'csrToCoords',
  'checkCoo',
  'cooToDense',
  'cooIndptrDtype',
  'cooToCsr',
  // Only in the module that writes.
  'conversion',
  'select',
  'checkpoint',
  'planConversion',
  'refusals',
  'writer',
  'abort',
  'begin',
  'nextWritten',
  'inspect',
  'copy',
  'block',
  'finish',
  'create',
  'announce',
  'push',
  'end',
  'takeWritten',
  'foresee',
  'addSparse',
  'continueSparse',
  'complete',
  'blockTypes',
] as const

export type Operation = (typeof OPERATIONS)[number]

const numbers = new Map(OPERATIONS.map((name, number) => [name, number] as const))

interface Exports {
  readonly memory: WebAssembly.Memory
  take(length: number): number
  reply(): number
  call(operation: number, at: number, length: number): number
}

/** Files and ranges that a call missed. */
export interface Missing {
  /** For each file of the instance. */
  readonly files: readonly {
    readonly names: readonly string[]
    readonly ranges: readonly (readonly [name: string, offset: number, length: number])[]
  }[]
}

const DONE = 0
const MORE = 1

/** What helps if a module cannot be loaded. */
const LOCATION =
  "Pass its location to init({ wasm }). Vite before 8 needs optimizeDeps: { exclude: ['@ztensor/web'] }; a Content-Security-Policy needs " +
  "script-src 'wasm-unsafe-eval' and connect-src 'self'"

/** A module that is compiled once. */
export class Wasm {
  readonly #name: string
  #located: () => WasmSource
  #compiled: Promise<WebAssembly.Module> | undefined

  constructor(name: string, located: () => WasmSource) {
    this.#name = name
    this.#located = located
  }

  /** Sets the default location, for a runtime that cannot fetch the file next to this one. */
  locate(source: () => WasmSource): void {
    this.#located = source
  }

  /** Compiles the module. A later call has no effect, unless the first one failed. */
  async load(source?: WasmSource | Promise<WasmSource>): Promise<WebAssembly.Module> {
    this.#compiled ??= this.#compile(source ?? this.#located())
    try {
      return await this.#compiled
    } catch (error) {
      this.#compiled = undefined
      throw error
    }
  }

  async #compile(source: WasmSource | Promise<WasmSource>): Promise<WebAssembly.Module> {
    let place = ''
    try {
      const given = await source
      if (given instanceof WebAssembly.Module) return given
      if (ArrayBuffer.isView(given) || given instanceof ArrayBuffer) return await WebAssembly.compile(given)
      place = ` at ${given instanceof Response ? given.url : given}`
      const response = given instanceof Response ? given : await fetch(given)
      const type = response.headers.get('content-type') ?? ''
      if (!response.ok || type.startsWith('text/html'))
        throw new TypeError(`the server answers ${response.status} ${type}`)
      const isWasm = type.startsWith('application/wasm')
      return await (isWasm ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer()))
    } catch (cause) {
      const message = `${this.#name}${place} cannot be loaded: ${messageOf(cause)}. ${LOCATION}`
      throw new ZTensorError('ZT_IO', message, { cause })
    }
  }
}

/** The module that reads. */
export const reader: Wasm = new Wasm('ztensor.wasm', () => new URL('ztensor.wasm', import.meta.url))

/** Sets the default location, for a runtime that cannot fetch the file next to this one. */
export function locate(source: () => WasmSource): void {
  reader.locate(source)
}

/** The fields of an error, as the addon throws it. */
export type Thrown = Pick<NativeError, 'code' | 'message'> & Partial<NativeError>

/** An error of the binding, which the wrapper makes public. */
export function native(error: Thrown): Error {
  return Object.assign(new Error(error.message), error)
}

export function readError(reply: Reply): NativeError {
  const error: Record<string, unknown> = { code: reply.text(), message: reply.text() }
  const add = (key: keyof NativeError, value: unknown) => {
    if (value !== undefined) error[key] = value
  }
  add('option', reply.maybeText())
  error.hints = reply.list(() => ({ option: reply.text(), text: reply.text() }))
  add('tensor', reply.maybeText())
  add('component', reply.maybeText())
  add('offset', reply.maybeNumber())
  add('rule', reply.maybeText())
  add('path', reply.maybeText())
  add('context', reply.maybeText())
  error.causes = reply.list(() => readError(reply))
  return error as unknown as NativeError
}

function readMissing(reply: Reply): Missing {
  const files = []
  while (!reply.isAtEnd) {
    const names = reply.list(() => reply.text())
    const ranges = reply.list(() => [reply.text(), reply.number(), reply.number()] as const)
    files.push({ names, ranges })
  }
  return { files }
}

/** The message of the last panic in an instance that has trapped. */
let panic: string | undefined

export function takePanic(): string | null {
  const taken = panic ?? null
  panic = undefined
  return taken
}

/** Milliseconds between attempts to create an instance. */
const PAUSES = [50, 100, 200, 400, 800, 1600]

/**
 * Collects the garbage of this thread if the browser has no memory for another instance. Threads share the memory, and a browser collects only
 * that of the thread that lacks it.
 */
export function makeRoom(): void {
  try {
    new WebAssembly.Memory({ initial: 1 })
  } catch {
    // The garbage was collected before this failed.
  }
}

let askForRoom = async (): Promise<unknown> => undefined

/** Sets how another thread is asked to collect its garbage. */
export function whenFull(ask: typeof askForRoom): void {
  askForRoom = ask
}

/** An instance of the module. */
export class Instance {
  #exports: Exports | undefined
  #isBroken = false

  private constructor(exports: Exports) {
    this.#exports = exports
    const random = new Float64Array(crypto.getRandomValues(new Uint8Array(16)).buffer)
    this.call('seed', new Message().number(...random))
  }

  /** Creates an instance. Browsers free the memory of closed files and ended workers a little later, so it waits for it if there is none. */
  static async create(wasm: Wasm = reader): Promise<Instance> {
    const module = await wasm.load()
    for (const pause of PAUSES) {
      try {
        const { exports } = await WebAssembly.instantiate(module, {})
        return new Instance(exports as unknown as Exports)
      } catch (error) {
        if (!(error instanceof RangeError)) throw error
        await askForRoom()
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    }
    const message = 'the browser has no memory for another file: close files that are not needed'
    throw native({ code: 'ZT_LIMIT', message })
  }

  get isClosed(): boolean {
    return this.#exports === undefined
  }

  /** Releases the memory. */
  close(): void {
    this.#exports = undefined
  }

  /**
   * Performs an operation. Returns the bytes of the reply, which are valid until the next call, or what it missed. Throws an error of the
   * binding. After a trap all calls fail.
   */
  call(operation: Operation, message: Message): Uint8Array<ArrayBuffer> | Missing {
    if (this.#isBroken)
      throw native({ code: 'ZT_INTERNAL', message: 'an earlier call met a bug in ztensor; close the file' })
    const exports = this.#exports
    if (exports === undefined) throw native({ code: 'ZT_CLOSED', message: 'the file is closed' })
    let outcome: number
    try {
      const at = message.byteLength < 2 ** 32 ? exports.take(message.byteLength) >>> 0 : 0
      if (at === 0) {
        const text = `not enough memory for ${message.byteLength} bytes: a browser gives a file at most 4 GiB`
        throw native({ code: 'ZT_LIMIT', message: text })
      }
      message.write(exports.memory.buffer, at)
      outcome = exports.call(numbers.get(operation) as number, at, message.byteLength)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error)) {
        this.#isBroken = true
        panic = `${error} ${decodePanic(exports)}`
        this.#exports = undefined
      }
      throw error
    }
    const reply = replyOf(exports)
    if (outcome === DONE) return reply
    const read = new Reply(reply)
    if (outcome === MORE) return readMissing(read)
    throw native(readError(read))
  }

  /** Performs an operation that reads no data. */
  ask(operation: Operation, message: Message): Reply {
    const reply = this.call(operation, message)
    if (reply instanceof Uint8Array) return new Reply(reply)
    throw native({
      code: 'ZT_NOT_LOCAL',
      message: 'the file is remote, and synchronous access does not wait for it: await load()',
    })
  }
}

function replyOf({ memory, reply }: Exports): Uint8Array<ArrayBuffer> {
  const [at = 0, length = 0] = new Uint32Array(memory.buffer, reply() >>> 0, 2)
  return new Uint8Array(memory.buffer as ArrayBuffer, at, length)
}

function decodePanic(exports: Exports): string {
  try {
    return new TextDecoder().decode(replyOf(exports))
  } catch {
    return ''
  }
}
