// `--plan`, `ztensor task` and `ztensor finish`: work on many machines.
import { readFileSync } from 'node:fs'
import type { RemoteOptions } from '../index.js'
import {
  type ConvertTask,
  finishJob,
  type Job,
  planJob,
  runTask,
  type StatsTask,
  type Task,
  type TaskResult,
  type VerifyTask,
} from '../jobs.js'
import { painter } from './color.js'
import { type ConvertCommandOptions, checkFilter, convertOptions, quantizedLines } from './convert.js'
import { exitCodes, UsageError } from './failure.js'
import type { RemoteCommandOptions, SourceOptions } from './format.js'
import { jsonLine, jsonLines } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { parseBytes, showCounted } from './quantity.js'
import { openOptions, remoteOf, STANDARD, sourceOf } from './source.js'
import { binCount, type Row, rowJson, rowLines, type StatsCommandOptions } from './stats.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'
import { reportJson, verifiedLines } from './verify.js'
import { printWarnings } from './warnings.js'

/** The options of commands that can plan a job. */
export interface PlanningOptions extends SourceOptions {
  plan?: boolean
  filter?: string[]
  maxTaskSize?: string
}

/** Prints a value as one line of JSON. */
function print(value: unknown): void {
  process.stdout.write(jsonLine(value))
}

async function shared(source: string, target?: string): Promise<string | URL> {
  if (source === STANDARD || target === STANDARD)
    throw new UsageError('--plan needs files that other machines can access, not standard input or output')
  return (await sourceOf(source)) as string | URL
}

function reading({ maxTaskSize, filter, ...given }: PlanningOptions) {
  if (filter !== undefined) throw new UsageError('--plan takes no --filter: a job covers the whole file')
  const source = { source: openOptions(given) }
  if (maxTaskSize === undefined) return source
  const maxTaskBytes = parseBytes(maxTaskSize)
  if (maxTaskBytes === undefined) throw new UsageError(`a size is a number of bytes, such as 5GB, got ${maxTaskSize}`)
  return { ...source, maxTaskBytes }
}

/** Prints a job, and the warnings of its source. */
function printJob(job: Job): void {
  printWarnings(job.warnings)
  print(job)
}

/** Prints the job of a conversion. */
export async function planConversion(source: string, target: string, options: ConvertCommandOptions): Promise<void> {
  const from = await shared(source, target)
  const given = convertOptions(options, target)
  await checkFilter(from, options, new AbortController().signal)
  printJob(await planJob('convert', from, target, given))
}

async function only(files: readonly string[]): Promise<string | URL> {
  const [file, other] = files
  if (file === undefined || other !== undefined) throw new UsageError('--plan needs exactly one file, index or folder')
  return shared(file)
}

/** Prints the job of a verification. */
export async function planVerification(files: readonly string[], options: PlanningOptions): Promise<void> {
  printJob(await planJob('verify', await only(files), reading(options)))
}

/** Prints the job of statistics. */
export async function planStatistics(file: string, options: PlanningOptions & StatsCommandOptions): Promise<void> {
  const bins = binCount(options.bins)
  printJob(await planJob('stats', await only([file]), { ...reading(options), ...(bins === undefined ? {} : { bins }) }))
}

/** Reads the JSON of a file; `-` is standard input. */
function readJson(path: string): unknown {
  const text = readFileSync(path === STANDARD ? 0 : path, 'utf8')
  try {
    return JSON.parse(text)
  } catch {
    const hint = text.trim() === '' ? 'it is empty: did its command fail?' : 'it is incomplete, or another file'
    throw new UsageError(`${printable(path)} is not JSON: ${hint}`)
  }
}

function isJob(value: unknown): value is Job {
  return typeof value === 'object' && value !== null && Array.isArray((value as Partial<Job>).tasks)
}

function taskOf(value: unknown, number: string | undefined): Task {
  if (!isJob(value)) return value as Task
  const last = value.tasks.length - 1
  const index = number === undefined || !/^\d+$/.test(number) ? Number.NaN : Number(number)
  const task = value.tasks[index]
  if (task === undefined)
    throw new UsageError(`the index of the task must be from 0 to ${last}, got ${number ?? 'none'}`)
  return task
}

export interface RunCommandOptions extends RemoteCommandOptions, ProgressOptions {}

/** How to access the source and the target of a job: it contains neither. */
function accessOf(options: RemoteCommandOptions): { source?: { remote: RemoteOptions }; remote?: RemoteOptions } {
  const { header: _, ...access } = options
  const [source, target] = [remoteOf(options), remoteOf(access)]
  return {
    ...(source === undefined ? {} : { source: { remote: source } }),
    ...(target === undefined ? {} : { remote: target }),
  }
}

/** Runs one task of a job and prints its result. */
export async function task(path: string, number: string | undefined, options: RunCommandOptions): Promise<void> {
  const read = readJson(path)
  const given = taskOf(read, number)
  if (isJob(read)) printWarnings(read.warnings)
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  const progress = await followProgress(`task ${number ?? ''}`.trim(), options)
  try {
    print(await runTask(given, { ...accessOf(options), ...progress.listen, signal: stop.signal }))
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    progress.stop()
  }
}

export interface FinishCommandOptions extends RunCommandOptions {
  verify?: boolean
  json?: boolean
}

async function endConvert(job: Job<ConvertTask>, results: TaskResult[], options: FinishCommandOptions) {
  const { verify, json } = options
  const done = await finishJob(job, results, { verify: verify ?? false, ...accessOf(options) })
  printWarnings(done.warnings)
  if (json) return print({ event: 'done', ...done })
  const files = done.files.length === 0 ? '' : `, in ${showCounted(done.files.length, 'shard')}`
  await printLines([
    `${painter()('green', 'wrote')}  ${printable(done.path)}: ${showCounted(done.tensors, 'tensor')}${files}`,
    ...done.skipped.map(({ code, message }) => `  skipped  ${code}  ${printable(message)}`),
    `read by: ${done.readers.join(', ')}`,
    ...quantizedLines(done.quantized),
  ])
}

async function endVerify(job: Job<VerifyTask>, results: TaskResult[], { json }: FinishCommandOptions) {
  const result = await finishJob(job, results)
  printWarnings(result.warnings)
  const path = [job.source.path].flat().join(', ')
  const report = { path, result, error: undefined }
  await printLines(json ? jsonLines([reportJson(report)]) : verifiedLines(report, painter()))
  if (!result.ok) process.exitCode = exitCodes.unsound
}

async function endStats(job: Job<StatsTask>, results: TaskResult[], { json }: FinishCommandOptions) {
  const { stats, skipped } = await finishJob(job, results)
  const rows: Row[] = Array.from(stats, ([name, found]) => ({
    tensor: { name, dtype: undefined },
    stats: found,
    code: undefined,
  }))
  for (const { tensor, code } of skipped)
    rows.push({ tensor: { name: tensor ?? '', dtype: undefined }, stats: undefined, code })
  await printLines(json ? jsonLines(rows.map(rowJson)) : rowLines(rows))
}

/** Finishes a job with the results in files. The file of the job is ignored, so that `*.json` may include it. */
export async function finish(path: string, paths: readonly string[], options: FinishCommandOptions): Promise<void> {
  const job = readJson(path)
  if (!isJob(job)) throw new UsageError(`${printable(path)} is not a job: --plan prints one`)
  const results = paths.map(readJson).filter((value) => !isJob(value)) as TaskResult[]
  if (options.verify && job.kind !== 'convert') throw new UsageError('--verify needs a conversion job')
  if (job.kind === 'verify') await endVerify(job as Job<VerifyTask>, results, options)
  else if (job.kind === 'stats') await endStats(job as Job<StatsTask>, results, options)
  else await endConvert(job as Job<ConvertTask>, results, options)
}
