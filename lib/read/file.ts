import { inspect } from 'node:util'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, run } from '../native/job.js'
import type { NativeFile } from '../native/native.js'
import {
  isIterable,
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateInteger,
  validateOneOf,
  validateString,
  wrongType,
} from '../values/arguments.js'
import { type Attributes, textsOf, thaw } from '../values/attributes.js'
import { type DType, dtypeInfo } from '../values/dtype.js'
import type { Format } from '../values/format-table.js'
import { globMatcher } from '../values/glob.js'
import { IDENTITY, shown } from '../values/inspect.js'
import type { Warning } from '../values/warning.js'
import { everything, TURN } from './batches.js'
import { Catalog, type Entries, walk } from './catalog.js'
import { loadAll } from './load.js'
import type { Loaded } from './loaded.js'
import { Plan, type PlanOptions } from './plan.js'
import { type SharedFile, type ShareOptions, ticketOf } from './share.js'
import { type FilePart, type Origin, Store } from './store.js'
import { type AnyTensor, Tensor } from './tensor.js'
import {
  jobOptions,
  type VerifyOptions,
  type VerifyResult,
  verifySync,
  verifyTensors,
  withCanonical,
} from './verify.js'

/** What to load of a file. */
export interface LoadFileOptions extends JobOptions {
  /** The tensors to load; all of them by default. */
  names?: Iterable<string> | undefined
  /** Load one rank's parts of them, as `plan()` of this file divides them; `plan.tensors` has their shapes. */
  plan?: Plan | undefined
  /** Tensors under way at once; by default as many as suit the machine and where the file lies. */
  concurrency?: number | undefined
  /** Whether each array can be moved to another thread, as for `Tensor.load`: it then has a buffer of its own. */
  transferable?: boolean | undefined
}

/** What to give back of a file. */
export interface EvictOptions {
  /** The tensors; all of them by default. */
  names?: Iterable<string> | undefined
}

/** How to prefetch. */
export interface PrefetchOptions extends JobOptions {
  /** The tensors to prefetch; all of them by default. */
  names?: Iterable<string> | undefined
  /** Bytes under way at once: 64 MiB by default. */
  maxBytes?: number | undefined
}

/** An open file: its tensors by name, in the order of its index. */
export class TensorFile implements ReadonlyMap<string, AnyTensor> {
  /** `'mixed'` where files of several containers were opened as one. */
  readonly format: Format | 'mixed'
  /** As the file has it: `'0.1'`, `'1.0'`, `'1.2.0'`, `'2'` for zTensor, `'3'` for GGUF …; undefined for formats without versions. */
  readonly version: string | undefined
  /** What wrote the file, where it says. */
  readonly generator: string | undefined
  /** As it was opened: of a file, an index or a folder. Undefined for a list of files and for a file in memory. */
  readonly path: string | undefined
  /** Bytes of the whole file, of all files together. */
  readonly byteLength: number
  /** Tensors in the file. */
  readonly size: number
  /** @internal */
  readonly [IDENTITY]: number
  readonly #store: Store
  #catalog: Catalog | undefined
  #tensors: (AnyTensor | undefined)[] | undefined
  #attributes: Attributes | undefined
  #metadata: Readonly<Record<string, string>> | undefined
  #warnings: readonly Warning[] | undefined

  private constructor(store: Store) {
    const { native } = store
    this.format = native.format
    this.version = native.version ?? undefined
    this.generator = native.generator ?? undefined
    this.path = store.path
    this.byteLength = native.byteLength
    this.size = native.size
    this[IDENTITY] = store.number
    this.#store = store
  }

  /** @internal */
  static make(native: NativeFile, origin: Origin): TensorFile {
    return new TensorFile(new Store(native, origin))
  }

  /** @internal An argument that must be a file. */
  static checked(name: string, value: unknown): TensorFile {
    if (typeof value !== 'object' || value === null || !(#store in value))
      throw wrongType(name, 'an open TensorFile', value)
    return value
  }

  /** @internal */
  static storeOf(file: TensorFile): Store {
    return file.#store
  }

  /** @internal The index, flattened off this thread where it is large. */
  static async ready(file: TensorFile, signal?: AbortSignal): Promise<Catalog> {
    return file.#ready(signal)
  }

  /** @internal The tensor of an ordinal. */
  static at(file: TensorFile, ordinal: number): AnyTensor {
    return file.#at(ordinal)
  }

  /** The file's metadata. */
  get attributes(): Attributes {
    this.#store.throwIfClosed()
    this.#attributes ??= thaw(rethrowNative(() => this.#store.native.attributes()))
    return this.#attributes
  }

  /**
   * The attributes that are text under a text: all of them in formats that have no others, such as safetensors. An object without
   * a prototype.
   *
   * @example file.metadata.license
   */
  get metadata(): Readonly<Record<string, string>> {
    this.#store.throwIfClosed()
    this.#metadata ??= textsOf(this.attributes)
    return this.#metadata
  }

  /** What a user should know about the file and what does not make it unreadable. */
  get warnings(): readonly Warning[] {
    this.#store.throwIfClosed()
    this.#warnings ??= Object.freeze(
      rethrowNative(() => this.#store.native.warnings()).map((warning) => Object.freeze(warning)),
    )
    return this.#warnings
  }

  /** The files that hold the tensors, one unless it was opened as several. */
  get files(): readonly FilePart[] {
    return this.#store.files
  }

  get closed(): boolean {
    return this.#store.closed
  }

  #index(): Catalog {
    this.#store.throwIfClosed()
    this.#catalog ??= new Catalog(this.#store)
    return this.#catalog
  }

  #at(ordinal: number): AnyTensor {
    return this.#tensors?.[ordinal] ?? this.#make(ordinal)
  }

  #make(ordinal: number): AnyTensor {
    // A file that was closed has no catalog, so that asking for it anew throws.
    const tensor = Tensor.make(this.#catalog ?? this.#index(), ordinal)
    // At its full length at once: growing it would copy it a dozen times.
    this.#tensors ??= new Array(this.size)
    this.#tensors[ordinal] = tensor
    return tensor
  }

  /** The ordinal of a name; negative where there is none. */
  #find(name: string): number {
    this.#store.throwIfClosed()
    // On its way across the binding half a surrogate pair would become U+FFFD, and find what is called so.
    if (!name.isWellFormed()) return -1
    return rethrowNative(() => this.#store.native.find(name))
  }

  /**
   * The tensor called `name`.
   *
   * @throws ZTensorError ZT_NOT_FOUND, naming close matches; ZT_BAD_DTYPE unless it is of the dtype asked for;
   * ZT_CLOSED
   */
  tensor<D extends DType>(name: string, options: { readonly dtype: D }): Tensor<D>
  tensor(name: string, options?: { readonly dtype?: undefined }): AnyTensor
  tensor(name: string, options?: { readonly dtype?: DType | undefined }): AnyTensor {
    const { dtype } = readOptions(options, ['dtype'])
    const ordinal = this.#find(validateString('name', name))
    if (dtype !== undefined && dtypeInfo(dtype) === undefined) throw wrongType('dtype', 'the name of a dtype', dtype)
    if (ordinal < 0) throw this.#notFound(name)
    const tensor = this.#at(ordinal)
    if (dtype !== undefined && tensor.dtype !== dtype) {
      const found = tensor.dtype ?? 'not known'
      const message = `tensor ${JSON.stringify(name)}: the elements are ${found}, not ${dtype}`
      throw new ZTensorError('ZT_BAD_DTYPE', message, { tensor: name })
    }
    return tensor
  }

  #notFound(name: string): ZTensorError {
    const close = rethrowNative(() => this.#store.native.similar(name)).map((other) => JSON.stringify(other))
    const hint = close.length === 0 ? `the file has ${this.size} tensors` : `did you mean ${close.join(' or ')}?`
    return new ZTensorError('ZT_NOT_FOUND', `there is no tensor ${JSON.stringify(name)}: ${hint}`, { tensor: name })
  }

  get(name: string): AnyTensor | undefined {
    if (typeof name !== 'string') return undefined
    const ordinal = this.#find(name)
    return ordinal < 0 ? undefined : this.#at(ordinal)
  }

  has(name: string): boolean {
    return typeof name === 'string' && this.#find(name) >= 0
  }

  keys(): Entries<string> {
    const index = this.#index()
    return walk(index.size, (ordinal) => index.name(ordinal))
  }

  values(): Entries<AnyTensor> {
    return walk(this.#index().size, (ordinal) => this.#at(ordinal))
  }

  entries(): Entries<[string, AnyTensor]> {
    return walk(this.#index().size, (ordinal) => {
      const tensor = this.#at(ordinal)
      return [tensor.name, tensor]
    })
  }

  [Symbol.iterator](): Entries<[string, AnyTensor]> {
    return this.entries()
  }

  forEach(
    callback: (tensor: AnyTensor, name: string, file: ReadonlyMap<string, AnyTensor>) => void,
    self?: unknown,
  ): void {
    if (typeof callback !== 'function') throw wrongType('callback', 'a function', callback)
    for (const tensor of this.values()) callback.call(self, tensor, tensor.name, this)
  }

  /** The index, flattened off this thread where it is large. */
  #ready(signal: AbortSignal | undefined): Catalog | Promise<Catalog> {
    if (this.#catalog !== undefined || this.size < TURN) return this.#index()
    const prepared = run(this.#store, { signal }, (control) => this.#store.native.prepareIndex(control))
    return prepared.then(() => this.#index())
  }

  /** The ordinal of one of the `names` that a call was given. */
  #named(name: unknown): number {
    const ordinal = this.#find(validateString('an entry of names', name))
    if (ordinal < 0) throw this.#notFound(name as string)
    return ordinal
  }

  /** The ordinals of the named tensors, all without names. */
  #ordinals(names: Iterable<string> | undefined): Uint32Array {
    return this.#found(this.#given(names))
  }

  #found(names: unknown[] | undefined): Uint32Array {
    if (names === undefined) return everything(this.size)
    const wanted = new Ordinals(this.size)
    for (let from = 0; from < names.length; from += TURN) this.#look(names.slice(from, from + TURN), wanted)
    return wanted.taken()
  }

  /** The same in several turns, where the names are many. */
  #ordinalsInTurns(names: Iterable<string> | undefined): Uint32Array | Promise<Uint32Array> {
    const given = this.#given(names)
    if (given === undefined || given.length < TURN) return this.#found(given)
    return this.#foundInTurns(given)
  }

  async #foundInTurns(names: unknown[]): Promise<Uint32Array> {
    const wanted = new Ordinals(this.size)
    for (let from = 0; from < names.length; from += TURN) {
      if (from > 0) await nextTurn()
      this.#look(names.slice(from, from + TURN), wanted)
    }
    return wanted.taken()
  }

  /** Adds the tensors of these names. */
  #look(names: unknown[], wanted: Ordinals): void {
    this.#store.throwIfClosed()
    const found = this.#together(names)
    if (found !== undefined) for (const ordinal of found) wanted.add(ordinal)
    // One by one, so that the error is of the first name that has one.
    else for (const name of names) wanted.add(this.#named(name))
  }

  /** What all of these names are, in one crossing. Undefined where one is of no tensor, or cannot cross with others. */
  #together(names: unknown[]): Uint32Array | undefined {
    if (names.some((name) => typeof name !== 'string')) return undefined
    const joined = names.join('\0')
    if (!joined.isWellFormed()) return undefined
    const found = rethrowNative(() => this.#store.native.findAll(joined))
    return found?.length === names.length ? found : undefined
  }

  /** The names with, for each pattern, those that it matches. The name of a tensor is no pattern, whatever is in it. */
  #matching(names: Iterable<string> | undefined): Iterable<string> | undefined {
    const given = this.#given(names)
    return given?.flatMap((name) => {
      if (typeof name !== 'string' || !/[*?]/.test(name) || this.has(name)) return [name as string]
      const matching = Array.from(this.keys()).filter(globMatcher(name))
      return matching.length === 0 ? [name] : matching
    })
  }

  /** The names as they are now: the caller may change them before they are looked up. */
  #given(names: Iterable<string> | undefined): unknown[] | undefined {
    this.#store.throwIfClosed()
    if (names === undefined) return undefined
    if (typeof names === 'string' || ArrayBuffer.isView(names) || !isIterable(names)) {
      throw wrongType('names', 'an iterable of names', names)
    }
    return Array.from(names)
  }

  /**
   * Loads tensors as copies that you own, several at once, off the event loop, their digests checked.
   * Gives them by name, in the order asked for, with their dtypes and shapes. Dense ones of up to 64 KiB that are neighbours share an ArrayBuffer.
   *
   * @example
   * const tensors = await file.load(['wte', 'wpe'])
   * const wte = tensors.get('wte')
   * if (wte?.layout === 'dense') console.log(wte.dtype, wte.shape, wte.data)
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_BAD_DTYPE, ZT_BAD_SPARSE, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_IO, ZT_TRUNCATED, ZT_LIMIT where all of it would be more than 16 times the file and
   * `maxDecodedBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason. One failure ends all.
   */
  load(names: Iterable<string> | undefined, options?: Omit<LoadFileOptions, 'names'>): Promise<Map<string, Loaded>>
  load(options?: LoadFileOptions): Promise<Map<string, Loaded>>
  async load(first?: Names | LoadFileOptions, second?: LoadFileOptions): Promise<Map<string, Loaded>> {
    const known = ['names', 'plan', 'concurrency', 'transferable', 'onProgress', 'signal'] as const
    const { names, plan, concurrency, transferable, onProgress, signal } = namesAnd<LoadFileOptions>(
      first,
      second,
      known,
    )
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    if (plan !== undefined && !Plan.isOf(plan, this.#store)) throw wrongType('plan', 'a plan of this very file', plan)
    const most = optional(concurrency, (value) => validateInteger('concurrency', value, 1))
    const job = jobOptions({ onProgress, signal })
    signal?.throwIfAborted()
    // What is there already is not waited for: others may ask for the same in this turn.
    const found = this.#ordinalsInTurns(names)
    const ordinals = found instanceof Promise ? await found : found
    const index = this.#ready(signal)
    const catalog = index instanceof Promise ? await index : index
    const wanted = { catalog, ordinals, tensor: (ordinal: number) => this.#at(ordinal), plan, transferable: movable }
    return loadAll(wanted, most, job)
  }

  /**
   * Which bytes one rank of a tensor-parallel group needs, and which part of each tensor it has. `load({ plan })` loads these
   * parts alone.
   *
   * @example
   * const plan = file.plan({ rank: 0, worldSize: 4, rules: { '*.weight': 'column', '*': 'replicate' } })
   * const parts = await file.load({ plan })
   *
   * @throws RangeError and TypeError ZT_INVALID_ARG for a dimension that does not divide evenly, for tensors that no rule
   * names; ZTensorError ZT_BAD_LAYOUT for one that is divided and not dense, ZT_LIMIT, ZT_CLOSED
   */
  plan(options: PlanOptions): Plan {
    this.#store.throwIfClosed()
    return Plan.make(this.#index(), options)
  }

  /**
   * Checks every digest, decoded length and data rule. Damage that opening the file warned of (`ZT_WARN_DAMAGED`,
   * `ZT_WARN_TRUNCATED`) fails too. Resolves with what failed; rejects only where the file cannot be read, would take far
   * more work than its size tells (ZT_LIMIT, as `load`), or the signal says so.
   *
   * @example
   * const { ok, failures } = await file.verify()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
   */
  async verify(options?: VerifyOptions): Promise<VerifyResult> {
    const { canonical: wanted, ...job } = readOptions(options, ['canonical', 'onProgress', 'signal'])
    const canonical = optional(wanted, (value) => validateBoolean('canonical', value))
    const { warnings } = this
    const found = await verifyTensors(this.#store, everything(this.size), job, true)
    return { ...(canonical ? await withCanonical(this.#store, found, job.signal) : found), warnings }
  }

  /**
   * The content digest of a zTensor 2 file (§6.4), `sha256:…` or `xxh3:…`: the same for the same tensors however they are
   * laid out, split or compressed. It is made from the index alone, out of the digests that stand there.
   *
   * @throws ZTensorError ZT_UNSUPPORTED_VERSION of any other format, ZT_BAD_DIGEST where a component has no digest,
   * ZT_CLOSED, ZT_IO; the signal's reason
   */
  async contentDigest(
    algorithm: 'sha256' | 'xxh3' = 'sha256',
    options?: { signal?: AbortSignal | undefined },
  ): Promise<string> {
    validateOneOf('algorithm', ['sha256', 'xxh3'], algorithm)
    const { signal } = readOptions(options, ['signal'])
    optional(signal, validateAbortSignal)
    signal?.throwIfAborted()
    this.#store.throwIfClosed()
    const stage = await this.#store.stageAll(signal)
    return run(this.#store, { signal }, (control) => this.#store.native.contentDigest(algorithm, control, stage))
  }

  /**
   * Brings tensors' pages into memory, several pieces at once, so that touching their data does not wait for the
   * disk. What is on another machine is brought into the cache of `open(url, { remote: { cache } })`; then `data` is an alias of the
   * copy there.
   *
   * A name may be a pattern: `*` is any run of characters, `?` any single one.
   *
   * @example await file.prefetch(['wte', 'h.0.*'])
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_IO, ZT_NOT_LOCAL of a file of another machine without a cache, ZT_LIMIT beyond
   * `maxCacheBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  prefetch(names: Iterable<string> | undefined, options?: Omit<PrefetchOptions, 'names'>): Promise<void>
  prefetch(options?: PrefetchOptions): Promise<void>
  async prefetch(first?: Names | PrefetchOptions, second?: PrefetchOptions): Promise<void> {
    const read = namesAnd<PrefetchOptions>(first, second, ['names', 'maxBytes', 'onProgress', 'signal'])
    const { names, maxBytes, onProgress, signal } = read
    const inFlight = optional(maxBytes, (value) => validateInteger('maxBytes', value, 1))
    const job = jobOptions({ onProgress, signal })
    const found = this.#ordinalsInTurns(this.#matching(names))
    const ordinals = found instanceof Promise ? await found : found
    await run(this.#store, job, (control) => this.#store.native.prefetch(ordinals, inFlight, control))
  }

  /**
   * Tells the system that tensors' pages will not be needed soon, in the mapping and in its page cache. What
   * JavaScript wrote to them stays.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; TypeError ZT_INVALID_ARG
   */
  evict(names: Iterable<string> | undefined): void
  evict(options?: EvictOptions): void
  evict(first?: Names | EvictOptions): void {
    const { names } = namesAnd<EvictOptions>(first, undefined, ['names'])
    const ordinals = this.#ordinals(names)
    rethrowNative(() => this.#store.native.evict(ordinals))
  }

  /**
   * What to post to another thread for `open` or `openSync` there: all threads then read one mapping, which is in
   * memory once. What one writes into `data`, all see; `close()` empties the views of its own thread, and the mapping
   * goes with the last. Of a list of files, or after `close()`, other threads open the files again.
   *
   * With `{ memory: true }` it holds `memory` too, a SharedArrayBuffer over the mapping of each file, if the runtime can make
   * them (Node from 22.23, 24.21 and 26 on, Bun 1.4; not Node 20, Deno and Electron, and not of a file that is not
   * mapped). A file that is opened from it, in this or another thread, has its `data` over these: such arrays can be posted
   * to threads that know nothing of this package. Nobody can empty them: they and the mapping live until every
   * thread has dropped them, whoever calls `close()`. Other processes cannot be sent memory.
   *
   * @example
   * new Worker('./worker.js', { workerData: file.share() }) // there: const file = await open(workerData)
   *
   * @throws ZTensorError ZT_CLOSED, and with memory ZT_IO, ZT_MAPPING_LOST; TypeError ZT_INVALID_ARG of a file in memory: open
   * a SharedArrayBuffer there
   */
  share(options?: ShareOptions): SharedFile {
    this.#store.throwIfClosed()
    const { native, memory, path, files, request } = this.#store
    if (memory !== undefined) throw invalid(TypeError, 'a file in memory cannot be shared: open a SharedArrayBuffer')
    if (path === undefined && this.#store.isRemote)
      throw invalid(TypeError, 'a file whose bytes code of yours reads cannot be shared: open one in the other thread')
    const paths = path ?? files.map((file) => file.path as string)
    return ticketOf(native, paths, request ?? {}, options)
  }

  /**
   * Ends the file: views become empty, work under way rejects with ZT_CLOSED, the mapping goes. Wait for other
   * native code that still reads a view (a compression, a write) first: it would read zeros. Closing twice is
   * fine.
   */
  close(): void {
    this.#store.close()
    this.#tensors = undefined
    this.#catalog = undefined
  }

  [Symbol.dispose](): void {
    this.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  get [Symbol.toStringTag](): string {
    return 'TensorFile'
  }

  /** Never touches data. */
  toJSON(): object {
    const { format, version, path, byteLength } = this
    return { format, version, path, byteLength, tensors: this.closed ? [] : Array.from(this.values()) }
  }

  /** Never touches data. */
  [inspect.custom](_depth: number, options: import('node:util').InspectOptions): string {
    const { path, format, version, size, byteLength, closed } = this
    return shown('TensorFile', { path, format, version, size, byteLength, closed }, options)
  }

  /** @internal Throws the first failure of a verification at open. */
  static verified(file: TensorFile, { ok, failures }: Pick<VerifyResult, 'ok' | 'failures'>): TensorFile {
    if (ok) return file
    file.close()
    const [first] = failures as [ZTensorError]
    const more = failures.length === 1 ? '' : ` (and ${failures.length - 1} more failures)`
    throw new ZTensorError(first.code, `${first.message}${more}`, { ...first, cause: failures })
  }

  /** @internal */
  static verifiedSync(file: TensorFile): TensorFile {
    return TensorFile.verified(file, verifySync(file.#store))
  }
}

type Names = Iterable<string> | undefined

/** What a call was asked for, as `(names, options)` or as `({ names, … })`. */
function namesAnd<T extends { names?: Names }>(
  first: Names | T,
  second: T | undefined,
  known: readonly (keyof T & string)[],
): Partial<T> {
  if (first !== undefined && !isIterable(first)) {
    if (second !== undefined) throw wrongType('names', 'an iterable of names', first)
    return readOptions(first as T, known)
  }
  const others = known.filter((key) => key !== 'names')
  const read = readOptions(second, others.length > 0 ? others : known)
  return first === undefined ? read : { ...read, names: first }
}

/** Ordinals in the order in which they come, each once. */
class Ordinals {
  readonly #seen: Uint8Array
  readonly #taken: number[] = []

  constructor(size: number) {
    this.#seen = new Uint8Array(size)
  }

  add(ordinal: number): void {
    if (this.#seen[ordinal] === 1) return
    this.#seen[ordinal] = 1
    this.#taken.push(ordinal)
  }

  taken(): Uint32Array {
    return new Uint32Array(this.#taken)
  }
}
