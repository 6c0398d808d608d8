import { allowListeners } from '#host'
import { onAbort } from '../native/abort.js'
import { ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type Counts, run, type ValidJob } from '../native/job.js'
import { copied, PIECE, toBuffer } from '../native/memory.js'
import type { LoadedBatch, NativeMemory } from '../native/native.js'
import { type DTypeInfo, dtypeInfo, type TypedArray } from '../values/dtype.js'
import { isQuantized } from '../values/storage-type.js'
import { checkTotal, inBatches, inTurns, TURN } from './batches.js'
import { asPart } from './calls.js'
import type { Catalog } from './catalog.js'
import { type Loaded, type LoadedComponent, LoadedObject, LoadedTensor } from './loaded.js'
import { isInteger, type LoadDType } from './narrow.js'
import { Plan } from './plan.js'
import { array, type Store } from './store.js'
import type { AnyTensor } from './tensor.js'

/** Bytes that one native call loads, of at most {@link TURN} tensors. */
const BATCH_BYTES = 256 * 2 ** 20
/** Bytes that one native call loads from a file in memory, whose bytes are staged first. */
const STAGED_BYTES = 16 * 2 ** 20
/** Tensors that are loaded concurrently, of those that are loaded one by one. */
const ONE_BY_ONE = 4

/** The tensors to load. */
export interface LoadRequest {
  readonly catalog: Catalog
  readonly ordinals: Uint32Array
  /** Creates the tensor of an ordinal, lazily: most are never needed. */
  readonly tensor: (ordinal: number) => AnyTensor
  /** The dtype of all elements that can be widened, dequantized or converted. */
  readonly as: LoadDType | undefined
  readonly plan: Plan | undefined
  /** Whether each array gets a buffer allocated by the runtime, which can be transferred. */
  readonly transferable: boolean
}

/** The part of each tensor that is loaded: the whole tensor, or the part of a rank. */
interface Parts {
  /** Size in bytes after decoding. */
  byteLength(ordinal: number): number
  shape(ordinal: number): readonly number[]
}

/** Counts loaded bytes and tensors, and reports progress. */
class Tally {
  #bytes = 0
  #tensors = 0
  #reported = 0
  readonly #totals: { totalBytes: number; totalTensors: number }
  readonly #bytesOf: (ordinal: number) => number
  readonly onProgress: ValidJob['onProgress']

  constructor({ catalog, ordinals, plan }: LoadRequest, onProgress: ValidJob['onProgress']) {
    const parts = plan === undefined ? catalog : Plan.parts(plan)
    this.#bytesOf = (ordinal) => parts.byteLength(ordinal)
    let totalBytes = 0
    if (onProgress !== undefined) for (const ordinal of ordinals) totalBytes += this.#bytesOf(ordinal)
    this.#totals = { totalBytes, totalTensors: ordinals.length }
    this.onProgress = onProgress
  }

  /** Reports the progress of a running batch. */
  partly(bytes: number, tensors: number): void {
    const { totalBytes, totalTensors } = this.#totals
    // A running batch counts stored bytes, the total counts decoded bytes. The reported number must never decrease.
    this.#reported = Math.max(this.#reported, Math.min(this.#bytes + bytes, totalBytes))
    this.onProgress?.({ bytes: this.#reported, totalBytes, tensors: this.#tensors + tensors, totalTensors })
  }

  did(ordinals: Uint32Array): void {
    if (this.onProgress === undefined) return
    for (const ordinal of ordinals) this.#bytes += this.#bytesOf(ordinal)
    this.#tensors += ordinals.length
    this.partly(0, 0)
  }
}

/** Types that do not widen to float32. */
const NOT_WIDENED = /^(complex|float6_)/

/** Whether a tensor is loaded as another type than its own. */
function converts({ catalog, as }: LoadRequest, ordinal: number): boolean {
  if (as === undefined) return false
  const [layout, dtype] = [catalog.layout(ordinal), catalog.dtype(ordinal)?.name]
  if (layout !== 'dense') return as === 'float32' && isQuantized(layout)
  if (dtype === undefined || dtype === as) return false
  return as === 'float32' ? !NOT_WIDENED.test(dtype) : isInteger(dtype)
}

/** Loads a tensor as a part of the call: its file may drain. */
async function loadOne(wanted: LoadRequest, ordinal: number, signal: AbortSignal | undefined): Promise<Loaded> {
  const { catalog, tensor: make, plan, transferable } = wanted
  const tensor = make(ordinal)
  const dtype = catalog.dtype(ordinal)
  if (converts(wanted, ordinal)) {
    const as = wanted.as as LoadDType
    const part = plan && Plan.parts(plan).at(ordinal)
    const slice = part?.dim === undefined ? undefined : part.ranges
    const data = (await asPart(() => tensor.load({ as, slice, transferable, signal }))) as TypedArray
    return LoadedTensor.make(dtypeInfo(as) as DTypeInfo, part?.shape ?? tensor.shape, data)
  }
  if (tensor.layout === 'sparse_csr') return asPart(() => tensor.loadCsr({ transferable, signal }))
  if (tensor.layout === 'sparse_coo') return asPart(() => tensor.loadCoo({ transferable, signal }))
  if (tensor.layout === 'dense' && dtype !== undefined)
    return LoadedTensor.make(
      dtype,
      tensor.shape,
      (await asPart(() => tensor.load({ transferable, signal }))) as TypedArray,
    )
  const components: Record<string, LoadedComponent> = Object.create(null)
  for (const [role, component] of tensor.components)
    components[role] = {
      dtype: component.dtype,
      data: await asPart(() => component.load({ transferable, signal })),
    }
  return new LoadedObject(tensor.layout, tensor.dtype, tensor.shape, components)
}

/** Refuses an integer type that converts nothing. */
async function checkIntegers({ catalog, ordinals, as }: LoadRequest, signal: AbortSignal | undefined): Promise<void> {
  let found = ordinals.length === 0
  await inTurns(ordinals.length, TURN, (position) => {
    const ordinal = ordinals[position] as number
    found ||= catalog.layout(ordinal) === 'dense' && isInteger(catalog.dtype(ordinal)?.name)
  })
  catalog.store.check(signal)
  if (!found)
    throw new ZTensorError('ZT_BAD_DTYPE', `only integers are loaded as ${as}, and no tensor here has integers`)
}

/** Loads tensors, at most `atOnce` concurrently. The first failure, or the caller's signal, stops the others. */
export async function loadAll(
  wanted: LoadRequest,
  atOnce: number | undefined,
  { onProgress, signal }: ValidJob,
): Promise<Map<string, Loaded>> {
  const { catalog, ordinals, plan } = wanted
  const { store } = catalog
  const parts = plan && Plan.parts(plan)
  store.check(signal)
  const checking = checkTotal(store, ordinals, 'load', signal)
  if (checking !== undefined) await checking
  if (isInteger(wanted.as)) await checkIntegers(wanted, signal)
  /** The loaded tensors, by their positions in `ordinals`. */
  const results: Loaded[] = new Array(ordinals.length)
  const tally = new Tally(wanted, onProgress)
  /** The positions of tensors that are loaded one by one. */
  const others: number[] = []
  const begun = new Map<number, Promise<Loaded>>()
  let batch = new Batch(wanted, results)
  const sort = (position: number): void => {
    const ordinal = ordinals[position] as number
    if (catalog.layout(ordinal) !== 'dense' || catalog.dtype(ordinal) === undefined || converts(wanted, ordinal)) {
      others.push(position)
      return
    }
    const decoding = parts?.divides(ordinal) ? undefined : catalog.decoding(ordinal)
    if (decoding === undefined || !store.shared.has(decoding)) {
      batch.add(position)
      return
    }
    // Joined now: later the shared work may have ended.
    const load = loadOne(wanted, ordinal, signal)
    load.catch(() => {}) // an earlier tensor may fail first
    begun.set(position, load)
    others.push(position)
  }
  for (let position = 0, turn = 0; position < ordinals.length; position++) {
    sort(position)
    if (batch.full) {
      await batch.load(atOnce, tally, signal)
      batch = new Batch(wanted, results)
    } else if (position - turn < TURN) continue
    turn = position
    await nextTurn()
  }
  await batch.load(atOnce, tally, signal)
  await loadEach(wanted, others, begun, results, atOnce ?? ONE_BY_ONE, tally, signal)
  const loaded = new Map<string, Loaded>()
  // Rehashing a Map of a million entries takes 50 ms, so each turn does little else.
  await inTurns(ordinals.length, 1000, (position) => {
    loaded.set(catalog.name(ordinals[position] as number), results[position] as Loaded)
  })
  return loaded
}

/** Dense tensors of a file that one native call loads. */
class Batch {
  readonly #wanted: LoadRequest
  readonly #results: Loaded[]
  readonly #store: Store
  /** The part of each tensor that is loaded. */
  readonly #parts: Parts
  readonly #positions: number[] = []
  #bytes = 0

  constructor(wanted: LoadRequest, results: Loaded[]) {
    this.#wanted = wanted
    this.#results = results
    this.#store = wanted.catalog.store
    this.#parts = wanted.plan === undefined ? wanted.catalog : Plan.parts(wanted.plan)
  }

  add(position: number): void {
    this.#positions.push(position)
    this.#bytes += this.#parts.byteLength(this.#wanted.ordinals[position] as number)
  }

  get full(): boolean {
    const max = this.#store.memory === undefined ? BATCH_BYTES : STAGED_BYTES
    return this.#positions.length >= TURN || this.#bytes >= max
  }

  async load(atOnce: number | undefined, tally: Tally, signal: AbortSignal | undefined): Promise<void> {
    if (this.#positions.length === 0) return
    const { catalog, ordinals: all } = this.#wanted
    const ordinals = Uint32Array.from(this.#positions, (position) => all[position] as number)
    const batch = this.#read(ordinals, Math.min(atOnce ?? 2 ** 32 - 1, 2 ** 32 - 1), tally, signal)
    const joined = this.#lend(ordinals, batch)
    const { blocks, locations } = await batch.finally(joined.end)
    // Each decoded tensor has its own block, which joined calls share.
    const shared = new Set(joined.tensors.map((at) => locations[at * 2]))
    const check = () => this.#store.check(signal)
    const { transferable } = this.#wanted
    const buffers: ArrayBuffer[] = []
    if (!transferable)
      for (const [at, block] of blocks.entries()) buffers.push(await toBuffer(block, check, !shared.has(at)))
    let since = 0
    for (const [at, ordinal] of ordinals.entries()) {
      const [block, offset] = [locations[at * 2] as number, locations[at * 2 + 1] as number]
      const dtype = catalog.dtype(ordinal) as DTypeInfo
      const byteLength = this.#parts.byteLength(ordinal)
      since += transferable ? byteLength : 0
      if (since >= PIECE) {
        since = 0
        await nextTurn()
      }
      const data = transferable
        ? array(dtype, await copied(blocks[block], offset, byteLength, check), 0, byteLength)
        : array(dtype, buffers[block] ?? new ArrayBuffer(0), offset, byteLength)
      this.#results[this.#positions[at] as number] = LoadedTensor.make(dtype, this.#parts.shape(ordinal), data)
    }
    if (transferable) for (const [at, block] of blocks.entries()) if (!shared.has(at)) block.free()
    tally.did(ordinals)
  }

  /** Loads the tensors natively. */
  async #read(
    ordinals: Uint32Array,
    atOnce: number,
    tally: Tally,
    signal: AbortSignal | undefined,
  ): Promise<LoadedBatch> {
    const { native } = this.#store
    const { plan } = this.#wanted
    const division = plan && Plan.divisionOf(plan, ordinals)
    const onProgress = tally.onProgress && (({ bytes, tensors }: Counts) => tally.partly(bytes, tensors))
    const next = (from: number) => native.stageNext(ordinals, from)
    const many = { count: ordinals.length, bytes: 0, next, onProgress, signal }
    const parts = await inBatches(this.#store, many, async ({ from, end, stage, onProgress }) => {
      const some = ordinals.subarray(from, end)
      const own = division && { ...division, dims: division.dims.subarray(from, end) }
      return run(this.#store, { onProgress, signal }, (control) => native.loadBatch(some, atOnce, control, stage, own))
    })
    return parts.length === 1 ? (parts[0] as LoadedBatch) : joinedParts(parts)
  }

  /** Shares the decoded tensors of the batch with concurrent calls until `end()`. `tensors` then lists those that were joined. */
  #lend(ordinals: Uint32Array, batch: Promise<LoadedBatch>): { end: () => void; tensors: number[] } {
    const { catalog, plan } = this.#wanted
    const tensors: number[] = []
    const lent: { at: number; end: () => boolean }[] = []
    for (const [at, ordinal] of ordinals.entries()) {
      const key = plan && Plan.parts(plan).divides(ordinal) ? undefined : catalog.decoding(ordinal)
      if (key === undefined || catalog.byteLength(ordinal) === 0) continue
      const share = async () => {
        const { blocks, locations } = await batch
        return blocks[locations[at * 2] as number] as NativeMemory
      }
      lent.push({ at, end: this.#store.shared.lend(key, share) })
    }
    const end = () => {
      for (const { at, end } of lent) if (end()) tensors.push(at)
    }
    return { end, tensors }
  }
}

/** Concatenates the results of several native calls. */
function joinedParts(parts: readonly LoadedBatch[]): LoadedBatch {
  const blocks: NativeMemory[] = []
  const locations: number[] = []
  for (const part of parts) {
    for (let at = 0; at < part.locations.length; at += 2) {
      const block = part.locations[at] as number
      locations.push(block < 0 ? block : block + blocks.length, part.locations[at + 1] as number)
    }
    for (const block of part.blocks) blocks.push(block)
  }
  return { blocks, locations: Float64Array.from(locations) }
}

/** Loads tensors one by one, several concurrently. Awaits those that have `begun`. */
async function loadEach(
  wanted: LoadRequest,
  positions: readonly number[],
  begun: ReadonlyMap<number, Promise<Loaded>>,
  results: Loaded[],
  atOnce: number,
  tally: Tally,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted() // it may have been aborted while the batches were loaded
  const stop = new AbortController()
  allowListeners(stop.signal) // each load adds one
  const abort = () => stop.abort(signal?.reason)
  const forget = signal && onAbort(signal, abort)
  const queue = positions.values()
  const worker = async () => {
    for (const position of queue) {
      const ordinals = wanted.ordinals.subarray(position, position + 1)
      results[position] = await (begun.get(position) ?? loadOne(wanted, ordinals[0] as number, stop.signal))
      tally.did(ordinals)
    }
  }
  try {
    const workers = Array.from({ length: Math.min(atOnce, positions.length) }, async () => {
      try {
        await worker()
      } catch (error) {
        stop.abort(error)
        throw error
      }
    })
    await Promise.allSettled(workers)
    await Promise.all(workers)
  } finally {
    forget?.()
  }
}
