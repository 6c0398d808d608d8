// Creates writers of files and streams in Node.
import type { Writable } from 'node:stream'
import { optional, readOptions, validateAbortSignal } from '../values/arguments.js'
import { checkRemoved } from '../values/attribute-input.js'
import { CREATE_OPTIONS, type CreateOptions, writeRequest } from './options.js'
import { withFormat } from './path.js'
import { validateTarget } from './target.js'
import { TensorWriter } from './writer.js'

/**
 * Creates a writer. The target is a path, an `s3:`, `gs:` or `az:` URL, or a stream. A file or object appears at its path or URL
 * atomically, with `finish()`. A Node Writable, a pipe or a character device gets the same bytes as a stream. For formats whose index comes
 * first (all but zTensor) and for canonical zTensor 2, they are written to a temporary file before, and go to the stream with `finish()`. For
 * a pipe, `create` waits until it has a reader.
 *
 * @example
 * const writer = await create('model.zt')
 * await writer.add('weight', new Float32Array(6), { shape: [2, 3] })
 * await writer.finish() // the file appears only now
 *
 * @throws ZTensorError ZT_EXISTS without `overwrite`, ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function create(target: string | URL | Writable, options?: CreateOptions): Promise<TensorWriter> {
  const read = readOptions(options, CREATE_OPTIONS)
  const signal = optional(read.signal, validateAbortSignal)
  const { path, remote, begin } = validateTarget('path', target, read)
  checkRemoved(read)
  const request = writeRequest(withFormat(read, path, true))
  signal?.throwIfAborted()
  return TensorWriter.listen(await TensorWriter.make(await begin(), request, signal, remote))
}
