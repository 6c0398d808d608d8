import { types } from '#host'
import { invalid } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { wrongType } from '../values/arguments.js'
import { validateIndex } from './slice.js'

/** A list of indices along a dimension. Negative ones count from the end; an index may repeat. */
export type Indices = readonly number[] | IndexNumbers | BigInt64Array | BigUint64Array

type IndexNumbers = Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array | Float64Array

/** Indices that one turn of the event loop checks: about 2 ms. */
const CHECKED = 2 ** 17

/** The most elements of an array. The length of a proxy can be anything. */
const MAX = 2 ** 32 - 1

function room(length: unknown): Float64Array {
  if (!Number.isInteger(length) || (length as number) < 0 || (length as number) > MAX)
    throw invalid(RangeError, `indices.length: expected an integer from 0 to ${MAX}, got ${String(length)}`)
  try {
    return new Float64Array(length as number)
  } catch {
    throw invalid(RangeError, `indices: ${length} indices do not fit into memory`)
  }
}

/** Returns indices from 0 to `size - 1`, after checking them without blocking the event loop. */
export async function readIndices(indices: unknown, size: number, check: () => void): Promise<Float64Array> {
  if (!Array.isArray(indices) && !types.isTypedArray(indices)) {
    throw wrongType('indices', 'an array or typed array of integers', indices)
  }
  const { length } = indices
  const list = room(length)
  for (let at = 0; at < length; at++) {
    if (at % CHECKED === CHECKED - 1) {
      await nextTurn()
      check()
    }
    const index: unknown = indices[at]
    const number = typeof index === 'bigint' ? Number(index) : index
    // The name of an argument costs more than its check.
    if (typeof number === 'number' && Number.isInteger(number) && number >= 0 && number < size) list[at] = number
    else list[at] = validateIndex(`indices[${at}]`, number, size)
  }
  if (indices.length !== length) throw invalid(RangeError, 'indices changed its length during take()')
  return list
}
