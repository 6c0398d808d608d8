// A file that is there: tensors are added, renamed and removed, attributes are set.

import { ZTensorError } from '../native/errors.js'
import { type JobOptions, run, unopened } from '../native/job.js'
import { type AppendRequest, binding, type NativeControl } from '../native/native.js'
import { openRequest } from '../read/open-request.js'
import { openError } from '../read/source.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateAbortSignal, validateBoolean, validateText } from '../values/arguments.js'
import { type AttributeChanges, freezeChanges } from '../values/attributes.js'
import { type CreateOptions, storage, targetPath } from './options.js'
import { emitWarnings } from './warnings.js'
import { TensorWriter } from './writer.js'

/** Bounds on what the index of a hostile file may make us do; as for `open`. */
export interface IndexLimits {
  /** Bytes of the index: 1 GiB by default. */
  maxIndexBytes?: number | undefined
  /** Dimensions of a tensor: 64 by default. */
  maxRank?: number | undefined
  /** Attribute values in the index, nested ones included: 16,777,216 by default. */
  maxAttributeValues?: number | undefined
}

/**
 * How to add to a file. Digest, compression and alignment are those of the new tensors, as for a new file of its version
 * (the alignment in version 2: a power of two from 4096); `frameSize` is for version 2 alone.
 */
export interface AppendOptions extends Pick<CreateOptions, 'digest' | 'compression' | 'alignment'>, IndexLimits {
  /**
   * Write to the file itself. That costs only what is added, and any error or `abort()` restores the old file; but where
   * the process is killed in the middle, or the machine stops, the file has no valid end and cannot be opened. By default a
   * clone of the file is written and put in its place, so that at any time the whole old or the whole new one is there. The clone
   * keeps owner and permissions; further hard links lead to the old file then, while `inPlace` changes them all.
   */
  inPlace?: boolean | undefined
  /** Gives the edit up, as `abort()` does; what is called after it rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

const INDEX_LIMITS = ['maxIndexBytes', 'maxRank', 'maxAttributeValues'] as const

/**
 * A file being edited. New tensors are added as to a new file; those that are there can be renamed, removed, and their
 * attributes changed. Nothing of it can be seen at the path before `finish()`.
 */
export class TensorEditor extends TensorWriter {
  declare readonly path: string
  /** @internal */
  static async of(path: string, request: AppendRequest, signal: AbortSignal | undefined): Promise<TensorEditor> {
    try {
      const begin = (control: NativeControl) => binding.appendWriter(path, request, control)
      const begun = await TensorWriter.begin(path, signal, begin)
      const { version } = begun.native
      return await TensorWriter.heed(
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
   * Gives a tensor another name. It keeps its place in the index.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_BAD_INDEX (the new name is taken), ZT_CLOSED; TypeError and RangeError
   * ZT_INVALID_ARG, also for tensors that this edit added
   */
  async rename(name: string, to: string): Promise<void> {
    const [from, into] = [validateText('name', name), validateText('to', to)]
    await TensorWriter.inTurn(this, (native) => native.rename(from, into))
  }

  /**
   * Takes a tensor out of the index; its name is free again. Its bytes stay in the file until `compact()`.
   *
   * @throws ZTensorError ZT_NOT_FOUND, ZT_CLOSED; RangeError ZT_INVALID_ARG for tensors that this edit added
   */
  async remove(name: string): Promise<void> {
    const checked = validateText('name', name)
    await TensorWriter.inTurn(this, (native) => native.remove(checked))
  }

  /**
   * Sets attributes of the file, and takes out those that are undefined. The others stay as they are.
   *
   * @example await editor.setAttributes({ license: 'apache-2.0', draft: undefined })
   *
   * @throws ZTensorError ZT_CLOSED; TypeError and RangeError ZT_INVALID_ARG for a value that the format cannot hold
   */
  async setAttributes(attributes: AttributeChanges): Promise<void> {
    const { set, unset } = freezeChanges('attributes', attributes)
    await TensorWriter.inTurn(this, (native) => native.changeAttributes(undefined, set, unset))
  }

  /**
   * The same for a tensor of the file.
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
 * Begins to add to a zTensor file of version 1.0 to 1.2 or 2 and to change it. The file keeps its version, and whatever in
 * its index is not known here. In version 2 it gets another generation (§2.5): old bytes stay, old indexes too, so that it is not
 * canonical until `compact()`; components in shards or linked files stay there, and what is added goes into the root. Other writers of
 * the same file are refused meanwhile.
 *
 * @example
 * const editor = await append('model.zt')
 * await editor.add('lora.a', new Float32Array(64))
 * await editor.remove('unused')
 * await editor.finish()
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of a file that breaks its format;
 * ZT_UNSUPPORTED_VERSION for a file that must be converted first; ZT_IO, also where
 * another edit is under way, and from `finish()` where somebody else changed the file; TypeError and RangeError
 * ZT_INVALID_ARG
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

/** What compacting a file came to. */
export interface CompactResult {
  /** Bytes of the file now. */
  readonly byteLength: number
  /** Bytes that it is shorter than before. */
  readonly reclaimed: number
}

/**
 * Writes a zTensor file of version 1.0 to 1.2 or 2 anew without the bytes of removed tensors and old indexes, and puts it in
 * the old one's place. A file that would not become shorter stays as it is. One of version 2 that is raw, in one file, at
 * 64 KiB and with xxh3 digests becomes canonical (§6.3); any other keeps the order of its blobs. Shards are not touched.
 *
 * @example const { byteLength, reclaimed } = await compact('model.zt')
 *
 * @throws ZTensorError ZT_BAD_MAGIC, ZT_TRUNCATED, ZT_BAD_INDEX and the other codes of a file that breaks its format; ZT_IO, also
 * where another edit is under way; TypeError and RangeError ZT_INVALID_ARG; ZT_UNSUPPORTED_VERSION where the index has keys that are not known here, since they
 * might name places in the file; the signal's reason
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
    // A file that has been replaced is no longer given up.
    if (before === byteLength) job.signal?.throwIfAborted()
    return { byteLength, reclaimed: before - byteLength }
  } catch (thrown) {
    job.signal?.throwIfAborted()
    throw thrown instanceof ZTensorError ? openError(thrown, target) : thrown
  }
}
