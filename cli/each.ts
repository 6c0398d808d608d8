// Commands that describe several files: each for itself, or all joined into one.
import type { TensorFile } from '../index.js'
import { type Paint, painter } from './color.js'
import { fail } from './failure.js'
import type { SourceOptions } from './format.js'
import { jsonLines } from './json.js'
import { withFile } from './source.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'

export interface EachOptions extends SourceOptions {
  json?: boolean
  /** Take several files as one. */
  join?: boolean
}

/** What a command says of a file: lines for a person, a value for `--json`. */
export interface Description {
  lines(file: TensorFile, paint: Paint): Iterable<string>
  /** Of the only file: the document. */
  document(file: TensorFile): Iterable<string>
  /** Of one of several: an element of the array. */
  element(file: TensorFile, path: string): object
}

/** Describes one file, several as one, or each of several under its name. What cannot be opened is said, and the others go on. */
export async function describeEach(paths: readonly string[], options: EachOptions, what: Description): Promise<void> {
  const paint = painter()
  if (paths.length === 1 || options.join) {
    return withFile(paths, options, (file) => printLines(options.json ? what.document(file) : what.lines(file, paint)))
  }
  const elements: object[] = []
  let first = true
  for (const path of paths) {
    try {
      await withFile(path, options, async (file) => {
        if (options.json) elements.push(what.element(file, path))
        else
          await printLines([...(first ? [] : ['']), paint('bold', `${printable(path)}:`), ...what.lines(file, paint)])
        first = false
      })
    } catch (error) {
      fail(error)
    }
  }
  if (options.json) await printLines(jsonLines(elements))
}
