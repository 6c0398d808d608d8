// The host in browsers and their workers.
import type { AnyArray, Host, InspectOptions } from './host.js'

export type { InspectOptions, Readable } from './host.js'

export const runtime: Host['runtime'] = 'browser'

export const platform: string = 'browser'

export const reasons: Host['reasons'] = {
  notLocal: 'a browser reads no file synchronously: await load()',
  noFolder: () =>
    'the source has no files next to it; to convert a checkpoint, open the handle of its folder, or its URL',
}

/** The least of the browsers of 2023. */
export const MAX_BUFFER: number = 2 ** 32

const custom = Symbol.for('nodejs.util.inspect.custom')

/** Formats a value as Node does, as far as messages contain such values. */
function format(value: unknown, { maxStringLength }: InspectOptions = {}): string {
  switch (typeof value) {
    case 'string':
      return quoted(value, maxStringLength ?? Number.POSITIVE_INFINITY)
    case 'bigint':
      return `${value}n`
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value)
    case 'function':
      return `[${value.constructor.name}${value.name === '' ? ' (anonymous)' : `: ${value.name}`}]`
    case 'object':
      break
    default:
      return String(value)
  }
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? '[]' : `[ ${value.map((one) => format(one)).join(', ')} ]`
  if (value instanceof Error) return String(value)
  const facts = Object.entries(value).map(
    ([key, one]) => `${/^[a-z_$]\w*$/i.test(key) ? key : quoted(key)}: ${format(one)}`,
  )
  return facts.length === 0 ? '{}' : `{ ${facts.join(', ')} }`
}

/** A string in the quotes that it does not contain. */
function quoted(text: string, max = Number.POSITIVE_INFINITY): string {
  const more = text.length - max
  if (more > 0) return `${quoted(text.slice(0, max))}... ${more} more character${more > 1 ? 's' : ''}`
  const quote = ["'", '"', '`'].find((one) => !text.includes(one)) ?? "'"
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return `${quote}${quote === "'" ? escaped.replaceAll("'", "\\'") : escaped}${quote}`
}

export const inspect: Host['inspect'] = Object.assign(format, { custom }) as Host['inspect']

const tag = (value: unknown): string => Object.prototype.toString.call(value).slice(8, -1)
const kind = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)
const kindOf = (value: unknown): unknown => kind?.get?.call(value)

export const types: Host['types'] = {
  isAnyArrayBuffer: (value): value is ArrayBufferLike => ['ArrayBuffer', 'SharedArrayBuffer'].includes(tag(value)),
  isMap: (value) => tag(value) === 'Map',
  isNativeError: (value): value is Error => tag(value) === 'Error',
  isSharedArrayBuffer: (value): value is SharedArrayBuffer => tag(value) === 'SharedArrayBuffer',
  isTypedArray: (value): value is AnyArray => kindOf(value) !== undefined,
  isUint8Array: (value): value is Uint8Array => kindOf(value) === 'Uint8Array',
}

/** Posts messages, which take a turn each: nested timers wait at least 4 ms. */
function posting(): (callback: () => void) => void {
  const { port1, port2 } = new MessageChannel()
  const waiting: (() => void)[] = []
  Object.assign(port1, { onmessage: () => waiting.shift()?.() })
  return (callback) => {
    waiting.push(callback)
    port2.postMessage(undefined)
  }
}

/** Node, Deno and Bun have one, which also keeps the process running. */
const inNextTurn: (callback: () => void) => unknown = globalThis.setImmediate ?? posting()

export function setImmediate(callback: () => void): void {
  inNextTurn(callback)
}

export const allowListeners: Host['allowListeners'] = () => {}

export const channel: Host['channel'] = () => ({ hasSubscribers: false, publish() {} })

export const systemError: Host['systemError'] = () => undefined

export const existsSync: Host['existsSync'] = () => false

export const basename: Host['basename'] = (path) => path.slice(path.lastIndexOf('/') + 1)

export const dirname: Host['dirname'] = (path) => path.slice(0, Math.max(path.lastIndexOf('/'), 0)) || '.'

export const extname: Host['extname'] = (path) => /[^/](\.[^./]*)$/.exec(path)?.[1] ?? ''

export const resolve: Host['resolve'] = (path) => path

export const fileURLToPath: Host['fileURLToPath'] = () => {
  throw new TypeError('a browser opens no file: URLs')
}

export const swapBytes: Host['swapBytes'] = ({ buffer, byteOffset, byteLength }, bits) => {
  for (let at = 0; at < byteLength; at += bits / 8) new Uint8Array(buffer, byteOffset + at, bits / 8).reverse()
}

function noStreams(message: string): never {
  throw Object.assign(new TypeError(`${message} a stream of Node, which browsers do not have`), {
    code: 'ZT_INVALID_ARG',
  })
}

export const readable: Host['readable'] = () => noStreams('use loadTo(): createReadStream() returns')

export const streams: Host['streams'] = () => noStreams('use add(): stream() returns')

export const warn: Host['warn'] = (message) => console.warn(message)

export const onExit: Host['onExit'] = () => {}

export const onHandlersChanged: Host['onHandlersChanged'] = () => {}
