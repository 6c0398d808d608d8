// `ztensor compact`: removes the bytes of removed tensors and old indexes from a file.
import { compact as compactFile } from '../index.js'
import { painter } from './color.js'
import { exitCodes } from './failure.js'
import { jsonLine } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes } from './quantity.js'
import { printWarningsOf } from './source.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'

export interface CompactOptions extends ProgressOptions {
  json?: boolean
}

/** Compacts the file at `path`. Ctrl-C leaves it unchanged. */
export async function compact(path: string, options: CompactOptions): Promise<void> {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const progress = await followProgress(path, options)
  try {
    await printWarningsOf(path)
    const result = await compactFile(path, { ...progress.listen, signal: stop.signal })
    progress.stop()
    const { byteLength, reclaimed } = result
    if (options.json) process.stdout.write(jsonLine({ path, byteLength, reclaimed }))
    else {
      const what = reclaimed === 0 ? 'nothing to reclaim' : `${showBytes(reclaimed)} reclaimed`
      await printLines([`${painter()('green', 'compact')}  ${printable(path)}: ${showBytes(byteLength)}, ${what}`])
    }
  } catch (error) {
    progress.stop()
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  }
}
