// Converts elements to JavaScript values: single elements and nested arrays.

import { optionHint, ZTensorError } from '../native/errors.js'
import type { DType, DTypeInfo, TypedArray } from '../values/dtype.js'
import { widen } from './widen.js'

/** The JavaScript type of one element: bigint for int64 and uint64, boolean for bool, `[real, imaginary]` for complex, otherwise number. */
export type ElementOf<D extends DType = DType> = D extends 'int64' | 'uint64'
  ? bigint
  : D extends 'bool'
    ? boolean
    : D extends 'complex64' | 'complex128'
      ? readonly [real: number, imaginary: number]
      : number

/** Nested arrays, one level for each dimension; a single element for a scalar. */
export type Nested<E> = E | readonly Nested<E>[]

/** The dtypes whose typed arrays hold the values themselves. */
const PLAIN = /^(float(32|64)|u?int(8|16|32|64))$/

/** Returns the element at index `at`. */
export function valueAt(dtype: DTypeInfo, data: TypedArray, at: number): ElementOf {
  if (PLAIN.test(dtype.name)) return data[at] as ElementOf
  if (dtype.name === 'bool') return data[at] !== 0
  if (dtype.name.startsWith('complex')) return [data[2 * at] as number, data[2 * at + 1] as number]
  // Two elements of 4 bits share a byte. widen() throws for 6-bit types.
  const [from, count] = dtype.bits < 8 ? [Math.floor(at / 2), 2] : [at, 1]
  return widen(data.subarray(from, from + 1) as TypedArray, dtype, count, undefined)[at % count] as number
}

/** Returns all elements in nested arrays of the given shape. */
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

/** Throws ZT_LIMIT for too many values: nested arrays take about ten times the memory of the tensor. */
export function checkCount(name: string, size: number, shape: readonly number[], max: number): void {
  // An empty tensor still has outer arrays.
  const arrays = shape.reduce((product, dim) => (dim === 0 ? product : product * dim), 1)
  if (Math.max(size, arrays) <= max) return
  const hint = optionHint('maxElements')
  const message = `${size} elements in the shape [${shape.join(', ')}] are more than the ${max} allowed${hint.text}; take a part with slice()`
  throw new ZTensorError('ZT_LIMIT', `tensor ${JSON.stringify(name)}: ${message}`, { tensor: name, hints: [hint] })
}
