// Prints warnings of a file to standard error, so that standard output can be parsed.
import type { Warning } from '../index.js'
import { showPlaced } from './listing.js'
import { printable } from './text.js'

/** Maximum number of warnings that are printed for each code. */
const SHOWN = 3

/** Formats warnings, a few of each code. */
function* lines(warnings: readonly Warning[]): Generator<string> {
  const byCode = new Map<string, Warning[]>()
  for (const warning of warnings) byCode.set(warning.code, [...(byCode.get(warning.code) ?? []), warning])
  for (const [code, all] of byCode) {
    for (const warning of all.slice(0, SHOWN)) {
      const file = warning.path === undefined ? '' : `${printable(warning.path)}: `
      yield `warning  ${code}  ${file}${showPlaced(warning, warning.message)}`
    }
    if (all.length > SHOWN) yield `warning  ${code}  and ${all.length - SHOWN} more: \`ztensor info --json\` lists them`
  }
}

/** Prints warnings, with the name of the file if there are several. */
export function printWarnings(warnings: readonly Warning[], name?: string): void {
  const file = name === undefined ? '' : `${printable(name)}: `
  for (const line of lines(warnings)) process.stderr.write(`${file}${line}\n`)
}
