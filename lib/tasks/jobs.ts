// `planJob` and `finishJob` of lib/lazy.ts: each kind of job has its own.
import type { VerifyResult } from '../read/verify.js'
import { validateOneOf } from '../values/arguments.js'
import type { ConvertJob } from './convert-tasks.js'
import { type FinishConvertOptions, type FinishConvertResult, finishConvert } from './finish-convert.js'
import { type Job, KINDS, kindOf, plainJson, type TaskResult } from './format.js'
import { type PlanConvertOptions, planConvert } from './plan-convert.js'
import type { RemoteSource } from './source.js'
import { type FinishStatsResult, finishStats, type PlanStatsOptions, planStats, type StatsJob } from './stats-tasks.js'
import { finishVerify, type PlanReadingOptions, planVerify, type VerifyJob } from './verify-tasks.js'

/** What `planJob` is given. */
export type Plan =
  | [kind: 'convert', source: RemoteSource, target: string | URL, options?: PlanConvertOptions]
  | [kind: 'verify', source: RemoteSource, options?: PlanReadingOptions]
  | [kind: 'stats', source: RemoteSource, options?: PlanStatsOptions]

export async function planJob(...given: Plan): Promise<ConvertJob | VerifyJob | StatsJob> {
  validateOneOf('kind', KINDS, given[0])
  if (given[0] === 'convert') return planConvert(given[1], given[2], given[3])
  return given[0] === 'verify' ? planVerify(given[1], given[2]) : planStats(given[1], given[2])
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
