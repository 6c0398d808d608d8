// `ztensor serve`: serves a report on this machine, which reads values on demand.
import { serveReport } from '../report.js'
import { painter } from './color.js'
import { UsageError } from './failure.js'
import { followProgress } from './progress.js'
import { openInBrowser, type ReportCommandOptions, withReportFiles } from './view.js'

export interface ServeOptions extends ReportCommandOptions {
  port?: string
  host?: string
}

function portOf(text: string | undefined): number {
  if (text === undefined) return 0
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (!(port <= 65_535)) throw new UsageError(`--port must be from 0 to 65535, got ${text}`)
  return port
}

/** Serves the report of the file at `path` until Ctrl-C. */
export async function serve(path: string, options: ServeOptions): Promise<void> {
  const { host, stats, filter, title } = options
  const port = portOf(options.port)
  await withReportFiles(path, options, async (file, against, signal) => {
    const progress = await followProgress(file.path ?? '', options)
    const how = { against, statistics: stats, filter, title, port, host, signal, ...progress.listen }
    const server = await serveReport(file, how).finally(() => progress.stop())
    try {
      process.stdout.write(`${server.url}\n`)
      const dim = (text: string) => painter(process.stderr)('dim', text)
      if (host !== undefined) process.stderr.write(`${dim('Everyone who has this URL can read the file.')}\n`)
      process.stderr.write(`${dim('Press Ctrl-C to stop.')}\n`)
      if (options.open) await openInBrowser(server.url)
      await new Promise<void>((end) => signal.addEventListener('abort', () => end(), { once: true }))
    } finally {
      await server.close()
    }
  })
}
