// The source of a command: a path, a URL, or - for standard input.
import { open, type TensorFile } from '../index.js'
import { UsageError } from './failure.js'
import type { SourceOptions } from './format.js'

/** The argument that means standard input or output. */
export const STANDARD = '-'

/** The options of a command for `open`. */
export function openOptions(options: SourceOptions): SourceOptions {
  const { format, maxDecodedBytes, followLinks } = options
  return {
    ...(format === undefined ? {} : { format }),
    ...(maxDecodedBytes === undefined ? {} : { maxDecodedBytes }),
    ...(followLinks === undefined ? {} : { followLinks }),
  }
}

/** Whether a path is a remote URL. */
export const isRemote = (path: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(path) && !/^file:/i.test(path)

/** Converts an argument to a source. Standard input is read into memory. */
export async function sourceOf(path: string): Promise<string | URL | Uint8Array> {
  if (path === STANDARD) {
    if (process.stdin.isTTY) {
      throw new UsageError('standard input is a terminal', 'Pipe a file to it: PROGRAM | ztensor ls -')
    }
    const { buffer } = await import('node:stream/consumers')
    return buffer(process.stdin)
  }
  return path.startsWith('file:') && URL.canParse(path) ? new URL(path) : path
}

async function several(paths: readonly string[]): Promise<(string | URL)[]> {
  if (paths.includes(STANDARD)) throw new UsageError('standard input cannot be joined with other files')
  return (await Promise.all(paths.map(sourceOf))) as (string | URL)[]
}

/** Opens a file, or several as one, runs `work` and closes the file. */
export async function withFile(
  path: string | readonly string[],
  options: SourceOptions,
  work: (file: TensorFile) => Promise<void>,
): Promise<void> {
  const paths = typeof path === 'string' ? [path] : path
  const source = paths.length === 1 ? await sourceOf(paths[0] as string) : await several(paths)
  const file = await open(source, openOptions(options))
  try {
    await work(file)
  } finally {
    file.close()
  }
}
