// What a path that leads nowhere was perhaps meant as.
const URL_TEXT = /^([a-z][a-z0-9+.-]+):\/\//i
const HOME = /^~[\\/]/

/** A word on a path where nothing is: one that is spelled as a URL, begins with ~ or is a pattern. Empty for any other. */
export function pathHint(path: string, isTarget: boolean): string {
  const scheme = URL_TEXT.exec(path)?.[1]?.toLowerCase()
  if (scheme === 'file') return '. A string is a path: pass new URL(…) for a file: URL'
  if (scheme !== undefined && isTarget)
    return `. A string is a path, and ${scheme}: URLs cannot be written to: write a file, then upload it`
  if (scheme === 'hf')
    return '. Models of the Hugging Face hub are not fetched: download the file first (`hf download`)'
  if (scheme !== undefined) return `. A string is a path, and ${scheme}: URLs are not fetched: download the file first`
  if (HOME.test(path)) return '. ~ is not expanded here: use the path of the home folder (os.homedir())'
  if (/[*?]/.test(path)) return '. Patterns are not expanded here: give the names of the files'
  return ''
}
