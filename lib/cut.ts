import { aWholeNumber, wrongType } from './arguments.js'
import type { DType, DTypeArrays } from './dtype.js'
import { calling, invalid } from './errors.js'
import { binding } from './native.js'
import type { CopyReason } from './store.js'

/** `[start, stop]` of a dimension, or null for all of it. */
export type Range = readonly [start: number, stop: number] | null

/** One rank's even share of a dimension. */
export interface Shard {
  /** The dimension that is divided. */
  readonly dim: number
  /** From 0 to `worldSize - 1`. */
  readonly rank: number
  readonly worldSize: number
}

/** A rectangular part of a dense tensor. */
export interface Cut<D extends DType = DType> {
  readonly dtype: D
  readonly shape: readonly number[]
  readonly data: DTypeArrays[D]
  /** Whether `data` aliases the file. */
  readonly mapped: boolean
  readonly copyReason: CopyReason | undefined
}

/** Checks ranges and completes them: `[start, stop]` of each dimension, flat. */
export function flatRanges(shape: readonly number[], ranges: unknown, name = 'ranges'): number[] {
  if (!Array.isArray(ranges)) throw wrongType(name, 'an array of [start, stop] or null', ranges)
  if (ranges.length > shape.length) {
    throw invalid(RangeError, `${name} has ${ranges.length} entries, the tensor has ${shape.length} dimensions`)
  }
  return shape.flatMap((size, dim) => {
    const range: unknown = ranges[dim]
    if (range === null || range === undefined) return [0, size]
    if (!Array.isArray(range) || range.length !== 2) throw wrongType(`${name}[${dim}]`, '[start, stop] or null', range)
    const start = aWholeNumber(`${name}[${dim}][0]`, range[0])
    const stop = aWholeNumber(`${name}[${dim}][1]`, range[1])
    if (start > stop || stop > size) {
      throw invalid(RangeError, `${name}[${dim}] must lie within 0 and ${size}, got [${start}, ${stop}]`)
    }
    return [start, stop]
  })
}

/** The ranges of a rank's share, flat. */
export function shardRanges(shape: readonly number[], spec: unknown): number[] {
  if (typeof spec !== 'object' || spec === null) throw wrongType('shard', 'an object { dim, rank, worldSize }', spec)
  const { dim, rank, worldSize } = spec as Shard
  const numbers = [
    aWholeNumber('dim', dim),
    aWholeNumber('rank', rank),
    aWholeNumber('worldSize', worldSize, 1),
  ] as const
  return calling(() => binding.shardRanges([...shape], ...numbers))
}
