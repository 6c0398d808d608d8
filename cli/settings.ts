// Values of metadata on the command line.
import { closeSync, openSync, readSync } from 'node:fs'
import type { AttributeValue } from '../index.js'
import { errorMessage, UsageError } from './failure.js'
import { metadataOfJson } from './json.js'
import { checkUnique, pairsOf } from './pairs.js'

/** The JSON value of a text; undefined if it is none. */
function jsonValue(text: string): AttributeValue | undefined {
  try {
    return metadataOfJson(text)
  } catch {
    return undefined
  }
}

/** Bytes of a file whose text becomes a value: what one value of GGUF or safetensors may have in a file that opens by default. */
const MAX_BYTES = 64 * 2 ** 20

/** The bytes of a file, which may be a pipe. One that never ends is an error. */
function readBounded(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const parts: Buffer[] = []
    for (let total = 0; ; ) {
      const part = Buffer.allocUnsafe(2 ** 20)
      const count = readSync(file, part)
      if (count === 0) return Buffer.concat(parts)
      total += count
      if (total > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`)
      parts.push(part.subarray(0, count))
    }
  } finally {
    closeSync(file)
  }
}

/** The text of a file. */
function textOfFile(option: string, path: string, hint: string): string {
  let bytes: Buffer
  try {
    bytes = readBounded(path)
  } catch (error) {
    throw new UsageError(`${option} cannot read '${path}': ${errorMessage(error)}`, hint)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new UsageError(`${option} cannot use '${path}': it is not UTF-8`)
  }
}

/** The text of a value: that of a file for `@file`. A value that begins with `@@` is a text that begins with `@`. */
function textOf(option: string, given: string): string {
  if (!given.startsWith('@')) return given
  return given.startsWith('@@') ? given.slice(1) : textOfFile(option, given.slice(1), TEXT_HINT)
}

/** The keys and values of a file of JSON, as `ztensor metadata --json` prints them. */
function valuesOfFile(option: string, path: string): [string, AttributeValue][] {
  const value = jsonValue(textOfFile(option, path, FILE_HINT))
  if (value === undefined) throw new UsageError(`${option} cannot use '${path}': it is not JSON`, FILE_HINT)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== null)
    throw new UsageError(`${option} cannot use '${path}': it is not a JSON object of keys and values`, FILE_HINT)
  return Object.entries(value)
}

const TEXT_HINT = 'KEY=@FILE sets the text of a file. For a text that begins with @, write KEY=@@…'

const FILE_HINT = '@FILE sets all keys of a JSON object. `ztensor metadata FILE --json` prints one'

/**
 * Splits `key=value`. A value is text for keys of text, and otherwise JSON if it is valid JSON: a number, a bool, an array, a quoted text,
 * or `{"type":"uint32","value":5}` for a type of GGUF. `key=@file` takes the value from a file, and `@file` all keys of a JSON object.
 */
export function settings(
  option: string,
  given: readonly string[],
  isText: (key: string) => boolean,
): Record<string, AttributeValue> {
  const pairs = given.flatMap((item): [string, AttributeValue][] => {
    if (item.startsWith('@')) return valuesOfFile(option, item.slice(1))
    return pairsOf(option, 'KEY=VALUE or @FILE', [item]).map(([key, value]) => {
      const text = textOf(option, value)
      return [key, isText(key) ? text : (jsonValue(text) ?? text)]
    })
  })
  checkUnique(option, 'key', pairs)
  const values: Record<string, AttributeValue> = Object.create(null)
  for (const [key, value] of pairs) values[key] = value
  return { ...values }
}
