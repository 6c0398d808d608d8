// The file attributes that a conversion writes: all that the target supports. Where it supports only text, other plain values become JSON.
import { type ErrorCode, rethrowNative, ZTensorError } from '../native/errors.js'
import { binding } from '../native/native.js'
import { isMap } from '../native/realm.js'
import { type Attributes, type AttributeValue, freezeMap } from '../values/attributes.js'
import type { Writing } from '../values/formats.js'

/** Attribute names that a message lists. */
const LISTED = 10

/** The attributes to write, and errors that name those that the target cannot store. */
export interface FittedAttributes {
  readonly attributes: ReadonlyMap<AttributeValue, AttributeValue>
  readonly skipped: readonly ZTensorError[]
}

const entriesOf = (attributes: Attributes): [AttributeValue, AttributeValue][] =>
  isMap(attributes) ? [...attributes] : Object.entries(attributes)

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

/** The value as the target can store it; undefined if it cannot. */
function fitted(writing: Writing, key: AttributeValue, value: AttributeValue): AttributeValue | undefined {
  if (writing.attributes === 'none') return undefined
  if (writing.attributes === 'any') return value
  if (typeof key !== 'string') return undefined
  return typeof value === 'string' ? value : attributeJson(value)
}

/** Why the target cannot store attributes; undefined if it can. */
function refusalOf(writing: Writing, canonical: boolean, entries: [AttributeValue, AttributeValue][]) {
  let frozen: ReturnType<typeof freezeMap>
  try {
    frozen = freezeMap('attributes', new Map(entries))
  } catch (error) {
    // A file may have what no writer takes, such as a list as a key.
    return new ZTensorError('ZT_INVALID_ARG', (error as Error).message)
  }
  const native = rethrowNative(() => binding.attributeRefusal(writing.id, canonical, frozen))
  if (native === null) return undefined
  const { code, message, ...where } = native
  return new ZTensorError(code as ErrorCode, message, where)
}

/** The error that names attributes of a file that `what` cannot store. */
export function cannotStore(what: string, keys: readonly AttributeValue[]): ZTensorError {
  const names = keys.slice(0, LISTED).map((key) => JSON.stringify(String(key)))
  const more = keys.length > LISTED ? `, and ${keys.length - LISTED} more` : ''
  const count = keys.length === 1 ? '1 attribute' : `${keys.length} attributes`
  return new ZTensorError('ZT_INVALID_ARG', `${what} cannot store ${count} of the file: ${names.join(', ')}${more}`)
}

/** Chooses the attributes that the target supports. */
export function fitAttributes(attributes: Attributes, writing: Writing, canonical: boolean): FittedAttributes {
  const kept: [AttributeValue, AttributeValue][] = []
  const left: AttributeValue[] = []
  for (const [key, value] of entriesOf(attributes)) {
    const text = fitted(writing, key, value)
    const entry: [AttributeValue, AttributeValue] | undefined = text === undefined ? undefined : [key, text]
    if (entry !== undefined && refusalOf(writing, canonical, [entry]) === undefined) kept.push(entry)
    else left.push(key)
  }
  const skipped = left.length > 0 ? [cannotStore(writing.title, left)] : []
  // Each fits, but all of them may be too many.
  const refused = refusalOf(writing, canonical, kept)
  return refused === undefined
    ? { attributes: new Map(kept), skipped }
    : { attributes: new Map(), skipped: [...skipped, refused] }
}
