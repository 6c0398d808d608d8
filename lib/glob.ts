// Names by a pattern: `*` is any run of characters, `?` any single one, everything else itself.

/** What tells whether a whole name matches `pattern`. Goes back to the last `*` alone, so time is at most |name| × |pattern|. */
export function globMatcher(pattern: string): (name: string) => boolean {
  const wanted = Array.from(pattern)
  return (name) => {
    const given = Array.from(name)
    let at = 0
    let star = -1
    let resume = 0
    for (let position = 0; position < given.length; ) {
      if (wanted[at] === '*') {
        star = at++
        resume = position
      } else if (wanted[at] === '?' || wanted[at] === given[position]) {
        at++
        position++
      } else if (star >= 0) {
        at = star + 1
        position = ++resume
      } else {
        return false
      }
    }
    while (wanted[at] === '*') at++
    return at === wanted.length
  }
}
