// The code that is fetched at the first call of `diff`.
import { type Compare, type DiffOptions, diffSources, type FileDiff } from '../compare/diff.js'
import type { TensorFile } from '../read/file.js'
import { open } from './open.js'
import type { WebSource } from './source.js'

/** `diff` of diff.ts. */
export function diff(
  compare: Compare,
  a: WebSource | TensorFile,
  b: WebSource | TensorFile,
  options: DiffOptions | undefined,
): Promise<FileDiff> {
  return diffSources<WebSource>({ open, compare }, a, b, options)
}
