// Opens remote files, by URL.
import { fillCache } from '../hub/fill.js'
import { invalid } from '../native/errors.js'
import { run, unopened } from '../native/job.js'
import { binding, type OpenRequest } from '../native/native.js'
import { validateText } from '../values/arguments.js'
import type { RemoteAccess } from '../values/remote.js'
import { TensorFile } from './file.js'
import type { Origin } from './store.js'

/** Opens the file, index or folder at a URL, or the files at several URLs as one. */
export async function openUrls(
  urls: readonly string[],
  request: OpenRequest,
  remote: RemoteAccess,
  origin: Origin,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  for (const [at, url] of urls.entries()) validateText(urls.length === 1 ? 'source' : `source[${at}]`, url)
  if (remote.fillsHubCache === true) return openDownloaded(urls, request, remote, origin, signal)
  const open = (control: InstanceType<typeof binding.Control>) => binding.openUrls([...urls], request, remote, control)
  const native = await run(unopened(), { signal }, open)
  const path = native.location
  return TensorFile.make(native, path === null || path === undefined ? origin : { ...origin, path })
}

/** Opens files of the hub in the cache of its clients. Missing ones are downloaded first, whole. */
async function openDownloaded(
  urls: readonly string[],
  request: OpenRequest,
  { fillsHubCache: _, onDownload, ...remote }: RemoteAccess,
  origin: Origin,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  const other = urls.find((url) => !/^hf:/i.test(url))
  if (other !== undefined) {
    const message = "remote.cache 'hub' is only for hf: URLs: name a folder for the copies of other files"
    throw invalid(RangeError, message, { option: 'remote.cache' })
  }
  const file = await openUrls(urls, request, remote, origin, signal)
  if (!TensorFile.storeOf(file).isRemote) return file
  const names = file.files.flatMap(({ path }) => path ?? [])
  file.close()
  const pinned = await fillCache(urls, names, remote, { onProgress: onDownload, signal })
  return openUrls(pinned, request, remote, origin, signal)
}
