// Requests of a served page. A report file makes no requests.
import type { SliceFound, TensorFound } from '../lib/report/data.js'

async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, credentials: 'omit', referrerPolicy: 'no-referrer' })
  const answer = (await response.json()) as T & { error?: string }
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`)
  return answer
}

/** Requests the statistics of a tensor. */
export const askStats = (tensor: number, signal: AbortSignal): Promise<TensorFound> =>
  ask(`stats?tensor=${tensor}`, signal)

/** Requests the last two dimensions of a tensor, at an index of the others. */
export const askSlice = (tensor: number, index: readonly number[], signal: AbortSignal): Promise<SliceFound> =>
  ask(`slice?tensor=${tensor}&at=${index.join(',')}`, signal)
