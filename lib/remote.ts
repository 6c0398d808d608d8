// Files of other machines, by their URLs.
import { aBoolean, anObject, aText, aWholeNumber, optional, optionsOf, wrongType } from './arguments.js'
import { TensorFile } from './file.js'
import { run, unopened } from './job.js'
import { binding, type OpenRequest, type RemoteRequest } from './native.js'
import { urlText } from './realm.js'
import type { Origin } from './store.js'

/** How files of other machines are read. */
export interface RemoteOptions {
  /** Headers of each request to the server of the URL, such as `authorization`. No other server gets them. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Requests under way at once: 16 by default. */
  concurrency?: number | undefined
  /** Bytes that one request asks for at most: 8 MiB by default. */
  pieceBytes?: number | undefined
  /** Milliseconds that a server may send nothing before the request is made again: 30,000 by default. */
  timeout?: number | undefined
  /** How often a request that failed for the moment is made again: 5 by default. */
  retries?: number | undefined
  /** Bytes of a file that is read whole, from a server that sends no parts of files: 64 MiB by default. */
  maxWholeBytes?: number | undefined
  /** Follow redirects of public servers to addresses of private networks and of this machine. */
  allowPrivate?: boolean | undefined
}

const NUMBERS = { concurrency: 1, pieceBytes: 65536, timeout: 1, retries: 0, maxWholeBytes: 0 } as const
const KNOWN = ['headers', ...Object.keys(NUMBERS), 'allowPrivate'] as (keyof RemoteOptions)[]
const SCHEME = /^(https?|hf):\/\//i

/** The URL that a source spells, where it is one of another machine. */
export function remoteUrl(source: unknown): string | undefined {
  const text = typeof source === 'string' ? source : urlText(source)
  return text !== undefined && SCHEME.test(text) ? text : undefined
}

function headersOf(value: RemoteOptions['headers']): string[] {
  return Object.entries(anObject('remote.headers', value)).flatMap(([name, text]) => {
    if (typeof text !== 'string') throw wrongType(`remote.headers[${JSON.stringify(name)}]`, 'a string', undefined)
    return [name, text]
  })
}

/** What the binding is told of how files of other machines are read. */
export function remoteRequest(value: RemoteOptions | undefined): RemoteRequest {
  const read = optionsOf(value, KNOWN, 'remote')
  const request: RemoteRequest = { headers: read.headers === undefined ? [] : headersOf(read.headers) }
  for (const [name, least] of Object.entries(NUMBERS) as [keyof typeof NUMBERS, number][]) {
    const number = optional(read[name], (one) => aWholeNumber(`remote.${name}`, one, least))
    if (number !== undefined) request[name] = number
  }
  const allow = optional(read.allowPrivate, (one) => aBoolean('remote.allowPrivate', one))
  if (allow !== undefined) request.allowPrivate = allow
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
  for (const [at, url] of urls.entries()) aText(urls.length === 1 ? 'source' : `source[${at}]`, url)
  const open = (control: InstanceType<typeof binding.Control>) => binding.openUrls([...urls], request, remote, control)
  const native = await run(unopened(), { signal }, open)
  const path = native.place
  return TensorFile.make(native, path === null || path === undefined ? origin : { ...origin, path })
}
