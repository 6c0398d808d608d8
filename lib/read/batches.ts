// Work on very many tensors without blocking the event loop. Tensors of a file in memory are staged in batches.

import { rethrowNative } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type Counts, run, type ValidJob } from '../native/job.js'
import type { NativeStage, NativeStageBatch, TotalWork } from '../native/native.js'
import type { Store } from './store.js'

/** Tensors that the JavaScript thread processes before it yields to the event loop: a few ms of work. */
export const TURN = 10_000

/** The ordinals from 0 to `size - 1`. */
export function everything(size: number): Uint32Array {
  const ordinals = new Uint32Array(size)
  for (let ordinal = 0; ordinal < size; ordinal++) ordinals[ordinal] = ordinal
  return ordinals
}

/** Calls `each` with the numbers from 0 to `count - 1`. Yields to the event loop after every `turn` calls. */
export async function inTurns(count: number, turn: number, each: (at: number) => void): Promise<void> {
  for (let at = 0; at < count; at++) {
    if (at % turn === turn - 1) await nextTurn()
    each(at)
  }
}

/** A range of the tensors, `[from, end)`, and their staged bytes. */
export interface Batch {
  readonly from: number
  readonly end: number
  readonly stage: NativeStage | undefined
  /** Called with the progress of the batch. */
  readonly onProgress: ValidJob['onProgress']
}

/** The tensors to process. */
export interface Many extends ValidJob {
  readonly count: number
  /** Their stored bytes. Only progress reports need them. */
  readonly bytes: number
  /** Makes the stage of the next batch, which starts at `from`. */
  readonly next: (from: number) => NativeStageBatch
}

/**
 * Runs `work` on all tensors in one call. Tensors of a file in memory run in batches that are staged together: a separate call and
 * stage for each tensor would cost 40 µs.
 */
export async function inBatches<T>(
  store: Store,
  { count, bytes: totalBytes, next, onProgress, signal }: Many,
  work: (batch: Batch) => Promise<T>,
): Promise<T[]> {
  if (store.memory === undefined) return [await work({ from: 0, end: count, stage: undefined, onProgress })]
  const results: T[] = []
  const done = { bytes: 0, tensors: 0 }
  const totals = { totalBytes, totalTensors: count }
  for (let from = 0; from < count; ) {
    store.check(signal)
    const { builder, end, bytes } = rethrowNative(() => next(from))
    const stage = await store.fill(() => builder, signal)
    const before = { ...done }
    const report = (progress: Counts): void =>
      onProgress?.({
        bytes: before.bytes + Math.min(progress.bytes, bytes),
        tensors: before.tensors + progress.tensors,
        ...totals,
      })
    try {
      results.push(await work({ from, end, stage, onProgress: onProgress && report }))
    } finally {
      // The garbage collector would release the copies late: it does not see native memory.
      stage?.release()
    }
    done.bytes += bytes
    done.tensors += end - from
    onProgress?.({ ...done, ...totals })
    from = end
  }
  return results
}

/** Runs `work` on all tensors in batches, synchronously. */
export function inBatchesSync<T>(
  store: Store,
  count: number,
  next: Many['next'],
  work: (batch: Omit<Batch, 'onProgress'>) => T,
): T[] {
  if (store.memory === undefined) return [work({ from: 0, end: count, stage: undefined })]
  const results: T[] = []
  for (let from = 0; from < count; ) {
    const { builder, end } = rethrowNative(() => next(from))
    const stage = store.fillSync(() => builder)
    results.push(work({ from, end, stage }))
    stage?.release()
    from = end
  }
  return results
}

/** Throws ZT_LIMIT if the tensors decode to much more than their file holds. Returns a promise if there are many tensors. */
export function checkTotal(
  store: Store,
  ordinals: Uint32Array,
  work: TotalWork,
  signal?: AbortSignal,
): Promise<void> | undefined {
  if (ordinals.length < TURN) {
    rethrowNative(() => store.native.checkTotal(ordinals, work), store.path)
    return undefined
  }
  return run(store, { signal }, (control) => store.native.checkTotalAsync(ordinals, work, control))
}
