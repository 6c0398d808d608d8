// The entry `ztensor/jobs`: work that is divided among machines. Its code (lib/deferred.ts) is loaded at the first call.
import type { VerifyResult } from './lib/read/verify.js'
import type { ConvertTask, ConvertTaskResult } from './lib/tasks/convert-tasks.js'
import type { FinishConvertOptions, FinishConvertResult } from './lib/tasks/finish-convert.js'
import type { Job, Task, TaskResult } from './lib/tasks/format.js'
import type { Plan, RunTaskOptions } from './lib/tasks/jobs.js'
import type { PlanConvertOptions } from './lib/tasks/plan-convert.js'
import type { RemoteSource } from './lib/tasks/source.js'
import type { FinishStatsResult, PlanStatsOptions, StatsTask, StatsTaskResult } from './lib/tasks/stats-tasks.js'
import type { FinishOptions, PlanReadingOptions, VerifyTask, VerifyTaskResult } from './lib/tasks/verify-tasks.js'

export type { TaskError, TaskSource } from './lib/tasks/format.js'
export type {
  ConvertTask,
  ConvertTaskResult,
  FinishConvertOptions,
  FinishConvertResult,
  FinishOptions,
  FinishStatsResult,
  Job,
  PlanConvertOptions,
  PlanReadingOptions,
  PlanStatsOptions,
  RemoteSource,
  RunTaskOptions,
  StatsTask,
  StatsTaskResult,
  Task,
  TaskResult,
  VerifyTask,
  VerifyTaskResult,
}

// require() instead of import(): the arguments must be read before other code of the caller runs.
const deferred = () => require('./lib/deferred.js') as typeof import('./lib/deferred.js')

/**
 * Divides work on a large model into tasks: plain JSON, which any queue or scheduler can send to any machine. Writes no files.
 *
 * - `'convert'`: one task for each output file. The target is zTensor 2, safetensors or GGUF, in a folder that all machines share or in
 *   an object store.
 * - `'verify'` and `'stats'`: tasks of about `maxTaskBytes` each.
 *
 * @example
 * const job = await planJob('convert', 'model.safetensors', '/shared/model.zt', { cast: { float32: 'bfloat16' }, maxShardBytes: 2e9 })
 * const results = await Promise.all(job.tasks.map((task) => runTask(task))) // or on other machines
 * await finishJob(job, results)
 *
 * @throws ZTensorError what `open` throws for the source. For a conversion also the errors of `convert` that can be found in the index
 * alone, and ZT_EXISTS if the target exists, or one of its shards without `overwrite`. TypeError and RangeError ZT_INVALID_ARG; the
 * signal's reason
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
 * Runs one task of a job, on any machine that can access the source and the target's folder. A task is idempotent and may run several
 * times, also concurrently: it always writes the same bytes, atomically. After the job is finished it writes nothing. Every field of the
 * task is validated: it can only write its own shard of the target.
 *
 * @example
 * const result = await runTask(JSON.parse(message)) // plain JSON, for finishJob
 *
 * @throws ZTensorError ZT_IO if the source has changed since the job was planned, and what `convert`, `verify` and `stats` throw; TypeError
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
 * Finishes a job: checks that every task has a result, and combines the results.
 *
 * - Conversion: checks that the file of each task exists, and then writes the root (zTensor 2) or the index (safetensors). Until then
 *   only shards exist, and no model can be opened. The call is idempotent. It reads no data unless `verify` is set.
 * - Verification: returns a result like that of `verify`.
 * - Statistics: returns them by tensor name.
 *
 * @example
 * const { path, tensors } = await finishJob(job, results)
 *
 * @throws TypeError and RangeError ZT_INVALID_ARG if the job was modified, or if results are missing (the message lists them), belong to
 * another job, or contradict each other. For a conversion also ZTensorError ZT_IO if the source has changed, or a file is missing or has
 * the wrong length, ZT_DIGEST_MISMATCH with `verify`, ZT_NOT_FOUND and ZT_BAD_INDEX if a file has the wrong tensors, and ZT_EXISTS if the
 * target is another file. The signal's reason
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
