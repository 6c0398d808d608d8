// A progress bar on standard error, if it is a terminal.
import type { DownloadProgress } from '../hub.js'
import type { Progress } from '../index.js'

import { showBytes } from './quantity.js'
import { printable, shorten } from './text.js'

/** The bar measures its own rate, because some commands add up the progress of several calls. */
export type Counts = Omit<Progress, 'bytesPerSecond' | 'remainingMs'>

export interface ProgressOptions {
  /** Show no progress. */
  quiet?: boolean
}

export interface ProgressListener {
  /** Options for the call; empty without a terminal. */
  listen: { onProgress?: (counts: Counts) => void }
  /** Removes the bar and restores the cursor. */
  stop(): void
}

/** An estimate needs this much time and this share of the work: the first bytes may come from a cache, or wait for a server. */
const ESTIMATED_AFTER = { seconds: 2, share: 0.02 }

/** Formats a duration: `5s`, `3m05s`, `2h10m`. Never less than a second. */
export function showSeconds(seconds: number): string {
  const whole = Math.max(1, Math.ceil(seconds))
  const two = (number: number): string => String(number).padStart(2, '0')
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`
  return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`
}

/** The text for the remaining time after `seconds`; empty before an estimate is possible, and at the end. */
export function showRemaining({ bytes, totalBytes }: Counts, seconds: number): string {
  if (totalBytes === 0 || bytes >= totalBytes) return ''
  const share = bytes / totalBytes
  if (seconds < ESTIMATED_AFTER.seconds || share < ESTIMATED_AFTER.share) return ''
  return `${showSeconds((seconds * (1 - share)) / share)} left`
}

/** Makes a progress bar for work on `path`. */
export async function followProgress(path: string, { quiet }: ProgressOptions = {}): Promise<ProgressListener> {
  if (!process.stderr.isTTY || quiet) return { listen: {}, stop: () => {} }
  // Loaded lazily: it would take a third of the startup time of `ztensor ls`.
  const { SingleBar } = await import('cli-progress')
  const bar = new SingleBar({
    format: `${shorten(printable(path), 24)} {bar} {share}%  {done} of {all}  {rate}/s  {left}`,
    barsize: 12,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
    // The command itself handles Ctrl-C.
    gracefulExit: false,
  })
  let started = false
  const begun = performance.now()
  return {
    listen: {
      onProgress: (progress) => {
        const { bytes, totalBytes } = progress
        const seconds = (performance.now() - begun) / 1000
        const payload = {
          // Rounded down, so that it is only 100 at the end.
          share: totalBytes === 0 ? 100 : Math.floor((100 * bytes) / totalBytes),
          done: showBytes(bytes),
          all: showBytes(totalBytes),
          rate: showBytes(Math.round(bytes / Math.max(seconds, 0.001))),
          left: showRemaining(progress, seconds),
        }
        if (started) bar.update(bytes, payload)
        else bar.start(totalBytes, bytes, payload)
        started = true
      },
    },
    stop: () => {
      if (started) bar.stop()
    },
  }
}

/** Shows the download of a model that a command opens, on one line of the terminal, which is empty at the end. */
export function followDownload({ quiet }: ProgressOptions): ((progress: DownloadProgress) => void) | undefined {
  const { stderr } = process
  if (!stderr.isTTY || quiet) return undefined
  const begun = performance.now()
  return (progress) => {
    const { bytes, totalBytes } = progress
    const left = showRemaining({ ...progress, tensors: 0, totalTensors: 0 }, (performance.now() - begun) / 1000)
    const text = bytes >= totalBytes ? '' : `downloading: ${showBytes(bytes)} of ${showBytes(totalBytes)}  ${left}`
    stderr.write(`\r\x1b[K${text}`)
  }
}
