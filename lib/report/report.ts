// What a tensor file holds, shown in a browser. What makes it is loaded at the first call: most programs never need it.

import type { JobOptions } from '../native/job.js'
import type { TensorFile } from '../read/file.js'
import type { Source } from '../read/open.js'

/** What to show of a file. */
export interface ReportOptions extends JobOptions {
  /** The file to compare with, such as the base of a fine-tune. */
  against?: Source | TensorFile | undefined
  /**
   * Whether to read the values of all tensors for their statistics. By default of files on this machine: of others that would
   * be a download of all.
   */
  statistics?: boolean | undefined
}

/** How to serve a report. Statistics are made as they are looked at; `statistics: true` makes all of them first. */
export interface ServeReportOptions extends ReportOptions {
  /** 0, any that is free, by default. */
  port?: number | undefined
  /** 127.0.0.1 by default. On any other address, whoever has the URL can read the file. */
  host?: string | undefined
}

/** A report that is being served. */
export interface ReportServer {
  /** Where it is, with the token without which nothing is answered. */
  readonly url: string
  readonly port: number
  /** Ends it, and closes the files that were opened for it. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * A page that shows a tensor file, of any format: what it is, where its bytes are, what its values are like, and how it differs
 * from another. It is one HTML file that opens from a disk and asks no server for anything. Files that are given open stay open.
 *
 * Resolves with the HTML. Histograms are in it up to 4,096 tensors; `serveReport` makes them for more, as they are looked at.
 *
 * @example await writeFile('report.html', await report('model.safetensors', { against: 'base.safetensors' }))
 *
 * @throws ZTensorError what `open` throws of either file; ZT_IO, ZT_MAPPING_LOST and ZT_CLOSED of values that cannot be read, and with
 * `against` what `diff` throws. A tensor whose values are damaged is shown with its error. TypeError ZT_INVALID_ARG; the signal's reason
 */
export async function report(source: Source | TensorFile, options?: ReportOptions): Promise<string> {
  // Not by import(), of which bundlers make files of their own.
  const { makeReport } = require('./make.js') as typeof import('./make.js')
  return makeReport(source, options)
}

/**
 * Serves the report of a tensor file on this machine: the page of `report`, with statistics and heat maps of slices made as they are
 * looked at. The URL bears a random token, and requests of other sites are refused; nothing can be changed. Files that are given open
 * stay open, and have to until `close()`.
 *
 * @example
 * await using server = await serveReport('model.safetensors')
 * console.log(server.url)
 *
 * @throws what `report` throws; RangeError ZT_INVALID_ARG of a port that is none; ZTensorError ZT_IO where nothing can listen there
 */
export async function serveReport(source: Source | TensorFile, options?: ServeReportOptions): Promise<ReportServer> {
  const { startServer } = require('./server.js') as typeof import('./server.js')
  return startServer(source, options)
}
