import { compare } from '../compare/compare.js'
import type { DiffOptions, FileDiff } from '../compare/diff.js'
import type { TensorFile } from '../read/file.js'
import type { WebSource } from './source.js'

/**
 * Finds the differences between two files of any formats, as in Node: names, dtypes, shapes, layouts and values. Open files that you pass stay
 * open. Its code is fetched at the first call.
 *
 * @example
 * const { same, added, removed, changed } = await diff(before, after, { rtol: 0.01 })
 *
 * @throws ZTensorError what `open` throws for either file; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED and ZT_IO if data cannot be read; ZT_CLOSED for a closed file. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export async function diff(
  a: WebSource | TensorFile,
  b: WebSource | TensorFile,
  options?: DiffOptions,
): Promise<FileDiff> {
  const deferred = await import('./deferred.js')
  return deferred.diff(compare, a, b, options)
}
