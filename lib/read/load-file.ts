// Loads a whole file in one call, like `load_file` of safetensors.
import type { JobOptions } from '../native/job.js'
import { readOptions } from '../values/arguments.js'
import type { Loaded } from './loaded.js'
import { OPEN_OPTIONS, type OpenOptions, open } from './open.js'
import type { Source } from './source.js'

/** How to open a file, and which tensors of it to load. */
export interface LoadWholeOptions extends OpenOptions, JobOptions {
  /** The tensors to load; all of them by default. */
  names?: Iterable<string> | undefined
  /** Whether each array can be transferred to another thread, as for `Tensor.load`. Each then has its own ArrayBuffer. */
  transferable?: boolean | undefined
}

/**
 * Opens a file, loads its tensors as copies that you own, checks their digests, and closes the file. Resolves with a Map from name to
 * tensor, which `saveFile` accepts.
 *
 * @example
 * const tensors = await loadFile('model.safetensors')
 * const bias = tensors.get('bias')
 * if (bias?.kind === 'dense') console.log(bias.dtype, bias.shape, bias.data)
 *
 * @throws ZTensorError what `open` throws; ZT_NOT_FOUND if the file has no tensor of a name; ZT_DIGEST_MISMATCH, ZT_DECODE,
 * ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_TRUNCATED and ZT_IO if data cannot be read. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
 */
export async function loadFile(source: Source, options?: LoadWholeOptions): Promise<Map<string, Loaded>> {
  const known = [...OPEN_OPTIONS, 'names', 'transferable', 'onProgress', 'signal'] as const
  const { names, transferable, onProgress, ...opening } = readOptions(options, known)
  const file = await open(source, opening)
  try {
    return await file.load({ names, transferable, onProgress, signal: opening.signal })
  } finally {
    file.close()
  }
}
