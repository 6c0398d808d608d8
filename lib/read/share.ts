import { types } from '#host'
import { rethrowNative, ZTensorError } from '../native/errors.js'
import type { NativeFile, OpenRequest } from '../native/native.js'
import {
  optional,
  readOptions,
  validateBoolean,
  validateInteger,
  validateObject,
  validateString,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { LIMITS, openRequest } from './open-request.js'

/**
 * An open file that can be posted to another thread with `postMessage`, and passed to `open` or `openSync` there. In a thread of the
 * same process they share its index and mapping, without I/O. In another process, or after all threads have closed the file, they
 * open the path and check that the file has not changed.
 */
export interface SharedFile {
  readonly kind: 'ztensor.SharedFile'
  /** The path, or a list of paths. */
  readonly path: string | readonly string[]
  readonly ticket: { readonly process: string; readonly number: number; readonly identity: string }
  /** The options that it was opened with. */
  readonly request: object
  /** The bytes of each file of `file.files`, if requested and supported by the runtime. */
  readonly memory?: readonly SharedArrayBuffer[]
}

/** How to share a file. */
export interface ShareOptions {
  /** Also return `memory`: SharedArrayBuffers over the mapping, which threads can use without this package. */
  readonly memory?: boolean | undefined
}

const KIND = 'ztensor.SharedFile'

/** Makes the shared form of an open file. */
export function ticketOf(
  native: NativeFile,
  path: string | readonly string[],
  request: OpenRequest,
  options: ShareOptions | undefined,
): SharedFile {
  const { memory: wanted } = readOptions(options, ['memory'])
  const asked = optional(wanted, (value) => validateBoolean('memory', value))
  return rethrowNative(() => {
    const memory = asked ? native.shareMemory() : null
    return { kind: KIND, path, ticket: native.share(), request, ...(memory === null ? {} : { memory }) }
  })
}

/** Validates a shared file, which may come from untrusted code. Returns undefined for any other source. */
export function sharedFrom(source: object): SharedFile | undefined {
  // Other classes have a getter of that name.
  if (!Object.hasOwn(source, 'kind') || (source as SharedFile).kind !== KIND) return undefined
  const { path, ticket, request, memory } = source as SharedFile
  const { process, number, identity } = validateObject('source.ticket', ticket) as SharedFile['ticket']
  return {
    kind: KIND,
    path: Array.isArray(path) ? texts('source.path', path) : validateString('source.path', path),
    ticket: {
      process: validateString('source.ticket.process', process),
      number: validateInteger('source.ticket.number', number),
      identity: validateString('source.ticket.identity', identity),
    },
    request: requestFrom(validateObject('source.request', request) as OpenRequest),
    ...(memory === undefined ? {} : { memory: buffers(memory) }),
  }
}

function buffers(value: unknown): SharedArrayBuffer[] {
  if (!Array.isArray(value)) throw wrongType('source.memory', 'a list of SharedArrayBuffers', value)
  return Array.from(value, (one, at) => {
    if (!types.isSharedArrayBuffer(one)) throw wrongType(`source.memory[${at}]`, 'a SharedArrayBuffer', one)
    return one
  })
}

/** Checks that the shared memory has the sizes of the files. */
export function checkMemory(memory: readonly SharedArrayBuffer[], files: readonly { byteLength: number }[]): void {
  const fits = memory.length === files.length && memory.every((one, at) => one.byteLength === files[at]?.byteLength)
  if (!fits) throw wrongType('source.memory', 'one SharedArrayBuffer for each file, as long as the file', memory)
}

function texts(name: string, value: unknown): string[] {
  if (!Array.isArray(value)) throw wrongType(name, 'a list of strings', value)
  return Array.from(value, (one, at) => validateText(`${name}[${at}]`, one))
}

function requestFrom(given: OpenRequest): OpenRequest {
  const read = readOptions(
    given,
    ['format', 'io', 'unread', 'pathBytes', 'shardNames', 'shardPaths', ...LIMITS],
    'source.request',
  )
  const request = openRequest(read)
  if (read.unread !== undefined) request.unread = validateBoolean('source.request.unread', read.unread)
  const bytes = optional(read.pathBytes, (value) => Uint8Array.from(value as number[]))
  if (bytes !== undefined) request.pathBytes = [...bytes]
  for (const key of ['shardNames', 'shardPaths'] as const) {
    const list = optional(read[key], (value) => texts(`source.request.${key}`, value))
    if (list !== undefined) request[key] = list
  }
  return request
}

/** Checks that a reopened file is the one that was shared. */
export function checkSame(native: NativeFile, { path, ticket }: SharedFile): void {
  if (native.identity() === ticket.identity) return
  const which = typeof path === 'string' ? `'${path}'` : `one of ${path.length} files`
  throw new ZTensorError('ZT_IO', `${which} was replaced or changed since it was shared; share it again`)
}
