// `planJob`, `runTask` and `finishJob` of lib/lazy.ts, for all kinds of jobs.
import type { JobOptions } from '../native/job.js'
import type { OpenOptions } from '../read/open.js'
import { jobOptions, type VerifyResult } from '../read/verify.js'
import { readOptions, validateOneOf } from '../values/arguments.js'
import type { RemoteOptions } from '../values/remote.js'
import { type ConvertJob, validateConvertTask } from './convert-tasks.js'
import { type FinishConvertOptions, type FinishConvertResult, finishConvert } from './finish-convert.js'
import { type Job, KINDS, kindOf, plainJson, type Task, type TaskResult } from './format.js'
import { type PlanConvertOptions, planConvert } from './plan-convert.js'
import { runConvert } from './run-convert.js'
import type { RemoteSource } from './source.js'
import {
  type FinishStatsResult,
  finishStats,
  type PlanStatsOptions,
  planStats,
  runStats,
  type StatsJob,
  validateStatsTask,
} from './stats-tasks.js'
import {
  finishVerify,
  type PlanReadingOptions,
  planVerify,
  runVerify,
  type VerifyJob,
  validateVerifyTask,
} from './verify-tasks.js'

/** The arguments of `planJob`. */
export type Plan =
  | [kind: 'convert', source: RemoteSource, target: string | URL, options?: PlanConvertOptions]
  | [kind: 'verify', source: RemoteSource, options?: PlanReadingOptions]
  | [kind: 'stats', source: RemoteSource, options?: PlanStatsOptions]

export async function planJob(...given: Plan): Promise<ConvertJob | VerifyJob | StatsJob> {
  validateOneOf('kind', KINDS, given[0])
  if (given[0] === 'convert') return planConvert(given[1], given[2], given[3])
  return given[0] === 'verify' ? planVerify(given[1], given[2]) : planStats(given[1], given[2])
}

/** How to run a task. */
export interface RunTaskOptions extends JobOptions {
  /** How to open the source, in addition to the task's own options: `remote`, `io`, `shards`. */
  source?: OpenOptions | undefined
  /** For a conversion: how to access the object store of its target. */
  remote?: RemoteOptions | undefined
}

/** `runTask` of lib/lazy.ts. */
export async function runTask(task: Task, options?: RunTaskOptions): Promise<TaskResult> {
  const { source, remote, ...long } = readOptions(options, ['source', 'remote', 'onProgress', 'signal'])
  const job = jobOptions(long)
  job.signal?.throwIfAborted()
  const given = plainJson('task', task)
  const kind = kindOf('task', given)
  if (kind === 'convert') return runConvert(validateConvertTask('task', given), source, remote, job)
  if (kind === 'verify') return runVerify(validateVerifyTask('task', given), source, job)
  return runStats(validateStatsTask('task', given), source, job)
}

export async function finishJob(
  job: Job,
  results: readonly TaskResult[],
  options?: FinishConvertOptions,
): Promise<FinishConvertResult | VerifyResult | FinishStatsResult> {
  const kind = kindOf('job', plainJson('job', job))
  if (kind === 'convert') return finishConvert(job as ConvertJob, results, options)
  return kind === 'verify'
    ? finishVerify(job as VerifyJob, results, options)
    : finishStats(job as StatsJob, results, options)
}
