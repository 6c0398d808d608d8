// The paths and URLs of files to write.
import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { invalid } from '../native/errors.js'
import { urlText } from '../native/realm.js'
import { filePath, validateText } from '../values/arguments.js'
import { FORMATS } from '../values/format-table.js'
import { list, withFormatOf } from '../values/formats.js'
import { remoteUrl } from '../values/remote.js'
import type { CreateOptions } from './options.js'

/**
 * Adds the format of the target's file extension, unless the options have a format, or a version, which only zTensor has. `bare`: a name
 * without an extension is one of zTensor.
 */
export function withFormat<T extends Pick<CreateOptions, 'format' | 'version'>>(
  read: T,
  target: string | undefined,
  bare = false,
): T {
  return withFormatOf(read, target, (name) => (bare && extname(name) === '') || isSpecial(name))
}

/** Whether a path is that of a pipe or device, whose name says nothing of a format. */
function isSpecial(path: string): boolean {
  try {
    return !statSync(path).isFile()
  } catch {
    return false
  }
}

/** Validates a local path to write to. */
export function targetPath(path: string | URL): string {
  const remote = remoteUrl(path)
  if (remote !== undefined) throw invalid(TypeError, `path must be a local path, got ${scheme(remote)}: ${EDIT_HINT}`)
  const url = urlText(path)
  const target = url === undefined ? validateText('path', path) : filePath('path', url)
  if (target === '') throw invalid(TypeError, 'path must not be empty')
  if (target.includes('\0')) throw invalid(TypeError, 'path must not contain null bytes')
  if (/[\\/]$/.test(process.platform === 'win32' ? target : target.replaceAll('\\', '.')))
    throw invalid(TypeError, `path must name a file, but ${target} ends with a separator`)
  return target
}

const EDIT_HINT =
  'remote files cannot be edited in place; convert the file to a new one, or download, edit and upload it'

const scheme = (url: string): string => url.slice(0, url.indexOf(':') + 1).toLowerCase()

/** The URL of an object to write; undefined for any other target. A folder means `model.zt` in it, or the extension of the format. */
export function storeTarget(path: unknown, format: CreateOptions['format'] = 'zt'): string | undefined {
  const url = remoteUrl(path)
  if (url === undefined) return undefined
  validateText('path', url)
  if (!STORES.includes(scheme(url)))
    throw invalid(
      TypeError,
      `${scheme(url)} URLs cannot be written, only ${list(STORES)} URLs: write a local file, and upload it`,
    )
  if (/[?#]/.test(url)) throw invalid(TypeError, "a URL to write must not have a query or fragment ('?' or '#')")
  if (!url.endsWith('/')) return url
  const ending = FORMATS.find(({ name }) => name === format)?.endings[0]
  return `${url}model.${ending ?? format}`
}

const STORES: readonly string[] = ['s3:', 'gs:', 'az:']
