// Parses slices, and selects the elements of a large tensor to print.
import { UsageError } from './failure.js'

/** From `start` up to but not including `stop`. */
export type Range = readonly [start: number, stop: number]

/** The number of elements of `ranges`: 1 for a scalar, which has no dimensions. */
export function volume(ranges: readonly Range[]): number {
  // Checked first: Infinity times zero is NaN.
  if (ranges.some(([start, stop]) => start === stop)) return 0
  return ranges.reduce((product, [start, stop]) => product * (stop - start), 1)
}

/** Selected indices of one dimension: every `step`th from `start` up to but not including `stop`. */
export interface Span {
  start: number
  stop: number
  step: number
  /** Whether a single index was given, which removes the dimension from the result. */
  single: boolean
}

/** Selects all elements. */
export function everything(shape: readonly number[]): Span[] {
  return shape.map((stop) => ({ start: 0, stop, step: 1, single: false }))
}

/** The selected region, with indices relative to its start. */
export function regionOf(spans: readonly Span[]): Range[] {
  return spans.map(({ start, stop, step }): Range => [0, Math.ceil((stop - start) / step)])
}

/** Formats `span` as a Python slice. */
export function spanText({ start, stop, step, single }: Span): string {
  if (single) return `${start}`
  return step === 1 ? `${start}:${stop}` : `${start}:${stop}:${step}`
}

/** Converts `span` to the form of the API. */
export function spanRange({ start, stop, step, single }: Span): number[] {
  if (single) return [start]
  return step === 1 ? [start, stop] : [start, stop, step]
}

const sliceHint =
  'One slice per dimension, as in Python: "a:b", "a:b:step", ":", or an index; "..." means all other dimensions.'

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
    throw new UsageError(`--slice: invalid slice "${text}"`, sliceHint)
  if (bounds.length === 1) {
    const index = Number(first) < 0 ? Number(first) + extent : Number(first)
    if (index < 0 || index >= extent) {
      throw new UsageError(`--slice: index ${first} is out of bounds for dimension ${dimension} of ${extent}`)
    }
    return { start: index, stop: index + 1, step: 1, single: true }
  }
  const step = third === '' ? 1 : integer(third, text)
  if (!Number.isSafeInteger(step) || step < 1)
    throw new UsageError(`--slice: the step must be 1 or more, got "${text}"`, sliceHint)
  const start = first === '' ? 0 : bound(first, extent, text)
  const stop = second === '' ? extent : bound(second, extent, text)
  return { start, stop: Math.max(start, stop), step, single: false }
}

/**
 * Parses a slice, as in NumPy: bounds are clipped, negative bounds count from the end, missing dimensions are whole, and a single index
 * removes its dimension. Steps must be 1 or more.
 */
export function parseSlice(text: string, shape: readonly number[]): Span[] {
  const parts = text.trim() === '' ? [] : text.split(',').map((one) => one.trim())
  const ellipsis = parts.findIndex((one) => one === '...' || one === '…')
  const whole = shape.length - parts.length + (ellipsis >= 0 ? 1 : 0)
  if (whole < 0) {
    const named = parts.length - (ellipsis >= 0 ? 1 : 0)
    throw new UsageError(`--slice: "${text}" has ${named} dimensions, but the tensor has ${shape.length}`, sliceHint)
  }
  const filling = Array<string>(whole).fill(':')
  if (ellipsis >= 0) parts.splice(ellipsis, 1, ...filling)
  else parts.push(...filling)
  return shape.map((extent, dimension) => span(parts[dimension] as string, extent, dimension))
}

/** How a dimension is shown: its pieces, and whether there is an ellipsis after the first. */
export interface Axis {
  pieces: readonly Range[]
  shown: number
  /** Number of elements before the ellipsis; undefined if the whole range is shown. */
  elidedAfter: number | undefined
}

function axis([start, stop]: Range, head: number, tail: number): Axis {
  if (stop - start <= head + tail) return { pieces: [[start, stop]], shown: stop - start, elidedAfter: undefined }
  const pieces: Range[] = [[start, start + head]]
  if (tail > 0) pieces.push([stop - tail, stop])
  return { pieces, shown: head + tail, elidedAfter: head }
}

// NumPy prints up to 1,000 elements in full, and beyond that three at each end of a dimension.
const shownInFull = 1000
// Three at each end of twelve dimensions would be two billion elements. Then fewer are shown, starting with the first dimension.
const shownAtMost = 4096
const edges = [
  [3, 3],
  [2, 2],
  [1, 1],
  [1, 0],
] as const

/** How each dimension of `region` is shown: in full if the region is small, otherwise its ends. */
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

/** Divides `region` into boxes of at most `limit` elements. Their concatenation is the region in row-major order. */
export function* boxes(region: readonly Range[], limit: number): Generator<Range[]> {
  // The last dimensions fit into a box as a whole; the one before them is divided, and earlier ones are iterated by index.
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
  const divided = fit - 1
  for (;;) {
    const [first, last] = region[divided] as Range
    for (let start = first; start < last; start += step) {
      box[divided] = [start, Math.min(start + step, last)]
      yield [...box]
    }
    let dimension = divided - 1
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
