import { invalid } from '../native/errors.js'
import { run } from '../native/job.js'
import { optional, readOptions, validateAbortSignal, validateInteger, wrongType } from '../values/arguments.js'
import type { Place } from './store.js'

/** What to find out of a tensor's elements. */
export interface StatsOptions {
  /** Bins of a histogram, up to 4096; none unless asked for. */
  bins?: number | undefined
  /**
   * First and last edge of the bins; elements beyond are in none. That of the finite elements unless given, which
   * takes a second pass over the data.
   */
  range?: readonly [first: number, last: number] | undefined
  signal?: AbortSignal | undefined
}

/** How many finite elements lie between one edge and the next, as NumPy's `histogram` counts them. */
export interface Histogram {
  /** One more than there are bins, evenly spaced. A bin holds its lower edge, the last one its upper edge too. */
  readonly edges: readonly number[]
  readonly counts: readonly number[]
}

/** What a tensor's elements are like. Extremes, mean and spread are those of the finite ones; NaN without any. */
export interface TensorStats {
  /** Elements: of a sparse tensor the stored values. */
  readonly count: number
  readonly nan: number
  readonly positiveInfinite: number
  readonly negativeInfinite: number
  readonly zeros: number
  /** 64-bit integers beyond 2^53 as the nearest number. */
  readonly min: number
  readonly max: number
  readonly mean: number
  /** The standard deviation of the population, as NumPy's `std` gives it. */
  readonly std: number
  readonly histogram: Histogram | undefined
}

/** Bins that a histogram may have. */
const MOST_BINS = 4096

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
  if (bins < 1 || bins > MOST_BINS)
    throw invalid(RangeError, `bins must be a whole number from 1 to ${MOST_BINS}, got ${bins}`)
  return bins
}

/** Checks what is asked for. */
export function statsRequest({ bins, range }: Pick<StatsOptions, 'bins' | 'range'>) {
  const request = { bins: optional(bins, validateBinCount) ?? 0, range: optional(range, validateRange) }
  if (request.range !== undefined && request.bins === 0)
    throw invalid(TypeError, 'range is the range of the histogram: give bins too')
  return request
}

/** Statistics of the tensor at a place. */
export async function stats({ store, ordinal }: Place, options?: StatsOptions): Promise<TensorStats> {
  const { bins, range, signal } = readOptions(options, ['bins', 'range', 'signal'])
  const request = statsRequest({ bins, range })
  optional(signal, validateAbortSignal)
  signal?.throwIfAborted()
  store.throwIfClosed()
  const stage = await store.stage(ordinal, undefined, signal)
  const found = await run(store, { signal }, (control) => store.native.stats(ordinal, request, control, stage))
  const { edges, counts, ...rest } = found
  return { ...rest, histogram: edges === undefined || counts === undefined ? undefined : { edges, counts } }
}
