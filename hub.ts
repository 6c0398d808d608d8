// The entry `ztensor/hub`: models of the Hugging Face Hub, and its cache. Its code (lib/deferred.ts) is loaded at the first call.
import type {
  CachedRepository,
  CachedRevision,
  CacheFailure,
  CacheOptions,
  RemoveCachedResult,
  VerifyCacheOptions,
  VerifyCacheResult,
} from './lib/hub/cache.js'
import type { DownloadedFile, DownloadOptions, DownloadResult } from './lib/hub/download.js'
import type { ListedModel, ListOptions } from './lib/read/list.js'
import type { DownloadProgress } from './lib/values/remote.js'

export type {
  CachedRepository,
  CachedRevision,
  CacheFailure,
  CacheOptions,
  DownloadedFile,
  DownloadOptions,
  DownloadProgress,
  DownloadResult,
  ListedModel,
  ListOptions,
  RemoveCachedResult,
  VerifyCacheOptions,
  VerifyCacheResult,
}

// require() instead of import(): the arguments must be read before other code of the caller runs.
const deferred = () => require('./lib/deferred.js') as typeof import('./lib/deferred.js')

/**
 * Downloads files of the Hugging Face hub to its own cache, where Python and other clients of the hub find them, and this package opens
 * them by the same URL. Files that the cache has are not fetched again. Several files and several parts of each are fetched at once. A
 * download that was aborted or killed is continued. The bytes are checked against the digests that the hub lists: SHA-256 of large
 * files, SHA-1 of others.
 *
 * `url` is `hf://owner/repository`, a folder or a file of it, with `@` and a branch, tag or commit after the repository; datasets begin
 * with `hf://datasets/`. The token, the endpoint and the folders come from the variables that Python uses.
 *
 * @example
 * const { path } = await download('hf://openai-community/gpt2', { filter: ['*.safetensors', '*.json'] })
 *
 * @throws ZTensorError ZT_IO if the hub, the network or the disk fails, also for a missing permission; ZT_NOT_FOUND for a file that the
 * commit does not have; ZT_DIGEST_MISMATCH for damaged bytes; ZT_OUT_OF_BOUNDS for a file that would be outside of the folder; ZT_LIMIT.
 * TypeError and RangeError ZT_INVALID_ARG, also for a glob that matches no file; the signal's reason
 */
export async function download(url: string | URL, options?: DownloadOptions): Promise<DownloadResult> {
  return deferred().download(url, options)
}

/**
 * Lists the models of a repository of the Hugging Face Hub (`hf://owner/repository`), of a folder of it, or of a local folder, with their
 * sizes and formats. A set of files is one model. Only the names of files are read, in one request; `headers` also opens each model.
 *
 * @example
 * const models = await list('hf://bartowski/SmolLM2-135M-Instruct-GGUF')
 * const small = models.find(({ mixture }) => mixture === 'Q4_K_M')
 *
 * @throws ZTensorError ZT_IO if the hub or the folder cannot be read; ZT_NOT_FOUND for a folder that the commit does not have;
 * ZT_OUT_OF_BOUNDS; ZT_LIMIT. TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function list(source: string | URL, options?: ListOptions): Promise<ListedModel[]> {
  return deferred().list(source, options)
}

/**
 * Lists the repositories in the cache of the Hugging Face Hub, sorted by name.
 *
 * @throws ZTensorError ZT_IO if the folder cannot be read; TypeError ZT_INVALID_ARG
 */
export async function listCache(options?: CacheOptions): Promise<CachedRepository[]> {
  return deferred().listCache(options)
}

/**
 * Removes a repository from the cache of the Hugging Face Hub, or with `@` and a branch, tag or commit only what no other commit uses.
 *
 * @example await removeCached('hf://openai-community/gpt2')
 *
 * @throws ZTensorError ZT_NOT_FOUND if the cache does not have it; ZT_IO; TypeError and RangeError ZT_INVALID_ARG
 */
export async function removeCached(url: string | URL, options?: CacheOptions): Promise<RemoveCachedResult> {
  return deferred().removeCached(url, options)
}

/**
 * Checks the files in the cache of the Hugging Face Hub against the digests that are their names: of one repository, or of all.
 *
 * @example const { ok, failures } = await verifyCache('hf://openai-community/gpt2')
 *
 * @throws ZTensorError ZT_NOT_FOUND if the cache does not have it; ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function verifyCache(url?: string | URL, options?: VerifyCacheOptions): Promise<VerifyCacheResult> {
  return deferred().verifyCache(url, options)
}
