// Converts values to JSON. Values that JSON cannot represent become strings; nothing is rounded silently.
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

/** Converts an attribute to JSON types, recursively: a Map to [key, value] pairs, bytes to { bytes: base64 }. `max`: items of a list. */
export function jsonAttribute(value: unknown, max?: number): unknown {
  if (typeof value === 'bigint') return jsonInteger(value)
  if (typeof value === 'number') return jsonFloat(value)
  if (value === undefined) return null
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') }
  if (Array.isArray(value)) return value.slice(0, max).map((item) => jsonAttribute(item, max))
  if (value instanceof Map) return Array.from(value, (pair) => pair.map((item) => jsonAttribute(item, max)))
  // Without a prototype, so that a key __proto__ is safe.
  const record: Record<string, unknown> = Object.create(null)
  for (const [key, item] of Object.entries(value)) record[key] = jsonAttribute(item, max)
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
