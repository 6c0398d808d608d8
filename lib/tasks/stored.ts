// Access to the files of a job's target, in a folder or in an object store.
import { existsSync } from 'node:fs'
import { run, unopened } from '../native/job.js'
import { binding } from '../native/native.js'
import { type RemoteOptions, remoteRequest, remoteUrl } from '../read/remote.js'

/** Whether a path is the URL of an object. */
export function isStored(path: string): boolean {
  return remoteUrl(path) !== undefined
}

/**
 * Whether a file or object exists.
 *
 * @throws ZTensorError ZT_IO if the store does not respond; the signal's reason
 */
export async function isThere(path: string, remote: RemoteOptions | undefined, signal?: AbortSignal): Promise<boolean> {
  if (!isStored(path)) return existsSync(path)
  const request = remoteRequest(remote)
  return run(unopened(path), { signal }, (control) => binding.isThere(path, request, control))
}

/**
 * Uploads a local file, unless the object exists. Returns whether the object has the bytes of the file.
 *
 * @throws ZTensorError ZT_IO; the signal's reason
 */
export async function putStored(
  file: string,
  url: string,
  remote: RemoteOptions | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const request = remoteRequest(remote)
  return run(unopened(url), { signal }, (control) => binding.putFile(file, url, request, control), 'when undone')
}
