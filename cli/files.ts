// Names of the files of a set in listings.
import { basename } from 'node:path'
import { printable } from './text.js'

/** The longest common start of texts. */
function commonStart(texts: readonly string[]): string {
  const [first = '', ...others] = texts
  let length = first.length
  for (const text of others) {
    let at = 0
    while (at < length && text[at] === first[at]) at++
    length = at
  }
  return first.slice(0, length)
}

const reversed = (text: string): string => Array.from(text).reverse().join('')

/**
 * Returns a function for the name of a file in a listing, and the pattern that the names were reduced by: `00001` for
 * `model-00001-of-00003.safetensors`, with the pattern `model-*-of-00003.safetensors`. With `full`, names are not reduced.
 */
export function fileLabels(
  files: readonly { readonly path: string | undefined }[],
  full: boolean,
): { label: (path: string) => string; pattern: string | undefined } {
  const paths = [...new Set(files.flatMap(({ path }) => path ?? []))]
  const bases = paths.map((path) => basename(path))
  // Files of the same name in several folders keep their paths.
  const names = new Set(bases).size === paths.length ? bases : paths
  const named = new Map(paths.map((path, at) => [path, names[at] as string]))
  const label = (path: string): string => printable(named.get(path) ?? path)
  if (full || names.length < 2) return { label, pattern: undefined }
  // The rest is cut off between numbers or words only.
  const start = commonStart(names).replace(/[\p{L}\p{N}]+$/u, '')
  const rest = names.map((name) => reversed(name.slice(start.length)))
  const end = reversed(commonStart(rest).replace(/[\p{L}\p{N}]+$/u, ''))
  if (start.length + end.length < 4 || names.some((name) => name.length <= start.length + end.length))
    return { label, pattern: undefined }
  const reduced = (path: string): string => {
    const name = named.get(path)
    return printable(name === undefined ? path : name.slice(start.length, name.length - end.length))
  }
  return { label: reduced, pattern: `${start}*${end}` }
}
