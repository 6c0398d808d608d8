// Validates arguments before they reach native code. Messages say what was expected and what was passed.
import { fileURLToPath, inspect, types } from '#host'
import { invalid } from '../native/errors.js'
import { arrayKind } from '../native/realm.js'
import type { DTypeInfo, TypedArray } from './dtype.js'

function got(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
    return typeof name === 'string' && name !== '' ? `an instance of ${name}` : 'an object'
  }
  return inspect(value, { maxStringLength: 40, breakLength: Number.POSITIVE_INFINITY })
}

/** The option or argument that a message begins with, unless it is a description or a part of a list. */
function named(name: string): { option?: string } {
  return /^[a-z][\w.]*$/i.test(name) ? { option: name } : {}
}

/** The error for an argument of the wrong type. */
export function wrongType(name: string, expected: string, value: unknown): Error {
  return invalid(TypeError, `${name} must be ${expected}, got ${got(value)}`, named(name))
}

export function validateString(name: string, value: unknown): string {
  if (typeof value !== 'string') throw wrongType(name, 'a string', value)
  return value
}

/** Validates a string that can be encoded as UTF-8: it must not contain lone surrogates. */
export function validateText(name: string, value: unknown): string {
  const text = validateString(name, value)
  if (!text.isWellFormed())
    throw invalid(RangeError, `${name} must be well-formed text, got ${inspect(text)}`, named(name))
  return text
}

/** Validates an integer of at least `min`. */
export function validateInteger(name: string, value: unknown, min = 0): number {
  if (typeof value !== 'number') throw wrongType(name, 'a whole number', value)
  if (!Number.isSafeInteger(value) || value < min) {
    throw invalid(RangeError, `${name} must be a whole number from ${min} to 2^53 - 1, got ${value}`, named(name))
  }
  return value
}

export function optional<T>(value: unknown, check: (value: unknown) => T): T | undefined {
  return value === undefined ? undefined : check(value)
}

/** Validates a non-null object. */
export function validateObject<T>(name: string, value: T): T & object {
  if (typeof value !== 'object' || value === null) throw wrongType(name, 'an object', value)
  return value
}

export function validateFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw wrongType(name, 'a function', value)
}

/**
 * Throws if a function of the caller returned a promise: calls use the value at once, and a promise is always truthy. `name` is the option.
 */
export function refusePromise(name: string, returned: unknown): void {
  const { then } = (returned ?? {}) as Partial<PromiseLike<unknown>>
  if (typeof then !== 'function') return
  // An unhandled rejection would end the process.
  then.call(returned, undefined, () => {})
  throw invalid(
    TypeError,
    `${name} must not be async: it returned a promise, but its value is used at once`,
    named(name),
  )
}

/**
 * Reads an options object. Each option is read once, so that getters cannot return different values. Rejects options that are not
 * `known`, because a misspelled option would be ignored silently. `takenBy`: the calls that take other options.
 */
export function readOptions<T extends object>(
  value: T | undefined,
  known: readonly (keyof T & string)[],
  name = 'options',
  takenBy: Readonly<Record<string, string>> = {},
): Partial<T> {
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null || isIterable(value)) {
    throw wrongType(name, `an object with any of ${known.join(', ')}`, value)
  }
  validateKeys(name, value, known, takenBy)
  const read: Partial<T> = {}
  for (const key of known) {
    const option = value[key]
    if (option !== undefined) read[key] = option
  }
  return read
}

export function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof (value as Iterable<unknown> | null | undefined)?.[Symbol.iterator] === 'function'
}

/**
 * Throws if an object has keys that are not `known`. The message suggests similar keys, or the method that accepts an object with a key
 * of `takenBy`.
 */
export function validateKeys(
  name: string,
  value: object,
  known: readonly string[],
  takenBy: Readonly<Record<string, string>> = {},
): void {
  const keys = Object.keys(value)
  for (const key of keys) {
    if (known.includes(key)) continue
    const other = keys.find((key) => Object.hasOwn(takenBy, key))
    if (other !== undefined)
      throw invalid(TypeError, `${name} has the key ${other}: pass it to ${takenBy[other]} instead`)
    const close = closeTo(key, known)
    const hint = close.length > 0 ? `did you mean ${close.join(' or ')}?` : `the known keys are ${known.join(', ')}`
    throw invalid(TypeError, `${name} has an unknown key ${inspect(key, { maxStringLength: 40 })}: ${hint}`)
  }
}

/** The known names that are similar to a misspelled one: a substring, or with a few different letters. */
function closeTo(given: string, known: readonly string[]): string[] {
  const wanted = given.slice(0, 64).toLowerCase()
  return known.filter((name) => {
    const other = name.toLowerCase()
    const part = wanted.length > 2 && (other.includes(wanted) || wanted.includes(other))
    return part || distance(wanted, other) <= Math.max(1, Math.floor(other.length / 3))
  })
}

/** The Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[b.length] as number
}

export function validateOneOf<T extends string>(name: string, allowed: readonly T[], value: unknown): T {
  if (!allowed.includes(value as T)) throw wrongType(name, `one of ${allowed.map((a) => `'${a}'`).join(', ')}`, value)
  return value as T
}

export function validateBoolean(name: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw wrongType(name, 'a boolean', value)
  return value
}

export function validateAbortSignal(value: unknown): AbortSignal {
  const signal = value as Partial<AbortSignal> | null
  const does = (['throwIfAborted', 'addEventListener', 'removeEventListener'] as const).every(
    (method) => typeof signal?.[method] === 'function',
  )
  if (!does) throw wrongType('signal', 'an AbortSignal', value)
  return value as AbortSignal
}

/** `an Int8Array`, `a Float32Array`. */
export function withArticle(name: string): string {
  return `${name.startsWith('Int') ? 'an' : 'a'} ${name}`
}

/** Validates an array to fill: of the dtype's array type, or a Uint8Array. */
export function validateInto(value: unknown, dtype: DTypeInfo, length: number): ArrayBufferView {
  // Version 2 pads the last byte of a packed type.
  const byteLength = Math.ceil((length * dtype.bits) / 8)
  if (!types.isTypedArray(value) || ![dtype.array.name, 'Uint8Array'].includes(arrayKind(value) as string)) {
    throw wrongType('into', `${withArticle(dtype.array.name)} or Uint8Array`, value)
  }
  if (value.byteLength !== byteLength) {
    throw invalid(RangeError, `into must have ${byteLength} bytes, got ${value.byteLength}`)
  }
  return value
}

export function validateTypedArray(name: string, value: unknown): TypedArray {
  if (!types.isTypedArray(value)) throw wrongType(name, 'a typed array', value)
  return value as TypedArray
}

/** The path of a file: URL. */
export function filePath(name: string, url: string): string {
  try {
    return fileURLToPath(url)
  } catch (cause) {
    const message = `${name} must be a file: URL of this machine, got ${url} (download it, or pass its bytes)`
    throw Object.assign(invalid(TypeError, message), { cause })
  }
}
