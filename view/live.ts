// Values that a live page reads on demand: from the server that provides the page, or from a file that is open in the page. A report
// file reads none.
import type { SliceFound, TensorFound } from '../lib/report/data.js'

/** Reads values of tensors, by ordinal. */
export interface Values {
  /** The statistics of a tensor. */
  stats(tensor: number, signal: AbortSignal): Promise<TensorFound>
  /** The last two dimensions of a tensor, at an index of the others. */
  slice(tensor: number, index: readonly number[], signal: AbortSignal): Promise<SliceFound>
}

async function ask<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, credentials: 'omit', referrerPolicy: 'no-referrer' })
  const answer = (await response.json()) as T & { error?: string }
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`)
  return answer
}

/** Requests values from the server of the page. */
export const served: Values = {
  stats: (tensor, signal) => ask(`stats?tensor=${tensor}`, signal),
  slice: (tensor, index, signal) => ask(`slice?tensor=${tensor}&at=${index.join(',')}`, signal),
}
