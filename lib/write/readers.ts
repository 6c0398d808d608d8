// Which programs read a file, as it is: what its format allows and what other readers take of that differ.
import type { Writing } from '../values/formats.js'

const THIS = 'this package'

/**
 * The programs that read a file of a format whose own attributes are `attributes`. Python's ztensor 1.0.0 and 1.0.1, the only other
 * readers of zTensor 1.0, take attributes of a file for text and refuse the whole file where one is not ("expected a string").
 */
export function readersOf({ id, readers }: Writing, attributes: unknown): readonly string[] {
  return id === '1.0' && !areTexts(attributes) ? [THIS] : readers
}

function areTexts(attributes: unknown): boolean {
  if (typeof attributes !== 'object' || attributes === null) return true
  const entries: [unknown, unknown][] =
    Symbol.iterator in attributes ? [...(attributes as Iterable<[unknown, unknown]>)] : Object.entries(attributes)
  return entries.every(([key, value]) => typeof key === 'string' && typeof value === 'string')
}
