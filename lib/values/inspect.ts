// What objects say of themselves, in console.log and to isDeepStrictEqual: what they are, never their data.
import { type InspectOptions, inspect } from 'node:util'

/**
 * The key of an own property by which an object is told from others of its class: `isDeepStrictEqual` and test runners see no
 * private fields, so that tensors of two files with the same names and shapes would be equal to them.
 */
export const IDENTITY = Symbol('ztensor.identity')

/** The name of a class and what an object of it is. */
export function shown(name: string, facts: object, options: InspectOptions): string {
  return `${name} ${inspect(facts, options)}`
}
