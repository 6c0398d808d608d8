// Which programs can read a file: other readers may support less than its format allows.
import type { Writing } from '../values/formats.js'

const THIS = 'this package'

/**
 * The programs that can read a file with these file attributes. Python's ztensor 1.0.0 and 1.0.1, the only other readers of zTensor 1.0,
 * require all attributes to be strings and otherwise reject the file ("expected a string").
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
