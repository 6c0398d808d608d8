// `ztensor download`: files of the hub, in its cache or in a folder.
import { type DownloadOptions, download as downloadFiles } from '../hub.js'
import { exitCodes } from './failure.js'
import { jsonLine } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes, showCounted } from './quantity.js'
import { print } from './stdout.js'
import { printable } from './text.js'

export interface DownloadCommandOptions extends ProgressOptions {
  filter?: string[]
  to?: string
  json?: boolean
}

/** Downloads files, and prints the path of the folder or file. Ctrl-C keeps what arrived. */
export async function download(url: string, { filter, to, json, quiet }: DownloadCommandOptions): Promise<void> {
  const stop = new AbortController()
  // A second Ctrl-C has no listener and ends the process immediately.
  process.once('SIGINT', () => stop.abort())
  const progress = await followProgress(url, quiet === undefined ? {} : { quiet })
  const { onProgress } = progress.listen
  const options: DownloadOptions = {
    ...(filter === undefined ? {} : { filter }),
    ...(to === undefined ? {} : { to }),
    ...(onProgress && {
      onProgress: ({ bytes, totalBytes }) => onProgress({ bytes, totalBytes, tensors: 0, totalTensors: 0 }),
    }),
    signal: stop.signal,
  }
  try {
    const { path, commit, files } = await downloadFiles(url, options)
    progress.stop()
    if (json) return await print(jsonLine({ path, commit, files }))
    await print(`${printable(path)}\n`)
    const fresh = files.filter(({ isNew }) => isNew)
    const bytes = fresh.reduce((sum, { byteLength }) => sum + byteLength, 0)
    const before = files.length - fresh.length
    const there = before === 0 ? '' : `; ${showCounted(before, 'file')} ${before === 1 ? 'was' : 'were'} there`
    if (!quiet) process.stderr.write(`downloaded ${showCounted(fresh.length, 'file')}, ${showBytes(bytes)}${there}\n`)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    progress.stop()
  }
}
