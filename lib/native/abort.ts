// Listeners on the signals of callers.
import { allowListeners } from '#host'

/** Calls `listener` once when the signal is aborted, now if it already is. Returns a function that removes it. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) {
    listener()
    return () => {}
  }
  allowListeners(signal)
  signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}
