// Reads boxes of a slice of a dense tensor, each separately if the encoding allows it.
import type { AnyTensor, DType, Tensor, TypedArray } from '../index.js'
import { isComplex, isNarrowFloat } from './cells.js'
import { everything, type Range, regionOf, type Span, spanRange, volume } from './region.js'

/**
 * The smallest box around `box` whose contiguous ranges are whole bytes. Two elements of four bits share a byte, so that a range must
 * start and end at an even element.
 */
function wholeBytes(box: readonly Span[], shape: readonly number[]): Span[] {
  const wider = [...box]
  for (let dimension = box.length - 1; dimension >= 0; dimension--) {
    const extent = shape[dimension] as number
    const { start, stop } = box[dimension] as Span
    if (extent % 2 === 0) {
      wider[dimension] = { start: start - (start % 2), stop: stop + (stop % 2), step: 1, single: false }
      return wider
    }
    // Rows of odd length: their offsets within a byte alternate, so the whole dimension is read.
    wider[dimension] = { start: 0, stop: extent, step: 1, single: false }
  }
  return wider
}

/** Extracts the elements of `box` from `data`, which holds those of `outer`. An element has `width` array entries. */
function crop(data: TypedArray, outer: readonly Span[], box: readonly Span[], width: number): TypedArray {
  const Kind = data.constructor as new (length: number) => TypedArray
  const cropped = new Kind(volume(regionOf(box)) * width)
  const extents = regionOf(outer).map(([, extent]) => extent)
  let to = 0
  const copy = (dimension: number, before: number): void => {
    if (dimension === box.length) {
      for (let entry = 0; entry < width; entry++) cropped[to++] = data[before * width + entry] as number
      return
    }
    const { start, stop, step } = box[dimension] as Span
    const from = outer[dimension] as Span
    for (let index = start; index < stop; index += step)
      copy(dimension + 1, before * (extents[dimension] as number) + (index - from.start) / from.step)
  }
  copy(0, 0)
  return cropped
}

/** The dtype in which elements are printed: those of a quantized tensor are dequantized to float32. */
export function printedDtype({ layout, dtype }: Pick<Tensor, 'layout' | 'dtype'>): DType | undefined {
  return layout === 'dense' ? dtype : 'float32'
}

/** Reads boxes of a slice of `tensor` in row-major order. Floats narrower than float32 are widened, quantized elements dequantized. */
export class BoxReader {
  readonly #tensor: Tensor
  readonly #part: readonly Span[]
  /** Whether the tensor must be decoded as a whole. */
  readonly #encoded: boolean
  readonly #packed: boolean
  #decoded: TypedArray | undefined

  constructor(tensor: AnyTensor, part: readonly Span[]) {
    this.#tensor = tensor as Tensor
    this.#part = part
    this.#encoded = Array.from(tensor.components.values()).some((component) => component.encoding !== 'raw')
    this.#packed = printedDtype(tensor) === 'float4_e2m1fn'
  }

  /** The maximum size of a box, so that at most about `elements` are read. For packed elements, skipped elements are read too. */
  boxLimit(elements: number): number {
    if (!this.#packed) return elements
    return Math.max(1, Math.floor(elements / this.#part.reduce((product, { step }) => product * step, 1)))
  }

  /** Reads the elements of `box`, whose indices are relative to the slice. */
  async read(box: readonly Range[]): Promise<TypedArray> {
    const spans = box.map(([first, last], dimension): Span => {
      const { start, stop, step } = this.#part[dimension] as Span
      // Clipped to the slice: the last step may reach beyond it.
      return { start: start + first * step, stop: Math.min(start + last * step, stop), step, single: false }
    })
    const { shape } = this.#tensor
    // The whole tensor is loaded without a slice, so that its digest is checked.
    if (spans.every(({ start, stop, step }, dimension) => start === 0 && step === 1 && stop === shape[dimension])) {
      return this.#load(undefined)
    }
    const width = isComplex(printedDtype(this.#tensor)) ? 2 : 1
    if (this.#encoded) {
      this.#decoded ??= await this.#load(undefined)
      return crop(this.#decoded, everything(shape), spans, width)
    }
    if (!this.#packed) return this.#load(spans)
    const wider = wholeBytes(spans, shape)
    return crop(await this.#load(wider), wider, spans, width)
  }

  #load(part: readonly Span[] | undefined): Promise<TypedArray> {
    const isWidened = this.#tensor.layout !== 'dense' || isNarrowFloat(this.#tensor.dtype)
    const as = isWidened ? ({ as: 'float32' } as const) : {}
    return this.#tensor.load(part === undefined ? as : { ...as, slice: part.map(spanRange) as [number, number][] })
  }
}
