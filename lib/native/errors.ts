import { basename, dirname, existsSync, systemError } from '#host'
import { binding, type NativeError } from './native.js'
import { isError, messageOf } from './realm.js'

/** The error codes. The guide on errors (docs/guide/errors.md) explains each of them. */
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

/** The part of an error's message that says which option changes the outcome. */
export interface OptionHint {
  /** The option, as in `error.option`. */
  readonly option: string
  /** The part of the message, as it stands there. The rest of the message makes sense without it. */
  readonly text: string
}

/** Where an error occurred, and which options change the outcome. */
export interface ErrorDetails {
  tensor?: string | undefined
  component?: string | undefined
  offset?: number | undefined
  rule?: string | undefined
  /** The first of `hints` by default. */
  option?: string | undefined
  /** The parts of the message that name options. */
  hints?: readonly OptionHint[] | undefined
  /** Node's error for a failed system call, or the list of errors if several are thrown as one. */
  cause?: unknown
}

/**
 * An error of this package, with a stable code, the location in the file, and the violated rule of the format's specification.
 *
 * Invalid arguments throw a `TypeError` or `RangeError` with the `code` `ZT_INVALID_ARG` instead. It has `option` and `hints` too, if it
 * names an option or an argument.
 */
export class ZTensorError extends Error {
  /** Stable: match on this, not on the message. */
  readonly code: ErrorCode
  /** The name of the tensor, if the error concerns one. */
  declare readonly tensor?: string
  /** The role of the component, if the error concerns one. */
  declare readonly component?: string
  /** The byte offset in the file. */
  declare readonly offset?: number
  /** The section of the specification that the file violates. */
  declare readonly rule?: string
  /**
   * The option that changes the outcome, if there is one: `'overwrite'` if the file exists. A dot separates an option from the object that
   * contains it: `'remote.timeout'`.
   */
  declare readonly option?: string
  /**
   * The parts of `message` that name options: ` (option overwrite)`. A program whose users do not write JavaScript can replace them by its
   * own words. Not enumerable.
   */
  declare readonly hints?: readonly OptionHint[]

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    located(this, details)
  }
}

/** Adds the location and the options to an error. */
function located<E extends Error>(error: E, details: ErrorDetails): E {
  const hints = details.hints?.length === 0 ? undefined : details.hints
  const all = { ...details, hints, option: details.option ?? hints?.[0]?.option }
  for (const key of ['tensor', 'component', 'offset', 'rule', 'option', 'hints'] as const) {
    const value = all[key]
    if (value !== undefined) Object.defineProperty(error, key, { value, enumerable: key !== 'hints' })
  }
  return error
}

/** The hint that names an option, to be put into a message. */
export function optionHint(option: string, text = ` (option ${option})`): OptionHint {
  return { option, text }
}

Object.defineProperty(ZTensorError.prototype, 'name', { value: 'ZTensorError', configurable: true, writable: true })

/** An error as the binding throws it. Missing properties are null. */
type Thrown = Pick<NativeError, 'code' | 'message'> & { [Key in keyof NativeError]?: NativeError[Key] | null }

/** Whether the binding threw the error: it then has one of our codes, but not one of our classes. */
function isNative(thrown: unknown): thrown is Thrown {
  if (typeof thrown !== 'object' || thrown === null || thrown instanceof ZTensorError) return false
  // Excludes our errors that a caller rethrows from another realm.
  if (isError(thrown) && ['TypeError', 'RangeError'].includes(thrown.name)) return false
  return 'code' in thrown && typeof thrown.code === 'string' && thrown.code.startsWith('ZT_')
}

/** Whether an error has one of our codes: a `ZTensorError`, or a `TypeError` or `RangeError` for an invalid argument. */
export function isOurs(thrown: unknown): thrown is Error {
  return isError(thrown) && 'code' in thrown && String(thrown.code).startsWith('ZT_')
}

/** Node's number, code and message for a failed system call. */
function systemReason({ errno: given, message }: Thrown): { errno: number; code: string; text: string } {
  const number = given ?? 0
  return systemError(number) ?? { errno: -number, code: 'UNKNOWN', text: message }
}

/** An error for a path, in the form of Node's `fs`. */
function systemErrorOf(native: Thrown, path: string | undefined): Error & { code: string } {
  const { errno, code, text } = systemReason(native)
  const suffix = path === undefined ? '' : ` '${path}'`
  const error = new Error(`${code}: ${text}, ${native.syscall}${suffix}`)
  return Object.assign(error, { errno, code, syscall: native.syscall, ...(path === undefined ? {} : { path }) })
}

/** The location in a native error, with undefined instead of null. */
function details({ tensor, component, offset, rule, option, hints }: Thrown): ErrorDetails {
  return {
    option: option ?? undefined,
    hints: hints ?? undefined,
    tensor: tensor ?? undefined,
    component: component ?? undefined,
    offset: offset ?? undefined,
    rule: rule ?? undefined,
  }
}

const URL_TEXT = /^([a-z][a-z0-9+.-]+):\/\//i
const HOME = /^~[\\/]/
/** Matches the name of a repository of the Hugging Face hub, and not a file with an extension such as `out/model.zt`. */
const REPOSITORY = /^[A-Za-z0-9][\w-]*\/[A-Za-z0-9][\w.-]*$/

/** A hint for a path that does not exist: for URLs, ~, patterns and missing extensions. Empty for any other path. */
function pathHint(path: string, isTarget: boolean): string {
  const scheme = URL_TEXT.exec(path)?.[1]?.toLowerCase()
  if (scheme === 'file') return '. A string is a path: pass new URL(…) for a file: URL'
  if (scheme !== undefined && isTarget)
    return `. A string is a path, and ${scheme}: URLs cannot be written to: write a file, then upload it`
  if (scheme !== undefined)
    return `. A string is a path, and ${scheme}: URLs are not fetched (https:, http:, hf:, s3:, gs: and az: are): download the file first`
  if (HOME.test(path)) return '. ~ is not expanded here: use the path of the home folder (os.homedir())'
  if (/[*?]/.test(path)) return '. Patterns are not expanded here: give the names of the files'
  // Model names often omit the extension, and TensorFlow's functions take the prefix of a checkpoint.
  const ending = binding
    .formats()
    .flatMap(({ endings }) => endings)
    .find((one) => existsSync(`${path}.${one}`))
  if (isTarget) return ''
  if (ending !== undefined) return `. There is '${basename(path)}.${ending}': name that`
  const isFile = binding.formats().some(({ endings }) => endings.some((one) => path.endsWith(`.${one}`)))
  const isRepository = REPOSITORY.test(path) && !isFile && !existsSync(dirname(path))
  return isRepository ? `. If it is a model of the Hugging Face hub, name 'hf://${path}'` : ''
}

/** Errors thrown by callers' code, which become the `cause` of a native error. Some never do, because the call fails with another error. */
const thrownByCallers = new Map<number, unknown>()
const MAX_THROWN = 64
let lastThrown = 0

/** Stores an error thrown by a caller's code. Returns the number by which the binding refers to it. */
export function registerThrown(thrown: unknown): number {
  lastThrown = (lastThrown + 1) % 2 ** 31
  thrownByCallers.set(lastThrown, thrown)
  if (thrownByCallers.size > MAX_THROWN) thrownByCallers.delete(thrownByCallers.keys().next().value as number)
  return lastThrown
}

/** Converts an error of the binding to a public error. */
export function publicError(thrown: unknown, path?: string): unknown {
  if (!isNative(thrown)) {
    if (isOurs(thrown)) return thrown
    const report = binding.takePanic() ?? messageOf(thrown)
    return new ZTensorError('ZT_INTERNAL', `a bug in ztensor, please report it: ${report}`, { cause: thrown })
  }
  if (thrown.code === 'ZT_INVALID_ARG') return located(invalid(RangeError, thrown.message), details(thrown))
  if ((thrown.code === 'ZT_IO' || thrown.code === 'ZT_INCOMPLETE') && typeof thrown.errno === 'number') {
    const file = thrown.path ?? path
    const cause = systemErrorOf(thrown, file)
    const context = typeof thrown.context === 'string' ? `${thrown.context}: ` : ''
    const isTarget = context.startsWith("the target's folder ")
    const hint = cause.code === 'ENOENT' && file !== undefined ? pathHint(file, isTarget) : ''
    return new ZTensorError(thrown.code, `${context}${cause.message}${hint}`, { ...details(thrown), cause })
  }
  if (typeof thrown.thrown === 'number') {
    const cause = thrownByCallers.get(thrown.thrown)
    thrownByCallers.delete(thrown.thrown)
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

/** Adds a path to the message of an error, unless it is there, and a hint. */
export function named(error: ZTensorError, path: string, hint = ''): ZTensorError {
  const { code, message, tensor, component, offset, rule, hints, cause } = error
  const text = message.includes(path) ? message : `'${path}': ${message}`
  return new ZTensorError(code, `${text}${hint}`, { tensor, component, offset, rule, hints, cause })
}

/** Runs a native call, and converts its errors to public ones. */
export function rethrowNative<T>(call: () => T, path?: string): T {
  try {
    return call()
  } catch (thrown) {
    throw publicError(thrown, path)
  }
}

/** The error for data that is too large for one array. */
export function tooLarge(what: string, cause: unknown): ZTensorError {
  const message = `${what} are more than one array of this runtime can hold; read parts with slice()`
  return new ZTensorError('ZT_LIMIT', message, { cause })
}

/** The error for an invalid argument. */
export function invalid(
  Kind: typeof TypeError | typeof RangeError,
  message: string,
  details: Pick<ErrorDetails, 'option' | 'hints'> = {},
): Error {
  return located(Object.assign(new Kind(message), { code: 'ZT_INVALID_ARG' as const }), details)
}
