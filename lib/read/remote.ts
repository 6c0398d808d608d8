// Files of other machines, by their URLs.
import { resolve } from 'node:path'
import { invalid } from '../native/errors.js'
import { run, unopened } from '../native/job.js'
import { binding, type OpenRequest, type RemoteRequest, type StoreRequest } from '../native/native.js'
import { urlText } from '../native/realm.js'
import {
  filePath,
  optional,
  readOptions,
  validateBoolean,
  validateInteger,
  validateObject,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { TensorFile } from './file.js'
import type { Origin } from './store.js'

/** How to reach a store of objects, where the environment does not say. */
export interface StoreOptions {
  /** Of S3: the region of the bucket. */
  region?: string | undefined
  /** The URL of a store that speaks as S3, Google Cloud Storage or Azure do: MinIO, Ceph, R2, an emulator. */
  endpoint?: string | undefined
  /** Allow an endpoint with `http:`. */
  allowHttp?: boolean | undefined
  /** Of S3: the bucket is a part of the host's name, not of the path. */
  virtualHostedStyle?: boolean | undefined
  /** Sign nothing, for objects that everybody may read. */
  anonymous?: boolean | undefined
  /** Of S3. */
  accessKeyId?: string | undefined
  secretAccessKey?: string | undefined
  sessionToken?: string | undefined
  /** Of Azure. */
  account?: string | undefined
  accountKey?: string | undefined
}

/** How files of other machines are read. */
export interface RemoteOptions {
  /** Headers of each request to the server of the URL, such as `authorization`. No other server gets them. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Requests under way at once: 16 by default. */
  concurrency?: number | undefined
  /** Bytes that one request asks for at most: 8 MiB by default. */
  pieceBytes?: number | undefined
  /**
   * Milliseconds that a server may send nothing, or less than 1 KiB, before the request is made again: 30,000 by default. A store has ten
   * times as long to take a part of an upload.
   */
  timeout?: number | undefined
  /** How often a request that failed for the moment is made again: 5 by default. */
  retries?: number | undefined
  /** Bytes of a file that is read whole, from a server that sends no parts of files: 64 MiB by default. */
  maxWholeBytes?: number | undefined
  /** Follow redirects of public web servers to addresses of private networks and of this machine. Those of stores are never followed. */
  allowPrivate?: boolean | undefined
  /** How to reach a store of objects: of `s3:`, `gs:` and `az:` URLs. */
  store?: StoreOptions | undefined
  /**
   * The folder that `prefetch()` and `load()` keep a copy in. Several processes may have the same one. None by default. It must belong to this
   * user, and no other user may be able to write to it: otherwise `prefetch()` fails with `ZT_IO`, and `load()` goes on without it.
   */
  cache?: string | URL | undefined
  /** Bytes of disk that all copies in the folder take together: 64 GiB by default. The ones used least recently go. */
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
const KNOWN = ['headers', ...Object.keys(NUMBERS), 'allowPrivate', 'store', 'cache'] as (keyof RemoteOptions)[]
const FLAGS = ['allowHttp', 'virtualHostedStyle', 'anonymous'] as const
const TEXTS = ['region', 'endpoint', 'accessKeyId', 'secretAccessKey', 'sessionToken', 'account', 'accountKey'] as const
const SCHEME = /^(https?|hf|s3|gs|az):\/\//i

/** The URL that a source spells, where it is one of another machine. */
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
    // A secret is in no message.
    if (read[name] !== undefined && typeof read[name] !== 'string')
      throw wrongType(`remote.store.${name}`, 'a string', undefined)
    if (read[name] !== undefined) request[name] = read[name]
  }
  return request
}

/** The absolute path of a folder. */
function validateFolder(name: string, value: unknown): string {
  const url = urlText(value)
  const path = validateText(name, url === undefined ? value : filePath(name, url))
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, path === '' ? `${name} must not be empty` : `${name} must not hold null bytes`)
  return resolve(path)
}

/** The variables that say who asks, by which proxy, and whom to trust. */
const VARIABLES =
  /^((AWS|AZURE|GOOGLE|HF|MSI)_.*|HUGGING_FACE_HUB_TOKEN|SERVICE_ACCOUNT|STORAGE_EMULATOR_HOST|(HTTPS?|ALL|NO)_PROXY|REQUEST_METHOD|NODE_EXTRA_CA_CERTS|HOME|USERPROFILE|XDG_CACHE_HOME)$/i

/** Those of this environment, names and values in turn: a worker's `process.env` may be its own. None where none may be read. */
function environment(): string[] {
  try {
    return Object.entries(process.env).flatMap(([name, value]) =>
      value !== undefined && VARIABLES.test(name) ? [name, value] : [],
    )
  } catch {
    return []
  }
}

/** What the binding is told of how files of other machines are read. */
export function remoteRequest(value: RemoteOptions | undefined): RemoteRequest {
  const read = readOptions(value, KNOWN, 'remote')
  const headers = read.headers === undefined ? [] : headersOf(read.headers)
  const request: RemoteRequest = { headers, environment: environment() }
  for (const [name, least] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, number][]) {
    const number = optional(read[name], (one) => validateInteger(`remote.${name}`, one, least))
    if (number !== undefined) request[name] = number
  }
  const allow = optional(read.allowPrivate, (one) => validateBoolean('remote.allowPrivate', one))
  if (allow !== undefined) request.allowPrivate = allow
  if (read.store !== undefined) request.store = storeOf(read.store)
  const cache = optional(read.cache, (folder) => validateFolder('remote.cache', folder))
  if (cache !== undefined) request.cache = cache
  return request
}

/** Opens the file, index or folder that a URL names, or the files of several as one. */
export async function openUrls(
  urls: readonly string[],
  request: OpenRequest,
  remote: RemoteRequest,
  origin: Origin,
  signal: AbortSignal | undefined,
): Promise<TensorFile> {
  for (const [at, url] of urls.entries()) validateText(urls.length === 1 ? 'source' : `source[${at}]`, url)
  const open = (control: InstanceType<typeof binding.Control>) => binding.openUrls([...urls], request, remote, control)
  const native = await run(unopened(), { signal }, open)
  const path = native.location
  return TensorFile.make(native, path === null || path === undefined ? origin : { ...origin, path })
}
