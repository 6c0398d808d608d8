// Boxes of a part of a dense tensor, each read by itself where the file allows that.
import type { AnyTensor, Tensor, TypedArray } from '../index.js'
import { isComplex, isNarrowFloat } from './cells.js'
import { everything, type Range, regionOf, type Span, spanRange, volume } from './region.js'

/**
 * The smallest box around `box` whose runs are whole bytes, for elements of four bits: two of them share a byte, so that
 * a run has to start and end at an even element.
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
    // Odd rows: where one starts depends on how many lie before it.
    wider[dimension] = { start: 0, stop: extent, step: 1, single: false }
  }
  return wider
}

/** The elements of `box` out of `data`, which holds those of `outer`; an element is `width` entries of the array. */
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

/** Reads boxes of a part of `tensor` in row-major order, floats narrower than float32 widened. */
export class BoxReader {
  readonly #tensor: Tensor
  readonly #part: readonly Span[]
  /** Whether any part can be had only by decoding all of it. */
  readonly #encoded: boolean
  readonly #packed: boolean
  #decoded: TypedArray | undefined

  constructor(tensor: AnyTensor, part: readonly Span[]) {
    this.#tensor = tensor as Tensor
    this.#part = part
    this.#encoded = Array.from(tensor.components.values()).some((component) => component.encoding !== 'raw')
    this.#packed = tensor.dtype === 'float4_e2m1fn'
  }

  /** Elements that a box may have so that about `elements` are read at most: of packed ones, those in between are read too. */
  boxLimit(elements: number): number {
    if (!this.#packed) return elements
    return Math.max(1, Math.floor(elements / this.#part.reduce((product, { step }) => product * step, 1)))
  }

  /** The elements of `box`, which counts from the start of the part. */
  async read(box: readonly Range[]): Promise<TypedArray> {
    const spans = box.map(([first, last], dimension): Span => {
      const { start, stop, step } = this.#part[dimension] as Span
      // Not past the end of the part: a step may reach beyond it.
      return { start: start + first * step, stop: Math.min(start + last * step, stop), step, single: false }
    })
    const { shape, dtype } = this.#tensor
    // The whole tensor without a slice: then its digest is checked as well.
    if (spans.every(({ start, stop, step }, dimension) => start === 0 && step === 1 && stop === shape[dimension])) {
      return this.#load(undefined)
    }
    const width = isComplex(dtype) ? 2 : 1
    if (this.#encoded) {
      this.#decoded ??= await this.#load(undefined)
      return crop(this.#decoded, everything(shape), spans, width)
    }
    if (!this.#packed) return this.#load(spans)
    const wider = wholeBytes(spans, shape)
    return crop(await this.#load(wider), wider, spans, width)
  }

  #load(part: readonly Span[] | undefined): Promise<TypedArray> {
    const as = isNarrowFloat(this.#tensor.dtype) ? ({ as: 'float32' } as const) : {}
    return this.#tensor.load(part === undefined ? as : { ...as, slice: part.map(spanRange) as [number, number][] })
  }
}
