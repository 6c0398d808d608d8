import type { TensorFile } from '../read/file.js'
import { open } from '../read/open.js'
import type { Source } from '../read/source.js'
import { compare } from './compare.js'
import { type DiffOptions, diffSources, type FileDiff } from './diff.js'

/** `diff` of lib/lazy.ts. */
export function diff(a: Source | TensorFile, b: Source | TensorFile, options?: DiffOptions): Promise<FileDiff> {
  return diffSources<Source>({ open, compare }, a, b, options)
}
