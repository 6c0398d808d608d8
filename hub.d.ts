// The public types of ztensor, rolled up from hub.ts by `npm run types`. Not edited by hand.

/// <reference types="node" />

import type { JobOptions, RemoteOptions, TensorFile } from './index.js'
/** The progress of a download. */
export interface DownloadProgress {
	/** Bytes that arrived, including those of earlier downloads. */
	readonly bytes: number;
	/** Bytes of all files. */
	readonly totalBytes: number;
	/** Number of complete files. */
	readonly files: number;
	readonly totalFiles: number;
	/** Bytes per second since the call began; undefined before the first bytes. */
	readonly bytesPerSecond: number | undefined;
	/** Estimate of the remaining milliseconds at this rate; 0 at the end, and undefined at the beginning. */
	readonly remainingMs: number | undefined;
}

/** A commit in the cache of the hub. */
export interface CachedRevision {
	readonly commit: string;
	/** The branches and tags that referred to it when they were last downloaded. */
	readonly refs: readonly string[];
	/** Number of files. */
	readonly files: number;
	/** Size in bytes. Commits share files that are the same. */
	readonly byteLength: number;
	/** The folder with the files. `open` accepts it. */
	readonly path: string;
}

/** A repository in the cache of the hub. */
export interface CachedRepository {
	/** Its URL, such as `hf://owner/repository`. */
	readonly url: string;
	/** The folder of the repository in the cache. */
	readonly path: string;
	/** Size in bytes on disk, with unfinished downloads. */
	readonly byteLength: number;
	/** Bytes of unfinished downloads. */
	readonly incompleteBytes: number;
	/** When a file of it was last downloaded. */
	readonly modified: Date;
	readonly revisions: readonly CachedRevision[];
}

/** Options of the calls for the cache of the hub. */
export interface CacheOptions {
	/** The cache folder: that of `HF_HUB_CACHE` by default, or `~/.cache/huggingface/hub`. */
	folder?: string | URL | undefined;
	/** Cancels the call, which rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}

/** How to check the cache of the hub. */
export interface VerifyCacheOptions extends CacheOptions {
	/** Called about every MiB, with the bytes that were read. */
	onProgress?: JobOptions["onProgress"];
	/** Remove damaged files and dangling links, so that the next download fetches them again. */
	remove?: boolean | undefined;
}

/** A file of the cache that is damaged. */
export interface CacheFailure {
	/** `digest`: the bytes do not have the digest that is the name of the blob. `link`: the blob of a file is missing. */
	readonly reason: "digest" | "link";
	/** The path of the blob or link. */
	readonly path: string;
	/** The files of snapshots that have these bytes. */
	readonly names: readonly string[];
}

/** The result of `verifyCache`. */
export interface VerifyCacheResult {
	/** Whether nothing is damaged. */
	readonly ok: boolean;
	/** Number of files with a matching digest. */
	readonly checked: number;
	/** Number of files without a digest in their name: only their presence was checked. */
	readonly unchecked: number;
	readonly failures: readonly CacheFailure[];
}

/** What `removeCached` removed. */
export interface RemoveCachedResult {
	/** Number of bytes that are free now. */
	readonly byteLength: number;
	/** The removed commits. */
	readonly commits: readonly string[];
}

/** What to download, and where to. */
export interface DownloadOptions {
	/**
	 * The files to download, by their paths in the repository: a glob (`*` matches any characters, `?` a single character) or a list of
	 * globs; one that begins with `!` excludes what it matches. All files by default.
	 */
	filter?: string | readonly string[] | undefined;
	/** A folder, in which the files get their own names and paths. The cache of the hub by default. */
	to?: string | URL | undefined;
	/** How to access the hub: headers, time limits, retries, `offline`. The options for other caches and for stores have no effect. */
	remote?: Omit<RemoteOptions, "cache" | "maxCacheBytes" | "store" | "maxWholeBytes" | "onDownload"> | undefined;
	/** Called about every 100 ms while bytes arrive, and once at the end. */
	onProgress?: ((progress: DownloadProgress) => void) | undefined;
	/** Cancels the download: the call rejects with `signal.reason`. What arrived is continued by the next download. */
	signal?: AbortSignal | undefined;
}

/** A downloaded file. */
export interface DownloadedFile {
	/** The path in the repository, with slashes. */
	readonly name: string;
	/** The path on this machine. */
	readonly path: string;
	/** Size in bytes. */
	readonly byteLength: number;
	/** Whether it was downloaded now, rather than before. */
	readonly isNew: boolean;
}

/** The result of a download. */
export interface DownloadResult {
	/** The path of the file or folder that the URL names: in the snapshot of the commit, or in the folder `to`. `open` accepts it. */
	readonly path: string;
	/** The commit to which the revision refers. */
	readonly commit: string;
	readonly files: readonly DownloadedFile[];
}

/** What to list. */
export interface ListOptions {
	/** Open each model for `tensors`, `parameters`, `architecture` and the mixture that it states: false by default. Reads only indexes. */
	headers?: boolean | undefined;
	/** How to access the hub. */
	remote?: RemoteOptions | undefined;
	/** Cancels the call, which rejects with `signal.reason`. */
	signal?: AbortSignal | undefined;
}

/** A model in a list. */
export interface ListedModel {
	/** The path of its file or index, relative to the repository or folder, with slashes. */
	readonly name: string;
	/** The path or URL by which `open` opens it. */
	readonly source: string;
	/** The format: by the extension, and with `headers` that of the file. */
	readonly format: TensorFile["format"];
	/** Size in bytes of all of its files; undefined if the hub does not list sizes. */
	readonly byteLength: number | undefined;
	/** Number of files with tensors. */
	readonly files: number;
	/** The mixture of types, as llama.cpp writes it: `'Q4_K_M'`. With `headers` as the file states it, otherwise as its name says. */
	readonly mixture?: string | undefined;
	/** Number of tensors, with `headers`. */
	readonly tensors?: number | undefined;
	/** Number of elements of all tensors, with `headers`. */
	readonly parameters?: number | undefined;
	/** The architecture that the file states, with `headers`: `'llama'`. */
	readonly architecture?: string | undefined;
	/** Why the model could not be opened, with `headers`. */
	readonly error?: unknown;
}

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
export declare function download(url: string | URL, options?: DownloadOptions): Promise<DownloadResult>;

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
export declare function list(source: string | URL, options?: ListOptions): Promise<ListedModel[]>;

/**
 * Lists the repositories in the cache of the Hugging Face Hub, sorted by name.
 *
 * @throws ZTensorError ZT_IO if the folder cannot be read; TypeError ZT_INVALID_ARG
 */
export declare function listCache(options?: CacheOptions): Promise<CachedRepository[]>;

/**
 * Removes a repository from the cache of the Hugging Face Hub, or with `@` and a branch, tag or commit only what no other commit uses.
 *
 * @example await removeCached('hf://openai-community/gpt2')
 *
 * @throws ZTensorError ZT_NOT_FOUND if the cache does not have it; ZT_IO; TypeError and RangeError ZT_INVALID_ARG
 */
export declare function removeCached(url: string | URL, options?: CacheOptions): Promise<RemoveCachedResult>;

/**
 * Checks the files in the cache of the Hugging Face Hub against the digests that are their names: of one repository, or of all.
 *
 * @example const { ok, failures } = await verifyCache('hf://openai-community/gpt2')
 *
 * @throws ZTensorError ZT_NOT_FOUND if the cache does not have it; ZT_IO; TypeError and RangeError ZT_INVALID_ARG; the signal's reason
 */
export declare function verifyCache(url?: string | URL, options?: VerifyCacheOptions): Promise<VerifyCacheResult>;

export {}
