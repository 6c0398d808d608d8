// Files of web servers, by range requests: one version of each file, and no more bytes than were asked for.
import type { OptionHint } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { native, type Thrown } from './module.js'
import { type FileSource, type HttpOptions, shown, type UrlFile } from './tree.js'

/** Bytes of the first request, which asks for the length of the file. */
const FIRST = 64 * 2 ** 10
/** Maximum size of a file from a server without range requests, which is read whole. */
const MAX_WHOLE = 64 * 2 ** 20
const RETRIES = 5
/** Milliseconds before the first retry; twice as many before each further one. */
const PAUSE = 100
/** Default of the option `timeout`. */
const TIMEOUT = 30_000
/** Maximum milliseconds of a timer: a longer one ends at once. */
const LONGEST = 2 ** 31 - 1
/** Bytes that a server must send within the timeout. */
const STEP = 2 ** 10

const isTransient = (status: number): boolean =>
  [408, 425, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505)

/** How to request a file. */
interface Access extends Pick<UrlFile, 'url' | 'headers' | 'timeout'> {
  /** Whether a request was answered. Otherwise the page may not be allowed to read the file, which no retry changes. */
  isAnswered: boolean
}

/** Returns the next bytes of an answer, or undefined at its end. */
type Next = () => Promise<Uint8Array | undefined>

/** A failure that a retry may fix. */
class Passing extends Error {
  readonly details: Partial<Thrown>
  readonly retries: number

  constructor(what: string, details: Partial<Thrown> = {}, retries: number = RETRIES) {
    super(what)
    this.details = details
    this.retries = retries
  }
}

function failed(url: string, what: string, details: Partial<Thrown> = {}): Error {
  const path = shown(url)
  return native({ code: 'ZT_IO', message: `'${path}': ${what}`, path, ...details })
}

const hint = (option: string, text: string): OptionHint => ({ option: `remote.${option}`, text })

/** What is wrong with a status: in the words of Node. */
function answered({ url, headers }: Access, status: number): [what: string, details: Partial<Thrown>] {
  const credentials = hint('headers', ': pass them in the option headers (authorization)')
  const isMissing = status === 401 && !new Headers(headers).has('authorization')
  const isSigned = new URL(url).search !== ''
  const all: Readonly<Record<number, readonly [reason: string, advice: string]>> = {
    401: [
      'Unauthorized',
      isMissing
        ? `it requires credentials${credentials.text}`
        : 'it rejects the credentials that were sent: check them',
    ],
    403: [
      'Forbidden',
      `access is denied${isSigned ? '; a signed URL may have expired: create a new one' : ': check the credentials and the name'}`,
    ],
    404: ['Not Found', 'there is no such file: check the name'],
    410: ['Gone', 'there is no such file: check the name'],
    416: ['Range Not Satisfiable', 'it rejects the byte range, so the file cannot be read in parts'],
    429: ['Too Many Requests', 'it received too many requests'],
  }
  const [reason, advice] = all[status] ?? []
  const what = `the server answered ${status}${reason === undefined ? '' : ` (${reason}): ${advice}`}`
  return [what, isMissing ? { status, hints: [credentials] } : { status }]
}

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

/** Sends a request and reads its answer with `use`, again after a transient failure. */
async function request<T>(
  access: Access,
  init: RequestInit,
  signal: AbortSignal,
  use: (response: Response, next: Next) => Promise<T>,
): Promise<T> {
  for (let retried = 0; ; retried++) {
    try {
      return await attempt(access, init, signal, use)
    } catch (error) {
      if (!(error instanceof Passing)) throw error
      if (retried >= error.retries)
        throw failed(access.url, `${error.message}; tried ${retried + 1} times`, error.details)
    }
    await pause(PAUSE * 2 ** retried, signal)
  }
}

/** Sends a request once. Throws `Passing`, an error of the binding, or the signal's reason. */
async function attempt<T>(
  access: Access,
  init: RequestInit,
  signal: AbortSignal,
  use: (response: Response, next: Next) => Promise<T>,
): Promise<T> {
  const { url, timeout = TIMEOUT } = access
  const stop = new AbortController()
  const end = () => stop.abort()
  let timer: ReturnType<typeof setTimeout> | undefined
  let came = 0
  /** Gives the server its time again. */
  const restart = () => {
    clearTimeout(timer)
    timer = setTimeout(end, Math.min(timeout, LONGEST))
    came = 0
  }
  /** Waits for the server. */
  const received = async <R>(sent: Promise<R>): Promise<R> => {
    try {
      return await sent
    } catch (error) {
      signal.throwIfAborted()
      if (stop.signal.aborted) {
        const option = hint('timeout', ' (option timeout)')
        const what = came === 0 ? 'nothing for' : `${came} bytes in`
        throw new Passing(`the server sent ${what} ${timeout / 1000}s${option.text}`, { hints: [option] })
      }
      const why = messageOf(error)
      if (access.isAnswered) throw new Passing(`the connection to ${new URL(url).hostname} was interrupted: ${why}`)
      throw new Passing(
        `the request failed: ${why}. If the server is another one, it must allow requests from this page (CORS)`,
        {},
        1,
      )
    }
  }
  signal.throwIfAborted()
  signal.addEventListener('abort', end)
  restart()
  try {
    const response = await received(fetch(url, { ...init, signal: stop.signal }))
    access.isAnswered = true
    restart()
    const { status } = response
    if (isTransient(status)) throw new Passing(...answered(access, status))
    const reader = response.body?.getReader()
    return await use(response, async () => {
      const { value } = (reader && (await received(reader.read()))) ?? {}
      came += value?.byteLength ?? 0
      if (came >= STEP) restart()
      return value
    })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    // Stops a server that sends more than is read.
    end()
  }
}

/** What identifies a version of a file: its entity tag, or the time of its last change. A server need not let pages read them. */
const versionOf = ({ headers }: Response): string | null => headers.get('etag') ?? headers.get('last-modified')

/** Opens a file. Returns undefined if the server has no such file. */
export async function openUrl(
  url: string,
  { headers = {}, timeout }: HttpOptions,
  signal: AbortSignal,
): Promise<FileSource | undefined> {
  const access = { url, headers, timeout, isAnswered: false }
  return ranged(access, 0, FIRST, signal, async (first, next) => {
    const { status } = first
    if (status === 404 || status === 410) return undefined
    if (status === 200) return wholeOf(url, next)
    const range = first.headers.get('content-range')
    // An empty file has no range.
    if (status === 416 && range?.endsWith('/0')) return memory(new Uint8Array(0))
    if (status !== 206) throw failed(url, ...answered(access, status))
    if (range !== null && !range.startsWith('bytes 0-'))
      throw failed(url, `the server sent another range than the one of the request: ${range}`)
    const head = await atMost(url, next, FIRST)
    const total = Number(/\/(\d+)$/.exec(range ?? '')?.[1] ?? Number.NaN)
    // Without Access-Control-Expose-Headers a page does not see the range.
    const byteLength = Number.isInteger(total)
      ? total
      : head.byteLength < FIRST
        ? head.byteLength
        : await lengthOf(access, signal)
    return urlSource({ url, headers, timeout, byteLength, version: versionOf(first), head })
  })
}

const ranged = <T>(
  access: Access,
  offset: number,
  length: number,
  signal: AbortSignal,
  use: (response: Response, next: Next) => Promise<T>,
) => request(access, { headers: { ...access.headers, range: `bytes=${offset}-${offset + length - 1}` } }, signal, use)

/** Reads one version of a file. */
export function urlSource(file: UrlFile): FileSource {
  const { url, byteLength, version, head } = file
  const access = { ...file, isAnswered: true }
  return {
    byteLength,
    posted: { kind: 'url', ...file },
    async read(offset, length, signal) {
      if (offset + length <= head.byteLength) return head.subarray(offset, offset + length)
      return ranged(access, offset, length, signal, async (response, next) => {
        const { status } = response
        if (status === 200) throw failed(url, 'the server ignored the range of a request', { status })
        const range = response.headers.get('content-range')
        const isOther =
          versionOf(response) !== version ||
          (range !== null && range !== `bytes ${offset}-${offset + length - 1}/${byteLength}`)
        // A file that is shorter now does not have the range.
        if (status === 416 || (status === 206 && isOther))
          throw failed(url, 'the file was changed while it was open; open it again')
        if (status !== 206) throw failed(url, ...answered(access, status))
        const bytes = await atMost(url, next, length)
        if (bytes.byteLength === length) return bytes
        throw new Passing(`the response of the server ended ${length - bytes.byteLength} bytes early`)
      })
    },
  }
}

const lengthOf = (access: Access, signal: AbortSignal): Promise<number> =>
  request(access, { method: 'HEAD', headers: access.headers }, signal, async ({ ok, status, headers }) => {
    const length = Number(headers.get('content-length') ?? Number.NaN)
    if (ok && Number.isInteger(length)) return length
    const what = 'the server does not state the length of the file: it must expose the header content-range'
    throw failed(access.url, what, { status })
  })

/** Reads at most so many bytes. */
async function atMost(url: string, next: Next, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length)
  let at = 0
  for (let part = await next(); part !== undefined; part = await next()) {
    if (at + part.byteLength > length) throw failed(url, 'the server sends more bytes than requested')
    bytes.set(part, at)
    at += part.byteLength
  }
  return bytes.subarray(0, at)
}

function memory(bytes: Uint8Array): FileSource {
  return { byteLength: bytes.byteLength, read: async (offset, length) => bytes.subarray(offset, offset + length) }
}

/** A file from a server without range requests. */
async function wholeOf(url: string, next: Next): Promise<FileSource> {
  const chunks: Uint8Array[] = []
  let length = 0
  for (let part = await next(); part !== undefined; part = await next()) {
    chunks.push(part)
    length += part.byteLength
    if (length > MAX_WHOLE) {
      const what = `the server has no range requests, and the file is larger than ${MAX_WHOLE} bytes: fetch it and open the Blob`
      throw failed(url, what)
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
