// Values of metadata on the command line.
import type { AttributeValue } from '../index.js'
import { checkUnique, pairsOf } from './pairs.js'

/** The JSON value of a text; undefined if it is none, or a number that JavaScript would round. */
function jsonValue(text: string): AttributeValue | undefined {
  if (/^-?(0|[1-9][0-9]*)$/.test(text)) return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text)
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Splits `key=value`. A value is text for keys of text, and otherwise JSON if it is valid JSON: a number, a bool, an array, a quoted text,
 * or `{"type":"uint32","value":5}` for a type of GGUF.
 */
export function settings(
  option: string,
  given: readonly string[],
  isText: (key: string) => boolean,
): Record<string, AttributeValue> {
  const pairs = pairsOf(option, 'KEY=VALUE', given)
  checkUnique(option, 'key', pairs)
  const values: Record<string, AttributeValue> = Object.create(null)
  for (const [key, text] of pairs) values[key] = isText(key) ? text : (jsonValue(text) ?? text)
  return { ...values }
}
