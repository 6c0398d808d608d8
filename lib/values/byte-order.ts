// The byte order of elements. A typed array holds numbers in the byte order of the machine. Files are little-endian, and so are bytes that
// stand for wider elements: a Uint8Array, a Buffer or a stream. Native code takes all elements as in a file. On a big-endian machine
// numbers are therefore swapped into a copy on the way in, here.
import { swapBytes } from '#host'
import { allocate } from '../native/memory.js'
import { arrayKind } from '../native/realm.js'
import { bytesOf, type DTypeInfo } from './dtype.js'

export const BIG_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0

/** Bits of an array's elements. Those of a DataView are bytes. */
const bitsOf = (array: ArrayBufferView): number => Number(/\d+/.exec(arrayKind(array) ?? '8')?.[0])

/**
 * Returns the bytes of an array as in a file, or those of a range of whole elements: over the same memory, or a copy if the array holds
 * numbers and the machine is big-endian.
 *
 * @throws ZTensorError ZT_LIMIT if the runtime does not support a Uint8Array of this length
 */
export function fileBytes(array: ArrayBufferView, start = 0, end = array.byteLength): Uint8Array {
  const bytes = bytesOf(array, start, end)
  const bits = BIG_ENDIAN ? bitsOf(array) : 8
  if (bits === 8) return bytes
  const copy = new Uint8Array(allocate(bytes.byteLength))
  copy.set(bytes)
  swapBytes(copy, bits)
  return copy
}

/** Finishes an array that was filled with the bytes of elements as in a file. */
export function toHostOrder(array: ArrayBufferView): void {
  if (BIG_ENDIAN) swapBytes(bytesOf(array), bitsOf(array))
}

/** Finishes an array that was filled with elements of a dtype in the byte order of the machine: bytes are little-endian. */
export function toFileOrder(array: ArrayBufferView, dtype: DTypeInfo): void {
  if (BIG_ENDIAN && bitsOf(array) === 8) swapBytes(bytesOf(array), dtype.array.BYTES_PER_ELEMENT * 8)
}
