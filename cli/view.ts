// `ztensor view`: writes a report as one HTML file.
import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { open, type TensorFile } from '../index.js'
import { REPORT_MARK } from '../lib/values/report-mark.js'
import { report } from '../report.js'
import { exitCodes, UsageError } from './failure.js'
import { NameFilter } from './filter.js'
import type { SourceOptions } from './format.js'
import { openRegular, writeFile } from './output-file.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes } from './quantity.js'
import { openOptions, STANDARD, sourceOf } from './source.js'
import { print } from './stdout.js'
import { printable } from './text.js'
import { printWarnings } from './warnings.js'

export interface ReportCommandOptions extends SourceOptions, ProgressOptions {
  against?: string
  filter?: string[]
  stats?: boolean
  open?: boolean
  title?: string
}

export interface ViewOptions extends ReportCommandOptions {
  output: string
  overwrite?: boolean
}

/** Whether a file exists that is not a report. */
async function isOther(path: string): Promise<boolean> {
  await using file = await openRegular(path)
  if (file === undefined) return false
  const { buffer, bytesRead } = await file.read(Buffer.alloc(4096), 0, 4096, 0)
  return !buffer.toString('utf8', 0, bytesRead).includes(REPORT_MARK)
}

async function refuseOther(path: string): Promise<void> {
  let other: boolean
  try {
    other = await isOther(path)
  } catch (error) {
    // The error of a path that is no regular file names it.
    if ((error as NodeJS.ErrnoException).code === 'ZT_IO') throw error
    throw Object.assign(new Error(`${path}: ${(error as Error).message}`), { code: 'ZT_IO' })
  }
  if (!other) return
  const message = `${path} exists and is not a report: name another file with -o, or replace it with --overwrite`
  throw Object.assign(new Error(message), { code: 'ZT_EXISTS' })
}

/** Opens a page in the default browser. Ignores the browser's output. */
export function openInBrowser(url: string): Promise<void> {
  const [program, ...args] =
    process.platform === 'darwin'
      ? ['open', url]
      : process.platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler', url]
        : ['xdg-open', url]
  return new Promise((settle) => {
    const child = spawn(program as string, args, { stdio: 'ignore', detached: true })
    child.once('error', () => {
      process.stderr.write(`could not start a browser: open ${printable(url)} yourself\n`)
      settle()
    })
    child.once('spawn', () => {
      child.unref()
      settle()
    })
  })
}

/** Opens the file, and the one to compare with, and runs `work`, which Ctrl-C cancels. */
export async function withReportFiles(
  path: string,
  options: ReportCommandOptions,
  work: (file: TensorFile, against: TensorFile | undefined, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const stop = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort())
  // Otherwise an abort would wait for the program that writes to standard input.
  stop.signal.addEventListener('abort', () => process.stdin.destroy(), { once: true })
  const { against, filter, ...opening } = options
  if (path === STANDARD && against === STANDARD) throw new UsageError('only one of the files can be standard input')
  const files: TensorFile[] = []
  try {
    files.push(await open(await sourceOf(path), { ...openOptions(opening), signal: stop.signal }))
    if (against !== undefined) {
      const { format: _, ...others } = openOptions(opening)
      files.push(await open(await sourceOf(against), { ...others, signal: stop.signal }))
    }
    if (filter !== undefined) new NameFilter(filter).check(files.flatMap((file) => [...file.keys()]))
    const names = files.length > 1 ? [path, against] : []
    for (const [at, file] of files.entries()) printWarnings(file.warnings, names[at])
    await work(files[0] as TensorFile, files[1], stop.signal)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    for (const file of files) file.close()
  }
}

/** Writes a report of the file at `path`. */
export async function view(path: string, options: ViewOptions): Promise<void> {
  const { output, overwrite, stats, filter, title } = options
  if (output === STANDARD && options.open) throw new UsageError('--open needs a file: name one with -o')
  if (output !== STANDARD && !overwrite) await refuseOther(output)
  await withReportFiles(path, options, async (file, against, signal) => {
    const progress = await followProgress(file.path ?? '', options)
    const how = { against, statistics: stats, filter, title, signal, ...progress.listen }
    const html = await report(file, how).finally(() => progress.stop())
    if (output === STANDARD) return print(html)
    const bytes = Buffer.from(html)
    await writeFile(output, bytes, true)
    process.stdout.write(`${printable(output)} (${showBytes(bytes.length)})\n`)
    if (options.open) await openInBrowser(pathToFileURL(resolve(output)).href)
  })
}
