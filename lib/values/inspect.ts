// How objects appear in console.log and isDeepStrictEqual: by a summary, never with their data.
import { type InspectOptions, inspect } from '#host'

/**
 * The key of an own property that identifies an object. `isDeepStrictEqual` and test runners do not compare private fields, so without
 * it tensors of two files with the same names and shapes would be equal.
 */
export const IDENTITY = Symbol('ztensor.identity')

/** Formats the name of a class and a summary of an object. */
export function shown(name: string, facts: object, options: InspectOptions): string {
  return `${name} ${inspect(facts, options)}`
}
