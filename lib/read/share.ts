import { types } from 'node:util'
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
 * An open file on its way to another thread: it can be cloned and posted, and `open` and `openSync` take it. In a
 * thread of the same process they give the very file that was shared, its index and its mapping, without reading anything
 * again; elsewhere, or once it is closed everywhere, they open the path and see to it that it is still the same file.
 */
export interface SharedFile {
  readonly kind: 'ztensor.SharedFile'
  /** The path, or the paths of a list. */
  readonly path: string | readonly string[]
  readonly ticket: { readonly process: string; readonly number: number; readonly identity: string }
  /** The options that it was opened with. */
  readonly request: object
  /** The bytes of each file of `file.files`, where they were asked for and the runtime can show them. */
  readonly memory?: readonly SharedArrayBuffer[]
}

/** How to share a file. */
export interface ShareOptions {
  /** Give `memory` as well: SharedArrayBuffers over the mapping, which threads can use without this package. */
  readonly memory?: boolean | undefined
}

const KIND = 'ztensor.SharedFile'

/** What to post of an open file. */
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

/** Reads a shared file, which may have come from anywhere and is none of ours then; undefined for any other source. */
export function sharedFrom(source: object): SharedFile | undefined {
  if ((source as SharedFile).kind !== KIND) return undefined
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

/** Sees to it that memory that came with a share is of the size of the files. */
export function checkMemory(memory: readonly SharedArrayBuffer[], files: readonly { byteLength: number }[]): void {
  const fits = memory.length === files.length && memory.every((one, at) => one.byteLength === files[at]?.byteLength)
  if (!fits) throw wrongType('source.memory', 'one SharedArrayBuffer for each file, as long as the file', memory)
}

function texts(name: string, value: unknown): string[] {
  if (!Array.isArray(value)) throw wrongType(name, 'a list of texts', value)
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

/** Sees to it that a file that was opened anew is the one that was shared. */
export function checkSame(native: NativeFile, { path, ticket }: SharedFile): void {
  if (native.identity() === ticket.identity) return
  const which = typeof path === 'string' ? `'${path}'` : `one of ${path.length} files`
  throw new ZTensorError('ZT_IO', `${which} was replaced or changed since it was shared; share it again`)
}
