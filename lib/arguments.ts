// Arguments are checked here, before they reach native code: expected what, got what.
import { fileURLToPath } from 'node:url'
import { inspect, types } from 'node:util'
import type { DTypeInfo, TypedArray } from './dtype.js'
import { invalid } from './errors.js'
import { arrayKind } from './realm.js'

function got(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
    return typeof name === 'string' && name !== '' ? `an instance of ${name}` : 'an object'
  }
  return inspect(value, { maxStringLength: 40, breakLength: Number.POSITIVE_INFINITY })
}

/** The error of an argument of the wrong type. */
export function wrongType(name: string, expected: string, value: unknown): Error {
  return invalid(TypeError, `${name} must be ${expected}, got ${got(value)}`)
}

export function aString(name: string, value: unknown): string {
  if (typeof value !== 'string') throw wrongType(name, 'a string', value)
  return value
}

/** A string that a file can hold: one with half a surrogate pair has no UTF-8. */
export function aText(name: string, value: unknown): string {
  const text = aString(name, value)
  if (!text.isWellFormed()) throw invalid(RangeError, `${name} must be well-formed text, got ${inspect(text)}`)
  return text
}

/** A whole number from `least` on. */
export function aWholeNumber(name: string, value: unknown, least = 0): number {
  if (typeof value !== 'number') throw wrongType(name, 'a whole number', value)
  if (!Number.isSafeInteger(value) || value < least) {
    throw invalid(RangeError, `${name} must be a whole number from ${least} to 2^53 - 1, got ${value}`)
  }
  return value
}

export function optional<T>(value: unknown, check: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : check(value)
}

/** Something with properties. */
export function anObject<T>(name: string, value: T): T & object {
  if (typeof value !== 'object' || value === null) throw wrongType(name, 'an object', value)
  return value
}

export function aFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw wrongType(name, 'a function', value)
}

/** An options object, read once so that getters cannot give two answers. */
export function options<T extends object>(
  value: T | undefined,
  known: readonly (keyof T & string)[],
  name = 'options',
): Partial<T> {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null) throw wrongType(name, 'an object', value)
  const read: Partial<T> = {}
  for (const key of known) {
    const option = value[key]
    if (option !== undefined) read[key] = option
  }
  return read
}

export function oneOf<T extends string>(name: string, allowed: readonly T[], value: unknown): T {
  if (!allowed.includes(value as T)) throw wrongType(name, `one of ${allowed.map((a) => `'${a}'`).join(', ')}`, value)
  return value as T
}

export function aBoolean(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw wrongType(name, 'a boolean', value)
  return value
}

export function aSignal(value: unknown): AbortSignal {
  const signal = value as Partial<AbortSignal> | null
  const does = (['throwIfAborted', 'addEventListener', 'removeEventListener'] as const).every(
    (method) => typeof signal?.[method] === 'function',
  )
  if (!does) throw wrongType('signal', 'an AbortSignal', value)
  return value as AbortSignal
}

/** An array to fill: of the dtype's own type, or bytes. */
export function aTarget(value: unknown, dtype: DTypeInfo, length: number): ArrayBufferView {
  // Version 2 pads the last byte of a packed type.
  const byteLength = Math.ceil((length * dtype.bits) / 8)
  if (!types.isTypedArray(value) || ![dtype.array.name, 'Uint8Array'].includes(arrayKind(value) as string)) {
    throw wrongType('into', `a ${dtype.array.name} or Uint8Array`, value)
  }
  if (value.byteLength !== byteLength) {
    throw invalid(RangeError, `into must have ${byteLength} bytes, got ${value.byteLength}`)
  }
  return value
}

export function aTypedArray(name: string, value: unknown): TypedArray {
  if (!types.isTypedArray(value)) throw wrongType(name, 'a typed array', value)
  return value as TypedArray
}

/** The path of a file: URL, as it is spelled. */
export function filePath(name: string, url: string): string {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    const message = `${name} must be a file: URL of this machine, got ${url} (read it into memory first)`
    throw Object.assign(invalid(TypeError, message), { cause })
  }
}
