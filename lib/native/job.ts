// Long-running native work: progress, cancellation, and closing its file.
import { onAbort } from './abort.js'
import { publicError, ZTensorError } from './errors.js'
import { binding, type NativeControl } from './native.js'

/** The progress of a long-running call. */
export interface Progress {
  /** Bytes processed so far. */
  readonly bytes: number
  /** Bytes to process. */
  readonly totalBytes: number
  /** Tensors processed so far. */
  readonly tensors: number
  /** Tensors to process. */
  readonly totalTensors: number
  /** Bytes per second since the call began; undefined before the first bytes. */
  readonly bytesPerSecond: number | undefined
  /**
   * Estimate of the remaining milliseconds at this rate; 0 at the end. Undefined during the first 2 seconds and the first 2 % of the
   * bytes, which may come from a cache or wait for a server.
   */
  readonly remainingMs: number | undefined
}

/** What has been processed, without rates. */
export type Counts = Omit<Progress, 'bytesPerSecond' | 'remainingMs'>

/** The options of every long-running call. */
export interface JobOptions {
  /** Called about every 100 ms while the work runs, and once at its end. */
  onProgress?: ((progress: Progress) => void) | undefined
  /** Cancels the work: the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

/** The validated options of a long-running call. */
export interface ValidJob {
  onProgress?: ((counts: Counts) => void) | undefined
  signal?: AbortSignal | undefined
}

export const INTERVAL_MS = 100

const ESTIMATED_AFTER = { ms: 2000, share: 0.02 }

const rated = new WeakSet<object>()

type Rates = Pick<Progress, 'bytesPerSecond' | 'remainingMs'>

/** Adds the rates since now to what the caller's function gets. A function that already does so is returned as it is. */
export function withRates<Done extends Pick<Counts, 'bytes' | 'totalBytes'>>(
  onProgress: ((progress: Done & Rates) => void) | undefined,
): ((counts: Done) => void) | undefined {
  if (onProgress === undefined || rated.has(onProgress)) return onProgress as ((counts: Done) => void) | undefined
  const began = performance.now()
  const report = (counts: Done) => onProgress({ ...counts, ...ratesOf(counts, performance.now() - began) })
  rated.add(report)
  return report
}

function ratesOf({ bytes, totalBytes }: Pick<Counts, 'bytes' | 'totalBytes'>, ms: number): Rates {
  const isRated = bytes > 0 && ms > 0
  const isEstimated = isRated && ms >= ESTIMATED_AFTER.ms && bytes >= ESTIMATED_AFTER.share * totalBytes
  const remainingMs = isEstimated ? Math.round((ms * (totalBytes - bytes)) / bytes) : undefined
  return {
    bytesPerSecond: isRated ? Math.round((bytes * 1000) / ms) : undefined,
    remainingMs: totalBytes > 0 && bytes >= totalBytes ? 0 : remainingMs,
  }
}

function read(control: NativeControl): Counts {
  const [bytes, totalBytes, tensors, totalTensors] = control.progress()
  return { bytes, totalBytes, tensors, totalTensors }
}

/** The owner of running work: an open file, which cancels its work when it is closed. */
export interface Owner {
  readonly path: string | undefined
  readonly jobs: Set<() => void>
  throwIfClosed(): void
}

/** An owner for work on a file that is not open. */
export function unopened(path?: string): Owner {
  return { path, jobs: new Set(), throwIfClosed: () => {} }
}

/** When canceled work rejects: immediately, or after it has undone what it wrote. */
export type Ending = 'at once' | 'when undone'

/**
 * Runs native work on one or several open files. Rejects with the signal's reason, ZT_CLOSED, or the error of the work. Canceled work
 * ends when it next checks its stop flag; its results are discarded.
 */
export async function run<T>(
  owners: Owner | readonly Owner[],
  { onProgress, signal }: ValidJob,
  start: (control: NativeControl) => Promise<T>,
  ending: Ending = 'at once',
): Promise<T> {
  const stores = [owners].flat() as readonly Owner[]
  const check = () => {
    signal?.throwIfAborted()
    for (const store of stores) store.throwIfClosed()
  }
  check()
  const control = new binding.Control()
  let leave = () => {}
  const left = new Promise<never>((_resolve, reject) => {
    leave = () => reject(new ZTensorError('ZT_CLOSED', 'the work was stopped'))
  })
  const cancel = () => {
    control.cancel()
    if (ending === 'at once') leave()
  }
  let thrown: { error: unknown } | undefined
  const report = () => {
    try {
      onProgress?.(read(control))
    } catch (error) {
      thrown ??= { error }
      cancel()
    }
  }
  const timer = onProgress === undefined ? undefined : setInterval(report, INTERVAL_MS)
  const forget = signal && onAbort(signal, cancel)
  for (const store of stores) store.jobs.add(cancel)
  try {
    const result = await Promise.race([start(control), left])
    if (ending === 'at once') check()
    report()
    if (thrown !== undefined) throw thrown.error
    return result
  } catch (error) {
    if (thrown !== undefined) throw thrown.error
    check()
    throw publicError(error, stores[0]?.path)
  } finally {
    clearInterval(timer)
    forget?.()
    for (const store of stores) store.jobs.delete(cancel)
  }
}

/** Awaits work that cannot be canceled, but rejects with the signal's reason as soon as it is aborted. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work
  signal.throwIfAborted()
  let leave = () => {}
  const left = new Promise<never>((_resolve, reject) => {
    leave = () => reject(signal.reason)
  })
  const forget = onAbort(signal, leave)
  try {
    return await Promise.race([work, left])
  } finally {
    forget()
  }
}
