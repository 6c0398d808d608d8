// Jobs, tasks and results as plain JSON. They come from queues and files that others write to, so each field is checked.

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

/** The source of a job, as each task opens it. */
export interface TaskSource {
  /** The absolute path or the URL of the file, index or folder, or a list of them. */
  readonly path: string | readonly string[]
  /** What the source was when the job was planned: its lengths, its index and, if `checkModified`, its times. */
  readonly identity: string
  /** Whether another modification time makes it another source. */
  readonly checkModified: boolean
  readonly format?: Format
  readonly maxIndexBytes?: number
  readonly maxDecodedBytes?: number
  readonly maxRank?: number
  readonly maxAttributeValues?: number
}

/** One part of a job. It is complete in itself: send it to any machine that reaches the source and the target. */
export interface Task {
  /** The version of this JSON. */
  readonly ztensor: typeof TASK_VERSION
  readonly kind: TaskKind
  /** The job's id. */
  readonly job: string
  /** Its place in `job.tasks`, from 0 on. */
  readonly task: number
  /** How many tasks the job has. */
  readonly count: number
  readonly source: TaskSource
  /** Its tensors: ranges `[from, end)` of their places in the source, in rising order. */
  readonly ordinals: readonly (readonly [from: number, end: number])[]
  /** About how many bytes it works on. */
  readonly byteLength: number
  /** Over all else that the task says, its job's id included. A task that was changed is not run. */
  readonly digest: string
}

/** Work that is divided into tasks: plain JSON, which can be stored, and sent anywhere. */
export interface Job<T extends Task = Task> {
  /** The version of this JSON. */
  readonly ztensor: typeof TASK_VERSION
  readonly kind: T['kind']
  /** A digest of all that the job says. */
  readonly id: string
  readonly source: TaskSource
  readonly tasks: readonly T[]
  /** What a user should know about the source, as `file.warnings` had it when the job was planned. */
  readonly warnings: readonly Warning[]
}

/** What a task did: plain JSON. */
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

/** Nesting of what a job holds: attributes may have some. */
const MOST_DEEP = 100

/**
 * A copy of what came as JSON, so that nothing changes while it is checked, and no getter or proxy gives two answers. What a getter throws
 * is thrown on.
 */
export function plainJson<T>(name: string, value: T, check?: (key: string, item: unknown) => unknown): T {
  let text: string | undefined
  try {
    text = JSON.stringify(value, check)
  } catch (cause) {
    if (isOurs(cause)) throw cause
    // Of circles, of bigints and of too much nesting.
    if (!(cause instanceof TypeError || cause instanceof RangeError)) throw cause
    throw Object.assign(invalid(TypeError, `${name} must be plain JSON: ${cause.message.split('\n')[0]}`), { cause })
  }
  if (text === undefined) throw wrongType(name, 'plain JSON', value)
  return JSON.parse(text) as T
}

/** JSON whose keys are in order, so that those who write it anew change no digest. */
function ordered(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > MOST_DEEP) throw invalid(RangeError, `a job is nested ${MOST_DEEP} deep at most`)
  if (Array.isArray(value)) return value.map((item) => ordered(item, depth + 1))
  const entries = Object.entries(value).filter(([, item]) => item !== undefined)
  // Code units: the same everywhere.
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return entries.map(([key, item]) => [key, ordered(item, depth + 1)])
}

/** The digest of a value that is JSON. */
export function digestOfJson(value: unknown): string {
  return `sha256:${builtins.crypto
    .createHash('sha256')
    .update(JSON.stringify(ordered(value)))
    .digest('hex')}`
}

/** The id of a job: of its source, its warnings and its tasks, as they are without it. */
function idOf(kind: TaskKind, source: TaskSource, warnings: readonly Warning[], tasks: readonly object[]): string {
  const bare = tasks.map((task) => ({ ...task, job: undefined, digest: undefined }))
  return digestOfJson({ kind, source, warnings, tasks: bare }).slice(0, 39)
}

function taskDigest(task: object): string {
  return digestOfJson({ ...task, digest: undefined }).slice(0, 39)
}

/** Gives the tasks their job. */
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
    const hint = newer ? '; a newer version of ztensor made it: use the same version everywhere' : ''
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
  // Whether it is a format is `open`'s to say.
  optional(source.format, (format) => validateText(`${name}.format`, format))
  for (const limit of SOURCE_LIMITS) optional(source[limit], (most) => validateInteger(`${name}.${limit}`, most))
  return source as unknown as TaskSource
}

/** Ranges that rise, so that no list of them can ask for more tensors than the file has. */
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

/** Checks what every task has; `extra` are the fields of its kind. */
export function checkTask(name: string, value: unknown, kind: TaskKind, extra: readonly string[]): Task {
  const task = header(name, value)
  if (task.kind !== kind) throw wrongType(`${name}.kind`, `'${kind}'`, task.kind)
  validateKeys(name, task, [...TASK_FIELDS, ...extra])
  validateId(`${name}.job`, task.job)
  const count = validateInteger(`${name}.count`, task.count, 1)
  const place = validateInteger(`${name}.task`, task.task)
  if (place >= count) throw invalid(RangeError, `${name}.task must be below ${name}.count, ${count}, got ${place}`)
  validateSource(`${name}.source`, task.source)
  checkRanges(`${name}.ordinals`, task.ordinals)
  validateInteger(`${name}.byteLength`, task.byteLength)
  validateId(`${name}.digest`, task.digest)
  return task as unknown as Task
}

/** Refuses a task that is not as it was planned. Its fields were checked: what is wrong with one of them says more. */
export function checkUnchanged<T extends Task>(name: string, task: T): T {
  if (task.digest === taskDigest(task)) return task
  throw invalid(TypeError, `${name}.digest is not that of the task: it was changed after it was planned; plan it again`)
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

/** Checks a job, each of its tasks with `check`, and that nobody changed it since it was planned. */
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
    const place = `job.tasks[${at}]`
    if (task.task !== at) throw wrongType(`${place}.task`, String(at), task.task)
    if (task.count !== tasks.length) throw wrongType(`${place}.count`, String(tasks.length), task.count)
    if (task.job !== id) throw wrongType(`${place}.job`, "the job's id", task.job)
  }
  if (idOf(kind, source, warnings, tasks) !== id)
    throw invalid(TypeError, 'job.id is not the digest of the job: it was changed after it was planned; plan it again')
  return job as unknown as Job<T>
}

/** Results whose places are listed, in an error. */
const SHOWN = 20

/**
 * The results by their tasks: one of each. Those that say the same again are passed over.
 *
 * `said` gives what two results of one task have to agree on.
 */
export function checkResults<R extends TaskResult>(
  { id, kind, tasks }: Job,
  values: readonly unknown[],
  check: (name: string, result: Record<string, unknown>) => R,
  said: (result: R) => unknown,
): R[] {
  const copied: unknown = plainJson('results', values)
  if (!Array.isArray(copied)) throw wrongType('results', 'an array of results', values)
  const found: (R | undefined)[] = new Array(tasks.length).fill(undefined)
  for (const [at, value] of copied.entries()) {
    const name = `results[${at}]`
    const given = header(name, value)
    if (given.kind !== kind) throw wrongType(`${name}.kind`, `'${kind}'`, given.kind)
    if (validateId(`${name}.job`, given.job) !== id)
      throw invalid(TypeError, `${name} is of another job: ${given.job}, not ${id}`)
    const place = validateInteger(`${name}.task`, given.task)
    if (place >= tasks.length)
      throw invalid(RangeError, `${name}.task must be below ${tasks.length}, the tasks of the job, got ${place}`)
    const result = check(name, given)
    const known = found[place]
    if (known !== undefined && digestOfJson(said(known)) !== digestOfJson(said(result)))
      throw invalid(TypeError, `${name} differs from another result of task ${place}: run the task again`)
    found[place] ??= result
  }
  const missing = tasks.flatMap(({ task }) => (found[task] === undefined ? [task] : []))
  if (missing.length > 0) {
    const more = missing.length > SHOWN ? ` and ${missing.length - SHOWN} more` : ''
    const shown = missing.slice(0, SHOWN).join(', ')
    throw invalid(TypeError, `results lack those of the tasks ${shown}${more}: run these and finish again`)
  }
  return found as R[]
}

/** Checks errors that came as JSON. */
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
