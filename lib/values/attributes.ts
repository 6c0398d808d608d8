import { inspect } from '#host'
import type { FlatAttributes } from '../native/binding.js'
import { isMap, isUint8Array } from '../native/realm.js'

/** A value of a file's metadata or a tensor's attributes. Integers beyond 2^53 - 1 are bigints. */
export type AttributeValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | Uint8Array
  | readonly AttributeValue[]
  | AttributeObject
  | Map<AttributeValue, AttributeValue>

/** A map whose keys are all strings: an object without a prototype, so that any key is safe. */
export interface AttributeObject {
  readonly [key: string]: AttributeValue
}

/** Attributes of a tensor: an object without a prototype, or a Map if any key is not a string. Distinguish them with `instanceof Map`. */
export type Attributes = AttributeObject | Map<AttributeValue, AttributeValue>

/** The marks on the tape before each value, and what follows each mark. They match those of the binding. */
const Mark = {
  null: 0,
  false: 1,
  true: 2,
  /** Followed by the number. */
  number: 3,
  /** Followed by its length in the current string. */
  text: 4,
  /** Followed by nothing: the value is the next of `others`. */
  other: 5,
  /** Followed by the number of items, and the items. */
  list: 6,
  /** Followed by the number of keys and values together, and alternating keys and values. */
  map: 7,
  /** Followed by nothing, and not a value: continue with the next string. */
  nextString: 8,
  /** In a list: followed by a count, and as many numbers. */
  numbers: 9,
  /** In a list: followed by a count, and as many lengths of texts. */
  texts: 10,
  /** Followed by its length in the bytes. */
  bytes: 11,
  /** In a list: followed by a count, and as many lengths of byte strings. */
  byteStrings: 12,
  /** At the end of a list of an outline: followed by the number of items that are left out. */
  leftOut: 13,
} as const

/** Decodes attributes from the binding's tape. */
export function thaw({ tape, texts, bytes, others }: FlatAttributes): Attributes {
  let at = 0
  let string = 0
  let text = texts[0] as string
  let start = 0
  let other = 0
  let byte = bytes.byteOffset
  // Empty arrays cannot be told apart, except by identity.
  const empty = new Uint8Array(0)

  /** A view: all byte strings share a buffer. */
  function nextBytes(length: number): Uint8Array {
    if (length === 0) return empty
    byte += length
    return new Uint8Array(bytes.buffer, byte - length, length)
  }

  function nextText(length: number): string {
    const part = text.substring(start, start + length)
    start += length
    return part
  }

  function turn(): void {
    text = texts[++string] as string
    start = 0
  }

  function value(): AttributeValue {
    switch (tape[at++]) {
      case Mark.number:
        return tape[at++] as number
      case Mark.text:
        return nextText(tape[at++] as number)
      case Mark.list:
        return list(tape[at++] as number)
      case Mark.map:
        return map(tape[at++] as number)
      case Mark.other:
        return others[other++] as bigint
      case Mark.bytes:
        return nextBytes(tape[at++] as number)
      case Mark.nextString:
        turn()
        return value()
      case Mark.null:
        return null
      default:
        return tape[at - 1] === Mark.true
    }
  }

  /** Reads a list. The array is allocated at its full length: growing it would cost as much as its items. */
  function list(count: number): readonly AttributeValue[] {
    const items: AttributeValue[] = new Array(count)
    let item = 0
    while (item < count) {
      const mark = tape[at]
      if (mark === Mark.numbers || mark === Mark.texts || mark === Mark.byteStrings) {
        const end = item + (tape[at + 1] as number)
        at += 2
        if (mark === Mark.numbers) while (item < end) items[item++] = tape[at++] as number
        else if (mark === Mark.texts) while (item < end) items[item++] = nextText(tape[at++] as number)
        else while (item < end) items[item++] = nextBytes(tape[at++] as number)
      } else if (mark === Mark.nextString) {
        at++
        turn()
      } else items[item++] = value()
    }
    if (tape[at] === Mark.leftOut) {
      items.length += tape[at + 1] as number
      at += 2
    }
    return Object.freeze(items)
  }

  function map(count: number): Attributes {
    const keys: AttributeValue[] = []
    const values: AttributeValue[] = []
    for (let item = 0; item < count; item += 2) {
      keys.push(value())
      values.push(value())
    }
    if (keys.some((key) => typeof key !== 'string'))
      return new Map(keys.map((key, item) => [key, values[item] ?? null]))
    const object: Record<string, AttributeValue> = Object.create(null)
    keys.forEach((key, item) => {
      object[key as string] = values[item] ?? null
    })
    return Object.freeze(object)
  }

  return map(tape[at++] as number)
}

/** The text of a key that is not a string: numbers and words as JavaScript writes them, bytes as `h'0aff'`, other keys as JSON. */
function keyText(key: AttributeValue): string {
  if (isUint8Array(key)) return `h'${Buffer.from(key).toString('hex')}'`
  return typeof key === 'object' && key !== null ? (attributeJson(key) ?? inspect(key)) : String(key)
}

/** The values of a map by the texts of their keys. Of two keys with one text, the later one gets a suffix: `7~2`. */
export function withTextKeys(map: Attributes): AttributeObject {
  if (!isMap(map)) return map
  const object: Record<string, AttributeValue> = Object.create(null)
  // Keys that are strings keep their text.
  for (const [key, value] of map) if (typeof key === 'string') object[key] = value
  const copies = new Map<string, number>()
  for (const [key, value] of map) {
    if (typeof key === 'string') continue
    const text = keyText(key)
    let copy = copies.get(text) ?? 1
    let free = text
    while (free in object) free = `${text}~${++copy}`
    copies.set(text, copy)
    object[free] = value
  }
  return Object.freeze(object)
}

/** The JSON of a plain value; undefined if it contains bytes, numbers that JSON lacks, or keys that are not strings. */
export function attributeJson(value: AttributeValue): string | undefined {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value)
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? JSON.stringify(value) : undefined
  if (ArrayBuffer.isView(value) || isMap(value)) return undefined
  if (Array.isArray(value)) {
    const items = value.map(attributeJson)
    return items.includes(undefined) ? undefined : `[${items.join(',')}]`
  }
  const members = Object.entries(value).map(([key, item]) => {
    const text = attributeJson(item)
    return text === undefined ? undefined : `${JSON.stringify(key)}:${text}`
  })
  return members.includes(undefined) ? undefined : `{${members.join(',')}}`
}
