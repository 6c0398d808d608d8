// Serves a report on this machine. The page requests statistics and slices on demand. The server is read-only.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, isIP } from 'node:net'
import { hostname } from 'node:os'
import { invalid, ZTensorError } from '../native/errors.js'
import { TensorFile } from '../read/file.js'
import { open } from '../read/open.js'
import { openAll } from '../read/open-all.js'
import type { Source } from '../read/source.js'
import { jobOptions } from '../read/verify.js'
import {
  optional,
  readOptions,
  validateBoolean,
  validateInteger,
  validateString,
  validateText,
} from '../values/arguments.js'
import { tensorFilter } from '../values/filter.js'
import { type Page, pageOf } from './html.js'
import { chosenIn, reportData } from './make.js'
import { BINS, tensorFound } from './numbers.js'
import type { ReportServer, ServeReportOptions } from './report.js'
import { sliceOf } from './slice.js'

const LOCAL = '127.0.0.1'
const MAX_PORT = 65_535

/** An error response. */
class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Whether a text is the token, compared in constant time. */
function isToken(given: string, token: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(token)]
  return left.length === right.length && timingSafeEqual(left, right)
}

/**
 * Whether the Host header names this server, which prevents DNS rebinding: a page of another site that resolves to this address would
 * send its own host name. If the server listens on a non-local address, any IP address and this machine's host name are valid.
 */
function isOwnHost(given: string | undefined, host: string, port: number): given is string {
  if (given === undefined || /[@/\\?#]/.test(given) || !URL.canParse(`http://${given}`)) return false
  const named = new URL(`http://${given}`)
  if ((named.port || '80') !== String(port)) return false
  const name = named.hostname.replace(/^\[|\]$/g, '')
  if (name === LOCAL || name === 'localhost' || name === host.toLowerCase()) return true
  return host !== LOCAL && (isIP(name) !== 0 || name === hostname().toLowerCase())
}

/** Rejects requests from other sites, and methods other than GET and HEAD. */
function checkRequest(request: IncomingMessage, host: string, port: number): void {
  const { headers, method } = request
  if (!isOwnHost(headers.host, host, port)) throw new Refusal(403, 'the Host header does not name this server')
  if (headers.origin !== undefined && headers.origin !== `http://${headers.host}`) {
    throw new Refusal(403, 'the request comes from another origin')
  }
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none' && headers['sec-fetch-mode'] !== 'navigate') {
    throw new Refusal(403, 'the request comes from another site')
  }
  if (method !== 'GET' && method !== 'HEAD') throw new Refusal(405, 'only GET and HEAD are allowed')
}

/** The tensor that a request asks for. */
function tensorOf({ file, chosen }: Served, given: string | null) {
  const ordinal = /^\d{1,10}$/.test(given ?? '') ? chosen[Number(given)] : undefined
  if (ordinal === undefined) throw new Refusal(404, 'no such tensor')
  return TensorFile.at(file, ordinal)
}

function indicesOf(given: string | null): number[] {
  if (given === null || given === '') return []
  if (!/^\d{1,15}(,\d{1,15}){0,63}$/.test(given))
    throw new Refusal(400, 'at must be a list of integers, one for each dimension but the last two')
  return given.split(',').map(Number)
}

interface Answer {
  readonly type: string
  readonly body: string
}

/** Handles a request with a valid token. */
async function answer(url: URL, path: string, served: Served, signal: AbortSignal): Promise<Answer> {
  const { searchParams } = url
  if (path === '') return { type: 'text/html; charset=utf-8', body: served.page.html }
  if (path !== 'stats' && path !== 'slice') throw new Refusal(404, 'not found')
  const tensor = tensorOf(served, searchParams.get('tensor'))
  const found =
    path === 'stats'
      ? await tensorFound(tensor, BINS, signal)
      : await sliceOf(tensor, indicesOf(searchParams.get('at')), signal)
  return { type: 'application/json', body: JSON.stringify(found) }
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof ZTensorError) return new Refusal(422, `${error.message} (${error.code})`)
  const code = (error as { code?: unknown } | null)?.code
  return code === 'ZT_INVALID_ARG' ? new Refusal(400, (error as Error).message) : new Refusal(500, 'the server failed')
}

/** Sends a response with the common headers. */
function send(response: ServerResponse, policy: string, status: number, { type, body }: Answer, bare: boolean): void {
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'Content-Security-Policy': `${policy}; frame-ancestors 'none'`,
    'Cache-Control': 'no-store',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    ...(status === 405 ? { Allow: 'GET, HEAD' } : {}),
  })
  response.end(bare ? undefined : body)
}

interface Served {
  readonly file: TensorFile
  /** The ordinals of the tensors of the report. */
  readonly chosen: Uint32Array
  readonly page: Page
  readonly token: string
  readonly host: string
  readonly port: () => number
}

async function handle(request: IncomingMessage, response: ServerResponse, served: Served): Promise<void> {
  const { page, token, host, port } = served
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const bare = request.method === 'HEAD'
  try {
    checkRequest(request, host, port())
    const target = request.url ?? ''
    if (!target.startsWith('/') || target.startsWith('//')) throw new Refusal(404, 'not found')
    const url = new URL(target, 'http://report.invalid')
    const [, given = '', path, ...more] = url.pathname.split('/')
    // A wrong token and a wrong path get the same response, so that a token cannot be probed.
    if (!isToken(given, token) || path === undefined || more.length > 0) throw new Refusal(404, 'not found')
    send(response, page.policy, 200, await answer(url, path, served, gone.signal), bare)
  } catch (error) {
    if (gone.signal.aborted) return
    const { status, message } = refusalOf(error)
    send(response, page.policy, status, { type: 'application/json', body: JSON.stringify({ error: message }) }, bare)
  }
}

function listening(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      reject(new ZTensorError('ZT_IO', `cannot listen on ${host}, port ${port}: ${cause.message}`, { cause }))
    })
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}

function validatePort(value: unknown): number {
  const port = validateInteger('port', value)
  if (port > MAX_PORT) throw invalid(RangeError, `port must be from 0 to ${MAX_PORT}, got ${port}`)
  return port
}

/** `serveReport` of lib/lazy.ts. */
export async function startServer(source: Source | TensorFile, options?: ServeReportOptions): Promise<ReportServer> {
  const known = ['against', 'statistics', 'filter', 'title', 'onProgress', 'signal', 'port', 'host'] as const
  const read = readOptions<ServeReportOptions>(options, known)
  const statistics = optional(read.statistics, (value) => validateBoolean('statistics', value)) ?? false
  const title = optional(read.title, (value) => validateText('title', value))
  const host = optional(read.host, (value) => validateString('host', value)) ?? LOCAL
  const wanted = optional(read.port, validatePort) ?? 0
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  tensorFilter(read.filter)
  read.signal?.throwIfAborted()
  const { files, close: closeFiles } = await openAll([source, read.against], read.signal, open)
  try {
    const [file, against] = files as [TensorFile, TensorFile | undefined]
    const { filter } = read
    const chosen = await chosenIn(file, against, read)
    const data = await reportData(file, chosen, against, { statistics, filter, title, ...job }, true)
    const page = await pageOf(data, "'self'")
    const token = randomBytes(18).toString('base64url')
    let port = wanted
    const served: Served = { file, chosen, page, token, host, port: () => port }
    const server = createServer((request, response) => void handle(request, response, served))
    port = await listening(server, wanted, host)
    const close = async () => {
      if (server.listening) {
        const closed = new Promise<void>((resolve) => server.close(() => resolve()))
        server.closeAllConnections()
        await closed
      }
      closeFiles()
    }
    const shown = isIP(host) === 6 ? `[${host}]` : host
    return { url: `http://${shown}:${port}/${token}/`, port, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    closeFiles()
    throw error
  }
}
