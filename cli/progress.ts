// A progress bar on standard error, if it is a terminal.
import type { Progress } from '../index.js'
import { showBytes } from './quantity.js'
import { printable, shorten } from './text.js'

export interface ProgressListener {
  /** Options for the call; empty without a terminal. */
  listen: { onProgress?: (progress: Progress) => void }
  /** Removes the bar and restores the cursor. */
  stop(): void
}

/** Makes a progress bar for work on `path`. */
export async function followProgress(path: string): Promise<ProgressListener> {
  if (!process.stderr.isTTY) return { listen: {}, stop: () => {} }
  // Loaded lazily: it would take a third of the startup time of `ztensor ls`.
  const { SingleBar } = await import('cli-progress')
  const bar = new SingleBar({
    format: `${shorten(printable(path), 30)} {bar} {percentage}%  {done} of {all}  {rate}/s  {eta_formatted} left`,
    barsize: 24,
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
      onProgress: ({ bytes, totalBytes }) => {
        const seconds = (performance.now() - begun) / 1000
        const payload = {
          done: showBytes(bytes),
          all: showBytes(totalBytes),
          rate: showBytes(Math.round(bytes / Math.max(seconds, 0.001))),
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
