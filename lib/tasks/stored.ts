// What the tasks of a job ask of the files of its target, in a folder or in a store.
import { existsSync } from 'node:fs'
import { run, unopened } from '../native/job.js'
import { binding } from '../native/native.js'
import { type RemoteOptions, remoteRequest, remoteUrl } from '../read/remote.js'

/** Whether a path is the URL of a file of a store. */
export function isStored(path: string): boolean {
  return remoteUrl(path) !== undefined
}

/**
 * Whether a file is there.
 *
 * @throws ZTensorError ZT_IO where a store does not answer; the signal's reason
 */
export async function isThere(path: string, remote: RemoteOptions | undefined, signal?: AbortSignal): Promise<boolean> {
  if (!isStored(path)) return existsSync(path)
  const request = remoteRequest(remote)
  return run(unopened(path), { signal }, (control) => binding.isThere(path, request, control))
}

/**
 * Puts a file of this machine into a store, where nothing has its name; otherwise compares. Gives whether the same bytes are there
 * now.
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
