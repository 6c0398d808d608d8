// A progress bar on standard error, where that is a terminal and the work takes long enough to be watched.
import type { Progress } from '../index.js'
import { showBytes } from './quantity.js'
import { printable, shorten } from './text.js'

export interface ProgressListener {
  /** Goes into the options of the call that is followed; empty where nobody watches. */
  listen: { onProgress?: (progress: Progress) => void }
  /** Takes the bar away and gives the cursor back. */
  stop(): void
}

/** A bar for work on `path`. */
export async function followProgress(path: string): Promise<ProgressListener> {
  if (!process.stderr.isTTY) return { listen: {}, stop: () => {} }
  // Loaded here: it would be a third of the start-up of `ztensor ls`.
  const { SingleBar } = await import('cli-progress')
  const bar = new SingleBar({
    format: `${shorten(printable(path), 30)} {bar} {percentage}%  {done} of {all}  {rate}/s  {eta_formatted} left`,
    barsize: 24,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    hideCursor: true,
    clearOnComplete: true,
    // The command itself answers Ctrl-C.
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
