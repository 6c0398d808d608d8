// Edits an existing file: adds, renames and removes tensors, and sets metadata and attributes.

import { ZTensorError } from '../native/errors.js'
import { type JobOptions, run, unopened } from '../native/job.js'
import { type AppendRequest, binding, type NativeControl } from '../native/native.js'
import { openRequest } from '../read/open-request.js'
import { openError } from '../read/source.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateAbortSignal, validateBoolean, validateText } from '../values/arguments.js'
import { type AttributeChanges, freezeChanges } from '../values/attribute-input.js'
import { emitWarnings } from '../values/warning.js'
import { type CreateOptions, storage } from './options.js'
import { targetPath } from './path.js'
import { TensorWriter } from './writer.js'

/** Limits for the index of a hostile file, as for `open`. */
export interface IndexLimits {
  /** Maximum size of the index in bytes: 1 GiB by default. */
  maxIndexBytes?: number | undefined
  /** Maximum number of dimensions of a tensor: 64 by default. */
  maxRank?: number | undefined
  /** Maximum number of attribute values in the index, including nested values: 16,777,216 by default. */
  maxAttributeValues?: number | undefined
}

/**
 * How to edit a file. `digest`, `compression` and `alignment` apply to the new tensors, with the defaults for a new file of the same
 * version. In version 2 the alignment is a power of two from 4096.
 */
export interface AppendOptions extends Pick<CreateOptions, 'digest' | 'compression' | 'alignment'>, IndexLimits {
  /**
   * Write to the file itself, instead of a clone that replaces it atomically. This only writes the new data, and an error or `abort()`
   * restores the old file. But if the process or the machine stops during the edit, the file is incomplete and cannot be opened.
   * The default preserves owner and permissions; other hard links still refer to the old file. `inPlace` changes all hard links.
   */
  inPlace?: boolean | undefined
  /** Aborts the edit, like `abort()`. Later calls reject with `signal.reason`. */
  signal?: AbortSignal | undefined
}

const INDEX_LIMITS = ['maxIndexBytes', 'maxRank', 'maxAttributeValues'] as const

/**
 * An edit of an existing file. New tensors are added as to a new file. Existing tensors can be renamed and removed, and their attributes
 * changed. Nothing changes at the path before `finish()`.
 */
export class TensorEditor extends TensorWriter {
  declare readonly path: string
  /** @internal */
  static async of(path: string, request: AppendRequest, signal: AbortSignal | undefined): Promise<TensorEditor> {
    try {
      const begin = (control: NativeControl) => binding.appendWriter(path, request, control)
      const begun = await TensorWriter.begin(path, signal, begin)
      const { version } = begun.native
      return await TensorWriter.listen(
        new TensorEditor({ target: path, ...begun, writeFormat: version, level: request.level, signal }),
      )
    } catch (thrown) {
      signal?.throwIfAborted()
      throw openError(thrown, path)
    }
  }

  override get [Symbol.toStringTag](): string {
    return 'TensorEditor'
  }

  /**
   * Renames a tensor. It keeps its position in the index.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX if the new name exists, ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG, also for
   * tensors that this edit added
   */
  async rename(name: string, to: string): Promise<void> {
    const [from, into] = [validateText('name', name), validateText('to', to)]
    await TensorWriter.inTurn(this, (native) => native.rename(from, into))
  }

  /**
   * Removes a tensor from the index. Its name can be used again; its bytes stay in the file until `compact()`.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
   */
  async remove(name: string): Promise<void> {
    const checked = validateText('name', name)
    await TensorWriter.inTurn(this, (native) => native.remove(checked))
  }

  /**
   * Sets metadata of the file. An undefined value removes its key. All other metadata stays.
   *
   * @example await editor.setMetadata({ license: 'apache-2.0', draft: undefined })
   *
   * @throws ZTensorError ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG for a value that the format does not support
   */
  async setMetadata(metadata: AttributeChanges): Promise<void> {
    const { set, unset } = freezeChanges('metadata', metadata)
    await TensorWriter.inTurn(this, (native) => native.changeAttributes(undefined, set, unset))
  }

  /**
   * Sets attributes of an existing tensor. An undefined value removes its attribute. All other attributes stay.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
   */
  async setTensorAttributes(name: string, attributes: AttributeChanges): Promise<void> {
    const checked = validateText('name', name)
    const { set, unset } = freezeChanges('attributes', attributes)
    await TensorWriter.inTurn(this, (native) => native.changeAttributes(checked, set, unset))
  }
}

/**
 * Starts an edit of a zTensor file of version 1.0 to 1.2 or 2. The file keeps its version and unknown keys of its index. A version 2 file
 * gets a new generation (§2.5): old bytes and indexes stay, so that it is not canonical until `compact()`. Components in shards or linked
 * files stay there; new tensors are written to the root. The file is locked against other writers during the edit.
 *
 * @example
 * const editor = await append('model.zt')
 * await editor.add('lora.a', new Float32Array(64))
 * await editor.remove('unused')
 * await editor.finish()
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of `open` for an invalid file; ZT_UNSUPPORTED_VERSION
 * for a file that must be converted first; ZT_IO, also if another edit is running, and from `finish()` if another program changed the
 * file; TypeError and RangeError ZT_INVALID_ARG
 */
export async function append(path: string | URL, options?: AppendOptions): Promise<TensorEditor> {
  const read = readOptions(options, ['inPlace', 'signal', 'digest', 'compression', 'alignment', ...INDEX_LIMITS])
  const request: AppendRequest = {
    ...storage(read),
    inPlace: optional(read.inPlace, (value) => validateBoolean('inPlace', value)) ?? false,
    limits: openRequest({
      maxIndexBytes: read.maxIndexBytes,
      maxRank: read.maxRank,
      maxAttributeValues: read.maxAttributeValues,
    }),
  }
  return TensorEditor.of(targetPath(path), request, optional(read.signal, validateAbortSignal))
}

/** The result of `compact`. */
export interface CompactResult {
  /** New size of the file in bytes. */
  readonly byteLength: number
  /** Bytes by which the file has shrunk. */
  readonly reclaimed: number
}

/**
 * Rewrites a zTensor file of version 1.0 to 1.2 or 2 without the bytes of removed tensors and old indexes, and replaces it atomically.
 * A file that would not shrink is not changed. A version 2 file that is a single file, uncompressed, aligned to 64 KiB and with xxh3
 * digests becomes canonical (§6.3); any other file keeps the order of its blobs. Shards are not changed.
 *
 * @example const { byteLength, reclaimed } = await compact('model.zt')
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of `open` for an invalid file; ZT_IO, also if another
 * edit is running; ZT_UNSUPPORTED_VERSION if the index has unknown keys, since they may contain offsets; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export async function compact(path: string | URL, options?: JobOptions & IndexLimits): Promise<CompactResult> {
  const { onProgress, signal, ...limits } = readOptions(options, ['onProgress', 'signal', ...INDEX_LIMITS])
  const request = openRequest(limits)
  const target = targetPath(path)
  const job = jobOptions({ onProgress, signal })
  try {
    const work = (control: NativeControl) => binding.compactFile(target, request, control)
    const { before, after: byteLength, warnings } = await run(unopened(target), job, work, 'when undone')
    emitWarnings(warnings)
    // After the file was replaced, an abort has no effect.
    if (before === byteLength) job.signal?.throwIfAborted()
    return { byteLength, reclaimed: before - byteLength }
  } catch (thrown) {
    job.signal?.throwIfAborted()
    throw thrown instanceof ZTensorError ? openError(thrown, target) : thrown
  }
}
