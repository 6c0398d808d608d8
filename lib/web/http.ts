// Files of web servers, by range requests: one version of each file, and no more bytes than were asked for.
import { native } from './module.js'
import { type FileSource, type HttpOptions, shown, type UrlFile } from './tree.js'

/** Bytes of the first request, which asks for the length of the file. */
const FIRST = 64 * 2 ** 10
/** Maximum size of a file from a server without range requests, which is read whole. */
const MAX_WHOLE = 64 * 2 ** 20
const RETRIES = 5
/** Milliseconds before the first retry; twice as many before each further one. */
const PAUSE = 100

const isTransient = (status: number): boolean => status === 408 || status === 429 || status >= 500

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', abort, { once: true })
  })
}

/** Sends a request, again after a transient failure. */
async function request(url: string, init: RequestInit & { signal: AbortSignal }): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    init.signal.throwIfAborted()
    let failure: unknown
    try {
      const response = await fetch(url, init)
      if (!isTransient(response.status) || attempt === RETRIES) return response
      await response.body?.cancel()
    } catch (error) {
      init.signal.throwIfAborted()
      failure = error
    }
    if (attempt === RETRIES)
      throw failed(
        url,
        `the request failed: ${failure instanceof Error ? failure.message : failure}. If the server is another one, it must allow requests from this page (CORS)`,
      )
    await pause(PAUSE * 2 ** attempt, init.signal)
  }
}

function failed(url: string, what: string, status?: number): Error {
  const path = shown(url)
  return native({ code: 'ZT_IO', message: `'${path}': ${what}`, path, ...(status === undefined ? {} : { status }) })
}

/** What identifies a version of a file: its entity tag, or the time of its last change. A server need not let pages read them. */
const versionOf = ({ headers }: Response): string | null => headers.get('etag') ?? headers.get('last-modified')

/** Opens a file. Returns undefined if the server has no such file. */
export async function openUrl(
  url: string,
  { headers = {} }: HttpOptions,
  signal: AbortSignal,
): Promise<FileSource | undefined> {
  const first = await ranged({ url, headers }, 0, FIRST, signal)
  const { status } = first
  if (status === 404 || status === 410) return undefined
  if (status === 200) return wholeOf(url, first)
  // An empty file has no range.
  if (status === 416 && first.headers.get('content-range')?.endsWith('/0')) return memory(new Uint8Array(0))
  if (status !== 206) throw failed(url, `the server answered HTTP ${status}`, status)
  const version = versionOf(first)
  const range = first.headers.get('content-range')
  if (range !== null && !range.startsWith('bytes 0-')) {
    await first.body?.cancel()
    throw failed(url, `the server sent another range than the one of the request: ${range}`)
  }
  const head = await atMost(first, FIRST, () => failed(url, `the server sent more than the first ${FIRST} bytes`))
  const total = Number(/\/(\d+)$/.exec(range ?? '')?.[1] ?? Number.NaN)
  // Without Access-Control-Expose-Headers a page does not see the range.
  const byteLength = Number.isInteger(total)
    ? total
    : head.byteLength < FIRST
      ? head.byteLength
      : await lengthOf(url, headers, signal)
  return urlSource({ url, headers, byteLength, version, head })
}

const ranged = (
  { url, headers }: Pick<UrlFile, 'url' | 'headers'>,
  offset: number,
  length: number,
  signal: AbortSignal,
) => request(url, { headers: { ...headers, range: `bytes=${offset}-${offset + length - 1}` }, signal })

/** Reads one version of a file. */
export function urlSource(file: UrlFile): FileSource {
  const { url, byteLength, version, head } = file
  return {
    byteLength,
    posted: { kind: 'url', ...file },
    async read(offset, length, signal) {
      if (offset + length <= head.byteLength) return head.subarray(offset, offset + length)
      const response = await ranged(file, offset, length, signal)
      if (response.status !== 206) {
        await response.body?.cancel()
        const what =
          response.status === 200
            ? 'the server ignored the range of a request'
            : `the server answered HTTP ${response.status}`
        throw failed(url, what, response.status)
      }
      const range = response.headers.get('content-range')
      if (
        versionOf(response) !== version ||
        (range !== null && range !== `bytes ${offset}-${offset + length - 1}/${byteLength}`)
      ) {
        await response.body?.cancel()
        throw failed(url, 'the file was changed while it was open; open it again')
      }
      return bounded(response, length, () => failed(url, `the server did not send the ${length} bytes from ${offset}`))
    },
  }
}

async function lengthOf(url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<number> {
  const response = await request(url, { method: 'HEAD', headers, signal })
  const length = Number(response.headers.get('content-length') ?? Number.NaN)
  if (response.ok && Number.isInteger(length)) return length
  throw failed(
    url,
    'the server does not state the length of the file: it must expose the header content-range',
    response.status,
  )
}

/** Reads exactly so many bytes, and stops a server that sends more. */
async function bounded(response: Response, length: number, error: () => Error): Promise<Uint8Array> {
  const bytes = await atMost(response, length, error)
  if (bytes.byteLength !== length) throw error()
  return bytes
}

/** Reads at most so many bytes, and stops a server that sends more. */
async function atMost(response: Response, length: number, error: () => Error): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  const reader = response.body?.getReader()
  let at = 0
  for (;;) {
    const next = await reader?.read()
    if (next === undefined || next.done) break
    if (at + next.value.byteLength > length) {
      await reader?.cancel()
      throw error()
    }
    bytes.set(next.value, at)
    at += next.value.byteLength
  }
  return bytes.subarray(0, at)
}

function memory(bytes: Uint8Array): FileSource {
  return { byteLength: bytes.byteLength, read: async (offset, length) => bytes.subarray(offset, offset + length) }
}

/** A file from a server without range requests. */
async function wholeOf(url: string, response: Response): Promise<FileSource> {
  const chunks: Uint8Array[] = []
  const reader = response.body?.getReader()
  let length = 0
  for (;;) {
    const next = await reader?.read()
    if (next === undefined || next.done) break
    chunks.push(next.value)
    length += next.value.byteLength
    if (length > MAX_WHOLE) {
      await reader?.cancel()
      throw failed(
        url,
        `the server has no range requests, and the file is larger than ${MAX_WHOLE} bytes: fetch it and open the Blob`,
      )
    }
  }
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return memory(bytes)
}
