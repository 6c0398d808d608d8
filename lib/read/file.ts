import { type InspectOptions, inspect } from '#host'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, run, unlessAborted, type ValidJob } from '../native/job.js'
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
import { type AttributeObject, thaw, withTextKeys } from '../values/attributes.js'
import { type DType, dtypeInfo } from '../values/dtype.js'
import { checkFilter, type Filter, tensorFilter } from '../values/filter.js'
import type { Format } from '../values/format-table.js'
import { globMatcher } from '../values/glob.js'
import { IDENTITY, shown } from '../values/inspect.js'
import { type MetadataOutline, OUTLINE, type OutlineRequest } from '../values/outline.js'
import type { Warning } from '../values/warning.js'
import { everything, TURN } from './batches.js'
import { type Trace, withinCall } from './calls.js'
import { Catalog, type Entries, walk } from './catalog.js'
import { type LoadRequest, loadAll } from './load.js'
import type { Loaded } from './loaded.js'
import { LOAD_DTYPES, type LoadDType } from './narrow.js'
import { Plan, type PlanOptions } from './plan.js'
import { type SharedFile, type ShareOptions, ticketOf } from './share.js'
import { type FilePart, type Origin, Store } from './store.js'
import { type FileSummary, summarize } from './summary.js'
import { type AnyTensor, Tensor } from './tensor.js'
import {
  jobOptions,
  type VerifyOptions,
  type VerifyResult,
  verifySync,
  verifyTensors,
  withCanonical,
} from './verify.js'

/** Tensors for which the caller's function is called before a yield to the event loop. */
const CALLED = 2000

/** Characters of a text of the metadata that `summary` reads at least. */
const TEXT = 4096

/** Which tensors a call is for: all of them by default. */
export interface TensorSelection {
  /** Names of tensors, in the order of the result. A glob stands for the names that it matches (`*`: any characters, `?`: one). */
  names?: Iterable<string> | undefined
  /** A glob, a list of globs, or a function, in place of `names`. A glob that begins with `!` excludes what it matches. */
  filter?: Filter<AnyTensor> | undefined
}

/** Which tensors to load, and how. */
export interface LoadFileOptions extends TensorSelection, JobOptions {
  /**
   * `'float32'` widens the elements of dense tensors to float32, and dequantizes. An integer dtype converts the dense tensors of integers;
   * an element that does not fit is an error, which names its index. Tensors that have no such form (complex and 6-bit types, other
   * layouts, for integers any other dtype) and sparse tensors are loaded as they are: their `dtype` says so.
   */
  as?: LoadDType | undefined
  /** Load only one rank's parts, as divided by `plan()` of this file. `plan.tensors` has their shapes. */
  plan?: Plan | undefined
  /** Number of tensors to load concurrently. The default depends on the machine and the storage. */
  concurrency?: number | undefined
  /** Whether each array can be transferred to another thread, as for `Tensor.load`. Each then has its own ArrayBuffer. */
  transferable?: boolean | undefined
}

/** Which tensors to evict. */
export interface EvictOptions extends TensorSelection {}

/** How to close a file. */
export interface CloseOptions {
  /** Let running calls end first. */
  readonly drain?: boolean | undefined
  /** Stops waiting: the rest is stopped, as by `close()`. Only with `drain`. */
  readonly signal?: AbortSignal | undefined
}

/** How to prefetch. */
export interface PrefetchOptions extends TensorSelection, JobOptions {
  /** Bytes to read concurrently: 64 MiB by default. */
  concurrentBytes?: number | undefined
}

/** An open file: its tensors by name, in the order of its index. */
export class TensorFile implements ReadonlyMap<string, AnyTensor> {
  /** The format; `'mixed'` if files of several formats were opened as one. */
  readonly format: Format | 'mixed'
  /** The format version in the file: `'0.1'`, `'1.0'`, `'1.2.0'` or `'2'` for zTensor, `'3'` for GGUF; undefined for formats without versions. */
  readonly version: string | undefined
  /** The program that wrote the file; undefined if the file does not name it. */
  readonly generator: string | undefined
  /**
   * The path or URL of the file, index or folder that was opened. Undefined for a list, and for what has neither, such as bytes, a File or a
   * handle.
   */
  readonly path: string | undefined
  /** Size in bytes of the file, or of all files together. */
  readonly byteLength: number
  /** Number of tensors. */
  readonly size: number
  /** @internal */
  readonly [IDENTITY]: number
  readonly #store: Store
  #catalog: Catalog | undefined
  #tensors: (AnyTensor | undefined)[] | undefined
  #metadata: AttributeObject | undefined
  #warnings: readonly Warning[] | undefined

  private constructor(store: Store) {
    const { native } = store
    this.format = native.format as Format | 'mixed'
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

  /** @internal The index. A large one is flattened off this thread. */
  static async ready(file: TensorFile, signal?: AbortSignal): Promise<Catalog> {
    return file.#ready(signal)
  }

  /** @internal The ordinals of the tensors that a filter selects. */
  static filtered(
    file: TensorFile,
    matches: (tensor: AnyTensor) => boolean,
    signal: AbortSignal | undefined,
  ): Promise<Uint32Array> {
    return file.#filtered(matches, signal)
  }

  /** @internal The tensor of an ordinal. */
  static at(file: TensorFile, ordinal: number): AnyTensor {
    return file.#at(ordinal)
  }

  /**
   * The metadata of the file, an object without a prototype: the strings of safetensors, the key-value pairs of GGUF, the attributes of
   * the root of zTensor, and so on. Keys that are not strings are listed by their text, such as `7`, and bytes as `h'0aff'`. It is decoded
   * at the first access.
   *
   * @example file.metadata.license
   *
   * @throws ZTensorError ZT_CLOSED
   */
  get metadata(): AttributeObject {
    this.#store.throwIfClosed()
    this.#metadata ??= withTextKeys(thaw(rethrowNative(() => this.#store.native.attributes())))
    return this.#metadata
  }

  /** @internal The beginnings of the metadata. */
  [OUTLINE]({ keys = 2 ** 32 - 1, items, units }: OutlineRequest): MetadataOutline {
    this.#store.throwIfClosed()
    const outline = rethrowNative(() => this.#store.native.attributeOutline({ keys, items, units }))
    return { metadata: withTextKeys(thaw(outline.attributes)), keys: outline.keys }
  }

  /**
   * Returns the file in numbers, from its index and metadata: parameters, bits per weight, storage types, and what the metadata says of a
   * model. It reads no tensors. `filter` selects the tensors to count, all by default.
   *
   * @example
   * const { model, bitsPerWeight, storageTypes } = file.summary()
   * console.log(model?.architecture, model?.mixture, bitsPerWeight, Object.keys(storageTypes))
   *
   * @throws RangeError ZT_INVALID_ARG for a glob that matches no tensor; TypeError ZT_INVALID_ARG; ZTensorError ZT_CLOSED
   */
  summary(options?: { readonly filter?: Filter<AnyTensor> | undefined }): FileSummary {
    const { filter } = readOptions(options, ['filter'])
    const matches = tensorFilter(filter)
    checkFilter(filter, this)
    const ordinals = matches === undefined ? everything(this.size) : this.#where(matches)
    return summarize(this, this.#index(), ordinals, () => TensorFile.beginnings(this))
  }

  /** @internal The beginnings of the metadata that `summary` reads. */
  static beginnings(file: TensorFile): AttributeObject {
    return file[OUTLINE]({ items: 0, units: TEXT }).metadata
  }

  /** Problems of the file that do not prevent reading it. */
  get warnings(): readonly Warning[] {
    this.#store.throwIfClosed()
    this.#warnings ??= Object.freeze(
      rethrowNative(() => this.#store.native.warnings()).map((warning) => Object.freeze(warning)),
    )
    return this.#warnings
  }

  /** The files that hold the tensors: one, or several if several files were opened as one. */
  get files(): readonly FilePart[] {
    return this.#store.files
  }

  /** Whether the file takes no new calls, because `close()` was called. */
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
    // A closed file has no catalog: #index() throws then.
    const tensor = Tensor.make(this.#catalog ?? this.#index(), ordinal)
    // Allocated at its full length: growing the array would copy it a dozen times.
    this.#tensors ??= new Array(this.size)
    this.#tensors[ordinal] = tensor
    return tensor
  }

  /** The ordinal of a name; negative where there is none. */
  #find(name: string): number {
    this.#store.throwIfClosed()
    // The binding would convert a lone surrogate to U+FFFD, and find a tensor of that name.
    if (!name.isWellFormed()) return -1
    return rethrowNative(() => this.#store.native.find(name))
  }

  /**
   * Returns the tensor called `name`. With `dtype`, also checks its dtype.
   *
   * @throws ZTensorError ZT_NOT_FOUND, with similar names; ZT_BAD_DTYPE if the tensor has another dtype; ZT_CLOSED
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
      const found = tensor.dtype ?? 'of an unknown type'
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

  /** Returns the index. A large one is flattened off this thread. */
  #ready(signal: AbortSignal | undefined): Catalog | Promise<Catalog> {
    if (this.#catalog !== undefined || this.size < TURN) return this.#index()
    const prepared = run(this.#store, { signal }, (control) => this.#store.native.prepareIndex(control))
    return prepared.then(() => this.#index())
  }

  /** The ordinal of one entry of `names`. */
  #named(name: unknown): number {
    const ordinal = this.#find(validateString('an entry of names', name))
    if (ordinal < 0) throw this.#notFound(name as string)
    return ordinal
  }

  #found(names: unknown[] | undefined): Uint32Array {
    if (names === undefined) return everything(this.size)
    const wanted = new Ordinals(this.size)
    for (let from = 0; from < names.length; from += TURN) this.#look(names.slice(from, from + TURN), wanted)
    return wanted.taken()
  }

  /** The ordinals of the selected tensors. Yields to the event loop if there are many names. */
  #ordinalsInTurns(selection: TensorSelection, signal: AbortSignal | undefined): Uint32Array | Promise<Uint32Array> {
    const matches = this.#filterOf(selection)
    if (matches !== undefined) return this.#filtered(matches, signal, selection.filter)
    const given = this.#expanded(selection)
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
    const found = this.#findAll(names)
    if (found !== undefined) for (const ordinal of found) wanted.add(ordinal)
    // One by one, so that the error names the first wrong entry.
    else for (const name of names) wanted.add(this.#named(name))
  }

  /** Looks up all names in one native call. Returns undefined if one is missing or cannot be passed that way. */
  #findAll(names: unknown[]): Uint32Array | undefined {
    if (names.some((name) => typeof name !== 'string')) return undefined
    const joined = names.join('\0')
    if (!joined.isWellFormed()) return undefined
    const found = rethrowNative(() => this.#store.native.findAll(joined))
    return found?.length === names.length ? found : undefined
  }

  /** Tests whether `filter` selects a tensor; undefined without one. */
  #filterOf({ names, filter }: TensorSelection): ((tensor: AnyTensor) => boolean) | undefined {
    const matches = tensorFilter(filter)
    if (matches !== undefined && names !== undefined) throw invalid(TypeError, 'give either names or filter, not both')
    return matches
  }

  /** The ordinals from `from` up to `end` of the tensors that a filter selects. */
  #where(matches: (tensor: AnyTensor) => boolean, from = 0, end = this.size): number[] {
    this.#store.throwIfClosed()
    const chosen: number[] = []
    // The caller's function may read data, also if the file drains meanwhile.
    withinCall(() => {
      for (let ordinal = from; ordinal < end; ordinal++) if (matches(this.#at(ordinal))) chosen.push(ordinal)
    })
    return chosen
  }

  /** The ordinals of the tensors that a filter selects. Yields to the event loop if there are many. */
  async #filtered(
    matches: (tensor: AnyTensor) => boolean,
    signal: AbortSignal | undefined,
    filter?: Filter<AnyTensor>,
  ): Promise<Uint32Array> {
    await this.#ready(signal)
    checkFilter(filter, this)
    const chosen: number[] = []
    for (let from = 0; from < this.size; from += CALLED) {
      if (from > 0) await nextTurn()
      for (const ordinal of this.#where(matches, from, Math.min(from + CALLED, this.size))) chosen.push(ordinal)
    }
    return Uint32Array.from(chosen)
  }

  /** The given names, each glob replaced by the names that it matches. A string that is a tensor's name is never a glob. */
  #expanded({ names: given }: TensorSelection): unknown[] | undefined {
    const names = this.#given(given)
    const isGlob = (name: unknown): name is string => typeof name === 'string' && /[*?]/.test(name) && !this.has(name)
    if (!names?.some(isGlob)) return names
    const all = Array.from(this.keys())
    return names.flatMap((name) => {
      if (!isGlob(name)) return [name]
      const matching = all.filter(globMatcher(name))
      // The error names a glob that matches nothing.
      return matching.length === 0 ? [name] : matching
    })
  }

  /** A copy of the names: the caller may change the iterable before they are looked up. */
  #given(names: Iterable<string> | undefined): unknown[] | undefined {
    this.#store.throwIfClosed()
    if (names === undefined) return undefined
    if (typeof names === 'string' || ArrayBuffer.isView(names) || !isIterable(names)) {
      throw wrongType('names', "an iterable of names, such as ['wte']", names)
    }
    return Array.from(names)
  }

  /**
   * Loads tensors as copies that you own. Reads several concurrently, off the event loop, and checks their digests.
   * Resolves with a Map from name to tensor, in the requested order. Adjacent dense tensors of up to 64 KiB share an ArrayBuffer.
   * A name may be a glob, and `filter` selects tensors as in `convert`.
   *
   * @example
   * const tensors = await file.load(['wte', 'h.0.*'])
   * const floats = await file.load({ filter: ['h.*', '!*.bias'], as: 'float32' })
   * const wte = tensors.get('wte')
   * if (wte?.kind === 'dense') console.log(wte.dtype, wte.shape, wte.data)
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_BAD_DTYPE, ZT_BAD_SPARSE, ZT_DECODE,
   * ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_IO, ZT_TRUNCATED, ZT_LIMIT if all tensors together decode to more than 16 times the file
   * plus `maxDecodedBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason. The first failure stops the call.
   */
  load(
    names: Iterable<string> | undefined,
    options?: Omit<LoadFileOptions, keyof TensorSelection>,
  ): Promise<Map<string, Loaded>>
  load(options?: LoadFileOptions): Promise<Map<string, Loaded>>
  async load(first?: Names | LoadFileOptions, second?: LoadFileOptions): Promise<Map<string, Loaded>> {
    const known = [...SELECTION, 'as', 'plan', 'concurrency', 'transferable', 'onProgress', 'signal'] as const
    const read = namesAnd<LoadFileOptions>(first, second, known)
    const { as, plan, concurrency, transferable, onProgress, signal } = read
    optional(as, (value) => validateOneOf('as', LOAD_DTYPES, value))
    const movable = optional(transferable, (value) => validateBoolean('transferable', value)) ?? false
    if (plan !== undefined && !Plan.isOf(plan, this.#store))
      throw wrongType('plan', 'a plan made by plan() of this file', plan)
    const max = optional(concurrency, (value) => validateInteger('concurrency', value, 1))
    const job = jobOptions({ onProgress, signal })
    signal?.throwIfAborted()
    const { calls } = this.#store
    const trace = calls.begin()
    const wanted = { as, plan, transferable: movable }
    return await calls.during('load', trace, this.#load(read, wanted, max, job, trace))
  }

  async #load(
    selection: TensorSelection,
    wanted: Pick<LoadRequest, 'as' | 'plan' | 'transferable'>,
    max: number | undefined,
    job: ValidJob,
    trace: Trace | undefined,
  ): Promise<Map<string, Loaded>> {
    // No await without need: other calls in this turn may join the same work.
    const found = this.#ordinalsInTurns(selection, job.signal)
    const ordinals = found instanceof Promise ? await found : found
    const index = this.#ready(job.signal)
    const catalog = index instanceof Promise ? await index : index
    this.#store.calls.touches(trace, ordinals)
    const tensor = (ordinal: number) => this.#at(ordinal)
    return loadAll({ ...wanted, catalog, ordinals, tensor }, max, job)
  }

  /**
   * Plans tensor parallelism: computes which part of each tensor one rank of a group holds, and which byte ranges of the files it
   * needs. `load({ plan })` then loads only these parts.
   *
   * @example
   * const plan = file.plan({ rank: 0, worldSize: 4, rules: { '*.weight': 'column', '*': 'replicate' } })
   * const parts = await file.load({ plan })
   *
   * @throws RangeError and TypeError ZT_INVALID_ARG if a dimension does not divide evenly, or no rule matches a tensor;
   * ZTensorError ZT_BAD_LAYOUT if a rule divides a tensor that is not dense, ZT_LIMIT, ZT_CLOSED
   */
  plan(options: PlanOptions): Plan {
    this.#store.admit()
    return Plan.make(this.#index(), options)
  }

  /**
   * Checks every digest, decoded length and data rule. Damage that `open` warned about (`ZT_WARN_DAMAGED`,
   * `ZT_WARN_TRUNCATED`) counts as a failure. Resolves with all failures. Rejects only if the file cannot be read, if its tensors
   * decode to too many bytes (ZT_LIMIT, as in `load`), or if the signal is aborted.
   *
   * @example
   * const { ok, failures } = await file.verify()
   *
   * @throws ZTensorError ZT_CLOSED, ZT_IO, ZT_LIMIT; TypeError ZT_INVALID_ARG; the signal's reason
   */
  async verify(options?: VerifyOptions): Promise<VerifyResult> {
    const { canonical: wanted, filter, ...job } = readOptions(options, ['canonical', 'filter', 'onProgress', 'signal'])
    const canonical = optional(wanted, (value) => validateBoolean('canonical', value))
    const matches = tensorFilter(filter)
    if (canonical && matches !== undefined)
      throw invalid(TypeError, 'canonical applies to the whole file, so it cannot be combined with filter')
    const { warnings } = this
    const { calls } = this.#store
    const trace = calls.begin()
    const work = async () => {
      const ordinals = matches === undefined ? everything(this.size) : await this.#filtered(matches, job.signal, filter)
      calls.touches(trace, ordinals, true)
      const found = await verifyTensors(this.#store, ordinals, job, matches === undefined)
      return canonical ? withCanonical(this.#store, found, job.signal) : found
    }
    return { ...(await calls.during('verify', trace, work())), warnings }
  }

  /**
   * Returns the content digest of a zTensor 2 file (§6.4), `sha256:…` or `xxh3:…`. It does not depend on where the bytes are, the shards or
   * the compression of the file. It is computed from the digests in the index, without reading data.
   *
   * @throws ZTensorError ZT_UNSUPPORTED_VERSION for any other format, ZT_BAD_DIGEST if a component has no digest,
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
    const work = async () => {
      const stage = await this.#store.stageAll(signal)
      return run(this.#store, { signal }, (control) => this.#store.native.contentDigest(algorithm, control, stage))
    }
    return this.#store.calls.hold(work)
  }

  /**
   * Reads tensors into the page cache, so that access to their data does not wait for the disk. Tensors of a remote file are
   * downloaded into the cache of `open(url, { remote: { cache } })`; `data` then aliases the cached copy.
   *
   * A name may be a glob, and `filter` selects tensors, as in `load`.
   *
   * @example await file.prefetch(['wte', 'h.0.*'])
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED, ZT_IO, ZT_NOT_LOCAL for a remote file without a cache, ZT_LIMIT beyond
   * `maxCacheBytes`; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
   */
  prefetch(names: Iterable<string> | undefined, options?: Omit<PrefetchOptions, keyof TensorSelection>): Promise<void>
  prefetch(options?: PrefetchOptions): Promise<void>
  async prefetch(first?: Names | PrefetchOptions, second?: PrefetchOptions): Promise<void> {
    const read = namesAnd<PrefetchOptions>(first, second, [...SELECTION, 'concurrentBytes', 'onProgress', 'signal'])
    const { concurrentBytes, onProgress, signal } = read
    const inFlight = optional(concurrentBytes, (value) => validateInteger('concurrentBytes', value, 1))
    const job = jobOptions({ onProgress, signal })
    const { calls } = this.#store
    const trace = calls.begin()
    const work = async () => {
      const found = this.#ordinalsInTurns(read, signal)
      const ordinals = found instanceof Promise ? await found : found
      calls.touches(trace, ordinals, true)
      await run(this.#store, job, (control) => this.#store.native.prefetch(ordinals, inFlight, control))
    }
    await calls.during('prefetch', trace, work())
  }

  /**
   * Evicts tensors from memory: the system may drop their pages from the mapping and from the page cache. Pages that JavaScript
   * has written to stay. A name may be a glob, and `filter` selects tensors, as in `load`.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; TypeError ZT_INVALID_ARG
   */
  evict(names: Iterable<string> | undefined): void
  evict(options?: EvictOptions): void
  evict(first?: Names | EvictOptions): void {
    this.#store.admit()
    const read = namesAnd<EvictOptions>(first, undefined, SELECTION)
    const matches = this.#filterOf(read)
    checkFilter(read.filter, this)
    const ordinals = matches === undefined ? this.#found(this.#expanded(read)) : Uint32Array.from(this.#where(matches))
    rethrowNative(() => this.#store.native.evict(ordinals))
  }

  /**
   * Returns an object to post to another thread, which passes it to `open` or `openSync`. All threads then share one mapping.
   * Writes into `data` are visible to all of them. `close()` empties the views of its own thread; the last `close()` unmaps the
   * file. For a list of files, or after `close()`, other threads open the files again.
   *
   * With `{ memory: true }` it also has `memory`: a SharedArrayBuffer over the mapping of each file, if the file is mapped and the
   * runtime supports it (Node from 22.23, 24.21 and 26 on, Bun 1.4; not Node 20, Deno and Electron). In a file that is opened from
   * it, `data` is a view of these buffers, which can be posted to threads that do not use this package. `close()` does not empty
   * them: they and the mapping live until every thread has released them. They cannot be sent to other processes.
   *
   * @example
   * new Worker('./worker.js', { workerData: file.share() }) // there: const file = await open(workerData)
   *
   * @throws ZTensorError ZT_CLOSED, and with memory ZT_IO, ZT_MAPPING_LOST; TypeError ZT_INVALID_ARG for a file in memory:
   * open a SharedArrayBuffer instead
   */
  share(options?: ShareOptions): SharedFile {
    this.#store.admit()
    const { native, memory, path, files, request } = this.#store
    if (memory !== undefined)
      throw invalid(TypeError, 'a file in memory cannot be shared: open it from a SharedArrayBuffer instead')
    if (path === undefined && this.#store.isRemote)
      throw invalid(TypeError, 'a file opened from a ByteSource cannot be shared: open it again in the other thread')
    const paths = path ?? files.map((file) => file.path as string)
    return ticketOf(native, paths, request ?? {}, options)
  }

  /**
   * Closes the file: its views become empty, running calls reject with ZT_CLOSED, and the file is unmapped. First wait for other
   * native code that still reads a view, such as a compression or a write: it would read zeros. A second call has no effect.
   *
   * With `{ drain: true }` it lets running calls end first, like `close()` of an HTTP server. New calls and new views fail with
   * ZT_CLOSED immediately; names, shapes and metadata can be read until the end. The promise resolves when no call is left and the file
   * is unmapped. A stream of `createReadStream()` is a running call until it ends or is destroyed. `close()` during a drain stops the
   * rest, and so does an abort of `signal`.
   *
   * @example
   * const old = model
   * model = await open('model.safetensors') // the new file
   * await old.close({ drain: true })
   *
   * @throws TypeError ZT_INVALID_ARG; the signal's reason, after the rest was stopped and the file was closed
   */
  close(options: CloseOptions & { readonly drain: true }): Promise<void>
  close(options?: CloseOptions & { readonly drain?: false | undefined }): void
  close(options?: CloseOptions): Promise<void> | undefined {
    const { drain, signal } = readOptions(options, ['drain', 'signal'])
    if (optional(drain, (value) => validateBoolean('drain', value)) === true) return this.#drain(signal)
    if (signal !== undefined) throw invalid(TypeError, 'signal needs drain: true, because close() does not wait')
    this.#store.close()
    this.#forget()
    return undefined
  }

  async #drain(signal: AbortSignal | undefined): Promise<void> {
    optional(signal, validateAbortSignal)
    try {
      await unlessAborted(this.#store.calls.drain(), signal)
    } finally {
      this.#store.close()
      this.#forget()
    }
  }

  /** Releases the index. */
  #forget(): void {
    this.#tensors = undefined
    this.#catalog = undefined
  }

  /** Closes the file immediately. */
  [Symbol.dispose](): void {
    this.close()
  }

  /** Closes the file after its running calls: `close({ drain: true })`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close({ drain: true })
  }

  get [Symbol.toStringTag](): string {
    return 'TensorFile'
  }

  /** Reads no data. */
  toJSON(): object {
    const { format, version, path, byteLength } = this
    return { format, version, path, byteLength, tensors: this.closed ? [] : Array.from(this.values()) }
  }

  /** Reads no data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { path, format, version, size, byteLength, closed } = this
    return shown('TensorFile', { path, format, version, size, byteLength, closed }, options)
  }

  /** @internal Throws the first failure of the verification of `open({ verify: true })`. */
  static verified(file: TensorFile, { ok, failures }: Pick<VerifyResult, 'ok' | 'failures'>): TensorFile {
    if (ok) return file
    file.close()
    const [first] = failures as [ZTensorError]
    const more = failures.length === 1 ? '' : ` (and ${failures.length - 1} more failures)`
    throw new ZTensorError(first.code, `${first.message}${more}`, { ...first, hints: first.hints, cause: failures })
  }

  /** @internal */
  static verifiedSync(file: TensorFile): TensorFile {
    return TensorFile.verified(file, verifySync(file.#store))
  }
}

type Names = Iterable<string> | undefined

/** The options of {@link TensorSelection}. */
const SELECTION = ['names', 'filter'] as const

/** Reads the arguments of a call: `(names, options)` or `({ names, … })`. */
function namesAnd<T extends { names?: Names }>(
  first: Names | T,
  second: T | undefined,
  known: readonly (keyof T & string)[],
): Partial<T> {
  if (first !== undefined && !isIterable(first)) {
    if (second !== undefined) throw wrongType('names', "an iterable of names, such as ['wte']", first)
    return readOptions(first as T, known)
  }
  const others = known.filter((key) => !SELECTION.includes(key as (typeof SELECTION)[number]))
  const read = readOptions(second, others.length > 0 ? others : known)
  return first === undefined ? read : { ...read, names: first }
}

/** Distinct ordinals, in insertion order. */
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
