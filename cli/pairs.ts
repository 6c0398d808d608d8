// Options of the form `key=value`.
import { UsageError } from './failure.js'

/** Splits each pair at its `=`. */
export function pairsOf(option: string, usage: string, pairs: readonly string[]): [string, string][] {
  return pairs.map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`${option} takes ${usage}, got ${pair}`)
    return [pair.slice(0, at), pair.slice(at + 1)]
  })
}
