// Typed arrays as the bytes of a file.
import { createHash } from 'node:crypto'
import { endianness } from 'node:os'

export const BIG_ENDIAN_HOST = endianness() === 'BE'

function swap(bytes, width) {
  if (width === 2) return bytes.swap16()
  return width === 4 ? bytes.swap32() : bytes.swap64()
}

/** An array's elements as in a file, little-endian: over the same memory, or swapped into a copy. The elements of a DataView are bytes. */
export function littleEndian(view) {
  const bytes = Buffer.from(view.buffer, view.byteOffset, view.byteLength)
  const width = view.BYTES_PER_ELEMENT ?? 1
  return BIG_ENDIAN_HOST && width > 1 ? swap(Buffer.from(bytes), width) : bytes
}

/** A typed array of a class with the elements that a file stores as these bytes: a copy. */
export function numbersOf(Class, bytes) {
  const copy = Uint8Array.from(bytes)
  const width = Class.BYTES_PER_ELEMENT
  if (BIG_ENDIAN_HOST && width > 1) swap(Buffer.from(copy.buffer), width)
  return new Class(copy.buffer)
}

/** Length and hash of a typed array's little-endian bytes, as in the sidecars. */
export function fingerprint(view) {
  const bytes = littleEndian(view)
  return { nbytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
}

/** An ArrayBuffer with exactly these bytes. */
export function arrayBufferOf(bytes) {
  const copy = new Uint8Array(bytes.length)
  copy.set(bytes)
  return copy.buffer
}

/** Asserts that two arrays have the same class and bytes. `t.deepEqual` sorts the names of all indices, which takes seconds for 1 MiB. */
export function sameBytes(t, actual, expected, message = '') {
  t.is(actual.constructor, expected.constructor, message)
  t.is(actual.length, expected.length, message)
  const [one, other] = [littleEndian(actual), littleEndian(expected)]
  if (one.equals(other)) t.pass()
  else t.fail(`${message} differ from byte ${one.findIndex((byte, at) => byte !== other[at])} on`.trim())
}
