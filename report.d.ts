// The public types of ztensor, rolled up from report.ts by `npm run types`. Not edited by hand.

/// <reference types="node" />

import type { AnyTensor, Filter, JobOptions, Source, TensorFile } from './index.js'
/** What a report shows. */
export interface ReportOptions extends JobOptions {
	/** The file to compare with, such as the base of a fine-tune. */
	against?: Source | TensorFile | undefined;
	/**
	 * Whether to read the values of all tensors for statistics. By default only for local files, since it would download all of a remote
	 * file.
	 */
	statistics?: boolean | undefined;
	/** Selects the tensors to show, all by default: a glob, a list of globs (`!` excludes), or a function. */
	filter?: Filter<AnyTensor> | undefined;
	/** The title of the page: by default the name of the file. */
	title?: string | undefined;
}

/** How to serve a report. Statistics are computed on demand; `statistics: true` computes all of them first. */
export interface ServeReportOptions extends ReportOptions {
	/** The port: by default 0, any free port. */
	port?: number | undefined;
	/** The address to listen on: 127.0.0.1 by default. On any other address, everyone who has the URL can read the file. */
	host?: string | undefined;
}

/** A running report server. */
export interface ReportServer {
	/** The URL of the report, including the access token. */
	readonly url: string;
	readonly port: number;
	/** Stops the server and closes the files that it opened. */
	close(): Promise<void>;
	[Symbol.asyncDispose](): Promise<void>;
}

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
export declare function report(source: Source | TensorFile, options?: ReportOptions): Promise<string>;

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
export declare function serveReport(source: Source | TensorFile, options?: ServeReportOptions): Promise<ReportServer>;

export {}
