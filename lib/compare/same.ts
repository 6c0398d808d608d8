// Whether two values of attributes are equal. Shared with browsers, which lack `isDeepStrictEqual`.
import { isMap, isUint8Array } from '../native/realm.js'

/** Returns whether two values are equal, as `isDeepStrictEqual` of Node does: NaN equals NaN, 0 is not -0, and keys have no order. */
export function isSame(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b)
  if (isUint8Array(a) !== isUint8Array(b) || Array.isArray(a) !== Array.isArray(b) || isMap(a) !== isMap(b))
    return false
  if (isUint8Array(a) || Array.isArray(a)) {
    const [left, right] = [a, b] as [ArrayLike<unknown>, ArrayLike<unknown>]
    for (let at = 0; at < left.length; at++) if (!isSame(left[at], right[at])) return false
    return left.length === right.length
  }
  const [others, own] = [mapOf(b), mapOf(a)]
  return own.size === others.size && Array.from(own).every((entry) => hasEntry(others, entry))
}

const mapOf = (value: object): ReadonlyMap<unknown, unknown> =>
  isMap(value) ? (value as Map<unknown, unknown>) : new Map(Object.entries(value))

function hasEntry(map: ReadonlyMap<unknown, unknown>, [key, value]: readonly [unknown, unknown]): boolean {
  if (map.has(key)) return isSame(value, map.get(key))
  // Only a key that is a list, bytes or a map equals another object.
  return typeof key === 'object' && Array.from(map).some(([other, item]) => isSame(key, other) && isSame(value, item))
}
