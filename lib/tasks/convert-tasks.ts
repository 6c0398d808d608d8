// The tasks of a distributed conversion, and the files that they write.
import { basename, dirname, isAbsolute, join, parse } from 'node:path'
import { invalid } from '../native/errors.js'
import {
  validateInteger,
  validateKeys,
  validateObject,
  validateString,
  validateText,
  wrongType,
} from '../values/arguments.js'
import type { AttributeValueInput } from '../values/attributes.js'
import type { ConvertOptions } from '../write/convert-options.js'
import { storeTarget, targetPath } from '../write/options.js'
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
import { isStored } from './stored.js'

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
  | 'attributes'
  | 'cast'
  | 'dtype'
  | 'dequantize'
  | 'strictAttributes'
  | 'skip'
  | 'checkpoint'
  | 'quantize'
  | 'imatrix'
  | 'requantize'
> & { readonly metadata?: MetadataPairs | undefined }

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

/** The target formats of a distributed conversion. */
export const SHARDED = ['zt', 'safetensors', 'gguf'] as const

const OPTIONS = [
  'format',
  'version',
  'canonical',
  'digest',
  'compression',
  'alignment',
  'attributes',
  'cast',
  'dtype',
  'dequantize',
  'strictAttributes',
  'skip',
] as const

/** Options that only tasks of GGUF have. */
export const GGUF_OPTIONS = ['metadata', 'checkpoint', 'quantize', 'imatrix', 'requantize'] as const

/** Validates what only tasks of GGUF have. */
function validateGguf(name: string, { part, inputs, options }: ConvertTask): void {
  const range: unknown = part
  if (!Array.isArray(range) || range.length !== 2) throw wrongType(`${name}.part`, '[from, end]', part)
  const from = validateInteger(`${name}.part[0]`, range[0])
  if (validateInteger(`${name}.part[1]`, range[1], from) > MOST_TENSORS)
    throw wrongType(`${name}.part[1]`, 'a number of tensors', range[1])
  if (inputs !== undefined && !/^sha256:[0-9a-f]{64}$/.test(validateString(`${name}.inputs`, inputs)))
    throw wrongType(`${name}.inputs`, 'a digest', inputs)
  const { metadata } = options
  if (metadata === undefined) return
  if (!Array.isArray(metadata)) throw wrongType(`${name}.options.metadata`, 'an array', metadata)
  for (const [at, pair] of metadata.entries()) {
    if (!Array.isArray(pair) || pair.length < 1 || pair.length > 2)
      throw wrongType(`${name}.options.metadata[${at}]`, '[key, value]', pair)
    validateText(`${name}.options.metadata[${at}][0]`, pair[0])
  }
}

const MOST_TENSORS = 2 ** 32 - 1

/** Validates a conversion task. The values of its options are validated where they are used. */
export function validateConvertTask(name: string, value: unknown): ConvertTask {
  const task = checkTask(name, value, 'convert', ['target', 'options', 'renamed', 'part', 'inputs']) as ConvertTask
  const target = jobTarget(validateText(`${name}.target`, task.target))
  if ((!isStored(target) && !isAbsolute(target)) || basename(target) === '..')
    throw wrongType(`${name}.target`, 'an absolute path, or the URL of an object store', task.target)
  const options = validateObject(`${name}.options`, task.options)
  const isGguf = options.format === 'gguf'
  validateKeys(`${name}.options`, options, isGguf ? [...OPTIONS, ...GGUF_OPTIONS] : OPTIONS)
  if (!SHARDED.includes(options.format as never))
    throw wrongType(`${name}.options.format`, `one of ${SHARDED.join(', ')}`, options.format)
  for (const field of ['part', 'inputs'] as const)
    if (!isGguf && task[field] !== undefined) throw invalid(TypeError, `${name}.${field} is only for GGUF`)
  if (isGguf) validateGguf(name, task)
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

const five = (number: number): string => String(number).padStart(5, '0')

/** The name of a task's shard in zTensor 2: `00001-of-00003`. */
export function shardName({ task, count }: Pick<Task, 'task' | 'count'>): string {
  return `${five(task + 1)}-of-${five(count)}`
}

/** The path of a task's file. It is built from numbers, so that a task cannot name any other file. */
export function filePathOf({ target, options, task, count }: ConvertTask): string {
  if (count === 1) return target
  return siblingOf(target, `-${shardName({ task, count })}.${options.format ?? 'zt'}`)
}

/** The path of the file that is written last: the root, the index, or the only file. A set of GGUF has no such file. */
export function lastPathOf(target: string, format: ConvertTaskOptions['format'], count: number): string | undefined {
  if (count > 1 && format === 'gguf') return undefined
  if (count === 1 || format !== 'safetensors') return target
  return siblingOf(target, '.safetensors.index.json')
}

/** The digest algorithm for files: the one in zTensor 2's shard table. */
export function algorithmOf({ digest }: ConvertTaskOptions): 'sha256' | 'xxh3' {
  return digest === 'sha256' ? 'sha256' : 'xxh3'
}

/** Validates attributes that are stored in a job. */
export function jsonAttributes(attributes: ConvertOptions['attributes']): ConvertOptions['attributes'] {
  if (attributes === undefined || attributes === false) return attributes
  return jsonValue('attributes', attributes)
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
