// What a path that leads nowhere was perhaps meant as.
import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { binding } from './native.js'

const URL_TEXT = /^([a-z][a-z0-9+.-]+):\/\//i
const HOME = /^~[\\/]/

/** A word on a path where nothing is: one that is spelled as a URL, begins with ~, is a pattern or lacks its ending. Empty for any other. */
export function pathHint(path: string, isTarget: boolean): string {
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
