// Downloads files of a commit: several at once, under the locks of the hub's own clients, each to where they look for it.
import { constants, promises } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import type { DownloadProgress, RemoteAccess } from '../values/remote.js'
import { hashFile } from './digest.js'
import { downloadFile, entityTag } from './native.js'
import { type Place, urlOf } from './place.js'
import type { HubFile } from './revision.js'
import { fileAt, ioError, linkBlob, replaceFile, snapshotPath, tagCache } from './snapshot.js'

const { mkdir, rm, statfs, writeFile } = promises

/** Maximum number of files that are downloaded at once. */
const FILES = 4
/** Maximum bytes in memory of large files, each of which has two windows. Smaller files take no more than a window of a request. */
const MEMORY = 64 * 2 ** 20
/** Bytes of a request, unless the caller sets them: small enough that a single file has 16 at once, the default of `concurrency`. */
const PIECE = 2 * 2 ** 20
/** Entity tags become names of files. */
const TAG = /^[A-Za-z0-9][A-Za-z0-9._+=-]{0,199}$/
const SHA256 = /^[0-9a-f]{64}$/
const SHA1 = /^[0-9a-f]{40}$/

/** Where files of a commit are downloaded to. */
export interface Destination {
  readonly place: Place
  readonly commit: string
  /** The folder, for files under their own names; undefined for the cache. */
  readonly folder: string | undefined
  readonly remote: RemoteAccess
}

/** The progress of a download, without rates. */
export type FetchProgress = Omit<DownloadProgress, 'bytesPerSecond' | 'remainingMs'>

export interface FetchJob {
  readonly onProgress: ((progress: FetchProgress) => void) | undefined
  readonly signal: AbortSignal | undefined
}

/** A file that was downloaded, or was there. */
export interface Fetched {
  readonly path: string
  readonly byteLength: number
  /** Whether it was downloaded now. */
  readonly isNew: boolean
}

/** The path of a file after the download. */
export const destinationOf = ({ place, commit, folder }: Destination, path: string): string =>
  folder === undefined ? snapshotPath(place.folder, commit, path) : join(folder, path.split('/').join(sep))

/** The paths of the lock, of the bytes that arrived and of the complete file, where `huggingface_hub` has them. */
function pathsOf({ place, folder }: Destination, path: string, etag: string): [string, string, string] {
  if (folder === undefined) {
    const blob = join(place.folder, 'blobs', etag)
    const lock = join(place.root, '.locks', place.folder.slice(place.root.length + 1), `${etag}.lock`)
    return [lock, `${blob}.incomplete`, blob]
  }
  const file = join(folder, path.split('/').join(sep))
  const metadata = metadataOf(folder, path)
  const hash = builtins.crypto
    .createHash('sha1')
    .update(`${path.split('/').at(-1)}.metadata`)
    .digest('base64url')
  const incomplete = join(dirname(metadata), `${hash}=.${etag}.incomplete`)
  return [metadata.replace(/\.metadata$/, '.lock'), incomplete, file]
}

/** The file in which `huggingface_hub` remembers the version of a file in a folder. */
const metadataOf = (folder: string, path: string): string =>
  join(folder, '.cache', 'huggingface', 'download', `${path.split('/').join(sep)}.metadata`)

/** The entity tag of a header, without its quotes. */
function plainTag(url: string, tag: string | undefined): string {
  const plain = tag?.replace(/^W\//, '').replaceAll('"', '') ?? ''
  if (TAG.test(plain)) return plain
  const what = plain === '' ? 'no entity tag (ETag)' : 'an entity tag (ETag) that cannot be the name of a file'
  throw new ZTensorError('ZT_IO', `'${url}': the server sends ${what}, by which the cache names the file`)
}

/** Whether a file at its destination is the one of the commit. */
async function isThere(to: Destination, file: HubFile): Promise<boolean> {
  const found = await fileAt(destinationOf(to, file.path))
  if (found === undefined || (file.byteLength !== undefined && found.size !== file.byteLength)) return false
  if (to.folder === undefined) return true
  // A file of this size may be of another commit.
  const text = await promises.readFile(metadataOf(to.folder, file.path), 'utf8').catch(() => '')
  const [commit, etag] = text.split('\n')
  return file.etag === undefined ? commit === to.commit : etag === file.etag
}

/** Downloads one file, and makes its place in the snapshot. */
async function fetchFile(
  to: Destination,
  file: HubFile,
  window: number,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<Fetched> {
  const url = urlOf(to.place, to.commit, file.path)
  const etag = file.etag ?? plainTag(url, await entityTag(url, to.remote, signal))
  const paths = pathsOf(to, file.path, etag)
  const [, , complete] = paths
  for (const path of paths) await mkdir(dirname(path), { recursive: true })
  const path = destinationOf(to, file.path)
  if (to.folder !== undefined && (await copyCached(to, file, path, etag)))
    return { path, byteLength: file.byteLength ?? 0, isNew: true }
  const sha256 = file.sha256 ?? (SHA256.test(etag) ? etag : undefined)
  // In a folder, a file of the same size may be of another commit.
  const request = { url, paths, sha256, byteLength: file.byteLength, window, replaces: to.folder !== undefined }
  const job = { onProgress: ({ bytes }: { bytes: number }) => onBytes(bytes), signal }
  const { isNew, byteLength } = await downloadFile(request, to.remote, job)
  signal?.throwIfAborted()
  if (isNew && file.etag !== undefined && SHA1.test(etag)) await checkBlob(url, complete, etag)
  if (to.folder === undefined) await linkBlob(complete, path, isNew)
  else await writeMetadata(to.folder, to.commit, file.path, etag)
  return { path, byteLength, isNew }
}

/** Copies a file that the cache has to a folder. Returns whether it did. */
async function copyCached(to: Destination, file: HubFile, path: string, etag: string): Promise<boolean> {
  const { place, commit, folder } = to
  const cached = snapshotPath(place.folder, commit, file.path)
  const found = await fileAt(cached)
  if (folder === undefined || found === undefined || found.size !== file.byteLength) return false
  await replaceFile(path, (temporary) => promises.copyFile(cached, temporary, constants.COPYFILE_FICLONE))
  await writeMetadata(folder, commit, file.path, etag)
  return true
}

/** Remembers the version of a file in a folder, as `huggingface_hub` does. */
async function writeMetadata(folder: string, commit: string, path: string, etag: string): Promise<void> {
  await writeFile(metadataOf(folder, path), `${commit}\n${etag}\n${Date.now() / 1000}\n`)
  await writeFile(join(folder, '.cache', 'huggingface', '.gitignore'), '*', { flag: 'wx' }).catch(() => {})
}

/** Checks a file that Git stores itself against the SHA-1 that the hub lists. */
async function checkBlob(url: string, path: string, sha1: string): Promise<void> {
  if ((await hashFile(path, 'git-sha1')) === sha1) return
  await rm(path, { force: true })
  const message = `'${url}': the bytes that arrived do not have the SHA-1 that the hub lists (${sha1}): download the file again`
  throw new ZTensorError('ZT_DIGEST_MISMATCH', message)
}

/** Fails before the download if the disk has too little space. */
async function checkSpace(folder: string, bytes: number): Promise<void> {
  const found = await statfs(folder).catch(() => undefined)
  const free = found === undefined ? Number.POSITIVE_INFINITY : found.bavail * found.bsize
  if (bytes <= free) return
  throw new ZTensorError(
    'ZT_IO',
    `'${folder}' has space for ${free} bytes, but the download needs ${bytes}: free space, or set HF_HUB_CACHE to another folder`,
  )
}

/**
 * Downloads the files that are not at their destination. An error stops all of them; what arrived is continued by the next download.
 *
 * @throws ZTensorError ZT_IO, ZT_DIGEST_MISMATCH; the signal's reason
 */
export async function fetchFiles(to: Destination, files: readonly HubFile[], job: FetchJob): Promise<Fetched[]> {
  const root = to.folder ?? to.place.folder
  const fetched = new Array<Fetched | undefined>(files.length)
  const missing: number[] = []
  for (const [at, file] of files.entries()) {
    if (await isThere(to, file)) {
      const path = destinationOf(to, file.path)
      fetched[at] = { path, byteLength: (await fileAt(path))?.size ?? 0, isNew: false }
    } else missing.push(at)
  }
  const sizeOf = (at: number): number => files[at]?.byteLength ?? 0
  // The largest first, so that they do not remain for the end.
  missing.sort((a, b) => sizeOf(b) - sizeOf(a))
  const arrived = new Map<number, number>()
  const totalBytes = files.reduce((sum, _, at) => sum + (fetched[at]?.byteLength ?? sizeOf(at)), 0)
  const report = () => {
    let [bytes, done] = [0, 0]
    for (const file of fetched) if (file !== undefined) [bytes, done] = [bytes + file.byteLength, done + 1]
    for (const [at, count] of arrived) if (fetched[at] === undefined) bytes += count
    job.onProgress?.({ bytes, totalBytes: Math.max(totalBytes, bytes), files: done, totalFiles: files.length })
  }
  try {
    if (missing.length > 0) await mkdir(root, { recursive: true })
    if (missing.length > 0 && to.folder === undefined) await tagCache(to.place.root)
    await checkSpace(root, missing.reduce((sum, at) => sum + sizeOf(at), 0)) // biome-ignore format: one check
    const isLarge = (at: number): boolean => (files[at]?.byteLength ?? PIECE + 1) > PIECE
    const large = Math.min(FILES, missing.filter(isLarge).length)
    await inParallel(missing, job, async (at, signal) => {
      const window = isLarge(at) ? Math.floor(MEMORY / 2 / large) : PIECE
      const onBytes = (bytes: number) => {
        arrived.set(at, bytes)
        report()
      }
      fetched[at] = await fetchFile(to, files[at] as HubFile, window, onBytes, signal)
      report()
    })
  } catch (error) {
    throw ioError(root, error)
  }
  report()
  return fetched as Fetched[]
}

/** Runs `work` for several items at once. The first error aborts the others, and is thrown when they have ended. */
async function inParallel(
  items: readonly number[],
  { signal }: FetchJob,
  work: (item: number, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stopped = new AbortController()
  const all = signal === undefined ? stopped.signal : AbortSignal.any([signal, stopped.signal])
  const queue = items.values()
  const errors: unknown[] = []
  const worker = async (): Promise<void> => {
    for (const item of queue) {
      if (all.aborted) return
      try {
        await work(item, all)
      } catch (error) {
        errors.push(error)
        stopped.abort()
      }
    }
  }
  await Promise.all(Array.from({ length: FILES }, worker))
  signal?.throwIfAborted()
  if (errors.length > 0) throw errors[0]
}

/** The access of a download: requests of a size that suits it. */
export const downloading = (remote: RemoteAccess): RemoteAccess => ({ pieceBytes: PIECE, ...remote })
