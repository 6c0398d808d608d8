import { type InspectOptions, inspect } from '#host'
import { invalid, rethrowNative } from '../native/errors.js'
import { binding } from '../native/native.js'
import { readOptions, validateInteger, wrongType } from '../values/arguments.js'
import type { DType, DTypeArrays } from '../values/dtype.js'
import { shown } from '../values/inspect.js'
import type { CopyReason, View } from './store.js'
import { type WidenOptions, widenSlice } from './widen.js'

/**
 * Selects indices of one dimension, like a NumPy slice: `[start, stop]`, `[start, stop, step]`, a single `[index]`, or null for all.
 * Negative numbers count from the end. A bound of null means that end of the dimension. A single index removes the dimension from the
 * shape. Unlike in NumPy, bounds beyond the dimension are errors, and the step must be 1 or more.
 */
export type Range =
  | readonly [index: number]
  | readonly [start: number | null, stop: number | null]
  | readonly [start: number | null, stop: number | null, step: number]
  | null

/** One rank's even share of a dimension. */
export interface Shard {
  /** The dimension to divide. */
  readonly dim: number
  /** From 0 to `worldSize - 1`. */
  readonly rank: number
  readonly worldSize: number
}

/** A rectangular part of a dense tensor. */
export class TensorSlice<D extends DType = DType> {
  readonly dtype: D
  readonly shape: readonly number[]
  readonly data: DTypeArrays[D]
  /** Why `data` is a copy; undefined if it aliases the file. */
  readonly copyReason: CopyReason | undefined

  private constructor(dtype: D, shape: readonly number[], data: DTypeArrays[D], copyReason: CopyReason | undefined) {
    this.dtype = dtype
    this.shape = shape
    this.data = data
    this.copyReason = copyReason
  }

  /** @internal */
  static make<D extends DType>(dtype: D, shape: readonly number[], view: View): TensorSlice<D> {
    return new TensorSlice(dtype, shape, view.data as DTypeArrays[D], view.copyReason)
  }

  /** Whether `data` aliases the file. */
  get mapped(): boolean {
    return this.copyReason === undefined
  }

  /**
   * Returns the elements widened to float32, as `Tensor.toFloat32()` does.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
   */
  toFloat32(options?: WidenOptions): Float32Array {
    return widenSlice(this, options)
  }

  get [Symbol.toStringTag](): string {
    return 'TensorSlice'
  }

  /** A summary without data. */
  toJSON(): object {
    const { dtype, shape, mapped, copyReason } = this
    return { dtype, shape, byteLength: this.data.byteLength, mapped, copyReason }
  }

  /** A summary without data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('TensorSlice', this.toJSON(), options)
  }
}

/** A validated selection of elements. */
export interface Selected {
  /** `start, stop, step` of each dimension, flattened. */
  readonly ranges: number[]
  /** The shape of the result, without dimensions selected by a single index. */
  readonly shape: number[]
}

/** Validates the ranges of a slice and resolves missing and negative bounds. */
export function sliceRanges(shape: readonly number[], ranges: unknown, name = 'ranges'): Selected {
  const expected = 'an array of [index], [start, stop], [start, stop, step] or null'
  if (!Array.isArray(ranges)) throw wrongType(name, expected, ranges)
  if (ranges.length > shape.length) {
    throw invalid(RangeError, `${name} has ${ranges.length} entries, but the tensor has ${shape.length} dimensions`)
  }
  const selected: Selected = { ranges: [], shape: [] }
  for (const [dim, size] of shape.entries()) {
    const range: unknown = ranges[dim] ?? [0, size]
    const which = `${name}[${dim}]`
    if (!Array.isArray(range) || range.length < 1 || range.length > 3) {
      throw wrongType(which, '[index], [start, stop], [start, stop, step] or null', range)
    }
    if (range.length === 1) {
      const start = validateIndex(`${which}[0]`, range[0], size)
      selected.ranges.push(start, start + 1, 1)
      continue
    }
    const start = validateBound(`${which}[0]`, range[0] ?? 0, size)
    const stop = validateBound(`${which}[1]`, range[1] ?? size, size)
    const step = range.length === 3 ? validateStep(`${which}[2]`, range[2]) : 1
    if (start > stop) throw invalid(RangeError, `${which} must have start <= stop, got [${range.join(', ')}]`)
    selected.ranges.push(start, stop, step)
    selected.shape.push(Math.ceil((stop - start) / step))
  }
  return selected
}

function validateNumber(name: string, value: unknown): number {
  if (typeof value !== 'number') throw wrongType(name, 'a whole number', value)
  if (!Number.isSafeInteger(value)) throw invalid(RangeError, `${name} must be a whole number, got ${value}`)
  return value
}

/** Validates an index. A negative index counts from the end. */
export function validateIndex(name: string, value: unknown, size: number): number {
  const index = validateNumber(name, value)
  if (index < -size || index >= size) {
    const among = size === 0 ? 'is out of bounds: the dimension is empty' : `must be from ${-size} to ${size - 1}`
    throw invalid(RangeError, `${name} ${among}, got ${index}`)
  }
  return index < 0 ? index + size : index
}

function validateBound(name: string, value: unknown, size: number): number {
  const bound = validateNumber(name, value)
  if (bound < -size || bound > size) {
    throw invalid(RangeError, `${name} must be from ${-size} to ${size}, got ${bound}`)
  }
  return bound < 0 ? bound + size : bound
}

function validateStep(name: string, value: unknown): number {
  const step = validateNumber(name, value)
  if (step < 1) throw invalid(RangeError, `${name}, the step, must be 1 or more, got ${step}`)
  return step
}

/** The ranges of one rank's share of a dimension. */
export function shardRanges(shape: readonly number[], spec: unknown): Selected {
  if (typeof spec !== 'object' || spec === null) throw wrongType('shard', 'an object { dim, rank, worldSize }', spec)
  const { dim, rank, worldSize } = readOptions(spec as Shard, ['dim', 'rank', 'worldSize'], 'shard')
  const numbers = [
    validateInteger('dim', dim),
    validateInteger('rank', rank),
    validateInteger('worldSize', worldSize, 1),
  ] as const
  const ranges = rethrowNative(() => binding.shardRanges([...shape], ...numbers))
  return { ranges, shape: shape.map((_, at) => (ranges[at * 3 + 1] as number) - (ranges[at * 3] as number)) }
}
