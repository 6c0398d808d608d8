// Prints the elements of a dense or quantized tensor. It is read in boxes: a summary of 100 GB reads a few hundred bytes.
import type { AnyTensor, TypedArray } from '../index.js'
import { BoxReader, printedDtype } from './box-reader.js'
import { cellJson, cellText } from './cells.js'
import { NestedText } from './nested.js'
import { type Axis, boxes, type Range, regionOf, type Span, summarize, volume } from './region.js'
import { print } from './stdout.js'

// Up to this many elements are buffered as text to align their columns; more are streamed.
const heldAtOnce = 1 << 20

/** Yields every combination of pieces of the axes: a box to read, and the position of its first element. */
function* corners(axes: readonly Axis[]): Generator<{ box: Range[]; at: number[] }> {
  const chosen = axes.map(() => 0)
  for (;;) {
    yield {
      box: axes.map(({ pieces }, dimension) => pieces[chosen[dimension] as number] as Range),
      at: axes.map(({ elidedAfter }, dimension) => (chosen[dimension] === 0 ? 0 : (elidedAfter ?? 0))),
    }
    let dimension = axes.length - 1
    while (dimension >= 0 && chosen[dimension] === (axes[dimension] as Axis).pieces.length - 1) chosen[dimension--] = 0
    if (dimension < 0) return
    chosen[dimension] = (chosen[dimension] as number) + 1
  }
}

type Show = (data: TypedArray, index: number) => string

/** The texts of all shown elements, in row-major order. */
async function gather(reader: BoxReader, axes: readonly Axis[], show: Show): Promise<string[]> {
  const strides = axes.map((_, dimension) =>
    axes.slice(dimension + 1).reduce((product, axis) => product * axis.shown, 1),
  )
  const texts: string[] = new Array(axes.reduce((product, axis) => product * axis.shown, 1))
  for (const { box, at } of corners(axes)) {
    const data = await reader.read(box)
    const index = box.map(() => 0)
    let position = at.reduce((sum, one, dimension) => sum + one * (strides[dimension] as number), 0)
    for (let element = 0, count = volume(box); element < count; element++) {
      texts[position] = show(data, element)
      for (let dimension = box.length - 1; dimension >= 0; dimension--) {
        const [start, stop] = box[dimension] as Range
        const stride = strides[dimension] as number
        const next = (index[dimension] as number) + 1
        position += stride
        index[dimension] = next
        if (next < stop - start) break
        position -= next * stride
        index[dimension] = 0
      }
    }
  }
  return texts
}

/** Removes the entries of dimensions that were selected by a single index. */
function squeezed<T>(part: readonly Span[], entries: readonly T[]): T[] {
  return entries.filter((_, dimension) => !part[dimension]?.single)
}

/** Prints `head`, then `part` of `tensor` in nested brackets. A large one is abbreviated unless `all`. */
export async function printDense(tensor: AnyTensor, part: readonly Span[], head: string, all: boolean): Promise<void> {
  const columns = process.stdout.columns ?? 80
  const region = regionOf(part)
  if (volume(region) === 0) return print(`${head}[]\n`)
  const reader = new BoxReader(tensor, part)
  const show = cellText(printedDtype(tensor))
  if (all && volume(region) > reader.boxLimit(heldAtOnce)) {
    return printStream(reader, part, { show, columns, before: head, after: '\n' })
  }

  const axes = all
    ? region.map((range): Axis => ({ pieces: [range], shown: range[1] - range[0], elidedAfter: undefined }))
    : summarize(region)
  const texts = await gather(reader, axes, show)
  const width = texts.reduce((widest, text) => Math.max(widest, text.length), 0)
  const inside = squeezed(part, axes)
  const nested = new NestedText({
    shown: inside.map((axis) => axis.shown),
    elidedAfter: inside.map((axis) => axis.elidedAfter),
    columns,
  })
  for (const text of texts) nested.add(text.padStart(width))
  nested.end()
  await print(`${head}${nested.take()}\n`)
}

/** Prints all of `part` of `tensor` as nested JSON arrays, between `before` and `after`. */
export async function printDenseJson(
  tensor: AnyTensor,
  part: readonly Span[],
  before: string,
  after: string,
): Promise<void> {
  const options = { show: cellJson(printedDtype(tensor)), columns: Number.POSITIVE_INFINITY, before, after }
  await printStream(new BoxReader(tensor, part), part, options)
}

interface StreamOptions {
  show: Show
  columns: number
  before: string
  after: string
}

/** Prints boxes as they are read. `before` is printed with the first box, so that a failed read prints nothing. */
async function printStream(reader: BoxReader, part: readonly Span[], options: StreamOptions): Promise<void> {
  const { show, columns, after } = options
  const region = regionOf(part)
  const shown = squeezed(part, region).map(([, extent]) => extent)
  const nested = new NestedText({ shown, columns })
  let { before } = options
  if (volume(region) > 0) {
    for (const box of boxes(region, reader.boxLimit(heldAtOnce))) {
      const data = await reader.read(box)
      for (let element = 0, count = volume(box); element < count; element++) nested.add(show(data, element))
      await print(before + nested.take())
      before = ''
    }
  }
  nested.end()
  await print(before + nested.take() + after)
}
