// Long native work with an end: progress, abort, and the close of its file.
import { publicError } from './errors.js'
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
export function unopened(path: string): Owner {
  return { path, jobs: new Set(), throwIfClosed: () => {} }
}

/** Runs native work on an open file. It rejects with the signal's reason, or ZT_CLOSED, or what went wrong. */
export async function run<T>(
  store: Owner,
  { onProgress, signal }: JobOptions,
  start: (control: NativeControl) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted()
  store.throwIfClosed()
  const control = new binding.Control()
  const cancel = () => control.cancel()
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
  store.jobs.add(cancel)
  try {
    const result = await start(control)
    signal?.throwIfAborted()
    store.throwIfClosed()
    report()
    if (thrown !== undefined) throw thrown.error
    return result
  } catch (error) {
    if (thrown !== undefined) throw thrown.error
    signal?.throwIfAborted()
    store.throwIfClosed()
    throw publicError(error, store.path)
  } finally {
    clearInterval(timer)
    signal?.removeEventListener('abort', cancel)
    store.jobs.delete(cancel)
  }
}
