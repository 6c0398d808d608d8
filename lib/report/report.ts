// What a tensor file holds, shown in a browser. What makes it is loaded at the first call: most programs never need it.

import type { JobOptions } from '../native/job.js'
import type { TensorFile } from '../read/file.js'
import type { Source } from '../read/source.js'

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
