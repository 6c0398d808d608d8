// The part of a tensor that `cat` shows, and what of it is left out.
import { UsageError } from './failure.js'

/** From `start` up to but not including `stop`. */
export type Range = readonly [start: number, stop: number]

/** How many elements `ranges` hold: 1 for a scalar, which has no dimension. */
export function volume(ranges: readonly Range[]): number {
  // First, since a product past the largest double times zero is not a number.
  if (ranges.some(([start, stop]) => start === stop)) return 0
  return ranges.reduce((product, [start, stop]) => product * (stop - start), 1)
}

/** The indices of one dimension that are wanted: from `start` to before `stop`, every `step`th. */
export interface Span {
  start: number
  stop: number
  step: number
  /** Whether one index was named: then the dimension is not in the result. */
  single: boolean
}

/** All of `shape`. */
export function everything(shape: readonly number[]): Span[] {
  return shape.map((stop) => ({ start: 0, stop, step: 1, single: false }))
}

/** What `spans` select, counted from its own start: boxes lie within it. */
export function regionOf(spans: readonly Span[]): Range[] {
  return spans.map(({ start, stop, step }): Range => [0, Math.ceil((stop - start) / step)])
}

/** `span` as Python writes it. */
export function spanText({ start, stop, step, single }: Span): string {
  if (single) return `${start}`
  return step === 1 ? `${start}:${stop}` : `${start}:${stop}:${step}`
}

/** `span` as the API takes it. */
export function spanRange({ start, stop, step, single }: Span): number[] {
  if (single) return [start]
  return step === 1 ? [start, stop] : [start, stop, step]
}

const sliceHint =
  'One part per dimension, as in Python: "a:b", "a:b:step", ":", or one index; "..." stands for the others.'

function integer(text: string, part: string): number {
  if (!/^-?\d+$/.test(text)) {
    throw new UsageError(`--slice: expected an integer in "${part}", got "${text}"`, sliceHint)
  }
  return Number(text)
}

function bound(text: string, extent: number, part: string): number {
  const value = integer(text, part)
  return Math.min(Math.max(value < 0 ? value + extent : value, 0), extent)
}

function span(text: string, extent: number, dimension: number): Span {
  const bounds = text.split(':').map((one) => one.trim())
  const [first = '', second = '', third = ''] = bounds
  if (bounds.length > 3 || (bounds.length === 1 && !/^-?\d+$/.test(first)))
    throw new UsageError(`--slice: cannot read "${text}"`, sliceHint)
  if (bounds.length === 1) {
    const index = Number(first) < 0 ? Number(first) + extent : Number(first)
    if (index < 0 || index >= extent) {
      throw new UsageError(`--slice: index ${first} is out of bounds for dimension ${dimension} of ${extent}`)
    }
    return { start: index, stop: index + 1, step: 1, single: true }
  }
  const step = third === '' ? 1 : integer(third, text)
  if (!Number.isSafeInteger(step) || step < 1)
    throw new UsageError(`--slice: a step is 1 or more, got "${text}"`, sliceHint)
  const start = first === '' ? 0 : bound(first, extent, text)
  const stop = second === '' ? extent : bound(second, extent, text)
  return { start, stop: Math.max(start, stop), step, single: false }
}

/**
 * The part of `shape` that `text` names, as NumPy would slice: bounds are clipped, negative ones count from the end, missing
 * dimensions are whole, and a single index drops its dimension. Steps are 1 or more.
 */
export function parseSlice(text: string, shape: readonly number[]): Span[] {
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
  return shape.map((extent, dimension) => span(parts[dimension] as string, extent, dimension))
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
