// Boxes of a dense tensor, each read by itself where the file allows that.
import type { AnyTensor, Tensor, TypedArray } from '../index.js'
import { isComplex, isNarrowFloat } from './cells.js'
import { type Range, volume } from './region.js'

/**
 * The smallest box around `box` whose runs are whole bytes, for elements of four bits: two of them share a byte, so that
 * a run has to start and end at an even element.
 */
function wholeBytes(box: readonly Range[], shape: readonly number[]): Range[] {
  const wider = [...box]
  for (let dimension = box.length - 1; dimension >= 0; dimension--) {
    const extent = shape[dimension] as number
    const [start, stop] = box[dimension] as Range
    if (extent % 2 === 0) {
      wider[dimension] = [start - (start % 2), stop + (stop % 2)]
      return wider
    }
    // Odd rows: where one starts depends on how many lie before it.
    wider[dimension] = [0, extent]
  }
  return wider
}

/** The elements of `box` out of `data`, which holds those of `outer`; an element is `width` entries of the array. */
function crop(data: TypedArray, outer: readonly Range[], box: readonly Range[], width: number): TypedArray {
  const Kind = data.constructor as new (length: number) => TypedArray
  const cropped = new Kind(volume(box) * width)
  const last = box.length - 1
  let to = 0
  const copy = (dimension: number, before: number): void => {
    const [outerStart, outerStop] = outer[dimension] as Range
    const [start, stop] = box[dimension] as Range
    const first = before * (outerStop - outerStart) - outerStart
    if (dimension === last) {
      const run = data.subarray((first + start) * width, (first + stop) * width)
      // Both come from the same constructor.
      ;(cropped as Uint8Array).set(run as Uint8Array, to)
      to += run.length
    } else {
      for (let index = start; index < stop; index++) copy(dimension + 1, first + index)
    }
  }
  copy(0, 0)
  return cropped
}

/** Reads boxes of `tensor` in row-major order, floats narrower than float32 widened. */
export class BoxReader {
  readonly #tensor: Tensor
  /** Whether any part can be had only by decoding all of it. */
  readonly #encoded: boolean
  readonly #packed: boolean
  readonly #all: readonly Range[]
  #decoded: TypedArray | undefined

  constructor(tensor: AnyTensor) {
    this.#tensor = tensor as Tensor
    this.#encoded = Array.from(tensor.components.values()).some((component) => component.encoding !== 'raw')
    this.#packed = tensor.dtype === 'float4_e2m1fn'
    this.#all = tensor.shape.map((extent): Range => [0, extent])
  }

  async read(box: readonly Range[]): Promise<TypedArray> {
    // The whole tensor without a slice: then its digest is checked as well.
    if (box.every(([start, stop], dimension) => start === 0 && stop === this.#tensor.shape[dimension])) {
      return this.#load(undefined)
    }
    const width = isComplex(this.#tensor.dtype) ? 2 : 1
    if (this.#encoded) {
      this.#decoded ??= await this.#load(undefined)
      return crop(this.#decoded, this.#all, box, width)
    }
    if (!this.#packed) return this.#load(box)
    const wider = wholeBytes(box, this.#tensor.shape)
    return crop(await this.#load(wider), wider, box, width)
  }

  #load(slice: readonly Range[] | undefined): Promise<TypedArray> {
    const as = isNarrowFloat(this.#tensor.dtype) ? ({ as: 'float32' } as const) : {}
    return this.#tensor.load(slice === undefined ? as : { ...as, slice })
  }
}
