// What the addon does for the hub.
import { run, unopened, type ValidJob } from '../native/job.js'
import { binding } from '../native/native.js'
import type { RemoteAccess } from '../values/remote.js'

/** The cache folder of the hub's clients, and the parts of a URL: kind, owner, name, revision and the names of its path. */
export async function partsOf(url: string, remote: RemoteAccess): Promise<string[]> {
  return run(unopened(), {}, (control) => binding.askHub('place', url, [], [], remote, control))
}

/** The hub's description of a revision: its JSON text. */
export async function describeRevision(
  url: string,
  remote: RemoteAccess,
  signal: AbortSignal | undefined,
): Promise<string> {
  const [text = ''] = await run(unopened(url), { signal }, (control) =>
    binding.askHub('describe', url, [], [], remote, control),
  )
  return text
}

/** A file of a commit to download. */
export interface FileRequest {
  readonly url: string
  /** The paths of the lock, of the bytes that arrived, and of the complete file. Their folders exist. */
  readonly paths: readonly [lock: string, incomplete: string, complete: string]
  readonly sha256: string | undefined
  /** The size that the hub lists. */
  readonly byteLength: number | undefined
  /** Bytes to request at once. */
  readonly window: number
  /** Whether an existing file of this size is replaced. */
  readonly replaces: boolean
}

/** Downloads a file, unless it exists. Returns whether it was downloaded, and its size. */
export async function downloadFile(
  { url, paths, sha256, byteLength, window, replaces }: FileRequest,
  remote: RemoteAccess,
  job: ValidJob,
): Promise<{ isNew: boolean; byteLength: number }> {
  const numbers = [window, Number(replaces), ...(byteLength === undefined ? [] : [byteLength])]
  const texts = [...paths, sha256 ?? '']
  // The lock is free, and the last bytes are written, when an aborted download rejects.
  const [length, tag] = await run(
    unopened(url),
    job,
    (control) => binding.askHub('download', url, texts, numbers, remote, control),
    'when undone',
  )
  return { isNew: tag !== undefined, byteLength: Number(length) }
}

/** The entity tag of a file, which the hub does not list. */
export async function entityTag(
  url: string,
  remote: RemoteAccess,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const [, tag] = await run(unopened(url), { signal }, (control) =>
    binding.askHub('download', url, [], [], remote, control),
  )
  return tag
}
