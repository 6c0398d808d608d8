import { types } from '#host'
import { invalid } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import { optional, readOptions, validateInteger, validateOneOf, wrongType } from '../values/arguments.js'
import type { TensorRef } from './store.js'
import { jobOptions } from './verify.js'

const METRICS = ['dot', 'cosine', 'euclidean'] as const

/** How many rows to find, and what near means. */
export interface NearestOptions extends JobOptions {
  /** The number of rows, up to 65,536. By default 10. */
  k?: number | undefined
  /**
   * - `'dot'`, the default: the inner product. The nearest row has the largest one.
   * - `'cosine'`: the cosine of the angle. The nearest row has the largest one.
   * - `'euclidean'`: the length of the difference. The nearest row has the smallest one.
   */
  metric?: (typeof METRICS)[number] | undefined
}

/** A row of a table that is near a vector. */
export interface Neighbor {
  readonly row: number
  /** The inner product, the cosine or the Euclidean distance. */
  readonly score: number
}

const DEFAULT_K = 10
const MAX_K = 65_536

/** Copies a query, so that the caller may change it. */
function validateQuery(value: unknown, columns: number): Float32Array {
  if (!Array.isArray(value) && !types.isTypedArray(value))
    throw wrongType('query', 'a Float32Array or another array of numbers', value)
  const { length } = value
  if (length !== columns)
    throw invalid(RangeError, `query: the table has ${columns} columns, so a query has as many numbers, got ${length}`)
  const query = new Float32Array(length)
  for (let at = 0; at < length; at++) {
    const number: unknown = value[at]
    if (typeof number !== 'number') throw wrongType(`query[${at}]`, 'a number', number)
    query[at] = number
    if (!Number.isFinite(query[at])) throw invalid(RangeError, `query[${at}]: ${number} is not finite as float32`)
  }
  return query
}

function validateCount(value: unknown): number {
  const k = validateInteger('k', value)
  if (k < 1 || k > MAX_K) throw invalid(RangeError, `k must be a whole number from 1 to ${MAX_K}, got ${k}`)
  return k
}

/** Finds the rows of a table that are nearest to a vector. */
export async function nearest(
  { store, ordinal }: TensorRef,
  shape: readonly number[],
  query: unknown,
  options?: NearestOptions,
): Promise<Neighbor[]> {
  const { k, metric, ...job } = readOptions(options, ['k', 'metric', 'onProgress', 'signal'])
  const [, columns] = shape
  if (columns === undefined || shape.length > 2)
    throw invalid(RangeError, `a table has two dimensions, rows and columns, but the shape is [${shape}]`)
  const request = {
    query: validateQuery(query, columns),
    k: optional(k, validateCount) ?? DEFAULT_K,
    metric: optional(metric, (value) => validateOneOf('metric', METRICS, value)) ?? 'dot',
  }
  const { onProgress, signal } = jobOptions(job)
  signal?.throwIfAborted()
  const work = async () => {
    const stage = await store.stage(ordinal, undefined, signal)
    return run(store, { onProgress, signal }, (control) => store.native.nearest(ordinal, request, control, stage))
  }
  const { rows, scores } = await store.calls.during('nearest', store.calls.begin(ordinal, true), work())
  return rows.map((row, at) => ({ row, score: scores[at] as number }))
}
