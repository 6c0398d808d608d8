// Values as JSON says them: what JSON has no word for becomes text, and nothing is rounded in silence.
import { printableJson } from './text.js'

/** A bigint as a number where a JSON reader keeps it exactly (up to 2^53), otherwise as text. */
export function jsonInteger(value: bigint): number | string {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value.toString()
}

/** A float as a number; NaN and the infinities, which JSON lacks, as 'NaN', 'Infinity' and '-Infinity'. */
export function jsonFloat(value: number): number | string {
  return Number.isFinite(value) ? value : String(value)
}

/** An attribute (any depth) with only JSON's types in it: a Map becomes [key, value] pairs, bytes become { bytes: base64 }. */
export function jsonAttribute(value: unknown): unknown {
  if (typeof value === 'bigint') return jsonInteger(value)
  if (typeof value === 'number') return jsonFloat(value)
  if (value === undefined) return null
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') }
  if (Array.isArray(value)) return value.map(jsonAttribute)
  if (value instanceof Map) return Array.from(value, ([key, item]) => [jsonAttribute(key), jsonAttribute(item)])
  // No prototype: a key called __proto__ is a key.
  const record: Record<string, unknown> = Object.create(null)
  for (const [key, item] of Object.entries(value)) record[key] = jsonAttribute(item)
  return record
}

/** `value` as JSON that a terminal can show. */
export function jsonText(value: unknown, indent = 0): string {
  return printableJson(JSON.stringify(value, undefined, indent))
}

/** One JSON array, an element on each line: it is one document, and `grep` still finds an element. */
export function* jsonLines(values: Iterable<unknown>): Generator<string> {
  let previous: string | undefined
  for (const value of values) {
    yield previous === undefined ? '[' : `${previous},`
    previous = ` ${jsonText(value)}`
  }
  yield previous === undefined ? '[' : previous
  yield ']'
}

/** `value` as one line of JSON. */
export function jsonLine(value: unknown): string {
  return `${printableJson(JSON.stringify(value))}\n`
}
