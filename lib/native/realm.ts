// Type checks that work across realms: `instanceof` only recognizes classes of its own realm, but node:vm, jsdom, Electron's frames and
// test runners such as jest create others. Objects that the binding creates may belong to yet another realm.
import { types } from '#host'

const TypedArray = Object.getPrototypeOf(Uint8Array.prototype) as object

/** A getter of %TypedArray%.prototype, which own properties of an array cannot override. */
export const ofTypedArrays = (property: PropertyKey) =>
  Object.getOwnPropertyDescriptor(TypedArray, property)?.get as () => unknown

const kind = ofTypedArrays(Symbol.toStringTag)

/** The name of a typed array's class ('Uint8Array' for a Buffer too); undefined for any other value. */
export function arrayKind(value: unknown): string | undefined {
  return kind.call(value) as string | undefined
}

export function isUint8Array(value: unknown): value is Uint8Array {
  return types.isUint8Array(value)
}

export function isMap(value: unknown): value is Map<unknown, unknown> {
  return types.isMap(value)
}

export function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

/** The message of a thrown value, which need not be an Error. */
export function messageOf(thrown: unknown): string {
  return isError(thrown) ? thrown.message : String(thrown)
}

/** Whether a value is a plain object: without a prototype, or with the Object.prototype of any realm. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null || prototype === Object.prototype) return true
  if (Object.getPrototypeOf(prototype) !== null) return false
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return typeof maker === 'function' && maker.name === 'Object'
}

/** The text of a URL object; undefined for any other value. Recognizes the same objects as Node's `fs`. */
export function urlText(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (value instanceof URL) return value.href
  const { href, protocol, auth, path } = value as Record<string, unknown>
  // Objects of the legacy url.parse() also have auth and path.
  const isURL = typeof href === 'string' && typeof protocol === 'string' && auth === undefined && path === undefined
  return isURL ? href : undefined
}
