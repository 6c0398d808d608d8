// Downloads files of the Hugging Face hub to its cache, or to a folder.
import { resolve } from 'node:path'
import { invalid, ZTensorError } from '../native/errors.js'
import { withRates } from '../native/job.js'
import { urlText } from '../native/realm.js'
import {
  optional,
  readOptions,
  refusePromise,
  validateAbortSignal,
  validateFunction,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { checkGlobs, namesMatching } from '../values/filter.js'
import { validateFolder } from '../values/folder.js'
import { type DownloadProgress, type RemoteAccess, type RemoteOptions, remoteRequest } from '../values/remote.js'
import { type Destination, downloading, type FetchJob, type FetchProgress, fetchFiles } from './fetch.js'
import { type Place, placeOf, urlOf } from './place.js'
import { type HubFile, isOffline, type Revision, revisionOf } from './revision.js'
import { snapshotPath, writeMissing, writeRef } from './snapshot.js'

/** What to download, and where to. */
export interface DownloadOptions {
  /**
   * The files to download, by their paths in the repository: a glob (`*` matches any characters, `?` a single character) or a list of
   * globs; one that begins with `!` excludes what it matches. All files by default.
   */
  filter?: string | readonly string[] | undefined
  /** A folder, in which the files get their own names and paths. The cache of the hub by default. */
  to?: string | URL | undefined
  /** How to access the hub: headers, time limits, retries, `offline`. The options for other caches and for stores have no effect. */
  remote?: Omit<RemoteOptions, 'cache' | 'maxCacheBytes' | 'store' | 'maxWholeBytes' | 'onDownload'> | undefined
  /** Called about every 100 ms while bytes arrive, and once at the end. */
  onProgress?: ((progress: DownloadProgress) => void) | undefined
  /** Cancels the download: the call rejects with `signal.reason`. What arrived is continued by the next download. */
  signal?: AbortSignal | undefined
}

/** A downloaded file. */
export interface DownloadedFile {
  /** The path in the repository, with slashes. */
  readonly name: string
  /** The path on this machine. */
  readonly path: string
  /** Size in bytes. */
  readonly byteLength: number
  /** Whether it was downloaded now, rather than before. */
  readonly isNew: boolean
}

/** The result of a download. */
export interface DownloadResult {
  /** The path of the file or folder that the URL names: in the snapshot of the commit, or in the folder `to`. `open` accepts it. */
  readonly path: string
  /** The commit to which the revision refers. */
  readonly commit: string
  readonly files: readonly DownloadedFile[]
}

const OPTIONS = ['filter', 'to', 'remote', 'onProgress', 'signal'] as const
const REMOTE = ['headers', 'concurrency', 'pieceBytes', 'timeout', 'retries', 'allowPrivate', 'offline'] as const

/** `download` of lib/lazy.ts. */
export async function download(url: string | URL, options?: DownloadOptions): Promise<DownloadResult> {
  const read = readOptions(options, OPTIONS)
  const text = validateText('url', urlText(url) ?? url)
  if (!/^hf:\/\//i.test(text)) throw invalid(RangeError, 'url must be an hf: URL, such as hf://owner/repository')
  const remote = remoteRequest(optional(read.remote, (value) => readOptions(value as RemoteOptions, REMOTE, 'remote')))
  const folder = optional(read.to, (value) => validateFolder('to', value))
  const { filter } = read
  if (filter !== undefined && typeof filter !== 'string' && !Array.isArray(filter))
    throw wrongType('filter', 'a glob or a list of globs', filter)
  const matches = filter === undefined ? undefined : namesMatching(filter)
  optional(read.onProgress, (value) => validateFunction('onProgress', value))
  const signal = optional(read.signal, validateAbortSignal)
  signal?.throwIfAborted()
  const place = await placeOf(text, remote)
  const revision = await revisionOf(place, remote, signal)
  const named = await filesOf(place, revision, remote)
  const names = named.map(({ path }) => path)
  if (filter !== undefined) checkGlobs('filter', filter, names, 'file')
  const files = matches === undefined ? named : named.filter(({ path }) => matches(path))
  const to = { place, commit: revision.commit, folder, remote: downloading(remote) }
  const fetched = await fetchRevision(to, files, { onProgress: reporter(read.onProgress), signal })
  signal?.throwIfAborted()
  const downloaded = fetched.map((file, at) => ({ name: (files[at] as HubFile).path, ...file }))
  const root = snapshotPath(folder ?? place.folder, revision.commit, place.path)
  return { path: folder === undefined ? root : resolve(folder, place.path), commit: revision.commit, files: downloaded }
}

/** What a download reports to: the caller's function, which gets rates since now and must not be async. */
export const reporter = (onProgress: DownloadOptions['onProgress']): FetchJob['onProgress'] =>
  withRates<FetchProgress>(
    onProgress && ((progress: DownloadProgress) => refusePromise('onProgress', onProgress(progress))),
  )

/** The files of a revision that a URL names: the file, those of the folder, or all. */
async function filesOf(place: Place, { commit, files }: Revision, remote: RemoteAccess): Promise<readonly HubFile[]> {
  const { path } = place
  const named = path === '' ? files : files.filter((file) => file.path === path || file.path.startsWith(`${path}/`))
  if (named.length > 0) return named
  if (path !== '' && !isOffline(remote)) await writeMissing(place.folder, commit, path).catch(() => {})
  const what = path === '' ? 'the repository has no files' : 'the commit has no such file or folder'
  throw new ZTensorError('ZT_NOT_FOUND', `'${urlOf(place, commit, path)}': ${what}`)
}

/** Downloads files of a commit, and remembers the commit of the revision. */
export async function fetchRevision(
  to: Destination,
  files: readonly HubFile[],
  job: Parameters<typeof fetchFiles>[2],
): ReturnType<typeof fetchFiles> {
  const fetched = await fetchFiles(to, files, job)
  if (to.folder !== undefined || isOffline(to.remote)) return fetched
  try {
    await writeRef(to.place.folder, to.place.revision, to.commit)
  } catch (error) {
    // A cache that has all files may be read-only.
    if (fetched.some(({ isNew }) => isNew)) throw error
  }
  return fetched
}
