// Options of the form `key=value`.
import { UsageError } from './failure.js'

/** Throws for a key or a pattern that is given twice: only one of its values could count. */
export function checkUnique(option: string, what: string, pairs: readonly (readonly [string, unknown])[]): void {
  const known = new Set<string>()
  for (const [key] of pairs) {
    if (known.has(key)) throw new UsageError(`${option} has the ${what} '${key}' twice`)
    known.add(key)
  }
}

/** Splits each pair at its `=`. */
export function pairsOf(option: string, usage: string, pairs: readonly string[]): [string, string][] {
  return pairs.map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`${option} takes ${usage}, got ${pair}`)
    return [pair.slice(0, at), pair.slice(at + 1)]
  })
}
