// Options of remote files, and their URLs.
import type { RemoteRequest, StoreRequest } from '../native/native.js'
import { urlText } from '../native/realm.js'
import {
  optional,
  readOptions,
  validateBoolean,
  validateFunction,
  validateInteger,
  validateObject,
  wrongType,
} from './arguments.js'
import { validateFolder } from './folder.js'

/** How to access an object store. Missing values come from the environment. */
export interface StoreOptions {
  /** S3: the region of the bucket. */
  region?: string | undefined
  /** The URL of a store that is compatible with S3, Google Cloud Storage or Azure: MinIO, Ceph, R2, an emulator. */
  endpoint?: string | undefined
  /** Allow an endpoint with `http:`. */
  allowHttp?: boolean | undefined
  /** S3: the bucket is part of the host name, not of the path. */
  virtualHostedStyle?: boolean | undefined
  /** Do not sign requests, for public objects. */
  anonymous?: boolean | undefined
  /** S3 credentials. */
  accessKeyId?: string | undefined
  secretAccessKey?: string | undefined
  sessionToken?: string | undefined
  /** Azure credentials. */
  account?: string | undefined
  accountKey?: string | undefined
}

/** The progress of a download. */
export interface DownloadProgress {
  /** Bytes that arrived, including those of earlier downloads. */
  readonly bytes: number
  /** Bytes of all files. */
  readonly totalBytes: number
  /** Number of complete files. */
  readonly files: number
  readonly totalFiles: number
  /** Bytes per second since the call began; undefined before the first bytes. */
  readonly bytesPerSecond: number | undefined
  /** Estimate of the remaining milliseconds at this rate; 0 at the end, and undefined at the beginning. */
  readonly remainingMs: number | undefined
}

/** How to access remote files. */
export interface RemoteOptions {
  /** Headers of each request to the server of the URL, such as `authorization`. They are not sent to other servers. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Number of concurrent requests: 16 by default. */
  concurrency?: number | undefined
  /** Maximum bytes of one request: 8 MiB by default. */
  pieceBytes?: number | undefined
  /**
   * Milliseconds after which a request is retried if the server has sent nothing, or less than 1 KiB: 30,000 by default. A part of an
   * upload has ten times as long.
   */
  timeout?: number | undefined
  /** Number of retries after a transient failure: 5 by default. */
  retries?: number | undefined
  /** Maximum size in bytes of a file from a server without range requests, which is read whole: 64 MiB by default. */
  maxWholeBytes?: number | undefined
  /** Follow redirects from public web servers to private and local addresses. Redirects of object stores are never followed. */
  allowPrivate?: boolean | undefined
  /** How to access the object store of an `s3:`, `gs:` or `az:` URL. */
  store?: StoreOptions | undefined
  /**
   * The cache folder, in which `prefetch()` and `load()` store copies. None by default. Several processes may share it. This user must
   * own it, and no other user may have write access: otherwise `prefetch()` fails with `ZT_IO`, and `load()` does not use the cache.
   *
   * Files of the Hugging Face hub that its own clients have downloaded (`HF_HUB_CACHE`, `~/.cache/huggingface/hub`) are opened there, as
   * local files. `false` disables this cache, too. `'hub'` also downloads to it: the first `open` of an `hf:` URL fetches the files of the
   * model in full, and Python and other clients of the hub find them there. A folder with the name `hub` is `'./hub'`.
   */
  cache?: 'hub' | (string & {}) | URL | false | undefined
  /** With `cache: 'hub'`: called about every 100 ms while files are downloaded, and once at the end of a download. */
  onDownload?: ((progress: DownloadProgress) => void) | undefined
  /** Do not access the Hugging Face hub: open only what its own clients have downloaded. The variable `HF_HUB_OFFLINE=1` does the same. */
  offline?: boolean | undefined
  /** Maximum size of the cache in bytes: 64 GiB by default. The least recently used copies are evicted. */
  maxCacheBytes?: number | undefined
}

const NUMBERS = {
  concurrency: 1,
  pieceBytes: 65536,
  timeout: 1,
  retries: 0,
  maxWholeBytes: 0,
  maxCacheBytes: 1,
} as const
const KNOWN = [
  'headers',
  ...Object.keys(NUMBERS),
  'allowPrivate',
  'store',
  'cache',
  'offline',
  'onDownload',
] as (keyof RemoteOptions)[]
const FLAGS = ['allowHttp', 'virtualHostedStyle', 'anonymous'] as const
const TEXTS = ['region', 'endpoint', 'accessKeyId', 'secretAccessKey', 'sessionToken', 'account', 'accountKey'] as const
const SCHEME = /^(https?|hf|s3|gs|az):\/\//i

/** The URL of a remote source; undefined for any other source. */
export function remoteUrl(source: unknown): string | undefined {
  const text = typeof source === 'string' ? source : urlText(source)
  return text !== undefined && SCHEME.test(text) ? text : undefined
}

function headersOf(value: RemoteOptions['headers']): string[] {
  return Object.entries(validateObject('remote.headers', value)).flatMap(([name, text]) => {
    if (typeof text !== 'string') throw wrongType(`remote.headers[${JSON.stringify(name)}]`, 'a string', undefined)
    return [name, text]
  })
}

function storeOf(value: StoreOptions): StoreRequest {
  const read = readOptions(value, [...FLAGS, ...TEXTS], 'remote.store')
  const request: StoreRequest = {}
  for (const name of FLAGS) {
    const flag = optional(read[name], (one) => validateBoolean(`remote.store.${name}`, one))
    if (flag !== undefined) request[name] = flag
  }
  for (const name of TEXTS) {
    // Messages must not contain secrets.
    if (read[name] !== undefined && typeof read[name] !== 'string')
      throw wrongType(`remote.store.${name}`, 'a string', undefined)
    if (read[name] !== undefined) request[name] = read[name]
  }
  return request
}

/** The environment variables for credentials, proxies and trusted certificates. */
const VARIABLES =
  /^((AWS|AZURE|GOOGLE|HF|MSI)_.*|HUGGING_FACE_HUB_TOKEN|HUGGINGFACE_HUB_CACHE|SERVICE_ACCOUNT|STORAGE_EMULATOR_HOST|(HTTPS?|ALL|NO)_PROXY|REQUEST_METHOD|NODE_EXTRA_CA_CERTS|HOME|USERPROFILE|XDG_CACHE_HOME)$/i

/** The variables with paths, which may name other variables: `$SCRATCH/hub`. */
const PATHS = ['HF_HOME', 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE', 'HF_TOKEN_PATH', 'XDG_CACHE_HOME']
const NAMED = /\$(\w+)|\$\{([^}]*)\}|%([^%]+)%/g

/**
 * These variables and those that they name, as alternating names and values. A worker may have its own `process.env`. Empty if it may not
 * be read.
 */
function environment(): string[] {
  try {
    const { env } = process
    const names = new Set(Object.keys(env).filter((name) => VARIABLES.test(name)))
    for (const path of PATHS) {
      for (const [, plain, braced, percent] of (env[path] ?? '').matchAll(NAMED))
        names.add((plain ?? braced ?? percent) as string)
    }
    return Array.from(names).flatMap((name) => {
      const value = env[name]
      return value === undefined ? [] : [name, value]
    })
  } catch {
    return []
  }
}

/** The options of the binding, and what the wrapper does itself. */
export interface RemoteAccess extends RemoteRequest {
  /** Whether files of the hub are downloaded to the cache of its own clients. */
  fillsHubCache?: true
  onDownload?: (progress: DownloadProgress) => void
}

/** Validates the options for remote files and converts them to the binding's form. */
export function remoteRequest(value: RemoteOptions | undefined): RemoteAccess {
  const read = readOptions(value, KNOWN, 'remote')
  const headers = read.headers === undefined ? [] : headersOf(read.headers)
  const request: RemoteAccess = { headers, environment: environment() }
  for (const [name, min] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, number][]) {
    const number = optional(read[name], (one) => validateInteger(`remote.${name}`, one, min))
    if (number !== undefined) request[name] = number
  }
  const allow = optional(read.allowPrivate, (one) => validateBoolean('remote.allowPrivate', one))
  if (allow !== undefined) request.allowPrivate = allow
  if (read.store !== undefined) request.store = storeOf(read.store)
  if (read.cache === false) request.noHubCache = true
  else if (read.cache === 'hub') request.fillsHubCache = true
  else if (read.cache !== undefined) request.cache = validateFolder('remote.cache', read.cache)
  optional(read.onDownload, (value) => validateFunction('remote.onDownload', value))
  if (read.onDownload !== undefined) request.onDownload = read.onDownload
  if (optional(read.offline, (one) => validateBoolean('remote.offline', one)) === true) request.offline = true
  return request
}
