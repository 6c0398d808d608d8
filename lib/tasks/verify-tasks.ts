// The tasks of a distributed verification.

import { type ErrorCode, invalid, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import type { ValidJob } from '../native/job.js'
import { TensorFile } from '../read/file.js'
import type { OpenOptions } from '../read/open.js'
import { type VerifyResult, verifyTensors } from '../read/verify.js'
import { optional, readOptions, validateAbortSignal, validateInteger, validateKeys } from '../values/arguments.js'
import { checkOrdinals, divide } from './divide.js'
import {
  checkErrors,
  checkJob,
  checkResults,
  checkTask,
  checkUnchanged,
  type Job,
  makeJob,
  TASK_VERSION,
  type Task,
  type TaskError,
  type TaskResult,
} from './format.js'
import { errorJson } from './run-convert.js'
import { checkSource, openPlanned, openSource, type RemoteSource, type TaskSourceOptions } from './source.js'

/** How to divide work that reads a file. */
export interface PlanReadingOptions extends TaskSourceOptions {
  /** Maximum size in bytes of the tensors of a task: 5 GB by default. A tensor is never divided. */
  maxTaskBytes?: number | undefined
  signal?: AbortSignal | undefined
}

/** A task that verifies some tensors. */
export interface VerifyTask extends Task {
  readonly kind: 'verify'
}

/** A job of a verification. */
export type VerifyJob = Job<VerifyTask>

/** The result of a verification task. */
export interface VerifyTaskResult extends TaskResult {
  readonly kind: 'verify'
  readonly checked: number
  readonly undigested: number
  readonly failures: readonly TaskError[]
}

/** The default of `maxTaskBytes`. */
const TASK = 5e9

/** Plans a job: divides the tensors of a source by size. */
export async function planReading<T extends Task>(
  kind: T['kind'],
  source: RemoteSource,
  options: PlanReadingOptions,
  extra: object,
): Promise<Job<T>> {
  const { maxTaskBytes, signal } = options
  const max = optional(maxTaskBytes, (value) => validateInteger('maxTaskBytes', value, 1)) ?? TASK
  optional(signal, validateAbortSignal)
  const { file, source: from } = await openPlanned(source, options, signal)
  try {
    const catalog = await TensorFile.ready(file, signal)
    const parts = await divide(catalog.size, max, (ordinal) => catalog.byteLength(ordinal))
    return makeJob<Task>(
      kind,
      from,
      file.warnings,
      parts.map((part) => ({ ...part, ...extra })),
    ) as Job<T>
  } finally {
    file.close()
  }
}

/** `planJob` of a verification. */
export async function planVerify(source: RemoteSource, options?: PlanReadingOptions): Promise<VerifyJob> {
  const known = ['maxTaskBytes', 'signal', 'source', 'checkModified'] as const
  const read = readOptions<PlanReadingOptions>(options, known, 'options', { onProgress: 'runTask' })
  return planReading<VerifyTask>('verify', source, read, {})
}

/** Validates a verification task. */
export function validateVerifyTask(name: string, value: unknown): VerifyTask {
  return checkUnchanged(name, checkTask(name, value, 'verify', []) as VerifyTask)
}

/** Verifies the tensors of a task. */
export async function runVerify(
  { source: from, ordinals, job, task }: VerifyTask,
  opening: OpenOptions | undefined,
  { onProgress, signal }: ValidJob,
): Promise<VerifyTaskResult> {
  const file = await openSource(from, opening, signal)
  try {
    const some = checkOrdinals(ordinals, file.size)
    const store = TensorFile.storeOf(file)
    // Only the first task reports damage that belongs to no tensor.
    const { checked, undigested, failures } = await verifyTensors(store, some, { onProgress, signal }, task === 0)
    await checkSource(file, from, signal)
    const found = { checked, undigested, failures: failures.map(errorJson) }
    return { ztensor: TASK_VERSION, kind: 'verify', job, task, ...found }
  } finally {
    file.close()
  }
}

function validateVerifyResult(name: string, value: Record<string, unknown>): VerifyTaskResult {
  validateKeys(name, value, ['ztensor', 'kind', 'job', 'task', 'checked', 'undigested', 'failures'])
  validateInteger(`${name}.checked`, value.checked)
  validateInteger(`${name}.undigested`, value.undigested)
  checkErrors(`${name}.failures`, value.failures)
  return value as unknown as VerifyTaskResult
}

/** Converts an error from JSON. */
export function errorOf({ code, message, ...where }: TaskError): ZTensorError {
  return new ZTensorError(code as ErrorCode, message, where)
}

/** How to finish a verification or statistics job. */
export interface FinishOptions {
  signal?: AbortSignal | undefined
}

/** Validates the options, and yields to the event loop once, so that the signal can be aborted. */
export async function finishing(options: FinishOptions | undefined): Promise<void> {
  const { signal } = readOptions(options, ['signal'])
  optional(signal, validateAbortSignal)
  signal?.throwIfAborted()
  await nextTurn()
  signal?.throwIfAborted()
}

/** `finishJob` of a verification. */
export async function finishVerify(
  job: VerifyJob,
  results: readonly TaskResult[],
  options?: FinishOptions,
): Promise<VerifyResult> {
  await finishing(options)
  const planned = checkJob<VerifyTask>(job, 'verify', validateVerifyTask)
  const claims = ({ checked, undigested, failures }: VerifyTaskResult) => ({ checked, undigested, failures })
  const found = checkResults(planned, results, validateVerifyResult, claims)
  const failures = found.flatMap((result) => result.failures.map(errorOf))
  const sum = (field: 'checked' | 'undigested') => found.reduce((total, result) => total + result[field], 0)
  if (!Number.isSafeInteger(sum('checked') + sum('undigested')))
    throw invalid(RangeError, 'results have implausible counts: more than 2^53 components')
  const { warnings } = planned
  return { ok: failures.length === 0, checked: sum('checked'), undigested: sum('undigested'), failures, warnings }
}
