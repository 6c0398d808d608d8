// Elements as the values of JavaScript, one by one and as nested arrays.

import { ZTensorError } from '../native/errors.js'
import type { DType, DTypeInfo, TypedArray } from '../values/dtype.js'
import { widen } from './widen.js'

/** What one element is: int64 and uint64 are bigints, bool a boolean, complex numbers `[real, imaginary]`, all others numbers. */
export type ElementOf<D extends DType = DType> = D extends 'int64' | 'uint64'
  ? bigint
  : D extends 'bool'
    ? boolean
    : D extends 'complex64' | 'complex128'
      ? readonly [real: number, imaginary: number]
      : number

/** Elements in as many nested arrays as there are dimensions; the element itself where there are none. */
export type Nested<E> = E | readonly Nested<E>[]

/** The dtypes whose arrays hold the numbers themselves. */
const PLAIN = /^(float(32|64)|u?int(8|16|32|64))$/

/** Gives the element at a place of an array of a dtype. */
export function valueAt(dtype: DTypeInfo, data: TypedArray, at: number): ElementOf {
  if (PLAIN.test(dtype.name)) return data[at] as ElementOf
  if (dtype.name === 'bool') return data[at] !== 0
  if (dtype.name.startsWith('complex')) return [data[2 * at] as number, data[2 * at + 1] as number]
  // The elements that share its bytes: two of 4 bits. Six bits have no float32 form, which widen() says.
  const [from, count] = dtype.bits < 8 ? [Math.floor(at / 2), 2] : [at, 1]
  return widen(data.subarray(from, from + 1) as TypedArray, dtype, count, undefined)[at % count] as number
}

/** All elements, nested as the shape has them. */
export function nested(dtype: DTypeInfo, shape: readonly number[], data: TypedArray): Nested<ElementOf> {
  const size = shape.reduce((product, dim) => product * dim, 1)
  const wide = PLAIN.test(dtype.name) || /^(bool|complex)/.test(dtype.name)
  const numbers = wide ? undefined : widen(data, dtype, size, undefined)
  let next = 0
  const element = () => (numbers === undefined ? valueAt(dtype, data, next++) : (numbers[next++] as number))
  const inside = (dim: number): Nested<ElementOf> =>
    dim === shape.length ? element() : Array.from({ length: shape[dim] as number }, () => inside(dim + 1))
  return inside(0)
}

/** Refuses more values than are wanted: an array of them takes some ten times the memory of the tensor. */
export function checkCount(name: string, size: number, shape: readonly number[], most: number): void {
  // Of an empty tensor the outer arrays are still to be made.
  const arrays = shape.reduce((product, dim) => (dim === 0 ? product : product * dim), 1)
  if (Math.max(size, arrays) <= most) return
  const message = `${size} elements in the shape [${shape.join(', ')}] are more than the ${most} allowed (option maxElements); take a part with slice()`
  throw new ZTensorError('ZT_LIMIT', `tensor ${JSON.stringify(name)}: ${message}`, { tensor: name })
}
