// Attributes as callers give them: their validation, and their form for the binding.
import { invalid } from '../native/errors.js'
import { isMap, isPlainObject, isUint8Array } from '../native/realm.js'
import { validateText, wrongType } from './arguments.js'

interface TaggedMap {
  map: unknown[]
}

/** A value to write as metadata or as an attribute. */
export type AttributeValueInput =
  | string
  | number
  | bigint
  | boolean
  | null
  | Uint8Array
  | readonly AttributeValueInput[]
  | AttributeInput

/** Metadata or attributes to write: an object, or a Map with keys of any type. */
export type AttributeInput =
  | { readonly [key: string]: AttributeValueInput }
  | ReadonlyMap<AttributeValueInput, AttributeValueInput>

/** The maximum nesting depth, the same as when reading. */
const DEPTH = 64

/** The identity of a key in the file, where 1 and 1n are equal. */
function identity(name: string, key: unknown): string {
  if (isUint8Array(key)) return `bytes ${Array.from(key, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
  if (typeof key === 'object' && key !== null)
    throw wrongType(name, 'a string, a number, a boolean, null or bytes', key)
  return typeof key === 'string'
    ? `text ${key}`
    : `${typeof key === 'boolean' || key === null ? 'word' : 'number'} ${key}`
}

/** Validates attributes, and encodes them for the binding. */
export function freezeMap(name: string, value: unknown, depth = DEPTH): TaggedMap {
  if (depth < 1) throw invalid(RangeError, `${name} must not be nested more than ${DEPTH} levels deep`)
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

/** Metadata or attributes to change: an undefined value removes its key, any other value sets it. All other keys stay. */
export type AttributeChanges =
  | { readonly [key: string]: AttributeValueInput | undefined }
  | ReadonlyMap<AttributeValueInput, AttributeValueInput | undefined>

/** The error for a key of `metadata` that is to be removed and does not exist. */
export const missingKey = (shown: string): Error =>
  invalid(RangeError, `metadata: there is no key ${shown} to remove`, { option: 'metadata' })

/** Throws for a key that is to be removed from the metadata of a new file, which has none. */
export function checkRemoved({ metadata }: { metadata?: unknown }): void {
  if (metadata === undefined) return
  for (const [key, item] of entriesOf('metadata', metadata))
    if (item === undefined) throw missingKey(typeof key === 'string' ? JSON.stringify(key) : String(key))
}

/** Changes, and later ones that take precedence. */
export function mergeChanges(
  changes: AttributeChanges | undefined,
  later: AttributeChanges | undefined,
): AttributeChanges {
  const all = new Map([...entriesOf('metadata', changes ?? {}), ...entriesOf('metadata', later ?? {})])
  return all as ReadonlyMap<AttributeValueInput, AttributeValueInput | undefined>
}

/** Changes by their keys. */
export function changesByKey(changes: AttributeChanges | undefined): ReadonlyMap<unknown, unknown> {
  return new Map(entriesOf('metadata', changes ?? {}))
}

/** Encodes changes for the binding: values to set, and a map whose keys are removed. */
export function freezeChanges(name: string, value: unknown): { set: TaggedMap; unset: TaggedMap } {
  const entries = [...entriesOf(name, value)]
  const gone = (item: unknown): boolean => item === undefined
  // Checks all keys together for duplicates.
  freezeMap(name, new Map(entries.map(([key]) => [key, null])))
  return {
    set: freezeMap(name, new Map(entries.filter(([, item]) => !gone(item)))),
    unset: freezeMap(name, new Map(entries.filter(([, item]) => gone(item)).map(([key]) => [key, null]))),
  }
}

/** The entries of a Map or a plain object. */
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
      if (depth < 1) throw invalid(RangeError, `${name} must not be nested more than ${DEPTH} levels deep`)
      // Array.from sees the holes that map() skips.
      return { list: Array.from(value, (item, at) => freeze(`${name}[${at}]`, item, depth - 1)) }
    default:
      throw wrongType(name, 'a value that a file can hold', value)
  }
}
