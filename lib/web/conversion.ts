// The part of the binding that writes, over the second module. A conversion has an instance of its own, in which its source is open.
import type {
  BeginRequest,
  Begun,
  CheckpointInfo,
  ConversionPlan,
  NativeError,
  PlanRequest,
  Quantized,
  StatedAttribute,
  TensorOutline,
  TensorRange,
  WriteRequest,
} from '../native/binding.js'
import { type Control, type FileSpan, type NativeFile, readSpans, type Session } from './binding.js'
import { type Assembly, readAssembly } from './kept.js'
import { Message, Reply } from './message.js'
import { native, type Operation, readError, Wasm } from './module.js'
import type { Thread } from './thread.js'
import { ThreadConversion } from './thread-conversion.js'
import type { Sink } from './tree.js'

/** The module that writes. */
export const writer: Wasm = new Wasm('ztensor-convert.wasm', () => new URL('ztensor-convert.wasm', import.meta.url))

/** Adds an attribute value, as `freezeChanges` makes it. */
export function putValue(message: Message, value: unknown): void {
  if (value === null || value === undefined) message.number(0)
  else if (typeof value === 'boolean') message.number(1).flag(value)
  else if (typeof value === 'number') message.number(2, value)
  else if (typeof value === 'string') message.number(3).text(value)
  else if (value instanceof Uint8Array) message.number(4).bytes(value)
  else if (typeof value === 'bigint')
    message
      .number(5)
      .flag(value < 0n)
      .bytes(wordsOf(value))
  else if ('list' in (value as object)) {
    const { list } = value as { list: unknown[] }
    message.number(6, list.length)
    for (const item of list) putValue(message, item)
  } else {
    const { map } = value as { map: unknown[] }
    message.number(7, map.length / 2)
    for (const item of map) putValue(message, item)
  }
}

/** The magnitude of a bigint in words of 64 bits, little-endian. */
function wordsOf(value: bigint): Uint8Array {
  const words: bigint[] = []
  for (let rest = value < 0n ? -value : value; rest > 0n; rest >>= 64n) words.push(rest & 0xffff_ffff_ffff_ffffn)
  return new Uint8Array(BigUint64Array.from(words).buffer)
}

export function maybeText(message: Message, text: string | null | undefined): void {
  const isThere = text !== null && text !== undefined
  message.flag(isThere)
  if (isThere) message.text(text)
}

const readStated = (reply: Reply): StatedAttribute => {
  const [key, text, number] = [reply.text(), reply.maybeText(), reply.maybeNumber()]
  return { key, ...(text === undefined ? {} : { text }), ...(number === undefined ? {} : { number }) }
}

function readQuantized(reply: Reply): Quantized {
  return {
    stated: reply.list(() => readStated(reply)),
    types: reply.list(() => ({ type: reply.text(), tensors: reply.number() })),
    fallbacks: reply.list(() => ({ tensor: reply.text(), wanted: reply.text(), type: reply.text() })),
    unweighted: reply.list(() => reply.text()),
    ordinals: reply.smalls() as Uint32Array<ArrayBuffer>,
  }
}

function readPlan(reply: Reply): ConversionPlan {
  const plan: ConversionPlan = {
    tensors: reply.number(),
    bytes: reply.number(),
    inspected: reply.number(),
    inspectedBytes: reply.number(),
    isSized: reply.flag(),
    attributes: reply.flag(),
    ...optional(
      'leftOut',
      reply.maybe(() => readLeftOut(reply)),
    ),
    readers: reply.list(() => reply.text()),
    float32: reply.smalls() as Uint32Array<ArrayBuffer>,
    ...optional(
      'quantized',
      reply.maybe(() => readQuantized(reply)),
    ),
    isCopy: reply.flag(),
    dequantizes: reply.flag(),
    ...optional('missing', reply.maybeText()),
    ...optional(
      'statedType',
      reply.maybe(() => readStated(reply)),
    ),
  }
  return plan
}

function readLeftOut(reply: Reply): NonNullable<ConversionPlan['leftOut']> {
  const [count, first] = [reply.number(), reply.list(() => reply.text())]
  return {
    count,
    first,
    ...optional(
      'refused',
      reply.maybe(() => readError(reply)),
    ),
  }
}

const optional = <K extends string, T>(key: K, value: T | undefined): Partial<Record<K, T>> =>
  (value === undefined ? {} : { [key]: value }) as Partial<Record<K, T>>

function readBegun(reply: Reply): Begun {
  const begun = { tensors: reply.number(), bytes: reply.number(), readers: reply.list(() => reply.text()) }
  const outlines = reply.maybe(() =>
    reply.list((): TensorOutline => {
      const [name, shape, layout] = [reply.text(), [...reply.numbers()], reply.text()]
      return {
        name,
        shape,
        layout,
        ...optional('dtype', reply.maybeNumber()),
        byteLength: reply.number(),
        file: reply.number(),
      }
    }),
  )
  return { ...begun, ...optional('outlines', outlines) }
}

const NO_IMATRIX = 'imatrix is the path of a file, which a browser cannot open: quantize with it in Node'

/** The settings of a file. */
export function settingsMessage(request: WriteRequest): Message {
  const message = new Message().text(request.writeFormat).number(request.alignment)
  maybeText(message, request.digest)
  message.maybe(request.level).number(request.minSavings, request.frame).flag(request.canonical)
  message.maybe(request.maxShard)
  putValue(message, request.attributes)
  maybeText(message, request.generator)
  return message
}

/** A conversion, from the selection of its tensors to their copy. */
export class NativeConversion {
  /** Messages that wait for the instance. */
  #waiting: [Operation, Message][]
  #session: Session | undefined
  /** Whether the file was given up. */
  #isAborted = false

  constructor(casts: number[], dequantized: number | null | undefined, attributes: boolean, numbered: boolean) {
    const message = new Message().numbers(casts).maybe(dequantized).flag(attributes).flag(numbered)
    this.#waiting = [['conversion', message]]
  }

  select(ordinals: Uint32Array, names: string[]): void {
    const message = new Message().numbers(ordinals).texts(names)
    this.#waiting.push(['select', message])
  }

  /** The instance with the source. */
  async #ready(file: NativeFile, signal: AbortSignal): Promise<Session> {
    this.#session ??= await file.again(writer, signal)
    for (const [operation, message] of this.#waiting.splice(0)) this.#session.instance.ask(operation, message)
    return this.#session
  }

  get #open(): Session {
    if (this.#session === undefined) throw native({ code: 'ZT_INTERNAL', message: 'the conversion was not planned' })
    return this.#session
  }

  #ask(operation: Operation, message: Message = new Message()): Reply {
    return this.#open.instance.ask(operation, message)
  }

  async selectCheckpoint(
    file: NativeFile,
    location: string,
    _remote: unknown,
    _followLinks: boolean,
    isSure: boolean,
    set: unknown,
    { signal }: Control,
  ): Promise<CheckpointInfo | null> {
    const session = await this.#ready(file, signal)
    const message = new Message().number(0).text(location).flag(isSure)
    putValue(message, set)
    return session.settled('checkpoint', message, signal, (bytes) => {
      const reply = new Reply(bytes)
      if (reply.isAtEnd) return null
      return {
        leftOut: reply.list(() => ({ tensor: reply.text(), reason: reply.text() })),
        lost: reply.list(() => reply.text()),
        warnings: reply.list(() => reply.text()),
        names: reply.list(() => reply.text()),
        dtypes: reply.smalls() as Uint32Array<ArrayBuffer>,
        digest: reply.text(),
      }
    })
  }

  async plan(file: NativeFile, request: PlanRequest, { signal }: Control): Promise<ConversionPlan> {
    const { quantize } = request
    if (quantize?.imatrix !== undefined)
      throw native({ code: 'ZT_INVALID_ARG', message: NO_IMATRIX, option: 'imatrix' })
    const session = await this.#ready(file, signal)
    const message = new Message()
      .number(0)
      .text(request.writeFormat)
      .flag(request.canonical)
      .flag(request.strict)
      .flag(request.copies)
    for (const list of [request.cast, request.from, request.to]) message.numbers(list)
    message.flag(request.own !== undefined)
    if (request.own !== undefined) putValue(message, request.own)
    putValue(message, request.set)
    putValue(message, request.unset)
    message.flag(request.isAny).flag(quantize !== undefined)
    if (quantize !== undefined) {
      maybeText(message, quantize.mixture)
      message.texts(quantize.rules).flag(quantize.requantize)
    }
    maybeText(message, request.lack)
    return session.settled('planConversion', message, signal, (bytes) => readPlan(new Reply(bytes)))
  }

  refusals(attributes: boolean, withoutAttributes: boolean): NativeError[] {
    const reply = this.#ask('refusals', new Message().flag(attributes).flag(withoutAttributes))
    return reply.list(() => readError(reply))
  }

  /** Creates the writer of the file. Returns whether its data must be kept until `finish` says how the file is put together. */
  create(request: WriteRequest, isSized: boolean): boolean {
    return this.#ask('writer', settingsMessage(request).flag(isSized)).flag()
  }

  async begin(_file: NativeFile, _writer: unknown, request: BeginRequest, { signal }: Control): Promise<Begun> {
    const { set, unset, tensors, outlines } = request
    const message = new Message().number(0).flag(set !== undefined)
    if (set !== undefined) {
      putValue(message, set)
      putValue(message, unset)
    }
    message.flag(tensors).flag(outlines)
    return this.#open.settled('begin', message, signal, (bytes) => {
      const reply = new Reply(bytes)
      return reply.isAtEnd ? { tensors: 0, bytes: 0, readers: [] } : readBegun(reply)
    })
  }

  /** Nothing is in the caller's memory. */
  stageNext(): never {
    throw native({ code: 'ZT_INTERNAL', message: 'the data of a browser is not staged' })
  }

  /** Copies tensors, some at a time: their bytes are fetched, and the result goes to the sink. */
  async write(file: NativeFile, sink: unknown, { inspected, from, end }: TensorRange, control: Control): Promise<void> {
    const { signal } = control
    const session = this.#open
    const batches: { from: number; end: number; bytes: number; spans: FileSpan[] }[] = []
    for (let at = from; at < end; ) {
      const reply = this.#ask('nextWritten', new Message().number(0).flag(inspected).number(at))
      const batch = { from: at, end: Math.min(reply.number(), end), bytes: reply.number(), spans: readSpans(reply) }
      batches.push(batch)
      at = batch.end
    }
    control.expect(
      batches.reduce((sum, { bytes }) => sum + bytes, 0),
      end - from,
    )
    for (const { from, end, bytes, spans } of batches) {
      signal.throwIfAborted()
      if (this.#isAborted) throw native({ code: 'ZT_CLOSED', message: 'the file was aborted' })
      try {
        await file.fetch(spans, signal, (name, piece) => session.add(0, name, piece.offset, piece.bytes))
        this.#ask(inspected ? 'inspect' : 'copy', new Message().number(0, from, end))
      } finally {
        session.forget(0)
      }
      if (!inspected) await this.passBlocks(sink as Sink)
      control.did(bytes, end - from)
    }
  }

  /** Passes on what was written. */
  async passBlocks(sink: Sink): Promise<void> {
    for (;;) {
      const block = this.#open.instance.call('block', new Message())
      if (!(block instanceof Uint8Array) || block.byteLength === 0) return
      await sink.write(block.slice())
    }
  }

  /** Writes the index. Returns how the file is put together, if its data was kept. */
  async finish(sink: Sink): Promise<Assembly | undefined> {
    const assembly = readAssembly(this.#ask('finish'))
    await this.passBlocks(sink)
    return assembly
  }

  /** Releases the memory. */
  close(): void {
    this.#isAborted = true
    this.#session?.instance.close()
  }
}

/** The worker of conversions that are created now. */
let current: Thread | undefined

/** Calls `begin`, which creates a conversion at once: in a worker, if there is one. */
export function inThread<T>(thread: Thread | undefined, begin: () => T): T {
  current = thread
  try {
    return begin()
  } finally {
    current = undefined
  }
}

/** What conversions need of the binding. */
export const conversions = {
  NativeConversion: function create(...given: ConstructorParameters<typeof NativeConversion>) {
    return current === undefined ? new NativeConversion(...given) : new ThreadConversion(current, writer, given)
  },
  /** With `rename`, the metadata of a checkpoint is not listed as left out. */
  isCheckpoint: async () => false,
}
