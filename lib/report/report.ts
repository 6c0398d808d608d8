// The public types of reports. Their code is loaded at the first call.

import type { JobOptions } from '../native/job.js'
import type { TensorFile } from '../read/file.js'
import type { Source } from '../read/source.js'
import type { AnyTensor } from '../read/tensor.js'
import type { Filter } from '../values/filter.js'

/** What a report shows. */
export interface ReportOptions extends JobOptions {
  /** The file to compare with, such as the base of a fine-tune. */
  against?: Source | TensorFile | undefined
  /**
   * Whether to read the values of all tensors for statistics. By default only for local files, since it would download all of a remote
   * file.
   */
  statistics?: boolean | undefined
  /** Selects the tensors to show, all by default: a glob, a list of globs (`!` excludes), or a function. */
  filter?: Filter<AnyTensor> | undefined
  /** The title of the page: by default the name of the file. */
  title?: string | undefined
}

/** How to serve a report. Statistics are computed on demand; `statistics: true` computes all of them first. */
export interface ServeReportOptions extends ReportOptions {
  /** The port: by default 0, any free port. */
  port?: number | undefined
  /** The address to listen on: 127.0.0.1 by default. On any other address, everyone who has the URL can read the file. */
  host?: string | undefined
}

/** A running report server. */
export interface ReportServer {
  /** The URL of the report, including the access token. */
  readonly url: string
  readonly port: number
  /** Stops the server and closes the files that it opened. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}
