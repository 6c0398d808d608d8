// The file attributes that a conversion writes: all that the target supports. Where it supports only text, other plain values become JSON.
import { type ErrorCode, ZTensorError } from '../native/errors.js'
import type { ConversionPlan } from '../native/native.js'
import { isMap } from '../native/realm.js'
import type { AttributeChanges, AttributeValue, AttributeValueInput } from '../values/attributes.js'
import type { Writing } from '../values/formats.js'

/** Attribute names that a message lists. */
const LISTED = 10

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

/** The error that names attributes of a file that `what` cannot store: the first of `count` keys. */
export function cannotStore(what: string, keys: readonly AttributeValue[], count: number = keys.length): ZTensorError {
  const names = keys.slice(0, LISTED).map((key) => JSON.stringify(String(key)))
  const more = count > names.length ? `, and ${count - names.length} more` : ''
  const noun = count === 1 ? '1 attribute' : `${count} attributes`
  return new ZTensorError('ZT_INVALID_ARG', `${what} cannot store ${noun} of the file: ${names.join(', ')}${more}`)
}

/** The errors that name the attributes of a file that the target cannot store. */
export function leftOutErrors({ leftOut }: ConversionPlan, { title }: Writing): readonly ZTensorError[] {
  if (leftOut === undefined) return []
  const { count, first, refused } = leftOut
  const skipped = count > 0 ? [cannotStore(title, first, count)] : []
  if (refused === undefined) return skipped
  const { code, message, ...where } = refused
  return [...skipped, new ZTensorError(code as ErrorCode, message, where)]
}

/** The attributes that state what is written: those of a mixture, or else the type of most elements, if it is not that of the source. */
export function statedAttributes(
  { quantized, statedType }: ConversionPlan,
  writing: Writing,
): AttributeChanges | undefined {
  if (writing.attributes === 'none') return undefined
  const mixture = writing.typedAttributes ? (quantized?.stated ?? []) : []
  const stated = mixture.length > 0 ? mixture : statedType === undefined ? [] : [statedType]
  return Object.fromEntries(stated.map(({ key, text, number }) => [key, text ?? spelled(number, writing)]))
}

function spelled(
  number: number | undefined,
  { typedAttributes, attributes }: Writing,
): AttributeValueInput | undefined {
  if (number === undefined) return undefined
  if (typedAttributes) return { type: 'uint32', value: number }
  return attributes === 'text' ? String(number) : number
}
