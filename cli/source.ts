// The source of a command: a path, a URL, or - for standard input.
import { type OpenOptions, open, type RemoteOptions, type TensorFile } from '../index.js'
import { UsageError } from './failure.js'
import type { RemoteCommandOptions, SourceOptions } from './format.js'
import { followDownload, type ProgressOptions } from './progress.js'
import { printWarnings } from './warnings.js'

/** The argument that means standard input or output. */
export const STANDARD = '-'

/** Splits `Name: value`. The message of an error shows no value, which may be secret. */
function headersOf(lines: readonly string[]): Record<string, string> {
  const pairs = lines.map((line) => {
    const at = line.indexOf(':')
    if (at < 1) throw new UsageError("--header takes 'Name: value', such as --header 'Authorization: Bearer TOKEN'")
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
  })
  return Object.fromEntries(pairs)
}

/** The option `remote` of the library. */
export function remoteOf({ endpoint, region, anonymous, header }: RemoteCommandOptions): RemoteOptions | undefined {
  const store = {
    // A caller that gives an http: URL allows it.
    ...(endpoint === undefined ? {} : { endpoint, allowHttp: /^http:/i.test(endpoint) }),
    ...(region === undefined ? {} : { region }),
    ...(anonymous === undefined ? {} : { anonymous }),
  }
  const remote = {
    ...(header === undefined ? {} : { headers: headersOf(header) }),
    ...(Object.keys(store).length === 0 ? {} : { store }),
  }
  return Object.keys(remote).length === 0 ? undefined : remote
}

/** The options of a command for `open`. */
export function openOptions(options: SourceOptions & ProgressOptions): OpenOptions {
  const { format, maxDecodedBytes, followLinks, cache } = options
  const access = remoteOf(options)
  const onDownload = followDownload(options)
  const remote = cache === undefined ? access : { ...access, cache, ...(onDownload && { onDownload }) }
  return {
    ...(format === undefined ? {} : { format }),
    ...(maxDecodedBytes === undefined ? {} : { maxDecodedBytes }),
    ...(followLinks === undefined ? {} : { followLinks }),
    ...(remote === undefined ? {} : { remote }),
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

/** Opens a file, or several as one, prints its warnings, runs `work` and closes the file. `name` is printed before each warning. */
export async function withFile(
  path: string | readonly string[],
  options: SourceOptions,
  work: (file: TensorFile) => Promise<void>,
  name?: string,
): Promise<void> {
  const paths = typeof path === 'string' ? [path] : path
  const source = paths.length === 1 ? await sourceOf(paths[0] as string) : await several(paths)
  const file = await open(source, openOptions(options))
  try {
    printWarnings(file.warnings, name)
    await work(file)
  } finally {
    file.close()
  }
}

/** Prints the warnings of a file that another call opens, and whose errors that call throws. */
export async function printWarningsOf(path: string): Promise<void> {
  const file = await open(path).catch(() => undefined)
  if (file === undefined) return
  printWarnings(file.warnings)
  file.close()
}
