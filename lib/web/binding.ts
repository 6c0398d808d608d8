// The binding of the wrapper over the module: a file is a remote file, whose bytes JavaScript reads. What would have to wait for them throws
// ZT_NOT_LOCAL, as for a remote file in Node.
import { setImmediate } from '#host'
import type * as Binding from '../native/binding.js'
import type {
  AttributeOutline,
  ComponentInfo,
  DivisionRequest,
  FileInfo,
  FlatAttributes,
  FlatIndex,
  Loaded,
  LoadRequest,
  NativeComparison,
  NativeError,
  NativePlan,
  NativeWarning,
  Nearest,
  NearestRequest,
  OpenRequest,
  OutlineRequest,
  StatsRequest,
  TensorStats,
  Verified,
} from '../native/binding.js'
import { kernels } from './kernels.js'
import { Message, Reply } from './message.js'
import { Instance, type Missing, native, type Operation, readError, takePanic, type Wasm } from './module.js'
import { type FileSource, fetchEach, PIECE, type Piece, reads, type Span, type Tree } from './tree.js'

/** Bytes that one component may decode to, unless the caller says so: memory of WebAssembly ends at 4 GiB. */
const MAX_DECODED = 2 ** 30
/** Bytes that are decoded at once, into memory that is used again. */
const DECODED = 4 * 2 ** 20
/** Bytes that are read at once to be decoded, if the source can. */
const LARGE_PIECE = 64 * 2 ** 20
/** Up to this size, tensors are loaded together in the module. Larger ones need not enter it. */
const SMALL = 2 ** 20

type Counts = [bytes: number, totalBytes: number, tensors: number, totalTensors: number]

/** Cancels the work that it controls. */
export class Control implements Binding.Control {
  readonly #stop = new AbortController()
  readonly #report: ((counts: Counts) => void) | undefined
  #counts: Counts = [0, 0, 0, 0]

  /** `report` is called with each progress. */
  constructor(report?: (counts: Counts) => void) {
    this.#report = report
  }

  get signal(): AbortSignal {
    return this.#stop.signal
  }

  cancel(): void {
    this.#stop.abort(native({ code: 'ZT_ABORTED', message: 'the work was canceled' }))
  }

  progress(): Counts {
    return [...this.#counts]
  }

  set(counts: Counts): void {
    this.#counts = counts
    this.#report?.(counts)
  }

  expect(bytes: number, tensors: number): void {
    this.set([this.#counts[0], bytes, this.#counts[2], tensors])
  }

  did(bytes: number, tensors: number): void {
    const [done, totalBytes, doneTensors, totalTensors] = this.#counts
    // Ranges that are fetched together have bytes between them, too.
    this.set([Math.min(done + bytes, totalBytes), totalBytes, doneTensors + tensors, totalTensors])
  }

  /** All that was expected is done. */
  complete(): void {
    const [, totalBytes, , totalTensors] = this.#counts
    this.set([totalBytes, totalBytes, totalTensors, totalTensors])
  }
}

/** A block of memory that JavaScript has already. */
export class Memory implements Binding.Memory {
  #bytes: Uint8Array<ArrayBuffer>

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#bytes = bytes
  }

  get byteLength(): number {
    return this.#bytes.byteLength
  }

  get step(): number {
    return 32 * 2 ** 20
  }

  take(): ArrayBuffer {
    return this.#bytes.buffer
  }

  copyTo(offset: number, target: Uint8Array): void {
    target.set(this.#bytes.subarray(offset, offset + target.byteLength))
  }

  moveTo(offset: number, target: Uint8Array): void {
    this.copyTo(offset, target)
  }

  free(): void {
    this.#bytes = new Uint8Array(0)
  }
}

/** Pieces of one tensor, in order. */
class Outflow implements Binding.Outflow {
  #pieces: AsyncIterator<Memory> | undefined

  /** Sets what produces the pieces. */
  from(pieces: AsyncIterable<Memory>): void {
    this.#pieces = pieces[Symbol.asyncIterator]()
  }

  async next(): Promise<Memory | null> {
    const next = await this.#pieces?.next()
    return next === undefined || next.done ? null : next.value
  }

  abandon(): void {
    this.#pieces?.return?.()
    this.#pieces = undefined
  }

  close(): void {
    this.#pieces = undefined
  }
}

const owned = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => bytes.slice() as Uint8Array<ArrayBuffer>

/** Allocates memory of JavaScript. */
function allocated(length: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(length)
  } catch {
    throw native({
      code: 'ZT_LIMIT',
      message: `${length} bytes are more than this browser gives one array: use loadTo()`,
    })
  }
}

/** Where the elements of a tensor go. */
interface Target {
  /** The memory for all elements, before each write. */
  output(length: number): Uint8Array
  /** Takes memory that has all elements. Without it, they must be written to `output`. */
  give?(bytes: Uint8Array<ArrayBuffer>): void
}

/** Memory of JavaScript that is allocated when its length is known. */
class Allocated implements Target {
  #bytes: Uint8Array<ArrayBuffer> | undefined

  output(length: number): Uint8Array {
    this.#bytes ??= allocated(length)
    return this.#bytes
  }

  give(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes = bytes
  }

  get whole(): Memory {
    return new Memory(this.#bytes ?? allocated(0))
  }
}

/** A range of a numbered file. */
export interface FileSpan extends Span {
  readonly file: number
}

export const readSpans = (reply: Reply): FileSpan[] =>
  reply.list(() => ({ file: reply.number(), offset: reply.number(), length: reply.number() }))

function readVerified(reply: Reply): Verified {
  const [checked, undigested, failed] = [reply.number(), reply.number(), reply.number()]
  return { checked, undigested, failed, failures: reply.list(() => readError(reply)) }
}

function readAttributes(reply: Reply): FlatAttributes {
  return {
    tape: reply.numbers() as Float64Array<ArrayBuffer>,
    texts: reply.list(() => reply.text()),
    bytes: reply.bytes(),
    others: reply.list(() => {
      const isNegative = reply.flag()
      const bytes = reply.bytes()
      let magnitude = 0n
      for (let at = bytes.length - 1; at >= 0; at--) magnitude = (magnitude << 8n) | BigInt(bytes[at] as number)
      return isNegative ? -magnitude : magnitude
    }),
  }
}

/** Ends the turn, so that an abort arrives and a page stays responsive. */
const turn = (): Promise<void> => new Promise(setImmediate)

const notLocal = (): never => {
  throw native({
    code: 'ZT_NOT_LOCAL',
    message: 'the data is remote, and synchronous calls do not wait for it: await load()',
  })
}

/** What `open` replies. */
interface Head {
  readonly format: string
  readonly version: string | null
  readonly generator: string | null
  readonly byteLength: number
  readonly size: number
  readonly warnings: NativeWarning[]
  readonly files: FileInfo[]
}

function readHead(reply: Reply): Head {
  return {
    format: reply.text(),
    version: reply.maybeText() ?? null,
    generator: reply.maybeText() ?? null,
    byteLength: reply.number(),
    size: reply.number(),
    warnings: reply.list(() => {
      const warning: NativeWarning = { code: reply.text(), message: reply.text() }
      for (const key of ['tensor', 'component', 'path'] as const) {
        const text = reply.maybeText()
        if (text !== undefined) warning[key] = text
      }
      return warning
    }),
    files: reply.list(() => {
      const [path, name, byteLength] = [reply.maybeText(), reply.maybeText(), reply.number()]
      return { ...(path === undefined ? {} : { path }), ...(name === undefined ? {} : { name }), byteLength }
    }),
  }
}

/** Bytes that were fetched to open a file. */
export type Known = Piece & { readonly name: string }

/** An instance with its files: fetches what calls miss. */
export class Session {
  readonly instance: Instance
  /** If set, records the fetched bytes. */
  fetched: Known[] | undefined
  /** If set, is called with the number of bytes that were fetched. */
  onFetched: ((bytes: number) => void) | undefined
  /** The trees of the files of the instance, by number. */
  readonly #trees: readonly Tree[]
  readonly #found: Map<string, FileSource>[]
  /** Work in the module, one after the other: it shares the fetched bytes. */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(instance: Instance, trees: readonly Tree[]) {
    this.instance = instance
    this.#trees = trees
    this.#found = trees.map(() => new Map())
  }

  static async create(trees: readonly Tree[], wasm?: Wasm): Promise<Session> {
    return new Session(await Instance.create(wasm), trees)
  }

  /** Opens a file of the instance. What another instance has fetched for it is `known`. */
  async open(file: number, request: OpenRequest, signal: AbortSignal, known: readonly Known[] = []): Promise<Head> {
    const { roots } = this.#trees[file] as Tree
    const names = new Set([...roots, ...known.map(({ name }) => name)])
    await Promise.all(Array.from(names, (name) => this.#tell(file, name, signal)))
    for (const { name, offset, bytes } of known) this.add(file, name, offset, bytes)
    const { maxDecodedBytes } = request
    const message = new Message()
      .number(file)
      .texts(roots)
      .text(request.format ?? '')
      .maybe(request.maxIndexBytes)
      .number(maxDecodedBytes ?? MAX_DECODED)
      .flag(maxDecodedBytes !== undefined)
      .maybe(request.maxRank)
      .maybe(request.maxAttributeValues)
      .flag(request.unread === true)
    try {
      return await this.settled('open', message, signal, (bytes) => readHead(new Reply(bytes)))
    } finally {
      this.forget(file)
    }
  }

  /** The source of a file, if it was found. */
  source(file: number, name: string): FileSource | undefined {
    return this.#found[file]?.get(name)
  }

  async #tell(file: number, name: string, signal: AbortSignal): Promise<void> {
    const found = await (this.#trees[file] as Tree).find(name, signal)
    if (this.instance.isClosed) return
    const message = new Message().number(file).text(name)
    if (found !== undefined && 'names' in found) this.instance.call('tellFolder', message.texts(found.names))
    else {
      if (found !== undefined) this.#found[file]?.set(name, found)
      this.instance.call('tell', message.maybe(found?.byteLength))
    }
  }

  add(file: number, name: string, offset: number, bytes: Uint8Array): void {
    this.fetched?.push({ name, offset, bytes })
    this.onFetched?.(bytes.byteLength)
    this.instance.call('add', new Message().number(file).text(name).number(offset).bytes(bytes))
  }

  /** Drops what was fetched for a call. */
  forget(file: number): void {
    if (!this.instance.isClosed) this.instance.call('forget', new Message().number(file))
  }

  /** Makes a call until it misses nothing. `take` reads the reply before another call. */
  async settled<T>(
    operation: Operation,
    message: Message,
    signal: AbortSignal,
    take: (bytes: Uint8Array<ArrayBuffer>) => T,
  ): Promise<T> {
    for (;;) {
      signal.throwIfAborted()
      const reply = this.instance.call(operation, message)
      if (reply instanceof Uint8Array) return take(reply)
      await this.#fetch(reply, signal)
    }
  }

  async #fetch({ files }: Missing, signal: AbortSignal): Promise<void> {
    const work = files.flatMap(({ names, ranges }, file) => {
      const byName = new Map<string, Span[]>()
      for (const [name, offset, length] of ranges) byName.set(name, [...(byName.get(name) ?? []), { offset, length }])
      const found = Array.from(byName, ([name, spans]) =>
        fetchEach(this.source(file, name) as FileSource, reads(spans), signal, ({ offset, bytes }) =>
          this.add(file, name, offset, bytes),
        ),
      )
      return [...names.map((name) => this.#tell(file, name, signal)), ...found]
    })
    await Promise.all(work)
  }

  /** Runs work in the module when the work before it has ended. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => {})
    return result
  }
}

/** An instance with an open file. */
export interface Opened extends Opening {
  readonly session: Session
  readonly head: Head
}

/** What the wrapper never calls for a remote file: it stages only the caller's memory. */
type Staging = 'checkPacked' | 'stage' | 'stageAll' | 'stageTaken'

/** What a file is opened from. */
export interface Opening {
  readonly tree: Tree
  readonly request: OpenRequest
}

/** What takes longer than a page may wait, as a worker does it. */
interface Comparer {
  compare(files: readonly [Opening, Opening], rest: ComparisonRequest, control: Control): Promise<NativeComparison[]>
}

type ComparisonRequest = readonly [places: Int32Array, tolerance: readonly number[], norms: boolean]

/** An open file. */
export class NativeFile implements Omit<Binding.NativeFile, Staging>, Opening {
  readonly #session: Session
  readonly #head: Head
  readonly tree: Tree
  readonly request: OpenRequest
  readonly worker: Comparer | undefined
  readonly format: string
  readonly version: string | null
  readonly generator: string | null
  readonly byteLength: number
  readonly size: number
  readonly isRemote = true
  readonly location = null

  protected constructor({ session, head, tree, request }: Opened) {
    this.#session = session
    this.#head = head
    this.tree = tree
    this.request = request
    this.format = head.format
    this.version = head.version
    this.generator = head.generator
    this.byteLength = head.byteLength
    this.size = head.size
  }

  static async open(
    tree: Tree,
    request: OpenRequest,
    { signal }: Control,
    known?: readonly Known[],
  ): Promise<NativeFile> {
    const session = await Session.create([tree])
    return new NativeFile({ session, head: await session.open(0, request, signal, known), tree, request })
  }

  /** Opens a file, and returns what was fetched for it. */
  protected static async opened(
    tree: Tree,
    request: OpenRequest,
    { signal }: Control,
  ): Promise<{ opened: Opened; known: readonly Known[] }> {
    const session = await Session.create([tree])
    const known: Known[] = []
    session.fetched = known
    const head = await session.open(0, request, signal)
    session.fetched = undefined
    return { opened: { session, head, tree, request }, known }
  }

  #ask(operation: Operation, fill: (message: Message) => Message = (message) => message): Reply {
    return this.#session.instance.ask(operation, fill(new Message().number(0)))
  }

  attributes(): FlatAttributes {
    return readAttributes(this.#ask('attributes', (message) => message.number(-1)))
  }

  tensorAttributes(ordinal: number): FlatAttributes {
    return readAttributes(this.#ask('attributes', (message) => message.number(ordinal)))
  }

  attributeOutline({ keys, items, units }: OutlineRequest): AttributeOutline {
    const reply = this.#ask('outline', (message) => message.number(keys, items, units))
    return { keys: reply.number(), attributes: readAttributes(reply) }
  }

  warnings(): NativeWarning[] {
    return this.#head.warnings.map((warning) => ({ ...warning }))
  }

  index(): FlatIndex {
    const reply = this.#ask('index')
    const names = reply.text()
    const records = reply.smalls() as Uint32Array<ArrayBuffer>
    const numbers = reply.numbers() as Float64Array<ArrayBuffer>
    const files = reply.smalls() as Uint32Array<ArrayBuffer>
    const shapeEnds = reply.smalls() as Uint32Array<ArrayBuffer>
    const shapeDims = reply.numbers() as Float64Array<ArrayBuffer>
    const labels = reply.list(() => reply.text())
    return { names, records, numbers, ...(files.length === 0 ? {} : { files }), shapeEnds, shapeDims, labels }
  }

  async prepareIndex(): Promise<void> {}

  find(name: string): number {
    return this.#ask('find', (message) => message.text(name)).number()
  }

  findAll(names: string): Uint32Array | null {
    const reply = this.#ask('findAll', (message) => message.text(names))
    return reply.maybe(() => reply.smalls()) ?? null
  }

  similar(name: string): string[] {
    const reply = this.#ask('similar', (message) => message.text(name))
    return reply.list(() => reply.text())
  }

  components(ordinal: number): ComponentInfo[] {
    const reply = this.#ask('components', (message) => message.number(ordinal))
    return reply.list(() => {
      const info: Record<string, unknown> = { role: reply.text(), file: reply.number() }
      const add = (key: keyof ComponentInfo, value: unknown) => {
        if (value !== undefined) info[key] = value
      }
      add('dtype', reply.maybeNumber())
      add('byteLength', reply.maybeNumber())
      add('storedLength', reply.number())
      add('offset', reply.maybeNumber())
      add('encoding', reply.text())
      add('digest', reply.maybeText())
      add('plainOffset', reply.maybeNumber())
      add('copyReason', reply.maybeText())
      for (const key of ['sliceable', 'framed', 'strict', 'own'] as const) info[key] = reply.flag()
      return info as unknown as ComponentInfo
    })
  }

  alias(): 'remote' {
    return 'remote'
  }

  close(): void {
    this.#session.instance.close()
  }

  lostFile(): null {
    return null
  }

  files(): FileInfo[] {
    return this.#head.files.map((file) => ({ ...file }))
  }

  isCopied(): boolean {
    return false
  }

  isNear(): boolean {
    return false
  }

  atHand(): null {
    return null
  }

  loadCached(): boolean {
    return false
  }

  async prefetch(): Promise<void> {
    throw native({ code: 'ZT_NOT_LOCAL', message: 'a browser has no folder for prefetched data: await load()' })
  }

  evict(): void {}

  identity(): null {
    return null
  }

  readonly decode = notLocal
  readonly readInto = notLocal
  readonly slice = notLocal
  readonly dequantizeSync = notLocal
  readonly verifySync = notLocal
  readonly share = notLocal
  readonly shareMemory = notLocal

  checkTotal(ordinals: Uint32Array, work: string): void {
    this.#ask('checkTotal', (message) => message.numbers(ordinals).text(work))
  }

  async checkTotalAsync(ordinals: Uint32Array, work: string): Promise<void> {
    this.checkTotal(ordinals, work)
  }

  storedBytes(ordinals: Uint32Array): number {
    return this.#ask('storedBytes', (message) => message.numbers(ordinals)).number()
  }

  damage(ordinals: Uint32Array, whole: boolean): Verified {
    return readVerified(this.#ask('damage', (message) => message.numbers(ordinals).flag(whole)))
  }

  plan(patterns: string[], placements: number[], rank: number, worldSize: number): NativePlan {
    const reply = this.#ask('plan', (message) => message.texts(patterns).numbers(placements).number(rank, worldSize))
    const dims = Int32Array.from(reply.numbers())
    const spans = Float64Array.from(readSpans(reply).flatMap(({ file, offset, length }) => [file, offset, length]))
    return { dims, spans }
  }

  /** A part of a file as a Blob, if the file has one. */
  blob(file: number, offset: number, length: number): Blob | undefined {
    return this.#sourceOf(file)?.blob?.(offset, length)
  }

  #nameOf(file: number): string {
    return this.#head.files[file]?.path ?? ''
  }

  /** Undefined if the file does not exist: a call that reads it says so. */
  #sourceOf(file: number): FileSource | undefined {
    return this.#session.source(0, this.#nameOf(file))
  }

  /** The ranges that a component, or without one a tensor, consists of. */
  #spans(ordinal: number, component?: number | null): FileSpan[] {
    const none = (message: Message) => message.number(ordinal).maybe(component).flag(false).number(-1).numbers([])
    return readSpans(this.#ask('spans', none))
  }

  /** Fetches ranges, and then does work in the module with them. Other calls wait only for the work. */
  async #with<T>(
    spans: readonly FileSpan[],
    signal: AbortSignal,
    work: () => Promise<T>,
    count: (bytes: number) => void = () => {},
  ): Promise<T> {
    const fetched: Known[] = []
    await this.fetch(spans, signal, (name, piece) => {
      fetched.push({ name, ...piece })
      count(piece.bytes.byteLength)
    })
    return this.#session.alone(async () => {
      try {
        for (const { name, offset, bytes } of fetched.splice(0)) this.#session.add(0, name, offset, bytes)
        return await work()
      } finally {
        this.#session.forget(0)
      }
    })
  }

  /** Makes a call with the bytes of ranges. */
  #call<T>(
    operation: Operation,
    fill: (message: Message) => Message,
    spans: readonly FileSpan[],
    { signal }: Control,
    take: (bytes: Uint8Array<ArrayBuffer>) => T,
  ): Promise<T> {
    const message = fill(new Message().number(0))
    return this.#with(spans, signal, () => this.#session.settled(operation, message, signal, take))
  }

  /** Makes a call with all data of a tensor, and counts the bytes as they are fetched. */
  async #callCounted<T>(
    operation: Operation,
    ordinal: number,
    fill: (message: Message) => Message,
    control: Control,
    take: (bytes: Uint8Array<ArrayBuffer>) => T,
  ): Promise<T> {
    const { signal } = control
    control.expect(this.storedBytes(Uint32Array.of(ordinal)), 1)
    const message = fill(new Message().number(0, ordinal))
    const work = () => this.#session.settled(operation, message, signal, take)
    const found = await this.#with(this.#spans(ordinal), signal, work, (bytes) => control.did(bytes, 0))
    control.complete()
    return found
  }

  /**
   * Reads the elements of a component without the module. Returns whether that is possible: otherwise they must be decoded.
   */
  async #plain(
    ordinal: number,
    component: number,
    ranges: readonly number[] | undefined,
    target: Target,
    control: Control,
  ): Promise<boolean> {
    const place = (message: Message) => message.number(ordinal, component)
    const reply = this.#ask('direct', (message) => place(message).maybeNumbers(ranges))
    if (reply.isAtEnd) return false
    const [file, offset, length, isHashed] = [reply.number(), reply.number(), reply.number(), reply.flag()]
    const source = this.#sourceOf(file)
    if (source === undefined) return false
    const { signal } = control
    if (target.give !== undefined && length > 0 && length <= (source.maxOwnRead ?? 0))
      target.give((await source.read(offset, length, signal)) as Uint8Array<ArrayBuffer>)
    else {
      const put = (bytes: Uint8Array, at: number) => {
        signal.throwIfAborted()
        target.output(length).set(bytes, at)
      }
      const spans = length === 0 ? [] : reads([{ offset, length }])
      await fetchEach(source, spans, signal, (piece) => put(piece.bytes, piece.offset - offset))
    }
    if (isHashed) await this.#session.alone(() => this.#hash(place, target.output(length), control))
    return true
  }

  /** Checks the digest of bytes, piece by piece. */
  async #hash(place: (message: Message) => Message, bytes: Uint8Array, { signal }: Control): Promise<void> {
    try {
      this.#ask('hashing', place)
      for (let at = 0; at < bytes.byteLength; at += PIECE) {
        if (at > 0) await turn()
        signal.throwIfAborted()
        this.#ask('hash', (message) => message.bytes(bytes.subarray(at, at + PIECE)))
      }
      this.#ask('hashed', place)
    } finally {
      this.#session.forget(0)
    }
  }

  /** Decodes elements as float32 piece by piece. Returns whether that is possible: otherwise they must be loaded at once. */
  async #deferred(ordinal: number, component: number | undefined, target: Target, control: Control): Promise<boolean> {
    const { signal } = control
    return this.#with(this.#spans(ordinal, component), signal, async () => {
      const place = new Message().number(0, ordinal).maybe(component)
      const length = await this.#session.settled('defer', place, signal, (bytes) => new Reply(bytes).number())
      if (length < 0) return false
      for (let at = 0; at < length; at += DECODED) {
        if (at > 0) await turn()
        const piece = new Message().number(0, at, Math.min(DECODED, length - at))
        await this.#session.settled('fill', piece, signal, (bytes) => {
          signal.throwIfAborted()
          target.output(length).set(bytes, at)
        })
      }
      return true
    })
  }

  loadInto(
    ordinal: number,
    component: number | undefined,
    widen: boolean,
    output: () => Uint8Array,
    control: Control,
  ): Promise<boolean> {
    return widen || component === undefined
      ? this.#deferred(ordinal, component, { output }, control)
      : this.#plain(ordinal, component, undefined, { output }, control)
  }

  async load(ordinal: number, component: number, { ranges, widen }: LoadRequest, control: Control): Promise<Memory> {
    const memory = new Allocated()
    if (!widen && (await this.#plain(ordinal, component, ranges, memory, control))) return memory.whole
    if (widen && ranges === undefined && (await this.#deferred(ordinal, component, memory, control)))
      return memory.whole
    const spans = ranges === undefined ? this.#spans(ordinal, component) : []
    const fill = (message: Message) => message.number(ordinal, component).flag(widen).maybeNumbers(ranges)
    return new Memory(await this.#call('load', fill, spans, control, owned))
  }

  async dequantize(
    ordinal: number,
    ranges: number[] | null | undefined,
    _deferred: boolean,
    control: Control,
  ): Promise<Memory> {
    const whole = ranges === undefined || ranges === null
    const memory = new Allocated()
    if (whole && (await this.#deferred(ordinal, undefined, memory, control))) return memory.whole
    const fill = (message: Message) => message.number(ordinal).maybeNumbers(ranges)
    return new Memory(await this.#call('dequantize', fill, whole ? this.#spans(ordinal) : [], control, owned))
  }

  async take(
    ordinal: number,
    component: number | null | undefined,
    widen: boolean,
    axis: number,
    indices: Float64Array,
    control: Control,
  ): Promise<Memory> {
    const fill = (message: Message) =>
      message.number(ordinal).maybe(component).flag(widen).number(axis).numbers(indices)
    const spans = readSpans(this.#ask('spans', fill))
    return new Memory(await this.#call('take', fill, spans, control, owned))
  }

  async loadSparse(ordinal: number, control: Control): Promise<Memory[]> {
    const read = (bytes: Uint8Array) => {
      const reply = new Reply(bytes)
      return reply.list(() => new Memory(owned(reply.bytes())))
    }
    return this.#call('sparse', (message) => message.number(ordinal), this.#spans(ordinal), control, read)
  }

  /** Calls `work` with tensors that are processed together, and their ranges. */
  async #inBatches(
    ordinals: Uint32Array,
    control: Control,
    work: (batch: Uint32Array, from: number, spans: FileSpan[]) => Promise<void>,
  ): Promise<void> {
    control.expect(this.storedBytes(ordinals), ordinals.length)
    for (let from = 0; from < ordinals.length; ) {
      const reply = this.#ask('next', (message) => message.numbers(ordinals).number(from))
      const [end, bytes] = [reply.number(), reply.number()]
      await work(ordinals.subarray(from, end), from, readSpans(reply))
      control.did(bytes, end - from)
      from = end
    }
  }

  async loadBatch(
    ordinals: Uint32Array,
    _atOnce: number,
    control: Control,
    _stage?: unknown,
    division?: DivisionRequest | null,
  ): Promise<Loaded> {
    const blocks: Memory[] = []
    const locations = new Float64Array(ordinals.length * 2)
    await this.#inBatches(ordinals, control, async (batch, from, spans) => {
      const isWhole = (division?.dims[from] ?? -1) < 0
      const bytes = spans.reduce((sum, { length }) => sum + length, 0)
      // A large tensor need not enter the module.
      if (batch.length === 1 && isWhole && bytes > SMALL) {
        const ordinal = batch[0] as number
        const component = this.components(ordinal).findIndex(({ role }) => role === 'data')
        locations.set([blocks.length, 0], from * 2)
        blocks.push(await this.load(ordinal, component, { widen: false }, control))
        return
      }
      const dims = division?.dims.subarray(from, from + batch.length)
      const { rank, worldSize } = division ?? { rank: 0, worldSize: 1 }
      const fill = (message: Message) => message.numbers(batch).maybeNumbers(dims).number(rank, worldSize)
      await this.#call('batch', fill, spans, control, (bytes) => {
        const reply = new Reply(bytes)
        const first = blocks.length
        blocks.push(...reply.list(() => new Memory(owned(reply.bytes()))))
        const found = reply.list(() => [reply.number(), reply.number()] as const)
        for (const [at, [block, offset]] of found.entries())
          locations.set([block < 0 ? block : block + first, offset], (from + at) * 2)
      })
    })
    return { blocks: blocks as unknown as Loaded['blocks'], locations }
  }

  async stats(ordinal: number, { bins, range }: StatsRequest, control: Control): Promise<TensorStats> {
    const fill = (message: Message) => message.number(bins).numbers(range ?? [])
    return this.#callCounted('stats', ordinal, fill, control, (bytes) => {
      const reply = new Reply(bytes)
      const next = () => reply.number()
      const stats: TensorStats = {
        count: next(),
        nan: next(),
        positiveInfinite: next(),
        negativeInfinite: next(),
        zeros: next(),
        min: next(),
        max: next(),
        mean: next(),
        std: next(),
      }
      const histogram = reply.maybe(() => ({ edges: [...reply.numbers()], counts: [...reply.numbers()] }))
      return { ...stats, ...histogram }
    })
  }

  async nearest(ordinal: number, { query, k, metric }: NearestRequest, control: Control): Promise<Nearest> {
    const fill = (message: Message) => message.numbers(query).number(k).text(metric)
    return this.#callCounted('nearest', ordinal, fill, control, (bytes) => {
      const reply = new Reply(bytes)
      return { rows: [...reply.numbers()], scores: [...reply.numbers()] }
    })
  }

  async verify(ordinals: Uint32Array, control: Control): Promise<Verified> {
    const all: Verified = { checked: 0, undigested: 0, failed: 0, failures: [] }
    await this.#inBatches(ordinals, control, async (batch, _from, spans) => {
      const read = (bytes: Uint8Array) => readVerified(new Reply(bytes))
      const found = await this.#call('verify', (message) => message.numbers(batch), spans, control, read)
      for (const key of ['checked', 'undigested', 'failed'] as const) all[key] += found[key]
      all.failures.push(...found.failures)
    })
    return all
  }

  async canonical(control: Control): Promise<Verified> {
    const read = (bytes: Uint8Array) => readVerified(new Reply(bytes))
    return this.#call('canonical', (message) => message, [], control, read)
  }

  async contentDigest(algorithm: string, control: Control): Promise<string> {
    const read = (bytes: Uint8Array) => new Reply(bytes).text()
    return this.#call('contentDigest', (message) => message.text(algorithm), [], control, read)
  }

  passPieces(ordinal: number, component: number, outflow: Outflow, control: Control): void {
    const load = () => this.load(ordinal, component, { widen: false }, control)
    async function* pieces() {
      const memory = await load()
      const bytes = new Uint8Array(memory.take())
      for (let at = 0; at < bytes.byteLength; at += SMALL) yield new Memory(bytes.slice(at, at + SMALL))
    }
    outflow.from(pieces())
  }

  /** Nothing is in the caller's memory: bytes are read when they are needed. */
  stageNext(ordinals: Uint32Array): Binding.StageBatch {
    return { builder: undefined as never, end: ordinals.length, bytes: this.storedBytes(ordinals) }
  }

  /** Opens the file once more, in an instance of its own. */
  async again(wasm: Wasm, signal: AbortSignal): Promise<Session> {
    const session = await Session.create([this.tree], wasm)
    await session.open(0, this.request, signal)
    return session
  }

  /** Reads ranges, several at once, and passes each on as soon as it is there. */
  async fetch(
    spans: readonly FileSpan[],
    signal: AbortSignal,
    each: (name: string, piece: Piece) => void,
  ): Promise<void> {
    const byFile = new Map<number, Span[]>()
    for (const span of spans) if (span.length > 0) byFile.set(span.file, [...(byFile.get(span.file) ?? []), span])
    const fetching = Array.from(byFile, ([file, own]) => {
      const name = this.#nameOf(file)
      const source = this.#sourceOf(file)
      if (source === undefined) return undefined
      const size = source.maxOwnRead === undefined ? PIECE : LARGE_PIECE
      return fetchEach(source, reads(own, size), signal, (piece) => each(name, piece))
    })
    await Promise.all(fetching)
  }
}

function readComparison(reply: Reply): NativeComparison {
  if (!reply.flag()) {
    const error: NativeError = readError(reply)
    const nothing = { elements: 0, identical: false, differing: 0, unmatchedNan: 0, maxAbsolute: 0, maxRelative: 0 }
    return { ...nothing, error }
  }
  const comparison: NativeComparison = {
    elements: reply.number(),
    identical: reply.flag(),
    differing: reply.number(),
    ...optional('first', reply.maybeNumber()),
    unmatchedNan: reply.number(),
    maxAbsolute: reply.number(),
    maxRelative: reply.number(),
    ...optional('relativeChange', reply.maybeNumber()),
    ...optional('cosine', reply.maybeNumber()),
  }
  return comparison
}

const optional = <K extends string>(key: K, value: number | undefined): Partial<Record<K, number>> =>
  (value === undefined ? {} : { [key]: value }) as Partial<Record<K, number>>

/** Compares tensors of two files, which are opened together in an instance of their own. */
export async function compareIn(
  [first, second]: readonly [Opening, Opening],
  [places, tolerance, norms]: ComparisonRequest,
  control: Control,
): Promise<NativeComparison[]> {
  const { signal } = control
  const session = await Session.create([first.tree, second.tree])
  try {
    await session.open(0, first.request, signal)
    await session.open(1, second.request, signal)
    // Four numbers for each pair: of each side the ordinals of the tensor and of the component.
    const bytesOf = (file: number) => {
      const ordinals = places.filter((_, at) => at % 4 === 2 * file)
      return session.instance.ask('storedBytes', new Message().number(file).numbers(ordinals)).number()
    }
    control.expect(bytesOf(0) + bytesOf(1), places.length / 4)
    session.onFetched = (bytes) => control.did(bytes, 0)
    const message = new Message()
      .numbers(places)
      .number(tolerance[0] ?? 0, tolerance[1] ?? 0)
      .flag(norms)
    const compared = await session.settled('compare', message, signal, (bytes) => {
      const reply = new Reply(bytes)
      return reply.list(() => readComparison(reply))
    })
    control.complete()
    return compared
  } finally {
    session.instance.close()
  }
}

async function compare(
  first: NativeFile,
  second: NativeFile,
  places: Int32Array,
  tolerance: readonly number[],
  norms: boolean,
  control: Control,
): Promise<NativeComparison[]> {
  const worker = first.worker ?? second.worker
  const request = [places, tolerance, norms] as const
  return worker?.compare([first, second], request, control) ?? compareIn([first, second], request, control)
}

/** The part of the binding that reads. */
type Reading = Pick<
  typeof Binding,
  | keyof typeof kernels
  | 'Control'
  | 'Outflow'
  | 'abandonedLosses'
  | 'armFaultHandler'
  | 'formats'
  | 'hookBuffers'
  | 'losses'
  | 'onMappingLost'
  | 'sealBuffers'
  | 'takePanic'
>

export const binding = {
  ...kernels,
  Control,
  NativeFile,
  Outflow,
  compare,
  takePanic,
  losses: () => null,
  sealBuffers() {},
  hookBuffers() {},
  formats: () => [],
  onMappingLost() {},
  armFaultHandler() {},
  abandonedLosses: () => 0,
} satisfies Reading & { NativeFile: unknown; compare: unknown }
