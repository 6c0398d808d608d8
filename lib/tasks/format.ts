// Jobs, tasks and results as plain JSON. They come from queues and files that others can write, so every field is validated.

import { builtins } from '../native/builtins.js'
import { invalid, isOurs } from '../native/errors.js'
import {
  optional,
  validateInteger,
  validateKeys,
  validateObject,
  validateOneOf,
  validateString,
  validateText,
  wrongType,
} from '../values/arguments.js'
import type { Format } from '../values/format-table.js'
import type { Warning } from '../values/warning.js'

/** The version of this JSON. */
export const TASK_VERSION = 1

/** What a job does. */
export type TaskKind = 'convert' | 'verify' | 'stats'
export const KINDS: readonly TaskKind[] = ['convert', 'verify', 'stats']

/** The source of a job, with the options to open it. */
export interface TaskSource {
  /** The absolute path or the URL of the file, index or folder, or a list of them. */
  readonly path: string | readonly string[]
  /** A digest of the source when the job was planned: of its lengths, its index and, with `checkModified`, its modification times. */
  readonly identity: string
  /** Whether a changed modification time means a changed source. */
  readonly checkModified: boolean
  readonly format?: Format
  readonly maxIndexBytes?: number
  readonly maxDecodedBytes?: number
  readonly maxRank?: number
  readonly maxAttributeValues?: number
}

/** One part of a job. It is self-contained: any machine that can access the source and the target can run it. */
export interface Task {
  /** The version of this JSON. */
  readonly ztensor: typeof TASK_VERSION
  readonly kind: TaskKind
  /** The id of the job. */
  readonly job: string
  /** The index of the task in `job.tasks`. */
  readonly task: number
  /** Number of tasks of the job. */
  readonly count: number
  readonly source: TaskSource
  /** Its tensors: half-open ranges of their ordinals in the source, in ascending order. */
  readonly ordinals: readonly (readonly [from: number, end: number])[]
  /** Approximate number of bytes that it processes. */
  readonly byteLength: number
  /** A digest of all other fields, including the job's id. A modified task is rejected. */
  readonly digest: string
}

/** Work that is divided into tasks, as plain JSON that can be stored and sent. */
export interface Job<T extends Task = Task> {
  /** The version of this JSON. */
  readonly ztensor: typeof TASK_VERSION
  readonly kind: T['kind']
  /** A digest of the whole job. */
  readonly id: string
  readonly source: TaskSource
  readonly tasks: readonly T[]
  /** The warnings of the source when the job was planned, as in `file.warnings`. */
  readonly warnings: readonly Warning[]
}

/** The result of a task, as plain JSON. */
export interface TaskResult {
  /** The version of this JSON. */
  readonly ztensor: typeof TASK_VERSION
  readonly kind: TaskKind
  readonly job: string
  readonly task: number
}

/** An error as JSON. */
export interface TaskError {
  readonly code: string
  readonly message: string
  readonly tensor?: string
  readonly component?: string
  readonly offset?: number
  readonly rule?: string
}

/** Maximum nesting depth of a job. */
const MAX_DEEP = 100

/**
 * Returns a deep copy through JSON, so that the value cannot change during validation, and getters and proxies cannot return different
 * values. Errors that a getter throws are rethrown.
 */
export function plainJson<T>(name: string, value: T, check?: (key: string, item: unknown) => unknown): T {
  let text: string | undefined
  try {
    text = JSON.stringify(value, check)
  } catch (cause) {
    if (isOurs(cause)) throw cause
    // Cycles and bigints throw TypeError, too much nesting RangeError.
    if (!(cause instanceof TypeError || cause instanceof RangeError)) throw cause
    throw Object.assign(invalid(TypeError, `${name} must be plain JSON: ${cause.message.split('\n')[0]}`), { cause })
  }
  if (text === undefined) throw wrongType(name, 'plain JSON', value)
  return JSON.parse(text) as T
}

/** JSON with sorted keys, so that reserialization does not change the digest. */
function ordered(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEEP) throw invalid(RangeError, `a job must not be nested more than ${MAX_DEEP} levels deep`)
  if (Array.isArray(value)) return value.map((item) => ordered(item, depth + 1))
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  // By UTF-16 code units: independent of the locale.
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return entries.map(([key, item]) => [key, ordered(item, depth + 1)])
}

/** The digest of a JSON value. */
export function digestOfJson(value: unknown): string {
  return `sha256:${builtins.crypto
    .createHash('sha256')
    .update(JSON.stringify(ordered(value)))
    .digest('hex')}`
}

/** The id of a job: a digest of its source, its warnings and its tasks without the id. */
function idOf(kind: TaskKind, source: TaskSource, warnings: readonly Warning[], tasks: readonly object[]): string {
  const bare = tasks.map((task) => ({ ...task, job: undefined, digest: undefined }))
  return digestOfJson({ kind, source, warnings, tasks: bare }).slice(0, 39)
}

function taskDigest(task: object): string {
  return digestOfJson({ ...task, digest: undefined }).slice(0, 39)
}

/** Builds a job and its tasks. */
export function makeJob<T extends Task>(
  kind: T['kind'],
  source: TaskSource,
  warnings: readonly Warning[],
  parts: readonly Omit<T, 'ztensor' | 'kind' | 'job' | 'task' | 'count' | 'source' | 'digest'>[],
): Job<T> {
  const common = { ztensor: TASK_VERSION, kind } as const
  const bare = parts.map((part, task) => ({ ...common, task, count: parts.length, source, ...part }))
  const id = idOf(kind, source, warnings, bare)
  const own = bare.map((task) => ({ ...task, job: id }))
  const tasks = own.map((task) => ({ ...task, digest: taskDigest(task) })) as unknown as T[]
  return { ...common, id, source, tasks, warnings }
}

function header(name: string, value: unknown): Record<string, unknown> {
  const given = validateObject(name, value) as Record<string, unknown>
  if (given.ztensor !== TASK_VERSION) {
    const newer = typeof given.ztensor === 'number' && given.ztensor > TASK_VERSION
    const hint = newer ? '; it was made by a newer version of ztensor: use the same version everywhere' : ''
    throw invalid(TypeError, `${name}.ztensor must be ${TASK_VERSION}, got ${JSON.stringify(given.ztensor)}${hint}`)
  }
  validateOneOf(`${name}.kind`, KINDS, given.kind)
  return given
}

function validateId(name: string, value: unknown): string {
  const id = validateString(name, value)
  if (!/^sha256:[0-9a-f]{32}$/.test(id)) throw wrongType(name, "a job's id", value)
  return id
}

const SOURCE_LIMITS = ['maxIndexBytes', 'maxDecodedBytes', 'maxRank', 'maxAttributeValues'] as const
const SOURCE_FIELDS = ['path', 'identity', 'checkModified', 'format', ...SOURCE_LIMITS]

function validateSource(name: string, value: unknown): TaskSource {
  const source = validateObject(name, value) as Record<string, unknown>
  validateKeys(name, source, SOURCE_FIELDS)
  const { path } = source
  if (Array.isArray(path)) for (const [at, one] of path.entries()) validateText(`${name}.path[${at}]`, one)
  else validateText(`${name}.path`, path)
  if (!/^sha256:[0-9a-f]{64}$/.test(validateString(`${name}.identity`, source.identity)))
    throw wrongType(`${name}.identity`, 'a digest', source.identity)
  if (typeof source.checkModified !== 'boolean')
    throw wrongType(`${name}.checkModified`, 'a boolean', source.checkModified)
  // `open` checks whether the format exists.
  optional(source.format, (format) => validateText(`${name}.format`, format))
  for (const limit of SOURCE_LIMITS) optional(source[limit], (max) => validateInteger(`${name}.${limit}`, max))
  return source as unknown as TaskSource
}

/** Validates ranges in ascending order, so that a list cannot name more tensors than the file has. */
function checkRanges(name: string, value: unknown): void {
  if (!Array.isArray(value)) throw wrongType(name, 'an array of ranges', value)
  let last = 0
  for (const [at, range] of value.entries()) {
    if (!Array.isArray(range) || range.length !== 2) throw wrongType(`${name}[${at}]`, '[from, end]', range)
    const from = validateInteger(`${name}[${at}][0]`, range[0], last)
    last = validateInteger(`${name}[${at}][1]`, range[1], from + 1)
  }
}

const TASK_FIELDS = ['ztensor', 'kind', 'job', 'task', 'count', 'source', 'ordinals', 'byteLength', 'digest'] as const

/** Validates the common fields of a task; `extra` are the fields of its kind. */
export function checkTask(name: string, value: unknown, kind: TaskKind, extra: readonly string[]): Task {
  const task = header(name, value)
  if (task.kind !== kind) throw wrongType(`${name}.kind`, `'${kind}'`, task.kind)
  validateKeys(name, task, [...TASK_FIELDS, ...extra])
  validateId(`${name}.job`, task.job)
  const count = validateInteger(`${name}.count`, task.count, 1)
  const index = validateInteger(`${name}.task`, task.task)
  if (index >= count) throw invalid(RangeError, `${name}.task must be below ${name}.count, ${count}, got ${index}`)
  validateSource(`${name}.source`, task.source)
  checkRanges(`${name}.ordinals`, task.ordinals)
  validateInteger(`${name}.byteLength`, task.byteLength)
  validateId(`${name}.digest`, task.digest)
  return task as unknown as Task
}

/** Checks a task's digest, after its fields: an invalid field gives a more specific error. */
export function checkUnchanged<T extends Task>(name: string, task: T): T {
  if (task.digest === taskDigest(task)) return task
  throw invalid(
    TypeError,
    `${name}.digest does not match the task, which was modified after it was planned: plan the job again`,
  )
}

function checkWarnings(name: string, value: unknown): readonly Warning[] {
  if (!Array.isArray(value)) throw wrongType(name, 'an array of warnings', value)
  for (const [at, one] of value.entries()) {
    const warning = validateObject(`${name}[${at}]`, one) as Record<string, unknown>
    validateKeys(`${name}[${at}]`, warning, ['code', 'message', 'tensor', 'component', 'path'])
    for (const field of ['code', 'message']) validateString(`${name}[${at}].${field}`, warning[field])
    for (const field of ['tensor', 'component', 'path'])
      optional(warning[field], (text) => validateString(`${name}[${at}].${field}`, text))
  }
  return value as readonly Warning[]
}

/** The kind of a task. */
export function kindOf(name: string, value: unknown): TaskKind {
  return header(name, value).kind as TaskKind
}

/** Validates a job, each of its tasks with `check`, and that it was not modified since it was planned. */
export function checkJob<T extends Task>(
  value: unknown,
  kind: T['kind'],
  check: (name: string, task: unknown) => T,
): Job<T> {
  const job = header('job', plainJson('job', value))
  if (job.kind !== kind) throw wrongType('job.kind', `'${kind}'`, job.kind)
  validateKeys('job', job, ['ztensor', 'kind', 'id', 'source', 'tasks', 'warnings'])
  const id = validateId('job.id', job.id)
  const source = validateSource('job.source', job.source)
  const warnings = checkWarnings('job.warnings', job.warnings)
  if (!Array.isArray(job.tasks) || job.tasks.length === 0) throw wrongType('job.tasks', 'an array of tasks', job.tasks)
  const tasks = Array.from(job.tasks, (task, at) => check(`job.tasks[${at}]`, task))
  for (const [at, task] of tasks.entries()) {
    const name = `job.tasks[${at}]`
    if (task.task !== at) throw wrongType(`${name}.task`, String(at), task.task)
    if (task.count !== tasks.length) throw wrongType(`${name}.count`, String(tasks.length), task.count)
    if (task.job !== id) throw wrongType(`${name}.job`, "the job's id", task.job)
  }
  if (idOf(kind, source, warnings, tasks) !== id)
    throw invalid(
      TypeError,
      'job.id does not match the job, which was modified after it was planned: plan the job again',
    )
  return job as unknown as Job<T>
}

/** Missing tasks that an error lists. */
const SHOWN = 20

/**
 * Validates the results and returns one for each task. Equal duplicates are allowed.
 *
 * `claims` returns the fields that all results of one task must agree on.
 */
export function checkResults<R extends TaskResult>(
  { id, kind, tasks }: Job,
  values: readonly unknown[],
  check: (name: string, result: Record<string, unknown>) => R,
  claims: (result: R) => unknown,
): R[] {
  const copied: unknown = plainJson('results', values)
  if (!Array.isArray(copied)) throw wrongType('results', 'an array of results', values)
  const found: (R | undefined)[] = new Array(tasks.length).fill(undefined)
  for (const [at, value] of copied.entries()) {
    const name = `results[${at}]`
    const given = header(name, value)
    if (given.kind !== kind) throw wrongType(`${name}.kind`, `'${kind}'`, given.kind)
    if (validateId(`${name}.job`, given.job) !== id)
      throw invalid(TypeError, `${name} belongs to another job: ${given.job}, not ${id}`)
    const index = validateInteger(`${name}.task`, given.task)
    if (index >= tasks.length)
      throw invalid(RangeError, `${name}.task must be below ${tasks.length}, the number of tasks, got ${index}`)
    const result = check(name, given)
    const known = found[index]
    if (known !== undefined && digestOfJson(claims(known)) !== digestOfJson(claims(result)))
      throw invalid(TypeError, `${name} differs from another result of task ${index}: run the task again`)
    found[index] ??= result
  }
  const missing = tasks.flatMap(({ task }) => (found[task] === undefined ? [task] : []))
  if (missing.length > 0) {
    const more = missing.length > SHOWN ? ` and ${missing.length - SHOWN} more` : ''
    const shown = missing.slice(0, SHOWN).join(', ')
    throw invalid(TypeError, `the results of these tasks are missing: ${shown}${more}; run them and finish again`)
  }
  return found as R[]
}

/** Validates errors in JSON form. */
export function checkErrors(name: string, value: unknown): readonly TaskError[] {
  if (!Array.isArray(value)) throw wrongType(name, 'an array of errors', value)
  for (const [at, one] of value.entries()) {
    const error = validateObject(`${name}[${at}]`, one) as Record<string, unknown>
    validateKeys(`${name}[${at}]`, error, ['code', 'message', 'tensor', 'component', 'offset', 'rule'])
    if (!/^ZT_[A-Z_]+$/.test(validateString(`${name}[${at}].code`, error.code)))
      throw wrongType(`${name}[${at}].code`, 'a code', error.code)
    validateString(`${name}[${at}].message`, error.message)
    for (const field of ['tensor', 'component', 'rule'])
      optional(error[field], (text) => validateString(`${name}[${at}].${field}`, text))
    optional(error.offset, (offset) => validateInteger(`${name}[${at}].offset`, offset))
  }
  return value as TaskError[]
}
