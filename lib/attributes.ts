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

interface TaggedList {
  list: unknown[]
}

/** Builds a value out of what crossed the binding. */
function thaw(value: unknown): AttributeValue {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value as AttributeValue
  if ('list' in value) return Object.freeze((value as TaggedList).list.map(thaw))
  return thawMap(value as TaggedMap)
}

export function thawMap({ map }: TaggedMap): Attributes {
  const entries: [AttributeValue, AttributeValue][] = []
  for (let at = 0; at < map.length; at += 2) entries.push([thaw(map[at]), thaw(map[at + 1])])
  if (entries.some(([key]) => typeof key !== 'string')) return new Map(entries)
  const object: Record<string, AttributeValue> = Object.create(null)
  for (const [key, value] of entries) object[key as string] = value
  return Object.freeze(object)
}
