// What `open` is given: one parser for all kinds of sources.
import { isUtf8 } from 'node:buffer'
import { existsSync } from 'node:fs'
import { types } from 'node:util'
import { invalid, publicError, ZTensorError } from '../native/errors.js'
import { isPlainObject, urlText } from '../native/realm.js'
import { filePath, validateText, wrongType } from '../values/arguments.js'
import { type ByteSource, isByteSource } from './byte-source.js'
import { remoteUrl } from './remote.js'
import { type SharedFile, sharedFrom } from './share.js'

/**
 * A path or file: URL of a tensor file, of the index of a sharded checkpoint (`model.safetensors.index.json`) or of a
 * folder with one; a list of paths of tensor files, opened as one; a file that is in memory already; or, in calls that give a
 * promise, a file that code of yours reads.
 */
export type Source = string | URL | readonly (string | URL)[] | Uint8Array | ArrayBuffer | SharedFile | ByteSource

/** A source, by its kind. `encoded` has the bytes of a path that is not UTF-8: `path` is its URL then. */
export type ParsedSource =
  | { readonly kind: 'path'; readonly path: string; readonly encoded?: Buffer }
  | { readonly kind: 'paths'; readonly paths: readonly string[] }
  | { readonly kind: 'urls'; readonly urls: readonly string[] }
  | { readonly kind: 'memory'; readonly memory: Uint8Array }
  | { readonly kind: 'shared'; readonly shared: SharedFile }
  | { readonly kind: 'bytes'; readonly bytes: ByteSource }

/** @throws TypeError and RangeError ZT_INVALID_ARG of what is no source */
export function parseSource(source: unknown): ParsedSource {
  const remote = Array.isArray(source) ? remoteList(source) : remoteUrl(source)
  if (remote !== undefined) return { kind: 'urls', urls: [remote].flat() }
  if (typeof source === 'string') return { kind: 'path', path: validatePath('source', source) }
  if (Array.isArray(source)) {
    const paths = validatePaths('source', source)
    return paths.length === 1 ? { kind: 'path', path: paths[0] as string } : { kind: 'paths', paths }
  }
  if (types.isUint8Array(source)) return { kind: 'memory', memory: source }
  if (types.isAnyArrayBuffer(source)) return { kind: 'memory', memory: wholeBuffer(source) }
  const url = urlText(source)
  if (url !== undefined) return parseFileUrl(url)
  const shared = typeof source === 'object' && source !== null ? sharedFrom(source) : undefined
  if (shared !== undefined) return { kind: 'shared', shared: { ...shared, path: sharedPath(shared.path) } }
  if (isByteSource(source)) return { kind: 'bytes', bytes: source }
  const error = wrongType('source', 'a path, a file: URL, a list of them, a Uint8Array or an ArrayBuffer', source)
  if (isPlainObject(source)) error.message += '; from another thread, post what share() of the file gives'
  else if (Object.prototype.toString.call(source) === '[object TensorFile]')
    error.message += '; a file that is open has these calls itself, and its path is file.path'
  throw error
}

/** The path of a file: URL. Names of files are bytes on Unix, and a URL may spell bytes that are not UTF-8. */
function parseFileUrl(url: string): ParsedSource {
  const bytes = process.platform === 'win32' ? undefined : bytesOfUrl(url)
  if (bytes === undefined || isUtf8(bytes))
    return { kind: 'path', path: validatePath('source', filePath('source', url)) }
  return { kind: 'path', path: url, encoded: bytes }
}

/** The bytes that the path of a local file: URL spells; undefined for any other URL, which Node then refuses. */
function bytesOfUrl(text: string): Buffer | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'file:' || url.hostname !== '' || /%2f|%00/i.test(url.pathname)) return undefined
  const spelled = url.pathname.replace(/%([0-9a-f]{2})/gi, (_, byte) => String.fromCharCode(Number.parseInt(byte, 16)))
  return Buffer.from(spelled, 'latin1')
}

const sharedPath = (path: SharedFile['path']) =>
  typeof path === 'string' ? validatePath('source.path', path) : validatePaths('source.path', path)

/** The URLs of a list of them; undefined for a list without. */
function remoteList(source: readonly unknown[]): string[] | undefined {
  const urls = source.map(remoteUrl)
  if (!urls.some((url) => url !== undefined)) return undefined
  if (urls.every((url) => url !== undefined)) return urls
  throw invalid(TypeError, 'source must be a list of paths, or a list of URLs of other machines, not of both')
}

export function validateShardPath(name: string, place: unknown): string {
  const url = urlText(place)
  if (url !== undefined) return validatePath(name, filePath(name, url))
  if (typeof place !== 'string') throw wrongType(name, 'a path or a file: URL', place)
  return validatePath(name, place)
}

function validatePaths(name: string, source: readonly unknown[]): string[] {
  if (source.length === 0) throw invalid(RangeError, `${name} must name one file or more, got an empty list`)
  return Array.from(source, (one, at) => validateShardPath(`${name}[${at}]`, one))
}

/** The bytes of a buffer; of a detached one there are none. */
function wholeBuffer(buffer: ArrayBufferLike): Uint8Array {
  try {
    return new Uint8Array(buffer)
  } catch (cause) {
    throw Object.assign(invalid(TypeError, 'source is a detached buffer'), { cause })
  }
}

const ASAR = /\.asar(?=[\\/])/

/** Electron packs an app into an archive, of which only the unpacked twin can be mapped. */
function validatePath(name: string, path: string): string {
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, path === '' ? `${name} must not be empty` : `${name} must not hold null bytes`)
  validateText(name, path)
  if (!ASAR.test(path) || existsSync(path.replace(ASAR, '.asar.unpacked')) === false) return path
  return path.replace(ASAR, '.asar.unpacked')
}

/** Names the file, and what helps where it is packed away. */
export function openError(thrown: unknown, path: string): unknown {
  const error = publicError(thrown, path)
  if (!(error instanceof ZTensorError)) return error
  const named = error.message.includes(path) ? error.message : `'${path}': ${error.message}`
  const packed = error.code === 'ZT_IO' && ASAR.test(path)
  const hint =
    ': a file inside an .asar archive cannot be mapped; add it to "asarUnpack" in the packager\'s configuration'
  const { code, tensor, component, offset, rule, cause } = error
  return new ZTensorError(code, packed ? `${named}${hint}` : named, { tensor, component, offset, rule, cause })
}
