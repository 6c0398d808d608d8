// Functions that most programs never call. Their code (deferred.ts) is loaded at the first call.
import type { Writable } from 'node:stream'
import type { CompareOptions, Comparison } from './compare/compare.js'
import type { DiffOptions, FileDiff } from './compare/diff.js'
import type { ConvertOptions, ConvertPlan, ConvertResult } from './convert/options.js'
import type { Component } from './read/component.js'
import type { TensorFile } from './read/file.js'
import type { Source } from './read/source.js'
import type { AnyTensor } from './read/tensor.js'
import type { EditMetadataOptions, EditMetadataResult } from './write/edit-metadata.js'

// require() instead of import(): the arguments must be read before other code of the caller runs.
const deferred = () => require('./deferred.js') as typeof import('./deferred.js')

/**
 * Compares the elements of two tensors of the same shape, off the event loop. The tensors may be in one file or in two, and may
 * have different dtypes, encodings and layouts. Values are compared as float64, or exactly if both dtypes are integers.
 * Quantized tensors are compared by their float32 values. Sparse tensors with the same pattern are compared by their stored values,
 * otherwise by all elements, up to 1 GiB. Components are compared by their elements, or by their bytes if the dtype is unknown.
 * The digests of data that needs no decoding are not checked.
 *
 * @example
 * const { equal, maxAbsolute } = await compare(before.tensor('wte'), after.tensor('wte'), { rtol: 0.01 })
 *
 * @throws ZTensorError ZT_BAD_SHAPE if the shapes differ, ZT_BAD_DTYPE and ZT_BAD_LAYOUT if the values cannot be compared,
 * ZT_CLOSED, ZT_BAD_SPARSE, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
 * RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function compare(
  a: AnyTensor | Component,
  b: AnyTensor | Component,
  options?: CompareOptions,
): Promise<Comparison> {
  return deferred().compare(a, b, options)
}

/**
 * Finds the differences between two files of any formats: names, dtypes, shapes, layouts and, as in `compare`, values. Open files that
 * you pass stay open.
 *
 * @example
 * const { same, added, removed, changed } = await diff('before.safetensors', 'after.zt', { rtol: 0.01 })
 *
 * @throws ZTensorError what `open` throws for either file; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED, ZT_MAPPING_LOST and ZT_IO if data cannot be read; ZT_CLOSED for a closed file. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function diff(a: Source | TensorFile, b: Source | TensorFile, options?: DiffOptions): Promise<FileDiff> {
  return deferred().diff(a, b, options)
}

/** Returns what `convert` would write as `plan`, and writes nothing. @throws as `convert` without `dryRun`, except for what only the data shows */
export function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options: ConvertOptions & { readonly dryRun: true },
): Promise<ConvertResult & { readonly plan: ConvertPlan }>
/**
 * Writes the tensors of a file into a new file of any writable format. Raw data is copied in pieces, so that memory use does not
 * depend on its size. The digests of the source are checked. A Node Writable is ended on success and destroyed on failure. It
 * receives npz and canonical zTensor 2 when they are complete in a temporary file, and other formats as they are written. A source that is already open stays open. An `s3:`, `gs:` or `az:` URL names an object, which appears atomically at the
 * end. `remote` configures access to the target, and `source.remote` access to the source.
 *
 * @example await convert('model.safetensors', 'model.zt', { cast: { float32: 'bfloat16' } })
 *
 * @throws ZTensorError what `open` throws for the source; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED and ZT_MAPPING_LOST if data cannot be read; ZT_BAD_DTYPE, ZT_BAD_LAYOUT or ZT_BAD_SHAPE if the target format
 * cannot represent a tensor, before anything is written, with all reasons in `cause`; ZT_EXISTS without `overwrite`; ZT_IO. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason. After an error the target is unchanged.
 */
export function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult>
export async function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  return deferred().convert(source, target, options)
}

/**
 * Edits the metadata of a safetensors, GGUF or zTensor file (1.0 to 1.2 and 2), and renames and drops tensors: all changes are made, or none.
 * The edit preserves everything else byte for byte. By default, a clone replaces the file atomically, or a copy where the file system
 * cannot clone. `inPlace` edits the file itself, in a time that does not depend on its size. The header gets padding, so that a later edit
 * fits in it: spaces in safetensors, and the key `ztensor.padding` in GGUF, which `attributes` does not list. Of a set of files, the one at
 * `path` is edited. The file is locked against other edits.
 *
 * @example await editMetadata('model.gguf', { set: { 'tokenizer.chat_template': text }, remove: ['general.url'] })
 *
 * @throws ZTensorError ZT_NOT_FOUND for a key or a tensor that the file does not have; ZT_BAD_INDEX for a new name that is taken; ZT_LIMIT
 * for a header that readers would refuse; the codes of `open` for an invalid file; ZT_UNSUPPORTED_VERSION for a version that cannot be
 * edited; ZT_IO, also if another edit is running or another program changed the file. TypeError and RangeError ZT_INVALID_ARG, also for
 * a format that cannot be edited, and for a key or value that the format does not permit; the signal's reason
 */
export async function editMetadata(path: string | URL, options?: EditMetadataOptions): Promise<EditMetadataResult> {
  return deferred().editMetadata(path, options)
}
