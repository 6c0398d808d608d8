// The part of a tensor that `cat` shows, and what of it is left out: a range for each dimension.
import { UsageError } from './failure.js'

/** From `start` up to but not including `stop`. */
export type Range = readonly [start: number, stop: number]

/** How many elements `ranges` hold: 1 for a scalar, which has no dimension. */
export function volume(ranges: readonly Range[]): number {
  // First, since a product past the largest double times zero is not a number.
  if (ranges.some(([start, stop]) => start === stop)) return 0
  return ranges.reduce((product, [start, stop]) => product * (stop - start), 1)
}

function bound(text: string, extent: number, part: string): number {
  if (!/^-?\d+$/.test(text)) {
    throw new UsageError(`--slice: expected an integer in "${part}", got "${text}"`, sliceHint)
  }
  const value = Number(text)
  return Math.min(Math.max(value < 0 ? value + extent : value, 0), extent)
}

const sliceHint = 'One part a dimension: "a:b", ":b", "a:", ":" or a single index; "..." stands for all the others.'

function part(text: string, extent: number, dimension: number): Range {
  const bounds = text.split(':')
  if (bounds.length > 2) throw new UsageError(`--slice: "${text}" has a step, and steps are not supported`, sliceHint)
  const [first = '', second] = bounds.map((one) => one.trim())
  if (second === undefined) {
    if (!/^-?\d+$/.test(first)) throw new UsageError(`--slice: cannot read "${text}"`, sliceHint)
    const index = Number(first) < 0 ? Number(first) + extent : Number(first)
    if (index < 0 || index >= extent) {
      throw new UsageError(`--slice: index ${first} is out of bounds for dimension ${dimension} of ${extent}`)
    }
    return [index, index + 1]
  }
  const start = first === '' ? 0 : bound(first, extent, text)
  const stop = second === '' ? extent : bound(second, extent, text)
  return [start, Math.max(start, stop)]
}

/**
 * The region that `text` names in `shape`, as numpy would slice: bounds are clipped, negative ones count from the end,
 * missing dimensions are whole. Unlike numpy's, a single index keeps its dimension, of extent 1.
 */
export function parseSlice(text: string, shape: readonly number[]): Range[] {
  const parts = text.trim() === '' ? [] : text.split(',').map((one) => one.trim())
  const ellipsis = parts.findIndex((one) => one === '...' || one === '…')
  const whole = shape.length - parts.length + (ellipsis >= 0 ? 1 : 0)
  if (whole < 0) {
    const named = parts.length - (ellipsis >= 0 ? 1 : 0)
    throw new UsageError(`--slice: "${text}" names ${named} dimensions, the tensor has ${shape.length}`, sliceHint)
  }
  const filling = Array<string>(whole).fill(':')
  if (ellipsis >= 0) parts.splice(ellipsis, 1, ...filling)
  else parts.push(...filling)
  return shape.map((extent, dimension) => part(parts[dimension] as string, extent, dimension))
}

/** A dimension as it is shown: its pieces, and whether an ellipsis stands after the first of them. */
export interface Axis {
  pieces: readonly Range[]
  shown: number
  /** Elements before the ellipsis; undefined where the whole range is shown. */
  elidedAfter: number | undefined
}

function axis([start, stop]: Range, head: number, tail: number): Axis {
  if (stop - start <= head + tail) return { pieces: [[start, stop]], shown: stop - start, elidedAfter: undefined }
  const pieces: Range[] = [[start, start + head]]
  if (tail > 0) pieces.push([stop - tail, stop])
  return { pieces, shown: head + tail, elidedAfter: head }
}

// numpy prints up to 1,000 elements in full, and beyond that three at each end of a dimension.
const shownInFull = 1000
// Three at each end of twelve dimensions would be two billion: then fewer, from the first dimension on.
const shownAtMost = 4096
const edges = [
  [3, 3],
  [2, 2],
  [1, 1],
  [1, 0],
] as const

/** How each dimension of `region` is shown: whole where it is small, otherwise its ends. */
export function summarize(region: readonly Range[]): Axis[] {
  const whole = region.map((range) => axis(range, Number.POSITIVE_INFINITY, 0))
  if (volume(region) <= shownInFull) return whole
  const axes = region.map((range) => axis(range, ...edges[0]))
  for (const [head, tail] of edges.slice(1)) {
    for (const [dimension, range] of region.entries()) {
      if (axes.reduce((product, one) => product * one.shown, 1) <= shownAtMost) return axes
      axes[dimension] = axis(range, head, tail)
    }
  }
  return axes
}

/** `region` in consecutive boxes of at most `limit` elements: laid one after another they are the region in row-major order. */
export function* boxes(region: readonly Range[], limit: number): Generator<Range[]> {
  // The last dimensions that fit whole; the one before them is cut, and those before it are walked one index at a time.
  let fit = region.length
  let inner = 1
  while (fit > 0) {
    const [start, stop] = region[fit - 1] as Range
    if (inner * (stop - start) > limit) break
    inner *= stop - start
    fit--
  }
  if (fit === 0) return yield [...region]
  const step = Math.max(1, Math.floor(limit / Math.max(1, inner)))
  const box = region.map((range, dimension): Range => (dimension < fit ? [range[0], range[0] + 1] : range))
  const cut = fit - 1
  for (;;) {
    const [first, last] = region[cut] as Range
    for (let start = first; start < last; start += step) {
      box[cut] = [start, Math.min(start + step, last)]
      yield [...box]
    }
    let dimension = cut - 1
    while (dimension >= 0) {
      const [start, stop] = region[dimension] as Range
      const next = (box[dimension] as Range)[0] + 1
      box[dimension] = next < stop ? [next, next + 1] : [start, start + 1]
      if (next < stop) break
      dimension--
    }
    if (dimension < 0) return
  }
}
