// The entry `ztensor/report`: reports as a page. Its code (lib/deferred.ts) is loaded at the first call.
import type { TensorFile } from './lib/read/file.js'
import type { Source } from './lib/read/source.js'
import type { ReportOptions, ReportServer, ServeReportOptions } from './lib/report/report.js'

export type { ReportOptions, ReportServer, ServeReportOptions }

// require() instead of import(): the arguments must be read before other code of the caller runs.
const deferred = () => require('./lib/deferred.js') as typeof import('./lib/deferred.js')

/**
 * Makes a report on a tensor file of any format: its metadata, its file map, statistics of its values, and how it differs from
 * another file. The report is one HTML file that needs no server and makes no network requests. Open files that you pass stay open.
 *
 * Resolves with the HTML. It contains histograms for up to 4,096 tensors; `serveReport` computes them on demand for any number.
 *
 * @example await writeFile('report.html', await report('model.safetensors', { against: 'base.safetensors' }))
 *
 * @throws ZTensorError what `open` throws for either file; ZT_IO, ZT_MAPPING_LOST and ZT_CLOSED if values cannot be read, and with
 * `against` what `diff` throws. The report shows the error of a tensor whose values are damaged. TypeError ZT_INVALID_ARG; the signal's reason
 */
export async function report(source: Source | TensorFile, options?: ReportOptions): Promise<string> {
  return deferred().makeReport(source, options)
}

/**
 * Serves the report of a tensor file on this machine: the page of `report`, with statistics and heat maps that are computed on demand.
 * The server is read-only. Its URL contains a random token, and it rejects requests from other sites. Open files that you pass stay
 * open; do not close them before `close()`.
 *
 * @example
 * await using server = await serveReport('model.safetensors')
 * console.log(server.url)
 *
 * @throws what `report` throws; RangeError ZT_INVALID_ARG for an invalid port; ZTensorError ZT_IO if the server cannot listen there
 */
export async function serveReport(source: Source | TensorFile, options?: ServeReportOptions): Promise<ReportServer> {
  return deferred().startServer(source, options)
}
