// Glob patterns for names: `*` matches any characters, `?` a single character, and any other character itself.
import { validateString } from './arguments.js'

/**
 * Returns a function that tests whether a whole name matches `pattern`. It only backtracks to the last `*`, so that the time is
 * O(|name| × |pattern|).
 *
 * @throws TypeError ZT_INVALID_ARG if the pattern or a name is not a string
 */
export function globMatcher(pattern: string): (name: string) => boolean {
  if (!validateString('pattern', pattern).includes('?')) return starMatcher(pattern.split('*'))
  const wanted = Array.from(pattern)
  return (name) => {
    const given = validateString('name', name)
    /** The code point at a position, which may take two UTF-16 units. Splitting a long name up front would cost memory. */
    const character = (position: number) => String.fromCodePoint(given.codePointAt(position) as number)
    let at = 0
    let star = -1
    let resume = 0
    for (let position = 0; position < given.length; ) {
      const next = character(position)
      if (wanted[at] === '*') {
        star = at++
        resume = position
      } else if (wanted[at] === '?' || wanted[at] === next) {
        at++
        position += next.length
      } else if (star >= 0) {
        at = star + 1
        resume += character(resume).length
        position = resume
      } else {
        return false
      }
    }
    while (wanted[at] === '*') at++
    return at === wanted.length
  }
}

/** A matcher for the texts between the `*` of a pattern, each of which is best found as early as possible. */
function starMatcher([first = '', ...others]: readonly string[]): (name: string) => boolean {
  const last = others.pop()
  return (name) => {
    const given = validateString('name', name)
    if (last === undefined) return given === first
    if (!given.startsWith(first)) return false
    let at = first.length
    for (const part of others) {
      const next = given.indexOf(part, at)
      if (next < 0) return false
      at = next + part.length
    }
    return given.length - last.length >= at && given.endsWith(last)
  }
}
