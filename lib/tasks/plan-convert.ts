// Divides a conversion into tasks.
import { resolve } from 'node:path'
import { CONVERT_OPTIONS, type ConvertOptions, validateDequantize } from '../convert/options.js'
import { type Conversion, planConversion } from '../convert/plan.js'
import { leftOutOf, skipping } from '../convert/refusals.js'
import { invalid, optionHint, publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding, type PlannedFile } from '../native/native.js'
import { isMap } from '../native/realm.js'
import { TensorFile } from '../read/file.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateInteger,
  validateText,
} from '../values/arguments.js'
import { type AttributeChanges, type AttributeValueInput, freezeChanges } from '../values/attribute-input.js'
import { tensorFilter } from '../values/filter.js'
import type { WritableVersion } from '../values/format-table.js'
import { isSharded, list, shardedWriting, titlesWith, type Writing } from '../values/formats.js'
import type { RemoteOptions } from '../values/remote.js'
import { validateRenaming } from '../values/rename.js'
import { summary } from '../values/summary.js'
import type { Warning } from '../values/warning.js'
import { metadataOf, writeRequest } from '../write/options.js'
import { withFormat } from '../write/path.js'
import {
  type ConvertJob,
  type ConvertTask,
  type ConvertTaskOptions,
  filePathOf,
  jobTarget,
  jsonValue,
  lastPathOf,
  type MetadataPairs,
  WHOLE_OPTIONS,
} from './convert-tasks.js'
import { checkOrdinals, rangesOf } from './divide.js'
import { makeJob } from './format.js'
import { inputsOf } from './job-tensors.js'
import { isStored, isThere, openPlanned, type RemoteSource, type TaskSourceOptions } from './source.js'

/** The options of `convert`, and how to divide the work. Functions such as `filter` are called while the job is planned. */
export interface PlanConvertOptions
  extends Omit<ConvertOptions, 'source' | 'onProgress' | 'dryRun'>,
    TaskSourceOptions {
  /** Maximum size in bytes of an output file, and so of a task: 5 GB by default. A tensor is never divided. */
  maxShardBytes?: number | undefined
  /** Replace the shards of an abandoned job. An existing target is ZT_EXISTS nevertheless. */
  overwrite?: boolean | undefined
}

/** The default of `maxShardBytes`, as on the Hugging Face hub. */
const SHARD = 5e9

const PLAN_OPTIONS = [
  ...CONVERT_OPTIONS.filter((name) => name !== 'onProgress' && name !== 'dryRun'),
  'checkModified',
] as const

/** `planJob` of a conversion. */
export async function planConvert(
  source: RemoteSource,
  target: string | URL,
  options?: PlanConvertOptions,
): Promise<ConvertJob> {
  const read = readOptions<PlanConvertOptions>(options, PLAN_OPTIONS, 'options', { onProgress: 'runTask' })
  const named = jobTarget(target, read.format)
  const path = isStored(named) ? named : resolve(named)
  tensorFilter(read.filter)
  const rename = optional(read.rename, validateRenaming)
  optional(read.signal, validateAbortSignal)
  optional(read.dequantize, validateDequantize)
  const skips = skipping(read.skip)
  const overwrite = optional(read.overwrite, (value) => validateBoolean('overwrite', value)) ?? false
  const max = optional(read.maxShardBytes, (value) => validateInteger('maxShardBytes', value, 1)) ?? SHARD
  const formatted = withFormat(read, path)
  const format = formatted.format ?? 'zt'
  const sharded = shardedWriting(format)
  if (sharded === undefined) {
    const known = list(titlesWith(isSharded), 'or')
    throw invalid(TypeError, `the tasks of a job write ${known}, not ${format}: use convert on one machine`)
  }
  const version = formatted.version ?? (sharded.version as WritableVersion | undefined)
  const given: ConvertOptions = { ...formatted, format, version, maxShardBytes: max, rename }
  const request = writeRequest(given)
  const unusable = sharded.shards === 'numbers' ? undefined : WHOLE_OPTIONS.find((name) => read[name] !== undefined)
  if (unusable !== undefined) {
    const known = list(titlesWith(({ shards }) => shards === 'numbers'))
    throw invalid(TypeError, `the tasks of a job support ${unusable} only for ${known}: use convert on one machine`)
  }
  if (request.canonical) {
    const hint = optionHint('canonical', ': set canonical: false')
    throw invalid(TypeError, `a canonical file cannot be divided${hint.text}`, { hints: [hint] })
  }
  const stored = plain(taskOptions(sharded, read, given)) as ConvertTaskOptions
  const { signal } = read
  const { file, source: from } = await openPlanned(source, read, signal)
  try {
    const conversion = await planConversion(file, given)
    const { refused, others } = await leftOutOf(conversion, given, skips)
    checkMetadata(conversion, given)
    const store = TensorFile.storeOf(file)
    const files = await run(store, { signal }, (control) =>
      conversion.native.files(store.native, request.writeFormat, request.alignment, max, control),
    )
    const inputs = await inputsOf(conversion, stored, signal)
    const tasks = tasksOf(file, conversion, files, { target: path, options: stored, ...plain({ inputs }) })
    const warnings = summary([...refused, ...others]).map((message): Warning => ({ code: 'ZT_WARN_SKIPPED', message }))
    const job = makeJob<ConvertTask>('convert', from, [...file.warnings, ...warnings], tasks)
    await checkFree(job, overwrite, read.remote, signal)
    return job
  } finally {
    file.close()
  }
}

/** Validates metadata that is stored in a job. A key without a value is removed. */
function metadataPairs(value: unknown): MetadataPairs {
  const metadata = value as AttributeChanges
  freezeChanges('metadata', metadata)
  const entries: Iterable<[unknown, unknown]> = isMap(metadata) ? metadata : Object.entries(metadata)
  return Array.from(entries, ([key, value]): readonly [string, AttributeValueInput?] => {
    const name = validateText('a key of metadata', key)
    return value === undefined ? [name] : [name, jsonValue('metadata', value) as AttributeValueInput]
  })
}

/** Options that a task stores unchanged, in the order of its JSON. */
const AS_GIVEN = [
  'digest',
  'compression',
  'alignment',
  'cast',
  'dtype',
  'dequantize',
  'copyMetadata',
  'copyAttributes',
  'strictMetadata',
] as const

/** The options of each task. Machines find an importance matrix by its absolute path, and the file names it as `convert` does. */
function taskOptions(
  { canonical, shards }: Writing,
  read: PlanConvertOptions,
  { format, version }: ConvertOptions,
): object {
  const given = Object.fromEntries(AS_GIVEN.map((option) => [option, read[option]]))
  const how = { ...given, skip: read.skip ?? false, metadata: optional(read.metadata, metadataPairs) }
  const common = { format, version, ...(canonical ? { canonical: false } : {}), ...how }
  if (shards !== 'numbers') return common
  const { quantize, requantize, checkpoint } = read
  const imatrix = optional(read.imatrix, (value) => validateText('imatrix', value))
  return {
    ...common,
    quantize,
    requantize,
    checkpoint,
    imatrix: imatrix === undefined ? undefined : resolve(imatrix),
    imatrixName: imatrix,
  }
}

/** Throws for metadata that no task could write. */
function checkMetadata({ writing, canonical }: Conversion, given: ConvertOptions): void {
  const { set } = freezeChanges('metadata', metadataOf(writing, given) ?? {})
  const wrong = rethrowNative(() => binding.attributeRefusal(writing.id, canonical, set))
  if (wrong !== null) throw publicError(wrong)
}

const pairsOf = (ranges: Uint32Array): [number, number][] =>
  Array.from({ length: ranges.length / 2 }, (_, at) => [ranges[2 * at] as number, ranges[2 * at + 1] as number])

/** The tasks that write the files. */
function tasksOf(
  { size }: TensorFile,
  { writing, checkpoint, stated }: Conversion,
  files: readonly PlannedFile[],
  { options, ...common }: Pick<ConvertTask, 'target' | 'options' | 'inputs'>,
): Parameters<typeof makeJob<ConvertTask>>[3] {
  const own = files.map(({ ordinals, renamed, byteLength }) => ({
    ordinals: pairsOf(ordinals),
    renamed: renamed.map(({ ordinal, name }): [number, string] => [ordinal, name]),
    byteLength,
  }))
  if (writing.shards !== 'numbers') {
    const types = Object.entries(stated ?? {}).map(([key, value]) => (value === undefined ? [key] : [key, value]))
    const shared = types.length === 0 ? common : { ...common, stated: types as unknown as MetadataPairs }
    return own.map((task) => ({ ...shared, options, ...task }))
  }
  // The types and the order of tensors depend on all of them, and each file states its place in the set.
  const chosen = checkpoint === undefined ? own.flatMap(({ ordinals }) => ordinals) : [[0, size] as const]
  const ordinals = rangesOf(checkOrdinals(chosen, size))
  const renamed = own.flatMap(({ renamed }) => renamed).sort(([a], [b]) => a - b)
  const whole = { ...options, checkpoint: checkpoint !== undefined }
  return files.map(({ from, end, byteLength }) => ({
    ...common,
    options: whole,
    ordinals,
    renamed,
    byteLength,
    part: [from, end] as const,
  }))
}

/** Removes undefined properties, which JSON cannot represent. */
function plain(value: object): object {
  return JSON.parse(JSON.stringify(value)) as object
}

/** Whether all files exist. */
async function allThere(
  paths: readonly string[],
  remote: RemoteOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for (const path of paths) if (!(await isThere(path, remote, signal))) return false
  return true
}

/** Files of an object store that are checked concurrently. */
const LANES = 16

/** Throws ZT_EXISTS if the target exists: while the tasks run, its old index would refer to new files. */
async function checkFree(
  { tasks }: ConvertJob,
  overwrite: boolean,
  remote: RemoteOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [first] = tasks as [ConvertTask]
  const { target } = first
  const last = lastPathOf(first)
  const hint =
    'remove it and its shards first, because it would refer to a mixture of old and new files while the tasks run'
  for (const path of new Set([target, ...(last === undefined ? [] : [last])])) {
    if (await isThere(path, remote, signal)) throw new ZTensorError('ZT_EXISTS', `'${path}' exists: ${hint}`)
  }
  // No other file says that such a set is complete.
  const isSet = last === undefined && (await allThere(tasks.map(filePathOf), remote, signal))
  if (isSet) throw new ZTensorError('ZT_EXISTS', `the files of '${target}' exist: remove them first`)
  if (overwrite) return
  for (let from = 0; from < tasks.length; from += LANES) {
    const paths = tasks.slice(from, from + LANES).map(filePathOf)
    const there = await Promise.all(paths.map((path) => isThere(path, remote, signal)))
    const at = there.indexOf(true)
    if (at < 0) continue
    const replace = optionHint('overwrite', ' (option overwrite replaces the shards of another job)')
    throw new ZTensorError('ZT_EXISTS', `'${paths[at]}' exists${replace.text}`, { hints: [replace] })
  }
}
