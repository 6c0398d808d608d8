// The commit of a revision and its files, by the hub, or by its cache if the hub must not be accessed.
import { ZTensorError } from '../native/errors.js'
import type { RemoteAccess } from '../values/remote.js'
import { describeRevision } from './native.js'
import { isPlain, type Place, urlOf } from './place.js'
import { cachedCommit, snapshotFiles } from './snapshot.js'

/** A file of a repository. */
export interface HubFile {
  /** The path in the repository, with slashes. */
  readonly path: string
  /** Size in bytes; undefined if the hub does not list it. */
  readonly byteLength: number | undefined
  /** The name of its blob in the cache: SHA-256 of a large file, SHA-1 as Git computes it of others. */
  readonly etag: string | undefined
  readonly sha256: string | undefined
}

export interface Revision {
  readonly commit: string
  readonly files: readonly HubFile[]
}

/** From this number of files on the list of a revision may be incomplete, according to the hub's own client. */
const MAX_FILES = 50_000
const COMMIT = /^([0-9a-f]{40}|[0-9a-f]{64})$/
const SHA256 = /^[0-9a-f]{64}$/
const SHA1 = /^[0-9a-f]{40}$/

/** A field of the hub's answer, which may be anything. */
const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined

const textLike = (value: unknown, pattern: RegExp): string | undefined =>
  typeof value === 'string' && pattern.test(value) ? value : undefined

function fileOf(listed: unknown, url: string): HubFile {
  const path = field(listed, 'rfilename')
  if (typeof path !== 'string' || !isPlain(path))
    throw new ZTensorError(
      'ZT_OUT_OF_BOUNDS',
      `'${url}': the hub lists the file ${JSON.stringify(path)}, whose path may lead out of the folder: nothing is downloaded`,
    )
  const lfs = field(listed, 'lfs')
  const size = field(lfs, 'size') ?? field(listed, 'size')
  const sha256 = textLike(field(lfs, 'sha256') ?? field(lfs, 'oid'), SHA256)
  return {
    path,
    byteLength: Number.isSafeInteger(size) && (size as number) >= 0 ? (size as number) : undefined,
    etag: sha256 ?? (lfs === undefined || lfs === null ? textLike(field(listed, 'blobId'), SHA1) : undefined),
    sha256,
  }
}

/** Asks the hub for the commit and the files of a revision. */
async function describe(place: Place, remote: RemoteAccess, signal: AbortSignal | undefined): Promise<Revision> {
  const url = urlOf(place, place.revision, '')
  const text = await describeRevision(url, remote, signal)
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    // Treated like JSON without the fields.
  }
  const [commit, siblings] = [textLike(field(answer, 'sha'), COMMIT), field(answer, 'siblings')]
  if (commit === undefined || !Array.isArray(siblings))
    throw new ZTensorError(
      'ZT_IO',
      `'${url}': the server does not respond like a hub (no commit or no files): check HF_ENDPOINT`,
    )
  if (siblings.length > MAX_FILES)
    throw new ZTensorError(
      'ZT_LIMIT',
      `'${url}': the repository has more than ${MAX_FILES} files, and the hub may not list all of them: download it with hf download`,
    )
  return { commit, files: siblings.map((listed) => fileOf(listed, url)) }
}

/** Whether the hub must not be accessed. */
export const isOffline = (remote: RemoteAccess): boolean => {
  const at = remote.environment.findIndex((text, index) => index % 2 === 0 && text === 'HF_HUB_OFFLINE')
  return remote.offline === true || /^(1|true|yes|on)$/i.test(at < 0 ? '' : (remote.environment[at + 1] ?? ''))
}

/**
 * Returns the commit of a revision and its files. Without the hub: those that the cache has.
 *
 * @throws ZTensorError ZT_IO if the hub does not answer, or the cache does not have the revision
 */
export async function revisionOf(
  place: Place,
  remote: RemoteAccess,
  signal: AbortSignal | undefined,
): Promise<Revision> {
  if (!isOffline(remote)) return describe(place, remote, signal)
  const commit = COMMIT.test(place.revision) ? place.revision : await cachedCommit(place.folder, place.revision)
  const files = commit === undefined ? [] : await snapshotFiles(place.folder, commit)
  if (commit === undefined || files.length === 0)
    throw new ZTensorError(
      'ZT_IO',
      `'${urlOf(place, place.revision, '')}': the hub is not accessed (HF_HUB_OFFLINE, or the option offline), and its cache does not have this: download it once, or go online`,
      { option: 'remote.offline' },
    )
  const kept = files.map(({ path, byteLength }) => ({ path, byteLength, etag: undefined, sha256: undefined }))
  return { commit, files: kept }
}
