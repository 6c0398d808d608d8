// The tasks of a distributed conversion, and the files that they write.
import { basename, dirname, isAbsolute, join, parse } from 'node:path'
import type { ConvertOptions } from '../convert/options.js'
import { invalid } from '../native/errors.js'
import {
  optional,
  validateInteger,
  validateKeys,
  validateObject,
  validateString,
  validateText,
  wrongType,
} from '../values/arguments.js'
import type { AttributeValueInput } from '../values/attribute-input.js'
import { list, shardedWriting, titlesWith, WRITABLE_FORMATS, type Writing } from '../values/formats.js'
import { storeTarget, targetPath } from '../write/path.js'
import {
  checkErrors,
  checkTask,
  checkUnchanged,
  type Job,
  plainJson,
  type Task,
  type TaskError,
  type TaskResult,
} from './format.js'
import { isStored } from './source.js'

/** Metadata as JSON: pairs, because the order of the keys matters. A key without a value is removed. */
export type MetadataPairs = readonly (readonly [key: string, value?: AttributeValueInput])[]

/** The options of `convert` that a task contains, as JSON. */
export type ConvertTaskOptions = Pick<
  ConvertOptions,
  | 'format'
  | 'version'
  | 'canonical'
  | 'digest'
  | 'compression'
  | 'alignment'
  | 'cast'
  | 'dtype'
  | 'dequantize'
  | 'copyMetadata'
  | 'copyAttributes'
  | 'strictMetadata'
  | 'skip'
  | 'checkpoint'
  | 'quantize'
  | 'imatrix'
  | 'requantize'
> & {
  readonly metadata?: MetadataPairs | undefined
  /** The path of the importance matrix that the files record. `imatrix` is absolute. */
  readonly imatrixName?: string | undefined
}

/** One output file of a conversion. */
export interface ConvertTask extends Task {
  readonly kind: 'convert'
  /** The absolute path of the target, or its URL in an object store. The shards are named after it. */
  readonly target: string
  readonly options: ConvertTaskOptions
  /** New names of tensors, by their ordinals in the source. */
  readonly renamed: readonly (readonly [ordinal: number, name: string])[]
  /**
   * GGUF: its part of the tensors that the job writes, by their positions in the order of writing. The types of tensors depend on all of
   * them together, so `ordinals` and `renamed` are those of the whole job.
   */
  readonly part?: readonly [from: number, end: number]
  /** GGUF: a digest of the files that are read besides the source. */
  readonly inputs?: string
  /** Other formats: the metadata that states the types of all tensors of the job. A task has only its own. */
  readonly stated?: MetadataPairs
}

/** A job of a conversion. */
export type ConvertJob = Job<ConvertTask>

/** The result of writing one output file. */
export interface ConvertTaskResult extends TaskResult {
  readonly kind: 'convert'
  /** The name of the file, in the folder of the target. */
  readonly file: string
  readonly byteLength: number
  /** The digest of the whole file. */
  readonly digest: string
  /** Number of tensors in the file. */
  readonly tensors: number
  /** The skipped tensors, with the reasons. */
  readonly skipped: readonly TaskError[]
}

const OPTIONS = [
  'format',
  'version',
  'canonical',
  'digest',
  'compression',
  'alignment',
  'metadata',
  'cast',
  'dtype',
  'dequantize',
  'copyMetadata',
  'copyAttributes',
  'strictMetadata',
  'skip',
] as const

/** Options that only tasks with the tensors of the whole job have. */
export const WHOLE_OPTIONS = ['checkpoint', 'quantize', 'imatrix', 'requantize'] as const

/** How the files of a job are joined. */
export function joiningOf(format: ConvertTaskOptions['format']): Writing['shards'] {
  return shardedWriting(format ?? 'zt')?.shards ?? 'none'
}

/** Whether each file states its place in the set. Its task then has the tensors of the whole job. */
const isNumbered = ({ format }: ConvertTaskOptions): boolean => joiningOf(format) === 'numbers'

/** Validates metadata that is stored in a task as pairs. */
function validatePairs(name: string, pairs: unknown): void {
  if (!Array.isArray(pairs)) throw wrongType(name, 'an array', pairs)
  for (const [at, pair] of pairs.entries()) {
    if (!Array.isArray(pair) || pair.length < 1 || pair.length > 2)
      throw wrongType(`${name}[${at}]`, '[key, value]', pair)
    validateText(`${name}[${at}][0]`, pair[0])
  }
}

/** Validates what only tasks with a part have. */
function validatePart(name: string, { part, inputs, options }: ConvertTask): void {
  const range: unknown = part
  if (!Array.isArray(range) || range.length !== 2) throw wrongType(`${name}.part`, '[from, end]', part)
  const from = validateInteger(`${name}.part[0]`, range[0])
  if (validateInteger(`${name}.part[1]`, range[1], from) > MAX_TENSORS)
    throw wrongType(`${name}.part[1]`, 'a number of tensors', range[1])
  if (inputs !== undefined && !/^sha256:[0-9a-f]{64}$/.test(validateString(`${name}.inputs`, inputs)))
    throw wrongType(`${name}.inputs`, 'a digest', inputs)
  optional(options.imatrixName, (value) => validateText(`${name}.options.imatrixName`, value))
}

const MAX_TENSORS = 2 ** 32 - 1

/** Validates a conversion task. The values of its options are validated where they are used. */
export function validateConvertTask(name: string, value: unknown): ConvertTask {
  const task = checkTask(name, value, 'convert', [
    'target',
    'options',
    'renamed',
    'part',
    'inputs',
    'stated',
  ]) as ConvertTask
  const target = jobTarget(validateText(`${name}.target`, task.target))
  if ((!isStored(target) && !isAbsolute(target)) || basename(target) === '..')
    throw wrongType(`${name}.target`, 'an absolute path, or the URL of an object store', task.target)
  const options = validateObject(`${name}.options`, task.options)
  const sharded = WRITABLE_FORMATS.filter((format) => joiningOf(format) !== 'none')
  if (!sharded.includes(options.format as never))
    throw wrongType(`${name}.options.format`, `one of ${sharded.join(', ')}`, options.format)
  const isPart = isNumbered(options)
  validateKeys(`${name}.options`, options, isPart ? [...OPTIONS, ...WHOLE_OPTIONS, 'imatrixName'] : OPTIONS)
  optional(options.metadata, (pairs) => validatePairs(`${name}.options.metadata`, pairs))
  for (const field of ['part', 'inputs'] as const)
    if (!isPart && task[field] !== undefined)
      throw invalid(TypeError, `${name}.${field} is only for ${list(titlesWith(({ shards }) => shards === 'numbers'))}`)
  if (isPart && task.stated !== undefined)
    throw invalid(TypeError, `${name}.stated is not for tasks with the tensors of the whole job: plan the job again`)
  if (task.stated !== undefined) validatePairs(`${name}.stated`, task.stated)
  if (isPart) validatePart(name, task)
  if (!Array.isArray(task.renamed)) throw wrongType(`${name}.renamed`, 'an array', task.renamed)
  for (const [at, pair] of task.renamed.entries()) {
    if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== 'number')
      throw wrongType(`${name}.renamed[${at}]`, '[ordinal, name]', pair)
    validateText(`${name}.renamed[${at}][1]`, pair[1])
  }
  return checkUnchanged(name, task)
}

/** Validates the result of a conversion task. */
export function validateConvertResult(name: string, value: Record<string, unknown>): ConvertTaskResult {
  validateKeys(name, value, ['ztensor', 'kind', 'job', 'task', 'file', 'byteLength', 'digest', 'tensors', 'skipped'])
  validateString(`${name}.file`, value.file)
  for (const field of ['byteLength', 'tensors']) {
    const count = value[field]
    if (!Number.isSafeInteger(count) || (count as number) < 0)
      throw wrongType(`${name}.${field}`, 'a whole number', count)
  }
  if (!/^(xxh3|sha256):[0-9a-f]+$/.test(validateString(`${name}.digest`, value.digest)))
    throw wrongType(`${name}.digest`, 'a digest', value.digest)
  checkErrors(`${name}.skipped`, value.skipped)
  return value as unknown as ConvertTaskResult
}

/** The path of a target, or its URL in an object store. */
export function jobTarget(target: unknown, format?: ConvertOptions['format']): string {
  return storeTarget(target, format) ?? targetPath(target as string | URL)
}

/** The path or URL of a file in the folder of a target, named after it. */
function siblingOf(target: string, behind: string): string {
  const name = `${parse(target).name}${behind}`
  return isStored(target) ? target.slice(0, target.lastIndexOf('/') + 1) + name : join(dirname(target), name)
}

const pad5 = (number: number): string => String(number).padStart(5, '0')

/** The path of a task's file. It is built from numbers, so that a task cannot name any other file. */
export function filePathOf({ target, options, task, count }: ConvertTask): string {
  if (count === 1) return target
  return siblingOf(target, `-${pad5(task + 1)}-of-${pad5(count)}.${options.format ?? 'zt'}`)
}

/** The path of the file that is written last: the root, the index, or the only file. Other sets have no such file. */
export function lastPathOf({ target, options, count }: ConvertTask): string | undefined {
  const joining = joiningOf(options.format)
  if (count === 1 || joining === 'root') return target
  return joining === 'index' ? siblingOf(target, `.${options.format}.index.json`) : undefined
}

/** The digest algorithm for files: the one in zTensor 2's shard table. */
export function algorithmOf({ digest }: ConvertTaskOptions): 'sha256' | 'xxh3' {
  return digest === 'sha256' ? 'sha256' : 'xxh3'
}

/** Returns a copy of a value that is stored in a job, and throws for what JSON cannot represent. */
export function jsonValue<T>(name: string, value: T): T {
  return plainJson(name, value, (_key, item) => {
    const other = ['bigint', 'function', 'symbol', 'undefined'].includes(typeof item)
    if (
      other ||
      ArrayBuffer.isView(item) ||
      item instanceof Map ||
      (typeof item === 'number' && !Number.isFinite(item))
    )
      throw wrongType(name, 'plain JSON in a job: strings, finite numbers, booleans, null, lists and objects', item)
    return item
  })
}
