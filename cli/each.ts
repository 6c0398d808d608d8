// Commands that describe several files: separately, or joined into one.
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
  /** Open several files as one. */
  join?: boolean
}

/** How a command describes a file: as lines of text, and as JSON for `--json`. */
export interface Description {
  lines(file: TensorFile, paint: Paint): Iterable<string>
  /** The JSON document of a single file. */
  document(file: TensorFile): Iterable<string>
  /** The array element of one of several files. */
  element(file: TensorFile, path: string): object
}

/** Describes one file, several as one, or each of several under its name. Reports files that cannot be opened, and continues. */
export async function describeEach(paths: readonly string[], options: EachOptions, what: Description): Promise<void> {
  const paint = painter()
  if (paths.length === 1 || options.join) {
    return withFile(paths, options, (file) => printLines(options.json ? what.document(file) : what.lines(file, paint)))
  }
  const elements: object[] = []
  let first = true
  for (const path of paths) {
    try {
      const describe = async (file: TensorFile): Promise<void> => {
        if (options.json) elements.push(what.element(file, path))
        else
          await printLines([...(first ? [] : ['']), paint('bold', `${printable(path)}:`), ...what.lines(file, paint)])
        first = false
      }
      await withFile(path, options, describe, path)
    } catch (error) {
      fail(error)
    }
  }
  if (options.json) await printLines(jsonLines(elements))
}
