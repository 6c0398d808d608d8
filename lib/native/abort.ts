// Listeners on the signals of callers.
import { defaultMaxListeners, getMaxListeners, setMaxListeners } from 'node:events'

/**
 * Calls `listener` once when the signal is aborted. Returns a function that removes it. Each call in flight has a listener, and a server may
 * pass one signal to many calls: Node would warn of a leak, unless the caller has set a limit.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  try {
    if (getMaxListeners(signal) === defaultMaxListeners) setMaxListeners(0, signal)
  } catch {
    // A signal of another implementation has no limit.
  }
  signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}
