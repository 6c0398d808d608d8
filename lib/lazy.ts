// Calls that most programs never make. The code behind them (deferred.ts) is loaded at the first one.
import type { Writable } from 'node:stream'
import type { CompareOptions, Comparison } from './compare/compare.js'
import type { DiffOptions, FileDiff } from './compare/diff.js'
import type { Component } from './read/component.js'
import type { TensorFile } from './read/file.js'
import type { Source } from './read/source.js'
import type { AnyTensor } from './read/tensor.js'
import type { VerifyResult } from './read/verify.js'
import type { ReportOptions, ReportServer, ServeReportOptions } from './report/report.js'
import type { ConvertTask, ConvertTaskResult } from './tasks/convert-tasks.js'
import type { FinishConvertOptions, FinishConvertResult } from './tasks/finish-convert.js'
import type { Job, Task, TaskResult } from './tasks/format.js'
import type { Plan, RunTaskOptions } from './tasks/jobs.js'
import type { PlanConvertOptions } from './tasks/plan-convert.js'
import type { RemoteSource } from './tasks/source.js'
import type { FinishStatsResult, PlanStatsOptions, StatsTask, StatsTaskResult } from './tasks/stats-tasks.js'
import type { FinishOptions, PlanReadingOptions, VerifyTask, VerifyTaskResult } from './tasks/verify-tasks.js'
import type { ConvertOptions, ConvertResult } from './write/convert.js'

// Not import(), which would give the caller's other code a turn before the arguments are read.
const deferred = () => require('./deferred.js') as typeof import('./deferred.js')

/**
 * Compares the elements of two tensors of the same shape, of one file or of two, in pieces, off the event loop. Tensors of
 * different dtypes, encodings and layouts are compared by value: as float64, or exactly where both are integers; a
 * quantized tensor by its float32 values; sparse ones by their values where the pattern is the same, otherwise with all
 * their elements, up to 1 GiB. Components are compared by their elements, by their bytes where the dtype is unknown.
 * Digests of data that need not be decoded are not checked.
 *
 * @example
 * const { equal, maxAbsolute } = await compare(before.tensor('wte'), after.tensor('wte'), { rtol: 0.01 })
 *
 * @throws ZTensorError ZT_BAD_SHAPE where the shapes differ, ZT_BAD_DTYPE and ZT_BAD_LAYOUT where the numbers cannot be compared,
 * ZT_CLOSED, ZT_BAD_SPARSE, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError and
 * RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function compare(
  a: AnyTensor | Component,
  b: AnyTensor | Component,
  options?: CompareOptions,
): Promise<Comparison> {
  return deferred().compare(a, b, options)
}

/**
 * What differs between two files, tensor by tensor, whatever their formats: names, dtypes, shapes, layouts and, as `compare` tells,
 * values. Files that are given open stay open.
 *
 * @example
 * const { same, added, removed, changed } = await diff('before.safetensors', 'after.zt', { rtol: 0.01 })
 *
 * @throws ZTensorError what `open` throws of either file; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED, ZT_MAPPING_LOST and ZT_IO of data that cannot be read; ZT_CLOSED of a file that was given closed. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason
 */
export async function diff(a: Source | TensorFile, b: Source | TensorFile, options?: DiffOptions): Promise<FileDiff> {
  return deferred().diff(a, b, options)
}

/**
 * Writes the tensors of a file into a new file of any format that can be written. Raw data passes in pieces, whatever
 * its size; digests of the source are checked on the way. Into a Node Writable, formats whose index comes first
 * (safetensors, BTF) and canonical zTensor 2 cannot be written; it is ended, or destroyed where the work fails halfway. An `s3:`, `gs:`
 * or `az:` URL is an object of a store, which appears whole at the end; `remote` says how to reach it, `source.remote` is the source's.
 *
 * @example await convert('model.safetensors', 'model.zt', { cast: { float32: 'bfloat16' } })
 *
 * @throws ZTensorError what `open` throws of the source; ZT_DIGEST_MISMATCH, ZT_DECODE, ZT_BAD_SPARSE, ZT_UNSUPPORTED_ENCODING,
 * ZT_LIMIT, ZT_TRUNCATED and ZT_MAPPING_LOST of data that cannot be read; where the target cannot hold something, ZT_BAD_DTYPE,
 * ZT_BAD_LAYOUT or ZT_BAD_SHAPE with all of it in `cause`, before anything is written; ZT_EXISTS unless `overwrite`; ZT_IO. TypeError
 * and RangeError ZT_INVALID_ARG; the signal's reason. The target is then as it was.
 */
export async function convert(
  source: Source,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  return deferred().convert(source, target, options)
}

/**
 * A page that shows a tensor file, of any format: what it is, where its bytes are, what its values are like, and how it differs
 * from another. It is one HTML file that opens from a disk and makes no network requests. Files that are given open stay open.
 *
 * Resolves with the HTML. Histograms are in it up to 4,096 tensors; `serveReport` makes them for more, as they are looked at.
 *
 * @example await writeFile('report.html', await report('model.safetensors', { against: 'base.safetensors' }))
 *
 * @throws ZTensorError what `open` throws of either file; ZT_IO, ZT_MAPPING_LOST and ZT_CLOSED of values that cannot be read, and with
 * `against` what `diff` throws. A tensor whose values are damaged is shown with its error. TypeError ZT_INVALID_ARG; the signal's reason
 */
export async function report(source: Source | TensorFile, options?: ReportOptions): Promise<string> {
  return deferred().makeReport(source, options)
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
  return deferred().startServer(source, options)
}

/**
 * Divides work on a large model into tasks: plain JSON, which any queue or scheduler can send to any machine. Nothing is written yet.
 *
 * - `'convert'`: one task for each output file. The target is zTensor 2 or safetensors, in a folder that all machines share or in a
 *   store of objects.
 * - `'verify'` and `'stats'`: tasks of about `maxTaskBytes` each.
 *
 * @example
 * const job = await planJob('convert', 'model.safetensors', '/shared/model.zt', { cast: { float32: 'bfloat16' }, maxShardBytes: 2e9 })
 * const results = await Promise.all(job.tasks.map((task) => runTask(task))) // or on other machines
 * await finishJob(job, results)
 *
 * @throws ZTensorError what `open` throws of the source; of a conversion, what `convert` throws of what the target cannot hold, as far as
 * the index tells, and ZT_EXISTS where the target is there, or one of its files unless `overwrite`. TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export function planJob(
  kind: 'convert',
  source: RemoteSource,
  target: string | URL,
  options?: PlanConvertOptions,
): Promise<Job<ConvertTask>>
export function planJob(kind: 'verify', source: RemoteSource, options?: PlanReadingOptions): Promise<Job<VerifyTask>>
export function planJob(kind: 'stats', source: RemoteSource, options?: PlanStatsOptions): Promise<Job<StatsTask>>
export async function planJob(...given: unknown[]): Promise<Job<ConvertTask> | Job<VerifyTask> | Job<StatsTask>> {
  return deferred().planJob(...(given as Plan))
}

/**
 * Runs one task of a job, on any machine that reaches the source and the target's folder. It can run any number of times, even at
 * once: each time it writes the same bytes, atomically. Once the job is finished it writes nothing. The task is checked field by field:
 * it writes only the file that its place in the job names, beside its target.
 *
 * @example
 * const result = await runTask(JSON.parse(message)) // plain JSON, for finishJob
 *
 * @throws ZTensorError ZT_IO of a source that is not the one that was planned, and what `convert`, `verify` and `stats` throw; TypeError
 * and RangeError ZT_INVALID_ARG, naming the field; the signal's reason
 */
export function runTask(task: ConvertTask, options?: RunTaskOptions): Promise<ConvertTaskResult>
export function runTask(task: VerifyTask, options?: RunTaskOptions): Promise<VerifyTaskResult>
export function runTask(task: StatsTask, options?: RunTaskOptions): Promise<StatsTaskResult>
export function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult>
export async function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult> {
  return deferred().runTask(task, options)
}

/**
 * Finishes a job: checks that every task has a result, and puts the results together.
 *
 * - Of a conversion, checks that the file of each task is there, and writes the root (zTensor 2) or the index (safetensors) last. Before
 *   that nobody sees a model, only its shards. Finishing again gives the same. No data is read, unless `verify` asks for it.
 * - Of a verification, gives what `verify` gives.
 * - Of statistics, gives them by the names of the tensors.
 *
 * @example
 * const { path, tensors } = await finishJob(job, results)
 *
 * @throws TypeError and RangeError ZT_INVALID_ARG of a job that was changed, of results that are missing (all are named), of another job, or
 * contradict each other. Of a conversion also ZTensorError ZT_IO of a source that changed, or a file that is not there or has another
 * length, ZT_DIGEST_MISMATCH with `verify`, ZT_NOT_FOUND and ZT_BAD_INDEX of a file with other tensors, ZT_EXISTS where the target is
 * another file. The signal's reason
 */
export function finishJob(
  job: Job<ConvertTask>,
  results: readonly TaskResult[],
  options?: FinishConvertOptions,
): Promise<FinishConvertResult>
export function finishJob(
  job: Job<VerifyTask>,
  results: readonly TaskResult[],
  options?: FinishOptions,
): Promise<VerifyResult>
export function finishJob(
  job: Job<StatsTask>,
  results: readonly TaskResult[],
  options?: FinishOptions,
): Promise<FinishStatsResult>
export async function finishJob(
  job: Job,
  results: readonly TaskResult[],
  options?: FinishConvertOptions,
): Promise<FinishConvertResult | VerifyResult | FinishStatsResult> {
  return deferred().finishJob(job, results, options)
}
