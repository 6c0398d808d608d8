// The tasks of distributed statistics.

import { invalid, ZTensorError } from '../native/errors.js'
import type { ValidJob } from '../native/job.js'
import { TensorFile } from '../read/file.js'
import type { OpenOptions } from '../read/open.js'
import { type Histogram, type StatsOptions, statsRequest, type TensorStats } from '../read/stats.js'
import { readOptions, validateKeys, validateObject, validateString, wrongType } from '../values/arguments.js'
import { checkOrdinals } from './divide.js'
import {
  checkErrors,
  checkJob,
  checkResults,
  checkTask,
  checkUnchanged,
  type Job,
  TASK_VERSION,
  type Task,
  type TaskError,
  type TaskResult,
} from './format.js'
import { errorJson } from './run-convert.js'
import { checkSource, openSource, type RemoteSource } from './source.js'
import { errorOf, type FinishOptions, finishing, type PlanReadingOptions, planReading } from './verify-tasks.js'

/** Which statistics to compute, and how to divide the work. */
export interface PlanStatsOptions extends PlanReadingOptions, Pick<StatsOptions, 'bins' | 'range'> {}

/** A task that computes the statistics of some tensors. */
export interface StatsTask extends Task {
  readonly kind: 'stats'
  readonly options: { readonly bins?: number; readonly range?: readonly [first: number, last: number] }
}

/** A job of statistics. */
export type StatsJob = Job<StatsTask>

/** A number in JSON; values that JSON numbers cannot represent are strings. */
type JsonNumber = number | 'NaN' | 'Infinity' | '-Infinity' | '-0'

/** The statistics of a tensor in JSON form. */
export interface JsonStats {
  readonly name: string
  /** In the order of `TensorStats`, from `count` to `std`. */
  readonly numbers: readonly JsonNumber[]
  readonly histogram?: { readonly edges: readonly JsonNumber[]; readonly counts: readonly JsonNumber[] }
}

/** The result of one task. */
export interface StatsTaskResult extends TaskResult {
  readonly kind: 'stats'
  readonly stats: readonly JsonStats[]
  /** The tensors without statistics, with the reasons. */
  readonly skipped: readonly TaskError[]
}

/** The statistics of all tensors. */
export interface FinishStatsResult {
  /** Statistics by tensor name, in the order of the source. */
  readonly stats: ReadonlyMap<string, TensorStats>
  /** The errors of tensors without statistics: of complex dtypes, or of unknown layouts. */
  readonly skipped: readonly ZTensorError[]
}

/** `planJob` of statistics. */
export async function planStats(source: RemoteSource, options?: PlanStatsOptions): Promise<StatsJob> {
  const known = ['maxTaskBytes', 'signal', 'source', 'checkModified', 'bins', 'range'] as const
  const { bins, range, ...read } = readOptions<PlanStatsOptions>(options, known, 'options', { onProgress: 'runTask' })
  statsRequest({ bins, range })
  const taskOptions = JSON.parse(JSON.stringify({ bins, range })) as StatsTask['options']
  return planReading<StatsTask>('stats', source, read, { options: taskOptions })
}

/** Validates a statistics task. */
export function validateStatsTask(name: string, value: unknown): StatsTask {
  const task = checkTask(name, value, 'stats', ['options']) as StatsTask
  const options = validateObject(`${name}.options`, task.options)
  validateKeys(`${name}.options`, options, ['bins', 'range'])
  statsRequest(options)
  return checkUnchanged(name, task)
}

const FIELDS = ['count', 'nan', 'positiveInfinite', 'negativeInfinite', 'zeros', 'min', 'max', 'mean', 'std'] as const
/** The number of leading fields that are counts. */
const COUNTS = 5
const NONE = new Set<string>(['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE', 'ZT_UNSUPPORTED_ENCODING'])

function toJson(value: number): JsonNumber {
  if (Object.is(value, -0)) return '-0'
  return Number.isFinite(value) ? value : (String(value) as JsonNumber)
}

function jsonOf(name: string, stats: TensorStats): JsonStats {
  const { histogram } = stats
  const numbers = FIELDS.map((field) => toJson(stats[field]))
  if (histogram === undefined) return { name, numbers }
  return { name, numbers, histogram: { edges: histogram.edges.map(toJson), counts: histogram.counts.map(toJson) } }
}

/** Computes the statistics of a task's tensors. */
export async function runStats(
  { source: from, ordinals, options, job, task }: StatsTask,
  opening: OpenOptions | undefined,
  { onProgress, signal }: ValidJob,
): Promise<StatsTaskResult> {
  const file = await openSource(from, opening, signal)
  try {
    const some = checkOrdinals(ordinals, file.size)
    const [stats, skipped]: [JsonStats[], TaskError[]] = [[], []]
    const [totalTensors, totalBytes] = [
      some.length,
      some.reduce((sum, at) => sum + TensorFile.at(file, at).byteLength, 0),
    ]
    let bytes = 0
    for (const [at, ordinal] of some.entries()) {
      const tensor = TensorFile.at(file, ordinal)
      try {
        stats.push(jsonOf(tensor.name, await tensor.stats({ ...options, signal })))
      } catch (error) {
        if (!(error instanceof ZTensorError) || !NONE.has(error.code)) throw error
        skipped.push({ ...errorJson(error), tensor: tensor.name })
      }
      bytes += tensor.byteLength
      onProgress?.({ bytes, totalBytes, tensors: at + 1, totalTensors })
    }
    await checkSource(file, from, signal)
    return { ztensor: TASK_VERSION, kind: 'stats', job, task, stats, skipped }
  } finally {
    file.close()
  }
}

function validateNumber(name: string, value: unknown): number {
  if (typeof value === 'number') return value
  if (!['NaN', 'Infinity', '-Infinity', '-0'].includes(value as string)) throw wrongType(name, 'a number', value)
  return Number(value)
}

function numbers(name: string, value: unknown): number[] {
  if (!Array.isArray(value)) throw wrongType(name, 'an array of numbers', value)
  return Array.from(value, (one, at) => validateNumber(`${name}[${at}]`, one))
}

function histogramOf(name: string, value: unknown): Histogram | undefined {
  if (value === undefined) return undefined
  const { edges, counts } = validateObject(name, value) as Record<string, unknown>
  return { edges: numbers(`${name}.edges`, edges), counts: numbers(`${name}.counts`, counts) }
}

/** Validates and decodes the statistics of a tensor. */
function statsOf(name: string, value: unknown): [string, TensorStats] {
  const given = validateObject(name, value) as Record<string, unknown>
  validateKeys(name, given, ['name', 'numbers', 'histogram'])
  const found = numbers(`${name}.numbers`, given.numbers)
  if (found.length !== FIELDS.length) throw wrongType(`${name}.numbers`, `${FIELDS.length} numbers`, given.numbers)
  for (const count of found.slice(0, COUNTS))
    if (!Number.isSafeInteger(count) || count < 0)
      throw wrongType(`${name}.numbers`, 'non-negative integers as counts', count)
  const fields = Object.fromEntries(FIELDS.map((field, at) => [field, found[at]])) as unknown as TensorStats
  return [
    validateString(`${name}.name`, given.name),
    { ...fields, histogram: histogramOf(`${name}.histogram`, given.histogram) },
  ]
}

interface Read extends TaskResult {
  readonly given: Record<string, unknown>
  readonly stats: readonly [string, TensorStats][]
  readonly skipped: readonly TaskError[]
}

function validateStatsResult(name: string, value: Record<string, unknown>): Read {
  validateKeys(name, value, ['ztensor', 'kind', 'job', 'task', 'stats', 'skipped'])
  if (!Array.isArray(value.stats)) throw wrongType(`${name}.stats`, 'an array', value.stats)
  const stats = Array.from(value.stats, (one, at) => statsOf(`${name}.stats[${at}]`, one))
  const skipped = checkErrors(`${name}.skipped`, value.skipped)
  const { job, task } = value as unknown as TaskResult
  return { ztensor: TASK_VERSION, kind: 'stats', job, task, given: value, stats, skipped }
}

/** `finishJob` of statistics. */
export async function finishStats(
  job: StatsJob,
  results: readonly TaskResult[],
  options?: FinishOptions,
): Promise<FinishStatsResult> {
  await finishing(options)
  const planned = checkJob<StatsTask>(job, 'stats', validateStatsTask)
  const found = checkResults(planned, results, validateStatsResult, ({ given }) => [given.stats, given.skipped])
  const bins = planned.tasks[0]?.options.bins
  const names = new Set<string>()
  for (const [at, { stats, skipped }] of found.entries()) {
    const { ordinals } = planned.tasks[at] as StatsTask
    const wanted = ordinals.reduce((sum, [from, end]) => sum + end - from, 0)
    const given = stats.length + skipped.length
    if (given !== wanted) throw wrongType(`the result of task ${at}`, `of ${wanted} tensors`, given)
    for (const [name, { histogram }] of stats) {
      if (histogram?.counts.length === bins) continue
      throw invalid(TypeError, `the result of task ${at} has a histogram of ${JSON.stringify(name)} with a different number of bins than planned: run it again`) // biome-ignore format: one message
    }
    for (const name of [...stats.map(([name]) => name), ...skipped.map(({ tensor }) => tensor ?? '')]) {
      if (names.has(name))
        throw invalid(TypeError, `two results contain the tensor ${JSON.stringify(name)}: run task ${at} again`)
      names.add(name)
    }
  }
  return {
    stats: new Map(found.flatMap(({ stats }) => stats)),
    skipped: found.flatMap(({ skipped }) => skipped.map(errorOf)),
  }
}
