// Names by a pattern: `*` is any run of characters, `?` any single one, everything else itself.
import { validateString } from './arguments.js'

/** What tells whether a whole name matches `pattern`. Goes back to the last `*` alone, so time is at most |name| × |pattern|. */
export function globMatcher(pattern: string): (name: string) => boolean {
  const wanted = Array.from(validateString('pattern', pattern))
  return (name) => {
    const given = validateString('name', name)
    /** The character at a position, which may take two places. A name can be long, and is not taken apart. */
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
