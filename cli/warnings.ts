// Warnings of a file on standard error: what is printed for programs stays as it is.
import type { Warning } from '../index.js'
import { showPlaced } from './listing.js'
import { printable } from './text.js'

/** Warnings of one code that are shown; of the others only the number is. */
const SHOWN = 3

/** A line for each warning, a few of each code. */
function* lines(warnings: readonly Warning[]): Generator<string> {
  const byCode = new Map<string, Warning[]>()
  for (const warning of warnings) byCode.set(warning.code, [...(byCode.get(warning.code) ?? []), warning])
  for (const [code, all] of byCode) {
    for (const warning of all.slice(0, SHOWN)) {
      const file = warning.path === undefined ? '' : `${printable(warning.path)}: `
      yield `warning  ${code}  ${file}${showPlaced(warning, warning.message)}`
    }
    if (all.length > SHOWN) yield `warning  ${code}  and ${all.length - SHOWN} more`
  }
}

/** Prints warnings; `name` is the file's where there are several. */
export function printWarnings(warnings: readonly Warning[], name?: string): void {
  const file = name === undefined ? '' : `${printable(name)}: `
  for (const line of lines(warnings)) process.stderr.write(`${file}${line}\n`)
}
