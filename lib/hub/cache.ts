// The cache of the hub's clients: what it has, removing it, and checking it.
import { promises } from 'node:fs'
import { basename, dirname, join, resolve, sep } from 'node:path'
import { invalid, ZTensorError } from '../native/errors.js'
import { type Counts, type JobOptions, type ValidJob, withRates } from '../native/job.js'
import { urlText } from '../native/realm.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateFunction,
  validateText,
} from '../values/arguments.js'
import { validateFolder } from '../values/folder.js'
import { remoteRequest } from '../values/remote.js'
import { digestOf, hashFile } from './digest.js'
import { cacheRoot, type Place, placeOf } from './place.js'
import { cachedCommit, fileAt, ioError, REPOSITORY, snapshotFiles, unlessAbsent } from './snapshot.js'

const { lstat, readdir, readlink, rm } = promises

/** A commit in the cache of the hub. */
export interface CachedRevision {
  readonly commit: string
  /** The branches and tags that referred to it when they were last downloaded. */
  readonly refs: readonly string[]
  /** Number of files. */
  readonly files: number
  /** Size in bytes. Commits share files that are the same. */
  readonly byteLength: number
  /** The folder with the files. `open` accepts it. */
  readonly path: string
}

/** A repository in the cache of the hub. */
export interface CachedRepository {
  /** Its URL, such as `hf://owner/repository`. */
  readonly url: string
  /** The folder of the repository in the cache. */
  readonly path: string
  /** Size in bytes on disk, with unfinished downloads. */
  readonly byteLength: number
  /** Bytes of unfinished downloads. */
  readonly incompleteBytes: number
  /** When a file of it was last downloaded. */
  readonly modified: Date
  readonly revisions: readonly CachedRevision[]
}

/** Options of the calls for the cache of the hub. */
export interface CacheOptions {
  /** The cache folder: that of `HF_HUB_CACHE` by default, or `~/.cache/huggingface/hub`. */
  folder?: string | URL | undefined
  /** Cancels the call, which rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

/** How to check the cache of the hub. */
export interface VerifyCacheOptions extends CacheOptions {
  /** Called about every MiB, with the bytes that were read. */
  onProgress?: JobOptions['onProgress']
  /** Remove damaged files and dangling links, so that the next download fetches them again. */
  remove?: boolean | undefined
}

/** A file of the cache that is damaged. */
export interface CacheFailure {
  /** `digest`: the bytes do not have the digest that is the name of the blob. `link`: the blob of a file is missing. */
  readonly reason: 'digest' | 'link'
  /** The path of the blob or link. */
  readonly path: string
  /** The files of snapshots that have these bytes. */
  readonly names: readonly string[]
}

/** The result of `verifyCache`. */
export interface VerifyCacheResult {
  /** Whether nothing is damaged. */
  readonly ok: boolean
  /** Number of files with a matching digest. */
  readonly checked: number
  /** Number of files without a digest in their name: only their presence was checked. */
  readonly unchecked: number
  readonly failures: readonly CacheFailure[]
}

/** What `removeCached` removed. */
export interface RemoveCachedResult {
  /** Number of bytes that are free now. */
  readonly byteLength: number
  /** The removed commits. */
  readonly commits: readonly string[]
}

const INCOMPLETE = /\.incomplete$/

/** The names in a folder; none if it does not exist. */
const namesIn = async (folder: string): Promise<string[]> => (await unlessAbsent(readdir(folder))) ?? []

/** The place of a URL, in the cache that the options name. */
async function placeIn(url: string | URL, folder: string | undefined): Promise<Place> {
  const text = validateText('url', urlText(url) ?? url)
  if (!/^hf:\/\//i.test(text)) throw invalid(RangeError, 'url must be an hf: URL, such as hf://owner/repository')
  const place = await placeOf(text, remoteRequest(undefined))
  return folder === undefined ? place : { ...place, root: folder, folder: join(folder, basename(place.folder)) }
}

/** The commits that branches and tags refer to: name -> commit. */
async function refsOf(folder: string): Promise<Map<string, string>> {
  const refs = new Map<string, string>()
  const root = join(folder, 'refs')
  const folders = ['']
  for (const inner of folders) {
    for (const entry of (await unlessAbsent(readdir(join(root, inner), { withFileTypes: true }))) ?? []) {
      const name = join(inner, entry.name)
      if (entry.isDirectory()) folders.push(name)
      const ref = name.split(sep).join('/')
      const commit = entry.isFile() ? await cachedCommit(folder, ref) : undefined
      if (commit !== undefined) refs.set(ref, commit)
    }
  }
  return refs
}

async function repositoryIn(root: string, name: string): Promise<CachedRepository> {
  const path = join(root, name)
  const [, kind = '', owner, repository] = REPOSITORY.exec(name) ?? []
  const refs = await refsOf(path)
  const revisions: CachedRevision[] = []
  let [byteLength, incompleteBytes, modified] = [0, 0, 0]
  const count = (size: number, time: number) => {
    byteLength += size
    modified = Math.max(modified, time)
  }
  for (const blob of await namesIn(join(path, 'blobs'))) {
    const found = await fileAt(join(path, 'blobs', blob))
    if (found === undefined) continue
    count(found.size, found.mtimeMs)
    if (INCOMPLETE.test(blob)) incompleteBytes += found.size
  }
  for (const commit of await namesIn(join(path, 'snapshots'))) {
    const files = await snapshotFiles(path, commit)
    for (const file of files) {
      // Without links the snapshot has the bytes.
      const found = await unlessAbsent(lstat(join(path, 'snapshots', commit, file.path)))
      if (found?.isFile()) count(found.size, found.mtimeMs)
    }
    revisions.push({
      commit,
      refs: [...refs].filter(([, other]) => other === commit).map(([ref]) => ref),
      files: files.length,
      byteLength: files.reduce((sum, file) => sum + (file.byteLength ?? 0), 0),
      path: join(path, 'snapshots', commit),
    })
  }
  const url = `hf://${kind === 'models' ? '' : `${kind}/`}${owner}/${repository}`
  return { url, path, byteLength, incompleteBytes, modified: new Date(modified), revisions }
}

/** The folder and the signal of a call. */
function cacheOptions({ folder, signal }: CacheOptions): {
  folder: string | undefined
  signal: AbortSignal | undefined
} {
  const valid = {
    folder: optional(folder, (value) => validateFolder('folder', value)),
    signal: optional(signal, validateAbortSignal),
  }
  valid.signal?.throwIfAborted()
  return valid
}

/** `listCache` of lib/lazy.ts. */
export async function listCache(options?: CacheOptions): Promise<CachedRepository[]> {
  const { folder, signal } = cacheOptions(readOptions(options, ['folder', 'signal']))
  const root = folder ?? (await cacheRoot(remoteRequest(undefined)))
  try {
    const names = (await namesIn(root)).filter((name) => REPOSITORY.test(name)).sort()
    const found: CachedRepository[] = []
    for (const name of names) {
      signal?.throwIfAborted()
      found.push(await repositoryIn(root, name))
    }
    signal?.throwIfAborted()
    return found
  } catch (error) {
    throw ioError(root, error)
  }
}

/** The blobs that the snapshot of a commit uses. */
async function blobsOf(folder: string, commit: string): Promise<Set<string>> {
  const blobs = new Set<string>()
  for (const { path } of await snapshotFiles(folder, commit)) {
    const link = join(folder, 'snapshots', commit, path)
    const target = await readlink(link).catch(() => undefined)
    if (target !== undefined) blobs.add(resolve(dirname(link), target))
  }
  return blobs
}

/** `removeCached` of lib/lazy.ts. */
export async function removeCached(url: string | URL, options?: CacheOptions): Promise<RemoveCachedResult> {
  const { folder: given, signal } = cacheOptions(readOptions(options, ['folder', 'signal']))
  const place = await placeIn(url, given)
  if (place.path !== '') throw invalid(RangeError, 'url must name a repository, not a file of it')
  const isWhole = !/@/.test(String(urlText(url) ?? url))
  const { folder, root } = place
  try {
    if ((await unlessAbsent(lstat(folder))) === undefined) throw notCached(place)
    const before = await repositoryIn(root, basename(folder))
    const commit = (await cachedCommit(folder, place.revision)) ?? place.revision
    const removed = before.revisions.filter((revision) => isWhole || revision.commit === commit)
    if (removed.length === 0 && !isWhole) throw notCached(place)
    // From here on the call is not canceled: half of a commit would remain.
    signal?.throwIfAborted()
    if (isWhole || removed.length === before.revisions.length) {
      for (const path of [folder, join(root, '.locks', basename(folder))])
        await rm(path, { recursive: true, force: true })
      return { byteLength: before.byteLength, commits: removed.map((revision) => revision.commit) }
    }
    const blobs = await blobsOf(folder, commit)
    for (const { commit: other } of before.revisions.filter((revision) => revision.commit !== commit))
      for (const blob of await blobsOf(folder, other)) blobs.delete(blob)
    for (const [ref, other] of await refsOf(folder)) if (other === commit) await rm(join(folder, 'refs', ref))
    await rm(join(folder, 'snapshots', commit), { recursive: true, force: true })
    await rm(join(folder, '.no_exist', commit), { recursive: true, force: true })
    // Only blobs of this repository: a link may lead elsewhere.
    for (const blob of blobs) if (dirname(blob) === join(folder, 'blobs')) await rm(blob, { force: true })
    const after = await repositoryIn(root, basename(folder))
    return { byteLength: before.byteLength - after.byteLength, commits: [commit] }
  } catch (error) {
    throw ioError(folder, error)
  }
}

function notCached({ kind, repository, revision, root }: Place): ZTensorError {
  const url = `hf://${kind === 'models' ? '' : `${kind}/`}${repository}@${revision}`
  return new ZTensorError('ZT_NOT_FOUND', `'${url}' is not in the cache '${root}': ztensor cache ls lists what it has`)
}

/** A file to check: a blob, or a file of a snapshot whose link leads nowhere. */
interface Checked {
  readonly path: string
  readonly size: number
  readonly reason: CacheFailure['reason']
  readonly names: readonly string[]
  /** The links that lead to a blob. */
  readonly links: readonly string[]
}

/** The blobs of a repository, and its dangling links. */
async function filesToCheck(folder: string): Promise<Checked[]> {
  const uses = new Map<string, { names: Set<string>; links: string[] }>()
  const dangling: Checked[] = []
  for (const commit of await namesIn(join(folder, 'snapshots'))) {
    for (const { path, byteLength } of await snapshotFiles(folder, commit)) {
      const link = join(folder, 'snapshots', commit, path)
      const target = await readlink(link).catch(() => undefined)
      if (target === undefined) continue
      const blob = resolve(dirname(link), target)
      if (byteLength === undefined) dangling.push({ path: link, size: 0, reason: 'link', names: [path], links: [] })
      const use = uses.get(blob) ?? { names: new Set(), links: [] }
      uses.set(blob, { names: use.names.add(path), links: [...use.links, link] })
    }
  }
  const blobs: Checked[] = []
  for (const name of await namesIn(join(folder, 'blobs'))) {
    const path = join(folder, 'blobs', name)
    const found = INCOMPLETE.test(name) ? undefined : await fileAt(path)
    if (found === undefined) continue
    const { names = [], links = [] } = uses.get(path) ?? {}
    blobs.push({ path, size: found.size, reason: 'digest', names: [...names], links })
  }
  return [...blobs, ...dangling]
}

/** `verifyCache` of lib/lazy.ts. */
export async function verifyCache(url?: string | URL, options?: VerifyCacheOptions): Promise<VerifyCacheResult> {
  const read = readOptions(options, ['folder', 'remove', 'onProgress', 'signal'])
  const { folder: given, signal } = cacheOptions(read)
  const removes = optional(read.remove, (value) => validateBoolean('remove', value)) ?? false
  optional(read.onProgress, (value) => validateFunction('onProgress', value))
  const root = given ?? (await cacheRoot(remoteRequest(undefined)))
  const place = url === undefined ? undefined : await placeIn(url, given)
  try {
    if (place !== undefined && (await unlessAbsent(lstat(place.folder))) === undefined) throw notCached(place)
    const all = (await namesIn(root)).filter((name) => REPOSITORY.test(name)).map((name) => join(root, name))
    const files: Checked[] = []
    for (const folder of place === undefined ? all.sort() : [place.folder]) files.push(...(await filesToCheck(folder)))
    const result = await check(files, removes, withRates<Counts>(read.onProgress), signal)
    signal?.throwIfAborted()
    return result
  } catch (error) {
    signal?.throwIfAborted()
    throw ioError(root, error)
  }
}

async function check(
  files: readonly Checked[],
  removes: boolean,
  onProgress: ValidJob['onProgress'],
  signal: AbortSignal | undefined,
): Promise<VerifyCacheResult> {
  const totals = { totalBytes: files.reduce((sum, { size }) => sum + size, 0), totalTensors: 0 }
  const failures: CacheFailure[] = []
  let [bytes, checked, unchecked] = [0, 0, 0]
  for (const { path, reason, names, links } of files) {
    signal?.throwIfAborted()
    const digest = digestOf(basename(path))
    const onBytes = (count: number) => {
      bytes += count
      onProgress?.({ bytes, tensors: 0, ...totals })
    }
    if (reason === 'digest' && digest === undefined) {
      unchecked += 1
    } else if (
      reason === 'digest' &&
      (await hashFile(path, digest ?? 'sha256', { signal, onBytes })) === basename(path)
    ) {
      checked += 1
    } else {
      failures.push({ reason, path, names })
      for (const damaged of removes ? [...links, path] : []) await rm(damaged, { force: true })
    }
  }
  return { ok: failures.length === 0, checked, unchecked, failures }
}
