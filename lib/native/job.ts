// Long native work with an end: progress, abort, and the close of its file.
import { publicError, ZTensorError } from './errors.js'
import { binding, type NativeControl } from './native.js'

/** How far long work has come. */
export interface Progress {
  readonly bytes: number
  readonly totalBytes: number
  readonly tensors: number
  readonly totalTensors: number
}

/** What every long call takes. */
export interface JobOptions {
  /** Called now and then while the work runs, and once at its end. */
  onProgress?: ((progress: Progress) => void) | undefined
  /** Ends the work; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

const INTERVAL_MS = 100

function read(control: NativeControl): Progress {
  const [bytes, totalBytes, tensors, totalTensors] = control.progress()
  return { bytes, totalBytes, tensors, totalTensors }
}

/** What long work belongs to: an open file, which stops it when it is closed. */
export interface Owner {
  readonly path: string | undefined
  readonly jobs: Set<() => void>
  throwIfClosed(): void
}

/** The owner of work on a file that is not open. */
export function unopened(path?: string): Owner {
  return { path, jobs: new Set(), throwIfClosed: () => {} }
}

/** Whether the caller of work that is given up waits until the work says so: where it writes, which has to be undone first. */
export type Ending = 'at once' | 'when undone'

/**
 * Runs native work on an open file, or on several. It rejects with the signal's reason, or ZT_CLOSED, or what went wrong.
 * Given up, the work itself ends at its next look at its stop flag, and whatever it has made by then is dropped.
 */
export async function run<T>(
  owners: Owner | readonly Owner[],
  { onProgress, signal }: JobOptions,
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
  signal?.addEventListener('abort', cancel, { once: true })
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
    signal?.removeEventListener('abort', cancel)
    for (const store of stores) store.jobs.delete(cancel)
  }
}

/** The outcome of what is not ours to stop, or the signal's reason as soon as there is one. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work
  signal.throwIfAborted()
  let leave = () => {}
  const left = new Promise<never>((_resolve, reject) => {
    leave = () => reject(signal.reason)
  })
  signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([work, left])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}
