// Downloads the files of a model that was opened by URL to the cache of the hub's clients.
import type { RemoteAccess } from '../values/remote.js'
import { fetchRevision, reporter } from './download.js'
import { downloading } from './fetch.js'
import { placeOf, urlOf } from './place.js'
import { type HubFile, revisionOf } from './revision.js'

/** Files that describe a model: its configuration, tokenizer, templates and the index of a set. A conversion may need them. */
const COMPANION = /\.(json|jinja|txt|model)$/
/** Maximum size of such a file in bytes. */
const MAX_COMPANION = 64 * 2 ** 20

/** A path of an open file as a URL. */
const encoded = (path: string): string =>
  `hf://${path.slice('hf://'.length).split('/').map(encodeURIComponent).join('/')}`

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf('/') + 1)

/**
 * Downloads `files`, which are `hf:` URLs with a commit, and the small files next to them. Returns `urls` with their commits, under which
 * the cache has the files.
 */
export async function fillCache(
  urls: readonly string[],
  files: readonly string[],
  remote: RemoteAccess,
  { onProgress, signal }: { onProgress: RemoteAccess['onDownload']; signal: AbortSignal | undefined },
): Promise<string[]> {
  const pinned: string[] = []
  for (const url of urls) {
    const place = await placeOf(url, remote)
    const revision = await revisionOf(place, remote, signal)
    const of = (await Promise.all(files.map((file) => placeOf(encoded(file), remote)))).filter(
      (file) => file.folder === place.folder,
    )
    const paths = new Set(of.map(({ path }) => path))
    const folders = new Set([...paths].map(folderOf))
    const isWanted = ({ path, byteLength }: HubFile): boolean =>
      paths.has(path) ||
      (COMPANION.test(path) && folders.has(folderOf(path)) && (byteLength ?? MAX_COMPANION + 1) <= MAX_COMPANION)
    const to = { place, commit: revision.commit, folder: undefined, remote: downloading(remote) }
    await fetchRevision(to, revision.files.filter(isWanted), { onProgress: reporter(onProgress), signal })
    pinned.push(urlOf(place, revision.commit, place.path))
  }
  return pinned
}
