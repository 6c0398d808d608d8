import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { getSystemErrorMap } from 'node:util'
import { binding, type NativeError } from './native.js'
import { isError, messageOf } from './realm.js'

/** Why a file, or a call, was refused. The guide on errors (docs/guide/errors.md) says what to do about each. */
export type ErrorCode =
  | 'ZT_TRUNCATED'
  | 'ZT_BAD_MAGIC'
  | 'ZT_BAD_INDEX'
  | 'ZT_INCOMPLETE'
  | 'ZT_OUT_OF_BOUNDS'
  | 'ZT_BAD_SHAPE'
  | 'ZT_BAD_DTYPE'
  | 'ZT_BAD_LAYOUT'
  | 'ZT_BAD_SPARSE'
  | 'ZT_BAD_DIGEST'
  | 'ZT_DIGEST_MISMATCH'
  | 'ZT_DECODE'
  | 'ZT_UNSUPPORTED_VERSION'
  | 'ZT_UNSUPPORTED_ENCODING'
  | 'ZT_LIMIT'
  | 'ZT_NOT_FOUND'
  | 'ZT_EXISTS'
  | 'ZT_CLOSED'
  | 'ZT_MAPPING_LOST'
  | 'ZT_NOT_LOCAL'
  | 'ZT_IO'
  | 'ZT_NOT_CANONICAL'
  | 'ZT_INVALID_ARG'
  | 'ZT_INTERNAL'

/** Where an error lies. */
export interface ErrorDetails {
  tensor?: string | undefined
  component?: string | undefined
  offset?: number | undefined
  rule?: string | undefined
  /** Node's own error where the system refused a call; the list of all errors where several are thrown as one. */
  cause?: unknown
}

/**
 * A refusal: what is wrong, where, and which rule of which specification it breaks.
 *
 * A bad argument is a `TypeError` or `RangeError` instead, with the `code` `ZT_INVALID_ARG`.
 */
export class ZTensorError extends Error {
  /** Stable; match on this, not on the message. */
  readonly code: ErrorCode
  /** The tensor's name, where one is concerned. */
  declare readonly tensor?: string
  /** The component's role, where one is concerned. */
  declare readonly component?: string
  /** The byte of the file at which the rule is broken. */
  declare readonly offset?: number
  /** The section of the specification that the file breaks. */
  declare readonly rule?: string

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    for (const key of ['tensor', 'component', 'offset', 'rule'] as const) {
      const value = details[key]
      if (value !== undefined) Object.defineProperty(this, key, { value, enumerable: true })
    }
  }
}

Object.defineProperty(ZTensorError.prototype, 'name', { value: 'ZTensorError', configurable: true, writable: true })

/** An error as the binding throws it, with null for what it does not say. */
type Thrown = Pick<NativeError, 'code' | 'message'> & { [Key in keyof NativeError]?: NativeError[Key] | null }

/** Whether the binding threw it: its errors have our codes and none of our classes. */
function isNative(thrown: unknown): thrown is Thrown {
  if (typeof thrown !== 'object' || thrown === null || thrown instanceof ZTensorError) return false
  // A caller's own of another realm as well.
  if (isError(thrown) && ['TypeError', 'RangeError'].includes(thrown.name)) return false
  return 'code' in thrown && typeof thrown.code === 'string' && thrown.code.startsWith('ZT_')
}

/** Whether an error has one of our codes: of our classes, or a `TypeError` or `RangeError` of a bad argument. */
export function isOurs(thrown: unknown): thrown is Error {
  return isError(thrown) && 'code' in thrown && String(thrown.code).startsWith('ZT_')
}

/** Numbers of Windows' system errors, by the names that libuv gives them in `node:fs`. */
const WIN32_ERRORS: Record<string, readonly number[]> = {
  EACCES: [998, 1224],
  EBADF: [6],
  EBUSY: [32, 33, 170],
  EEXIST: [80, 183],
  EINVAL: [13, 87],
  EIO: [23, 27, 1117],
  EISDIR: [1],
  EMFILE: [4],
  ENAMETOOLONG: [206],
  ENOENT: [2, 3, 15, 53, 67, 123, 161, 267],
  ENOMEM: [8, 14, 1455],
  ENOSPC: [39, 112],
  ENOTEMPTY: [145],
  EPERM: [5, 1314],
  EROFS: [19],
  EXDEV: [17],
}

const WIN32_NAMES = new Map(
  Object.entries(WIN32_ERRORS).flatMap(([name, numbers]) => numbers.map((number) => [number, name])),
)

/** The name of a Windows error number (`GetLastError`), where `node:fs` has one for it. */
function win32ErrorName(number: number): string | undefined {
  return WIN32_NAMES.get(number)
}

/** Number, name and text that Node has for a failed system call. */
function systemReason({ errno: given, message }: Thrown): { errno: number; code: string; text: string } {
  const errno = given ?? 0
  const known = getSystemErrorMap()
  const name = process.platform === 'win32' ? win32ErrorName(errno) : undefined
  const number = [...known].find(([, [code]]) => code === name)?.[0] ?? -errno
  const [code, text] = known.get(number) ?? ['UNKNOWN', message]
  return { errno: number, code, text }
}

/** The error of an open file's path, as Node's own `fs` spells it. */
function systemError(native: Thrown, path: string | undefined): Error & { code: string } {
  const { errno, code, text } = systemReason(native)
  const place = path === undefined ? '' : ` '${path}'`
  const error = new Error(`${code}: ${text}, ${native.syscall}${place}`)
  return Object.assign(error, { errno, code, syscall: native.syscall, ...(path === undefined ? {} : { path }) })
}

/** What a native error says of its place; null there is undefined here. */
function details({ tensor, component, offset, rule }: Thrown): ErrorDetails {
  return {
    tensor: tensor ?? undefined,
    component: component ?? undefined,
    offset: offset ?? undefined,
    rule: rule ?? undefined,
  }
}

const URL_TEXT = /^([a-z][a-z0-9+.-]+):\/\//i
const HOME = /^~[\\/]/

/** A word on a path where nothing is: one that is spelled as a URL, begins with ~, is a pattern or lacks its ending. Empty for any other. */
function pathHint(path: string, isTarget: boolean): string {
  const scheme = URL_TEXT.exec(path)?.[1]?.toLowerCase()
  if (scheme === 'file') return '. A string is a path: pass new URL(…) for a file: URL'
  if (scheme !== undefined && isTarget)
    return `. A string is a path, and ${scheme}: URLs cannot be written to: write a file, then upload it`
  if (scheme !== undefined)
    return `. A string is a path, and ${scheme}: URLs are not fetched (https:, http:, hf:, s3:, gs: and az: are): download the file first`
  if (HOME.test(path)) return '. ~ is not expanded here: use the path of the home folder (os.homedir())'
  if (/[*?]/.test(path)) return '. Patterns are not expanded here: give the names of the files'
  // The names of models often leave it out, and TensorFlow's calls take the prefix of a checkpoint.
  const ending = binding
    .formats()
    .flatMap(({ endings }) => endings)
    .find((one) => existsSync(`${path}.${one}`))
  return isTarget || ending === undefined ? '' : `. There is '${basename(path)}.${ending}': name that`
}

/** What code of callers threw, until the error that it caused is shown: some never are, since others of the same call come first. */
const kept = new Map<number, unknown>()
const KEPT = 64
let lastKept = 0

/** Keeps what code of a caller threw. Gives the number by which the binding speaks of it. */
export function keepThrown(thrown: unknown): number {
  lastKept = (lastKept + 1) % 2 ** 31
  kept.set(lastKept, thrown)
  if (kept.size > KEPT) kept.delete(kept.keys().next().value as number)
  return lastKept
}

/** Turns what the binding threw into what users see. */
export function publicError(thrown: unknown, path?: string): unknown {
  if (!isNative(thrown)) {
    if (isOurs(thrown)) return thrown
    const said = binding.takePanic() ?? messageOf(thrown)
    return new ZTensorError('ZT_INTERNAL', `a bug in ztensor, please report it: ${said}`, { cause: thrown })
  }
  if (thrown.code === 'ZT_INVALID_ARG') return invalid(RangeError, thrown.message)
  if ((thrown.code === 'ZT_IO' || thrown.code === 'ZT_INCOMPLETE') && typeof thrown.errno === 'number') {
    const place = thrown.path ?? path
    const cause = systemError(thrown, place)
    const context = typeof thrown.context === 'string' ? `${thrown.context}: ` : ''
    const isTarget = context.startsWith("the target's folder ")
    const hint = cause.code === 'ENOENT' && place !== undefined ? pathHint(place, isTarget) : ''
    return new ZTensorError(thrown.code, `${context}${cause.message}${hint}`, { ...details(thrown), cause })
  }
  if (typeof thrown.thrown === 'number') {
    const cause = kept.get(thrown.thrown)
    kept.delete(thrown.thrown)
    return new ZTensorError(thrown.code as ErrorCode, thrown.message, { ...details(thrown), cause })
  }
  if (typeof thrown.status === 'number') {
    const url = thrown.path ?? path
    const cause = Object.assign(new Error(`HTTP ${thrown.status}`), { status: thrown.status, url })
    return new ZTensorError(thrown.code as ErrorCode, thrown.message, { ...details(thrown), cause })
  }
  const causes = thrown.causes?.map((cause) => publicError(cause, path))
  const cause = causes === undefined || causes.length === 0 ? undefined : causes
  return new ZTensorError(thrown.code as ErrorCode, thrown.message, { ...details(thrown), cause })
}

/** Runs a call into the binding. */
export function rethrowNative<T>(call: () => T, path?: string): T {
  try {
    return call()
  } catch (thrown) {
    throw publicError(thrown, path)
  }
}

/** The error for data that no array of this runtime can hold. */
export function tooLarge(what: string, cause: unknown): ZTensorError {
  const message = `${what} are more than one array of this runtime can hold; take parts with slice()`
  return new ZTensorError('ZT_LIMIT', message, { cause })
}

/** A bad argument. */
export function invalid(Kind: typeof TypeError | typeof RangeError, message: string): Error {
  return Object.assign(new Kind(message), { code: 'ZT_INVALID_ARG' as const })
}
