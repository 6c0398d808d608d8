import { setMaxListeners } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type DTypeInfo, dtypeInfo } from './dtype.js'
import { calling } from './errors.js'
import type { Loaded } from './file.js'
import { type JobOptions, run } from './job.js'
import { toBuffer } from './memory.js'
import type { LoadedBatch, NativeMemory } from './native.js'
import type { Plan, PlannedTensor } from './plan.js'
import { array, type Store } from './store.js'
import { type AnyTensor, Tensor } from './tensor.js'

/** What crosses the binding at once: so many tensors are made into arrays in one turn, so many bytes in one wait. */
const BATCH_TENSORS = 10_000
const BATCH_BYTES = 256 * 2 ** 20
/** Tensors under way at once, of those that are loaded one by one. */
const ONE_BY_ONE = 4

/** Keeps the place of what is not loaded yet. */
const PENDING: Loaded = new Map()

/** Counts what was loaded and reports it. */
class Tally {
  #bytes = 0
  #tensors = 0
  #told = 0
  readonly #totals: { totalBytes: number; totalTensors: number }
  readonly onProgress: JobOptions['onProgress']

  readonly #plan: Plan | undefined

  constructor(tensors: readonly AnyTensor[], plan: Plan | undefined, onProgress: JobOptions['onProgress']) {
    this.#plan = plan
    const totalBytes = tensors.reduce((total, tensor) => total + this.#bytesOf(tensor), 0)
    this.#totals = { totalBytes, totalTensors: tensors.length }
    this.onProgress = onProgress
  }

  /** Reports what a batch under way has done so far. */
  partly(bytes: number, tensors: number): void {
    const { totalBytes, totalTensors } = this.#totals
    // Bytes under way are counted as they are stored, the total as they are decoded: what was told never falls.
    this.#told = Math.max(this.#told, Math.min(this.#bytes + bytes, totalBytes))
    this.onProgress?.({ bytes: this.#told, totalBytes, tensors: this.#tensors + tensors, totalTensors })
  }

  did(tensors: readonly AnyTensor[]): void {
    for (const tensor of tensors) this.#bytes += this.#bytesOf(tensor)
    this.#tensors += tensors.length
    this.partly(0, 0)
  }

  #bytesOf({ name, byteLength }: AnyTensor): number {
    return this.#plan?.tensors.get(name)?.byteLength ?? byteLength
  }
}

async function loadOne(tensor: AnyTensor, plan: Plan | undefined, signal: AbortSignal | undefined): Promise<Loaded> {
  const part = divided(tensor, plan)
  if (part !== undefined) return tensor.load({ slice: part.ranges, signal })
  if (tensor.layout === 'sparse_csr') return tensor.loadCsr({ signal })
  if (tensor.layout === 'sparse_coo') return tensor.loadCoo({ signal })
  if (tensor.layout === 'dense' && tensor.dtype !== undefined) return tensor.load({ signal })
  const loaded = new Map()
  for (const [role, component] of tensor.components) loaded.set(role, await component.load({ signal }))
  return loaded
}

/** The rank's part of a tensor that a plan divides. */
function divided({ name }: AnyTensor, plan: Plan | undefined): PlannedTensor | undefined {
  const part = plan?.tensors.get(name)
  return part?.dim === undefined ? undefined : part
}

/** Loads tensors, at most `atOnce` at a time. The first failure, or the caller's signal, ends the others. */
export async function loadAll(
  store: Store,
  tensors: readonly AnyTensor[],
  ordinals: readonly number[],
  plan: Plan | undefined,
  atOnce: number | undefined,
  { onProgress, signal }: JobOptions,
): Promise<Map<string, Loaded>> {
  signal?.throwIfAborted()
  calling(() => store.native.checkTotal(Uint32Array.from(ordinals), 'load'), store.path)
  const loaded = new Map<string, Loaded>()
  const tally = new Tally(tensors, plan, onProgress)
  const others: AnyTensor[] = []
  const begun = new Map<AnyTensor, Promise<Loaded>>()
  let batch = new Batch()
  for (const [at, tensor] of tensors.entries()) {
    const whole = store.memory === undefined && divided(tensor, plan) === undefined
    if (!whole || tensor.layout !== 'dense' || tensor.dtype === undefined) {
      // Batches end in the order asked for. The others do not: their keys come first, and those of what stands between.
      if (others.length === 0) for (const { name } of tensors) loaded.set(name, loaded.get(name) ?? PENDING)
      others.push(tensor)
      continue
    }
    const decoding = Tensor.decoding(tensor)
    if (decoding !== undefined && store.shared.has(decoding)) {
      // Joined now, since later it may be over.
      const load = loadOne(tensor, plan, signal)
      load.catch(() => {}) // what comes before it may fail first
      begun.set(tensor, load)
      others.push(tensor)
      continue
    }
    batch.add(tensor, ordinals[at] as number)
    if (!batch.full) continue
    await batch.load(store, loaded, atOnce, tally, signal)
    batch = new Batch()
    await nextTurn()
  }
  await batch.load(store, loaded, atOnce, tally, signal)
  await loadEach(others, begun, loaded, plan, atOnce ?? ONE_BY_ONE, tally, signal)
  return loaded
}

/** Dense tensors of a file, loaded by one call. */
class Batch {
  readonly #tensors: AnyTensor[] = []
  readonly #ordinals: number[] = []
  #bytes = 0

  add(tensor: AnyTensor, ordinal: number): void {
    this.#tensors.push(tensor)
    this.#ordinals.push(ordinal)
    this.#bytes += tensor.byteLength
  }

  get full(): boolean {
    return this.#tensors.length >= BATCH_TENSORS || this.#bytes >= BATCH_BYTES
  }

  async load(
    store: Store,
    loaded: Map<string, Loaded>,
    atOnce: number | undefined,
    tally: Tally,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (this.#tensors.length === 0) return
    const onProgress =
      tally.onProgress && (({ bytes, tensors }: { bytes: number; tensors: number }) => tally.partly(bytes, tensors))
    const ordinals = Uint32Array.from(this.#ordinals)
    const most = Math.min(atOnce ?? 2 ** 32 - 1, 2 ** 32 - 1)
    const batch = run(store, { onProgress, signal }, (control) => store.native.loadBatch(ordinals, most, control))
    const joined = this.#lend(store, batch)
    const { blocks, places } = await batch.finally(joined.end)
    // What was decoded has a block of its own, which those who joined have as well.
    const shared = new Set(joined.tensors.map((at) => places[at * 2]))
    const buffers: ArrayBuffer[] = []
    for (const [at, block] of blocks.entries())
      buffers.push(await toBuffer(block, () => store.check(signal), !shared.has(at)))
    for (const [at, tensor] of this.#tensors.entries()) {
      const buffer = buffers[places[at * 2] as number] ?? new ArrayBuffer(0)
      const dtype = dtypeInfo(tensor.dtype) as DTypeInfo
      loaded.set(tensor.name, array(dtype, buffer, places[at * 2 + 1] as number, tensor.byteLength))
    }
    tally.did(this.#tensors)
  }

  /** Lets others that load the same compressed tensors meanwhile have what the batch decodes, until `end`: then `tensors` were joined. */
  #lend(store: Store, batch: Promise<LoadedBatch>): { end: () => void; tensors: number[] } {
    const tensors: number[] = []
    const lent = this.#tensors.flatMap((tensor, at) => {
      const key = Tensor.decoding(tensor)
      if (key === undefined || tensor.byteLength === 0) return []
      const share = async () => {
        const { blocks, places } = await batch
        return blocks[places[at * 2] as number] as NativeMemory
      }
      return [{ at, end: store.shared.lend(key, share) }]
    })
    const end = () => {
      for (const { at, end } of lent) if (end()) tensors.push(at)
    }
    return { end, tensors }
  }
}

/** Loads tensors one by one, several side by side, but for those that were `begun`. */
async function loadEach(
  tensors: readonly AnyTensor[],
  begun: ReadonlyMap<AnyTensor, Promise<Loaded>>,
  loaded: Map<string, Loaded>,
  plan: Plan | undefined,
  atOnce: number,
  tally: Tally,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted() // it may have been while the batches were loaded
  const stop = new AbortController()
  setMaxListeners(0, stop.signal) // each load listens
  const abort = () => stop.abort(signal?.reason)
  signal?.addEventListener('abort', abort, { once: true })
  const queue = tensors.values()
  const worker = async () => {
    for (const tensor of queue) {
      loaded.set(tensor.name, await (begun.get(tensor) ?? loadOne(tensor, plan, stop.signal)))
      tally.did([tensor])
    }
  }
  try {
    const workers = Array.from({ length: Math.min(atOnce, tensors.length) }, async () => {
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
    signal?.removeEventListener('abort', abort)
  }
}
