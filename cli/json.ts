// Converts values to JSON. Values that JSON cannot represent become strings; nothing is rounded silently.
import type { AttributeValue } from '../index.js'
import { printableJson } from './text.js'

/** Converts a bigint to a number if that is exact in JSON (up to 2^53), otherwise to a string. */
export function jsonInteger(value: bigint): number | string {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value.toString()
}

/** Converts NaN and infinities, which JSON cannot represent, to the strings 'NaN', 'Infinity' and '-Infinity'. */
export function jsonFloat(value: number): number | string {
  return Number.isFinite(value) ? value : String(value)
}

/** What `metadataJson` writes for a value that JSON lacks: an object with one of these keys. */
const WRAPPERS = ['bytes', 'integer', 'number', 'map'] as const

/** Values that have no JSON of their own, as they are shown. */
function wrapped(value: unknown, exact: boolean): unknown {
  if (typeof value === 'bigint') {
    const shown = jsonInteger(value)
    return exact && typeof shown === 'string' ? { integer: shown } : shown
  }
  if (typeof value === 'number' && exact && !isPlain(value)) return { number: Object.is(value, -0) ? '-0' : `${value}` }
  return typeof value === 'number' ? jsonFloat(value) : value
}

/** True if the JSON of a number is that number again, and not an integer with all its digits. */
const isPlain = (value: number): boolean =>
  Number.isInteger(value) ? Number.isSafeInteger(value) && !Object.is(value, -0) : Number.isFinite(value)

/** Converts `value` to JSON types, recursively. `max`: items of a list. `exact`: `metadataOfJson` must give the value back. */
function jsonOf(value: unknown, max: number | undefined, exact: boolean): unknown {
  if (value === undefined) return null
  if (typeof value !== 'object' || value === null) return wrapped(value, exact)
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') }
  if (Array.isArray(value)) return value.slice(0, max).map((item) => jsonOf(item, max, exact))
  const pairs = value instanceof Map ? [...value] : Object.entries(value)
  const isMap = value instanceof Map || (exact && pairs.length === 1 && WRAPPERS.includes(pairs[0]?.[0] as never))
  if (isMap) {
    const items = pairs.map((pair) => pair.map((item) => jsonOf(item, max, exact)))
    return exact ? { map: items } : items
  }
  // Without a prototype, so that a key __proto__ is safe.
  const record: Record<string, unknown> = Object.create(null)
  for (const [key, item] of pairs) record[key] = jsonOf(item, max, exact)
  return record
}

/**
 * Converts an attribute to JSON types, recursively, for people: integers beyond 2^53, NaN and infinities to strings, a Map to
 * [key, value] pairs, bytes to { bytes: base64 }. `max`: items of a list.
 */
export function jsonAttribute(value: unknown, max?: number): unknown {
  return jsonOf(value, max, false)
}

/**
 * Converts a value of metadata to JSON that `metadataOfJson` reads back. What JSON lacks becomes an object with one key: `bytes` (base64),
 * `integer` (beyond 2^53), `number` (a float: 'NaN', '-Infinity', '-0', or beyond 2^53) or `map` ([key, value] pairs).
 */
export function metadataJson(value: unknown): unknown {
  return jsonOf(value, undefined, true)
}

/** Parses JSON, with the values that `metadataJson` writes. Integers keep all digits. Throws if `text` is not JSON. */
export function metadataOfJson(text: string): AttributeValue {
  let inText = false
  const exact = text.replace(/\\.|"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs, (token) => {
    if (token === '"') inText = !inText
    return inText || !/^-?\d+$/.test(token) || Number.isSafeInteger(Number(token)) ? token : `{"integer":"${token}"}`
  })
  return unwrap(JSON.parse(exact))
}

const isPairs = (value: unknown): value is [unknown, unknown][] =>
  Array.isArray(value) && value.every((pair) => Array.isArray(pair) && pair.length === 2)

/** The value of what `JSON.parse` returned. */
function unwrap(value: unknown): AttributeValue {
  if (typeof value !== 'object' || value === null) return value as AttributeValue
  if (Array.isArray(value)) return value.map(unwrap)
  const pairs = Object.entries(value)
  const [key, given] = pairs.length === 1 ? (pairs[0] as [string, unknown]) : []
  if (key === 'bytes' && typeof given === 'string') {
    const bytes = Buffer.from(given, 'base64')
    if (bytes.toString('base64') === given) return new Uint8Array(bytes)
  }
  if (key === 'integer' && typeof given === 'string' && /^-?\d+$/.test(given)) return BigInt(given)
  if (key === 'number' && typeof given === 'string' && (given === '-0' || `${Number(given)}` === given))
    return Number(given)
  const entries = key === 'map' && isPairs(given) ? given : pairs
  if (entries.some(([name]) => typeof name !== 'string'))
    return new Map(entries.map(([name, item]) => [unwrap(name), unwrap(item)]))
  const record: Record<string, AttributeValue> = Object.create(null)
  for (const [name, item] of entries) record[name as string] = unwrap(item)
  return record
}

/** Formats `value` as JSON that is safe for a terminal. */
export function jsonText(value: unknown, indent = 0): string {
  return printableJson(JSON.stringify(value, undefined, indent))
}

/** Formats one JSON array with an element on each line, so that `grep` finds elements. */
export function* jsonLines(values: Iterable<unknown>): Generator<string> {
  let previous: string | undefined
  for (const value of values) {
    yield previous === undefined ? '[' : `${previous},`
    previous = ` ${jsonText(value)}`
  }
  yield previous === undefined ? '[' : previous
  yield ']'
}

/** Formats `value` as one line of JSON. */
export function jsonLine(value: unknown): string {
  return `${printableJson(JSON.stringify(value))}\n`
}
