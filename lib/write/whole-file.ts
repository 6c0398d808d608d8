// Writes small files whose bytes are in memory.
import { run, unopened } from '../native/job.js'
import { binding, type NativeControl, type RemoteRequest } from '../native/native.js'
import { emitWarnings } from '../values/warning.js'

/** How to write a whole file. */
interface WholeFileOptions {
  /** Whether an existing file is replaced. */
  overwrite?: boolean | undefined
  /** How to access the object store, if the location is the URL of an object. */
  store?: RemoteRequest | undefined
  signal?: AbortSignal | undefined
}

/**
 * Writes a file or object, which appears complete or not at all. Like the files of writers, it never follows a link at a temporary
 * name, and a pipe or device is refused.
 *
 * @throws ZTensorError ZT_EXISTS if it exists with other bytes, unless it may be overwritten; ZT_IO; the signal's reason
 */
export async function writeWhole(
  location: string,
  bytes: Uint8Array,
  { overwrite = false, store, signal }: WholeFileOptions = {},
): Promise<void> {
  const write = (control: NativeControl) => binding.writeWhole(location, bytes, overwrite, store, control)
  emitWarnings(await run(unopened(location), { signal }, write, 'when undone'))
}
