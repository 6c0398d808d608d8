import { invalid } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import { optional, readOptions, validateInteger, wrongType } from '../values/arguments.js'
import type { TensorRef } from './store.js'
import { jobOptions } from './verify.js'

/** Which statistics to compute. The progress counts the bytes of each pass, and those that are decoded before. */
export interface StatsOptions extends JobOptions {
  /** Number of histogram bins, up to 4096. Without it there is no histogram. */
  bins?: number | undefined
  /**
   * First and last edge of the bins. Elements outside are not counted. By default the range of the finite elements, which needs a
   * second pass over the data.
   */
  range?: readonly [first: number, last: number] | undefined
}

/** A histogram of the finite elements, as NumPy's `histogram` computes it. */
export interface Histogram {
  /** The bin edges, evenly spaced: one more than bins. Bins are half-open, `[lower, upper)`, except for the last one. */
  readonly edges: readonly number[]
  readonly counts: readonly number[]
}

/** Statistics of a tensor's elements. `min`, `max`, `mean` and `std` are those of the finite elements, or NaN without any. */
export interface TensorStats {
  /** Number of elements; of a sparse tensor, number of stored values. */
  readonly count: number
  readonly nan: number
  readonly positiveInfinite: number
  readonly negativeInfinite: number
  readonly zeros: number
  /** The smallest finite element. 64-bit integers beyond 2^53 are rounded to the nearest number. */
  readonly min: number
  /** The largest finite element, rounded like `min`. */
  readonly max: number
  readonly mean: number
  /** The population standard deviation, as NumPy's `std` computes it. */
  readonly std: number
  readonly histogram: Histogram | undefined
}

/** The maximum number of bins. */
const MAX_BINS = 4096

function validateRange(value: unknown): [number, number] {
  if (!Array.isArray(value) || value.length !== 2) throw wrongType('range', '[first, last]', value)
  const [first, last] = value as unknown[]
  if (typeof first !== 'number' || typeof last !== 'number') throw wrongType('range', '[first, last], numbers', value)
  if (!Number.isFinite(first) || !Number.isFinite(last) || first > last) {
    throw invalid(RangeError, `range must be two finite numbers, the larger one last, got [${first}, ${last}]`)
  }
  return [first, last]
}

function validateBinCount(value: unknown): number {
  const bins = validateInteger('bins', value)
  if (bins < 1 || bins > MAX_BINS)
    throw invalid(RangeError, `bins must be a whole number from 1 to ${MAX_BINS}, got ${bins}`)
  return bins
}

/** Validates the options. */
export function statsRequest({ bins, range }: Pick<StatsOptions, 'bins' | 'range'>) {
  const request = { bins: optional(bins, validateBinCount) ?? 0, range: optional(range, validateRange) }
  if (request.range !== undefined && request.bins === 0)
    throw invalid(TypeError, 'range needs bins: it is the range of the histogram')
  return request
}

/** Computes the statistics of a tensor. */
export async function stats({ store, ordinal }: TensorRef, options?: StatsOptions): Promise<TensorStats> {
  const { bins, range, ...job } = readOptions(options, ['bins', 'range', 'onProgress', 'signal'])
  const request = statsRequest({ bins, range })
  const { onProgress, signal } = jobOptions(job)
  signal?.throwIfAborted()
  const work = async () => {
    const stage = await store.stage(ordinal, undefined, signal)
    return run(store, { onProgress, signal }, (control) => store.native.stats(ordinal, request, control, stage))
  }
  const found = await store.calls.during('stats', store.calls.begin(ordinal, true), work())
  const { edges, counts, ...rest } = found
  return { ...rest, histogram: edges === undefined || counts === undefined ? undefined : { edges, counts } }
}
