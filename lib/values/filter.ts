// Selects tensors by name or by a function, as every option `filter` does.
import { invalid } from '../native/errors.js'
import { refusePromise, validateString, wrongType } from './arguments.js'
import { globMatcher } from './glob.js'

/**
 * Selects tensors: a glob (`*` matches any characters, `?` a single character), a list of globs, or a function. A glob that begins with
 * `!` excludes what it matches; a list of only such globs selects everything else.
 */
export type Filter<T> = string | readonly string[] | ((tensor: T) => boolean)

/** Returns a function that tests names against globs. */
export function namesMatching(globs: string | readonly string[]): (name: string) => boolean {
  const list = typeof globs === 'string' ? [globs] : globs
  const matchers = (excluding: boolean) =>
    list
      .filter((glob) => validateString('a glob of filter', glob).startsWith('!') === excluding)
      .map((glob) => globMatcher(excluding ? glob.slice(1) : glob))
  const [included, excluded] = [matchers(false), matchers(true)]
  return (name) =>
    (included.length === 0 ? excluded.length > 0 : included.some((matches) => matches(name))) &&
    !excluded.some((matches) => matches(name))
}

/**
 * Checks globs against all names. A typo would change the result in silence.
 *
 * @throws RangeError ZT_INVALID_ARG for a glob that matches no name, with or without its `!`
 */
export function checkGlobs(
  option: 'filter' | 'skip',
  globs: string | readonly string[],
  names: Iterable<string>,
  what = 'tensor',
): void {
  const given = typeof globs === 'string' ? [globs] : globs
  // Unlike map(), this leaves holes out, as a filter does.
  const left = new Map(given.flatMap((glob) => [[glob, globMatcher(glob.replace(/^!/, ''))] as const]))
  for (const name of names) {
    if (left.size === 0) return
    for (const [glob, matches] of left) if (matches(name)) left.delete(glob)
  }
  const [first] = left.keys()
  if (first === undefined) return
  throw invalid(RangeError, `${option}: '${first}' matches no ${what}`, { option })
}

/** Checks the globs of a filter: each must match a tensor of one of the files. A function selects what it likes. */
export function checkFilter<T>(
  filter: Filter<T> | undefined,
  ...files: readonly { readonly keys: () => Iterable<string> }[]
): void {
  if (filter === undefined || typeof filter === 'function') return
  function* names(): Generator<string> {
    for (const file of files) yield* file.keys()
  }
  checkGlobs('filter', filter, names())
}

/**
 * Returns a function that tests tensors; undefined if all are selected. It throws TypeError ZT_INVALID_ARG for a function that returns a
 * promise.
 */
export function tensorFilter<T extends { readonly name: string }>(
  filter: Filter<T> | undefined,
): ((tensor: T) => boolean) | undefined {
  if (filter === undefined) return undefined
  if (typeof filter === 'function') {
    return (tensor) => {
      const isSelected: unknown = filter(tensor)
      refusePromise('filter', isSelected)
      return Boolean(isSelected)
    }
  }
  if (typeof filter !== 'string' && !Array.isArray(filter))
    throw wrongType('filter', 'a glob, a list of globs, or a function', filter)
  const matches = namesMatching(filter)
  return ({ name }) => matches(name)
}
