import type { FlatAttributes } from '../native/binding.js'
import { invalid } from '../native/errors.js'
import { isMap, isPlainObject, isUint8Array } from '../native/realm.js'
import { validateText, wrongType } from './arguments.js'

/** A value of a file's or a tensor's attributes. Integers beyond 2^53 - 1 are bigints. */
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

/** A map whose keys are all text: an object without a prototype, so that every key is just a key. */
export interface AttributeObject {
  readonly [key: string]: AttributeValue
}

/** Attributes: an object without a prototype, or a Map where keys are not text; `instanceof Map` tells them apart. */
export type Attributes = AttributeObject | Map<AttributeValue, AttributeValue>

interface TaggedMap {
  map: unknown[]
}

/** What stands on the tape before each value, and what follows it there. The order is that of the binding. */
const Mark = {
  null: 0,
  false: 1,
  true: 2,
  /** The number. */
  number: 3,
  /** Its length, of the current string. */
  text: 4,
  /** Nothing: it is the next of the others. */
  other: 5,
  /** The number of items, and these. */
  list: 6,
  /** The number of keys and values together, and these in turn. */
  map: 7,
  /** Nothing, and no value: the texts go on in the next string. */
  nextString: 8,
  /** In a list: how many numbers follow, and these. */
  numbers: 9,
  /** In a list: how many texts follow, and the length of each. */
  texts: 10,
} as const

/** Makes attributes of what crossed the binding. */
export function thaw({ tape, texts, others }: FlatAttributes): Attributes {
  let at = 0
  let string = 0
  let text = texts[0] as string
  let start = 0
  let other = 0

  function cut(length: number): string {
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
        return cut(tape[at++] as number)
      case Mark.list:
        return list(tape[at++] as number)
      case Mark.map:
        return map(tape[at++] as number)
      case Mark.other:
        return others[other++] as Uint8Array | bigint
      case Mark.nextString:
        turn()
        return value()
      case Mark.null:
        return null
      default:
        return tape[at - 1] === Mark.true
    }
  }

  /** At its full length from the start: an array that grows costs as much as its items. */
  function list(count: number): readonly AttributeValue[] {
    const items: AttributeValue[] = new Array(count)
    let item = 0
    while (item < count) {
      const mark = tape[at]
      if (mark === Mark.numbers || mark === Mark.texts) {
        const end = item + (tape[at + 1] as number)
        at += 2
        if (mark === Mark.numbers) while (item < end) items[item++] = tape[at++] as number
        else while (item < end) items[item++] = cut(tape[at++] as number)
      } else if (mark === Mark.nextString) {
        at++
        turn()
      } else items[item++] = value()
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

/** Those that are text under a text. */
export function textsOf(attributes: Attributes): Readonly<Record<string, string>> {
  const texts: Record<string, string> = Object.create(null)
  const entries = isMap(attributes) ? attributes : Object.entries(attributes)
  for (const [key, value] of entries) if (typeof key === 'string' && typeof value === 'string') texts[key] = value
  return Object.freeze(texts)
}

/** A value to write as an attribute. */
export type AttributeValueInput =
  | string
  | number
  | bigint
  | boolean
  | null
  | Uint8Array
  | readonly AttributeValueInput[]
  | AttributeInput

/** Attributes to write: an object, or a Map where keys are not text. */
export type AttributeInput =
  | { readonly [key: string]: AttributeValueInput }
  | ReadonlyMap<AttributeValueInput, AttributeValueInput>

/** As deep as the reader follows. */
const DEPTH = 64

/** What a key is in the file, where 1 and 1n are the same. */
function identity(name: string, key: unknown): string {
  if (isUint8Array(key)) return `bytes ${Buffer.from(key).toString('hex')}`
  if (typeof key === 'object' && key !== null) throw wrongType(name, 'a text, a number, a boolean, null or bytes', key)
  return typeof key === 'string'
    ? `text ${key}`
    : `${typeof key === 'boolean' || key === null ? 'word' : 'number'} ${key}`
}

/** A map of attributes on its way across the binding, its kinds and depth checked. */
export function freezeMap(name: string, value: unknown, depth = DEPTH): TaggedMap {
  if (depth < 1) throw invalid(RangeError, `${name} is nested more than ${DEPTH} deep`)
  const map: unknown[] = []
  const seen = new Set<string>()
  for (const [key, item] of entriesOf(name, value)) {
    const same = identity(`a key of ${name}`, key)
    if (seen.has(same)) throw invalid(RangeError, `${name} has the key ${String(key)} twice`)
    seen.add(same)
    map.push(freeze(`a key of ${name}`, key, depth - 1), freeze(`${name}.${String(key)}`, item, depth - 1))
  }
  return { map }
}

/** Attributes to change: what has a value is set, what is undefined is taken out, all else stays. */
export type AttributeChanges =
  | { readonly [key: string]: AttributeValueInput | undefined }
  | ReadonlyMap<AttributeValueInput, AttributeValueInput | undefined>

/** Changes on their way across the binding: what to set, and a map whose keys are to be taken out. */
export function freezeChanges(name: string, value: unknown): { set: TaggedMap; unset: TaggedMap } {
  const entries = [...entriesOf(name, value)]
  const gone = (item: unknown): boolean => item === undefined
  // All keys together, so that no two of them are one in the file.
  freezeMap(name, new Map(entries.map(([key]) => [key, null])))
  return {
    set: freezeMap(name, new Map(entries.filter(([, item]) => !gone(item)))),
    unset: freezeMap(name, new Map(entries.filter(([, item]) => gone(item)).map(([key]) => [key, null]))),
  }
}

/** The entries of a Map or of an object that is nothing else. */
function entriesOf(name: string, value: unknown): Iterable<[unknown, unknown]> {
  if (isMap(value)) return value
  if (!isPlainObject(value)) throw wrongType(name, 'a plain object or a Map', value)
  return Object.entries(value)
}

function freeze(name: string, value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return validateText(name, value)
    case 'number':
    case 'bigint':
    case 'boolean':
      return value
    case 'object':
      if (value === null || isUint8Array(value)) return value
      if (!Array.isArray(value)) return freezeMap(name, value, depth)
      if (depth < 1) throw invalid(RangeError, `${name} is nested more than ${DEPTH} deep`)
      // Array.from sees the holes that map() skips.
      return { list: Array.from(value, (item, at) => freeze(`${name}[${at}]`, item, depth - 1)) }
    default:
      throw wrongType(name, 'a value that a file can hold', value)
  }
}
