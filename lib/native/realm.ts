// What a value is, whichever realm made it: `instanceof` knows the classes of its own realm alone, and node:vm, jsdom, Electron's
// frames and test runners such as jest have others. Where a runner loads this package into a realm, what the binding makes is of
// another one still.
import { types } from 'node:util'

const TypedArray = Object.getPrototypeOf(Uint8Array.prototype) as object

/** A getter of every typed array, whatever properties an array was given. */
export const ofTypedArrays = (property: PropertyKey) =>
  Object.getOwnPropertyDescriptor(TypedArray, property)?.get as () => unknown

const kind = ofTypedArrays(Symbol.toStringTag)

/** The name of a typed array's class as the language has it ('Uint8Array' of a Buffer too); undefined for anything else. */
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

/** What a thrown value says: anything can be thrown. */
export function messageOf(thrown: unknown): string {
  return isError(thrown) ? thrown.message : String(thrown)
}

/** An object that is nothing else: without a prototype, or with the one of all objects in its realm. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null || prototype === Object.prototype) return true
  if (Object.getPrototypeOf(prototype) !== null) return false
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return typeof maker === 'function' && maker.name === 'Object'
}

/** What a URL spells; undefined for what is none. Node's `fs` takes the same for one. */
export function urlText(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (value instanceof URL) return value.href
  const { href, protocol, auth, path } = value as Record<string, unknown>
  // Those of the old url.parse() have all four.
  const isURL = typeof href === 'string' && typeof protocol === 'string' && auth === undefined && path === undefined
  return isURL ? href : undefined
}
