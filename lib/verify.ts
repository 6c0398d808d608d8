import { aFunction, aSignal, optional, options } from './arguments.js'
import { calling, publicError, ZTensorError } from './errors.js'
import { type JobOptions, run } from './job.js'
import type { NativeOutcome, NativeStage } from './native.js'
import type { Store } from './store.js'

/** What a verification found. */
export interface VerifyResult {
  /** Whether nothing failed. */
  readonly ok: boolean
  /** Components whose digest was compared. */
  readonly checked: number
  /** Components without a digest, or with one of an algorithm that is not known here. */
  readonly undigested: number
  /** What failed; of very many the first thousand, and a last one that says how many more there are. */
  readonly failures: readonly ZTensorError[]
}

function result(outcomes: NativeOutcome[]): VerifyResult {
  const failures = outcomes.flatMap((outcome) =>
    outcome.failures.map((failure) => publicError(failure) as ZTensorError),
  )
  const sum = (field: 'checked' | 'undigested' | 'failed') =>
    outcomes.reduce((total, outcome) => total + outcome[field], 0)
  const unlisted = sum('failed') - failures.length
  if (unlisted > 0) {
    const code = failures[failures.length - 1]?.code ?? 'ZT_BAD_INDEX'
    failures.push(new ZTensorError(code, `${unlisted} more failures are not listed`))
  }
  return { ok: failures.length === 0, checked: sum('checked'), undigested: sum('undigested'), failures }
}

/** Bytes in flat ranges. */
export function bytesIn(ranges: number[]): number {
  return ranges.reduce((total, number, at) => (at % 2 === 1 ? total + number : total), 0)
}

/** What to verify beyond digests and data rules. */
export interface VerifyOptions extends JobOptions {
  /** Whether the file is in zTensor 2's canonical form as well (§6.3): each rule that it breaks is a ZT_NOT_CANONICAL. */
  canonical?: boolean | undefined
}

/** The rules of the canonical form, beside what was found otherwise. */
export async function withCanonical(store: Store, found: VerifyResult, signal?: AbortSignal): Promise<VerifyResult> {
  const stage = await store.stageAll(signal)
  const form = result([await run(store, { signal }, (control) => store.native.canonical(control, stage))])
  return { ...found, ok: found.ok && form.ok, failures: [...found.failures, ...form.failures] }
}

/** Checks the options that every long call takes. */
export function jobOptions(given: JobOptions | undefined): JobOptions {
  const { onProgress, signal } = options(given, ['onProgress', 'signal'])
  optional(onProgress, (value) => aFunction('onProgress', value))
  optional(signal, aSignal)
  return { onProgress, signal }
}

/** Tensors of the caller's memory that are staged together: a call and a stage each would cost 100 µs a tensor. */
interface Batch {
  readonly ordinals: Uint32Array
  /** `[offset, length, …]`, joined where they touch or overlap. */
  readonly ranges: number[]
  readonly bytes: number
}

const BATCH_TENSORS = 10_000
const BATCH_BYTES = 16 * 2 ** 20

/** The tensors in their order, so many of them at once. */
function* batches(store: Store, ordinals: readonly number[] | Uint32Array): Generator<Batch> {
  let batch: number[] = []
  /** Ends by starts: what many tensors share is staged, and hashed, once. */
  let spans = new Map<number, number>()
  let bytes = 0
  let staged = 0
  for (const [at, ordinal] of ordinals.entries()) {
    const ranges = store.ranges(ordinal)
    for (let i = 0; i < ranges.length; i += 2) {
      const start = ranges[i] as number
      const known = spans.get(start) ?? start
      const end = Math.max(known, start + (ranges[i + 1] as number))
      staged += end - known
      spans.set(start, end)
    }
    bytes += bytesIn(ranges)
    batch.push(ordinal)
    if (batch.length < BATCH_TENSORS && staged < BATCH_BYTES && at + 1 < ordinals.length) continue
    yield { ordinals: Uint32Array.from(batch), ranges: joined([...spans]), bytes }
    batch = []
    spans = new Map()
    bytes = 0
    staged = 0
  }
}

function joined(spans: [start: number, end: number][]): number[] {
  spans.sort(([a], [b]) => a - b)
  const ranges: number[] = []
  let last: [start: number, end: number] | undefined
  for (const span of spans) {
    if (last !== undefined && span[0] <= last[1]) {
      last[1] = Math.max(last[1], span[1])
      continue
    }
    if (last !== undefined) ranges.push(last[0], last[1] - last[0])
    last = span
  }
  if (last !== undefined) ranges.push(last[0], last[1] - last[0])
  return ranges
}

/** Verifies tensors by their ordinals. Memory of the caller's is staged and verified a batch at a time. */
export async function verifyTensors(store: Store, ordinals: number[], given?: JobOptions): Promise<VerifyResult> {
  const { onProgress, signal } = jobOptions(given)
  signal?.throwIfAborted()
  store.throwIfClosed()
  const all = Uint32Array.from(ordinals)
  calling(() => store.native.checkTotal(all, 'verify'), store.path)
  if (store.memory === undefined) {
    const outcome = await run(store, { onProgress, signal }, (control) => store.native.verify(all, control))
    return result([outcome])
  }
  const outcomes: NativeOutcome[] = []
  const totalBytes = ordinals.reduce((total, ordinal) => total + bytesIn(store.ranges(ordinal)), 0)
  const done = { bytes: 0, tensors: 0 }
  const totals = { totalBytes, totalTensors: ordinals.length }
  for (const { ordinals: some, ranges, bytes } of batches(store, ordinals)) {
    signal?.throwIfAborted()
    store.throwIfClosed()
    const stage = await store.stageRanges(ranges, signal)
    outcomes.push(await run(store, { signal }, (control) => store.native.verify(some, control, stage)))
    done.bytes += bytes
    done.tensors += some.length
    onProgress?.({ ...done, ...totals })
  }
  return result(outcomes)
}

/** The same on this thread, for `openSync({ verify: true })`. */
export function verifySync(store: Store): VerifyResult {
  const all = Uint32Array.from({ length: store.native.size }, (_, ordinal) => ordinal)
  calling(() => store.native.checkTotal(all, 'verify'), store.path)
  const verified = (ordinals: Uint32Array, stage?: NativeStage) =>
    calling(() => store.native.verifySync(ordinals, stage), store.path)
  if (store.memory === undefined) return result([verified(all)])
  const each = ({ ordinals, ranges }: Batch) => verified(ordinals, store.stageRangesSync(ranges))
  return result(Array.from(batches(store, all), each))
}
