// Does one task of any job.

import type { JobOptions } from '../native/job.js'
import type { OpenOptions } from '../read/open.js'
import type { RemoteOptions } from '../read/remote.js'
import { jobOptions } from '../read/verify.js'
import { optionsOf } from '../values/arguments.js'
import { aConvertTask, type ConvertTask, type ConvertTaskResult } from './convert-tasks.js'
import { kindOf, plainJson, type Task, type TaskResult } from './format.js'
import { runConvert } from './run-convert.js'
import { aStatsTask, runStats, type StatsTask, type StatsTaskResult } from './stats-tasks.js'
import { aVerifyTask, runVerify, type VerifyTask, type VerifyTaskResult } from './verify-tasks.js'

/** How to do a task. */
export interface RunTaskOptions extends JobOptions {
  /** How to open the source, beyond what the task says: `remote` with its headers, `io`, `shards`. */
  source?: OpenOptions | undefined
  /** Of a conversion: how to reach the store that its target is in. */
  remote?: RemoteOptions | undefined
}

/**
 * Does one task of a job, on any machine that reaches the source and the target's folder. It can be done any number of times, even at
 * once: each time it writes the same bytes, atomically. When the job was finished it writes nothing. The task is checked field by field:
 * it writes only the file that its place in the job names, beside its target.
 *
 * @example
 * const result = await runTask(JSON.parse(message)) // plain JSON, for finishConvert, finishVerify or finishStats
 *
 * @throws ZTensorError ZT_IO of a source that is not the one that was planned, and what `convert`, `verify` and `stats` throw; TypeError
 * and RangeError ZT_INVALID_ARG, naming the field; the signal's reason
 */
export function runTask(task: ConvertTask, options?: RunTaskOptions): Promise<ConvertTaskResult>
export function runTask(task: VerifyTask, options?: RunTaskOptions): Promise<VerifyTaskResult>
export function runTask(task: StatsTask, options?: RunTaskOptions): Promise<StatsTaskResult>
export function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult>
export async function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult> {
  const { source, remote, ...long } = optionsOf(options, ['source', 'remote', 'onProgress', 'signal'])
  const job = jobOptions(long)
  job.signal?.throwIfAborted()
  const given = plainJson('task', task)
  const kind = kindOf('task', given)
  if (kind === 'convert') return runConvert(aConvertTask('task', given), source, remote, job)
  if (kind === 'verify') return runVerify(aVerifyTask('task', given), source, job)
  return runStats(aStatsTask('task', given), source, job)
}
