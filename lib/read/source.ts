// Parses the `source` argument of `open`.
import { isUtf8 } from 'node:buffer'
import { existsSync } from 'node:fs'
import { types } from 'node:util'
import { snapshotOf } from '../hub/snapshot.js'
import { invalid, named, publicError, ZTensorError } from '../native/errors.js'
import { isPlainObject, urlText } from '../native/realm.js'
import { filePath, validateText, wrongType } from '../values/arguments.js'
import { remoteUrl } from '../values/remote.js'
import { type ByteSource, isByteSource } from './byte-source.js'
import { type SharedFile, sharedFrom } from './share.js'

/**
 * A path or `file:` URL of a tensor file, of the index of a sharded checkpoint (`model.safetensors.index.json`), or of a folder that
 * contains one; a URL of a remote file; a list of paths or URLs, opened as one file; the bytes of a file in memory; a shared file; or,
 * in asynchronous calls, a `ByteSource`.
 */
export type Source = string | URL | readonly (string | URL)[] | Uint8Array | ArrayBuffer | SharedFile | ByteSource

/** A parsed source. For a path that is not UTF-8, `encoded` has its bytes and `path` its URL. */
export type ParsedSource =
  | { readonly kind: 'path'; readonly path: string; readonly encoded?: Buffer }
  | { readonly kind: 'paths'; readonly paths: readonly string[] }
  | { readonly kind: 'urls'; readonly urls: readonly string[] }
  | { readonly kind: 'memory'; readonly memory: Uint8Array }
  | { readonly kind: 'shared'; readonly shared: SharedFile }
  | { readonly kind: 'bytes'; readonly bytes: ByteSource }

const EXPECTED = 'a path, a URL, a list of them, a Uint8Array, an ArrayBuffer or a ByteSource ({ byteLength, read })'

/** @throws TypeError and RangeError ZT_INVALID_ARG for an invalid source */
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
  const error = wrongType('source', EXPECTED, source)
  if (isPlainObject(source)) error.message += '; to pass a file to another thread, post the result of its share()'
  else if (Object.prototype.toString.call(source) === '[object TensorFile]')
    error.message += '; call the methods of the open file instead, or pass its path'
  throw error
}

/** Parses a file: URL. File names are bytes on Unix, and a URL may encode bytes that are not UTF-8. */
function parseFileUrl(url: string): ParsedSource {
  const bytes = process.platform === 'win32' ? undefined : bytesOfUrl(url)
  if (bytes === undefined || isUtf8(bytes))
    return { kind: 'path', path: validatePath('source', filePath('source', url)) }
  return { kind: 'path', path: url, encoded: bytes }
}

/** The decoded bytes of the path of a local file: URL; undefined for any other URL, which Node then rejects. */
function bytesOfUrl(text: string): Buffer | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'file:' || url.hostname !== '' || /%2f|%00/i.test(url.pathname)) return undefined
  const spelled = url.pathname.replace(/%([0-9a-f]{2})/gi, (_, byte) => String.fromCharCode(Number.parseInt(byte, 16)))
  return Buffer.from(spelled, 'latin1')
}

const sharedPath = (path: SharedFile['path']) =>
  typeof path === 'string' ? validatePath('source.path', path) : validatePaths('source.path', path)

/** The URLs of a list of URLs; undefined for a list of paths. */
function remoteList(source: readonly unknown[]): string[] | undefined {
  const urls = source.map(remoteUrl)
  if (!urls.some((url) => url !== undefined)) return undefined
  if (urls.every((url) => url !== undefined)) return urls
  throw invalid(TypeError, 'source must be a list of paths or a list of remote URLs, not a mixture')
}

export function validateShardPath(name: string, path: unknown): string {
  const url = urlText(path)
  if (url !== undefined) return validatePath(name, filePath(name, url))
  if (typeof path !== 'string') throw wrongType(name, 'a path or a file: URL', path)
  return validatePath(name, path)
}

function validatePaths(name: string, source: readonly unknown[]): string[] {
  if (source.length === 0) throw invalid(RangeError, `${name} must name at least one file, got an empty list`)
  return Array.from(source, (one, at) => validateShardPath(`${name}[${at}]`, one))
}

/** A view of the whole buffer. Throws for a detached buffer. */
function wholeBuffer(buffer: ArrayBufferLike): Uint8Array {
  try {
    return new Uint8Array(buffer)
  } catch (cause) {
    throw Object.assign(invalid(TypeError, 'source is a detached buffer'), { cause })
  }
}

const ASAR = /\.asar(?=[\\/])/

/** Validates a path. Electron packs an app into an archive; only files in its unpacked folder can be mapped. */
function validatePath(name: string, path: string): string {
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, path === '' ? `${name} must not be empty` : `${name} must not contain null bytes`)
  validateText(name, path)
  const snapshot = snapshotOf(path)
  if (snapshot !== undefined) return snapshot
  if (!ASAR.test(path) || existsSync(path.replace(ASAR, '.asar.unpacked')) === false) return path
  return path.replace(ASAR, '.asar.unpacked')
}

/** Adds the path to an error of `open`, and a hint for files inside an .asar archive. */
export function openError(thrown: unknown, path: string): unknown {
  const error = publicError(thrown, path)
  if (!(error instanceof ZTensorError)) return error
  const packed = error.code === 'ZT_IO' && ASAR.test(path)
  const hint =
    ': a file inside an .asar archive cannot be mapped; add it to "asarUnpack" in the packager\'s configuration'
  return named(error, path, packed ? hint : '')
}
