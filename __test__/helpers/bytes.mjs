// Typed arrays as the bytes that a file would hold.
import { createHash } from 'node:crypto'
import { endianness } from 'node:os'

const BIG_ENDIAN_HOST = endianness() === 'BE'

/** The bytes that a view shows, as the host keeps them: no copy. */
export const viewBytes = (view) => Buffer.from(view.buffer, view.byteOffset, view.byteLength)

/** The elements' little-endian bytes, whatever the host's order. */
export function littleEndian(view) {
  const bytes = viewBytes(view)
  if (!BIG_ENDIAN_HOST || view.BYTES_PER_ELEMENT === 1) return bytes
  const copy = Buffer.from(bytes)
  if (view.BYTES_PER_ELEMENT === 2) return copy.swap16()
  return view.BYTES_PER_ELEMENT === 4 ? copy.swap32() : copy.swap64()
}

/** Length and hash of a typed array's little-endian bytes: how the sidecars state a component. */
export function fingerprint(view) {
  const bytes = littleEndian(view)
  return { nbytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
}

/** An ArrayBuffer that holds these bytes and nothing else. */
export function arrayBufferOf(bytes) {
  const copy = new Uint8Array(bytes.length)
  copy.set(bytes)
  return copy.buffer
}

/** Asserts that two arrays are of one kind and hold the same bytes. `t.deepEqual` sorts the names of all their indices first: seconds, of a MiB. */
export function sameBytes(t, actual, expected, message = '') {
  t.is(actual.constructor, expected.constructor, message)
  t.is(actual.length, expected.length, message)
  const [one, other] = [viewBytes(actual), viewBytes(expected)]
  if (one.equals(other)) t.pass()
  else t.fail(`${message} differ from byte ${one.findIndex((byte, at) => byte !== other[at])} on`.trim())
}
