// What a page that a server gives asks for later. A page from a disk asks nobody.
import type { SliceFound, TensorFound } from '../lib/report/data.js'

async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, credentials: 'omit', referrerPolicy: 'no-referrer' })
  const answer = (await response.json()) as T & { error?: string }
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`)
  return answer
}

/** Statistics of a tensor. */
export const askStats = (tensor: number, signal: AbortSignal): Promise<TensorFound> =>
  ask(`stats?tensor=${tensor}`, signal)

/** The last two dimensions of a tensor at a place in the others. */
export const askSlice = (tensor: number, place: readonly number[], signal: AbortSignal): Promise<SliceFound> =>
  ask(`slice?tensor=${tensor}&at=${place.join(',')}`, signal)
