// Folders among arguments. Only hosts with a file system have them.
import { resolve } from '#host'
import { invalid } from '../native/errors.js'
import { urlText } from '../native/realm.js'
import { filePath, validateText } from './arguments.js'

/** The absolute path of a folder, by a path or a file: URL. */
export function validateFolder(name: string, value: unknown): string {
  const url = urlText(value)
  const path = validateText(name, url === undefined ? value : filePath(name, url))
  if (path === '' || path.includes('\0'))
    throw invalid(TypeError, path === '' ? `${name} must not be empty` : `${name} must not contain null bytes`)
  return resolve(path)
}
