// Work on very many tensors: without holding the event loop up, and of a file in memory some of them staged at a time.

import { rethrowNative } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, type Progress, run } from '../native/job.js'
import type { NativeStage, NativeStageBatch, TotalWork } from '../native/native.js'
import type { Store } from './store.js'

/** Tensors that something is done with on the JavaScript thread before the event loop gets a turn: some ms. */
export const TURN = 10_000

/** Every ordinal below a number. */
export function everything(size: number): Uint32Array {
  const ordinals = new Uint32Array(size)
  for (let ordinal = 0; ordinal < size; ordinal++) ordinals[ordinal] = ordinal
  return ordinals
}

/** Calls `each` with the numbers below `count`, a turn of the event loop after every `turn` of them. */
export async function inTurns(count: number, turn: number, each: (at: number) => void): Promise<void> {
  for (let at = 0; at < count; at++) {
    if (at % turn === turn - 1) await nextTurn()
    each(at)
  }
}

/** Some tensors of many, from one place to another, and what of them is staged. */
export interface Batch {
  readonly from: number
  readonly end: number
  readonly stage: NativeStage | undefined
  /** To be told how far the batch has come. */
  readonly onProgress: JobOptions['onProgress']
}

/** Many tensors that work is done on. */
export interface Many extends JobOptions {
  readonly count: number
  /** Their stored bytes, if there is anybody to tell. */
  readonly bytes: number
  /** A stage for those from a place on, as many as come together. */
  readonly next: (from: number) => NativeStageBatch
}

/**
 * Works on many tensors: at once, or of a file in memory on as many as are staged together. A call and a stage of its own for each
 * would cost 40 µs a tensor.
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
    const tell = (progress: Progress): void =>
      onProgress?.({
        bytes: before.bytes + Math.min(progress.bytes, bytes),
        tensors: before.tensors + progress.tensors,
        ...totals,
      })
    try {
      results.push(await work({ from, end, stage, onProgress: onProgress && tell }))
    } finally {
      // A collection would come late: the copies are no memory of the runtime's.
      stage?.release()
    }
    done.bytes += bytes
    done.tensors += end - from
    onProgress?.({ ...done, ...totals })
    from = end
  }
  return results
}

/** The same on this thread. */
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

/** Refuses work on tensors that come to far more than their file holds; a promise where they are many. */
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
