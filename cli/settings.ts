// Values of metadata on the command line.
import { closeSync, openSync, readSync } from 'node:fs'
import type { AttributeValue } from '../index.js'
import { errorMessage, UsageError } from './failure.js'
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

/** The text of a value: that of a file for `@file`. A value that begins with `@@` is a text that begins with `@`. */
function textOf(option: string, given: string): string {
  if (!given.startsWith('@')) return given
  if (given.startsWith('@@')) return given.slice(1)
  const path = given.slice(1)
  let bytes: Buffer
  try {
    bytes = readBounded(path)
  } catch (error) {
    throw new UsageError(`${option} cannot read '${path}': ${errorMessage(error)}`, TEXT_HINT)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new UsageError(`${option} cannot use '${path}': it is not UTF-8`)
  }
}

const TEXT_HINT = 'KEY=@FILE sets the text of a file. For a text that begins with @, write KEY=@@…'

/**
 * Splits `key=value`. A value is text for keys of text, and otherwise JSON if it is valid JSON: a number, a bool, an array, a quoted text,
 * or `{"type":"uint32","value":5}` for a type of GGUF. `key=@file` takes the value from a file.
 */
export function settings(
  option: string,
  given: readonly string[],
  isText: (key: string) => boolean,
): Record<string, AttributeValue> {
  const pairs = pairsOf(option, 'KEY=VALUE', given)
  checkUnique(option, 'key', pairs)
  const values: Record<string, AttributeValue> = Object.create(null)
  for (const [key, value] of pairs) {
    const text = textOf(option, value)
    values[key] = isText(key) ? text : (jsonValue(text) ?? text)
  }
  return { ...values }
}
