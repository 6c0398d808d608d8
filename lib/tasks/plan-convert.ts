// Divides a conversion into tasks.
import { resolve } from 'node:path'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import type { RemoteOptions } from '../read/remote.js'
import { optional, readOptions, validateAbortSignal, validateBoolean, validateInteger } from '../values/arguments.js'
import type { AttributeValue } from '../values/attributes.js'
import { Casts } from '../values/cast.js'
import { tensorFilter } from '../values/filter.js'
import { shardedVersion, type Writing, writingOfId } from '../values/formats.js'
import { validateRenaming } from '../values/rename.js'
import { summary } from '../values/summary.js'
import type { Warning } from '../values/warning.js'
import { castOf, castTensors, dequantizedAs, needsCatalog } from '../write/casts.js'
import { CONVERT_OPTIONS, type ConvertOptions, validateDequantize } from '../write/convert-options.js'
import { cannotStore, fitAttributes } from '../write/fitted-attributes.js'
import { withFormat, writeRequest } from '../write/options.js'
import {
  bareOf,
  choose,
  newSelection,
  nothingLeft,
  refusal,
  refusalsOf,
  type Skips,
  skipping,
} from '../write/selection.js'
import {
  type ConvertJob,
  type ConvertTask,
  type ConvertTaskOptions,
  filePathOf,
  GGUF_OPTIONS,
  jobTarget,
  jsonAttributes,
  lastPathOf,
  SHARDED,
} from './convert-tasks.js'
import { divide, type Measure, plainMeasure } from './divide.js'
import { makeJob } from './format.js'
import { ggufOptions, planGguf } from './gguf-tasks.js'
import { Taken } from './ordinals.js'
import { openPlanned, type RemoteSource, type TaskSourceOptions } from './source.js'
import { isStored, isThere } from './stored.js'

/** The options of `convert`, and how to divide the work. Functions such as `filter` are called while the job is planned. */
export interface PlanConvertOptions extends Omit<ConvertOptions, 'source' | 'onProgress'>, TaskSourceOptions {
  /** Maximum size in bytes of an output file, and so of a task: 5 GB by default. A tensor is never divided. */
  maxShardBytes?: number | undefined
  /** Replace the shards of an abandoned job. An existing target is ZT_EXISTS nevertheless. */
  overwrite?: boolean | undefined
}

/** The default of `maxShardBytes`, as on the Hugging Face hub. */
const SHARD = 5e9

const PLAN_OPTIONS = [...CONVERT_OPTIONS.filter((name) => name !== 'onProgress'), 'checkModified'] as const

/** Upper bounds for the manifest of zTensor 2, in bytes: for each tensor in addition to its name, and for the manifest itself. */
const ENTRY = 512
const FRAME = 4096

/** Measures a whole zTensor 2 file: aligned blobs and the index. */
function alignedMeasure(most: number, alignment: number): Measure {
  const start = 8
  let [end, index] = [start, FRAME]
  const next = (at: number): number => Math.ceil(at / alignment) * alignment
  return {
    add: (bytes, name) => {
      const [newEnd, entries] = [next(end) + bytes, index + ENTRY + 2 * Buffer.byteLength(name)]
      if (end > start && next(newEnd) + entries > most) return false
      end = newEnd
      index = entries
      return true
    },
    next: () => {
      end = start
      index = FRAME
    },
  }
}

/** Returns a function for the written size of a tensor, after a cast. */
function sizes(catalog: Catalog, casts: Casts, dequantize: ConvertOptions['dequantize']): (ordinal: number) => number {
  return (ordinal) => {
    const cast = catalog.layout(ordinal) === 'dense' ? castOf(casts, catalog, ordinal) : undefined
    const bits = (cast ?? dequantizedAs(dequantize, catalog, ordinal))?.bits
    return bits === undefined ? catalog.byteLength(ordinal) : Math.ceil((catalog.elements(ordinal) * bits) / 8)
  }
}

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
  const most = optional(read.maxShardBytes, (value) => validateInteger('maxShardBytes', value, 1)) ?? SHARD
  const formatted = withFormat(read, path)
  const format = formatted.format ?? 'zt'
  if (!SHARDED.includes(format as never))
    throw invalid(
      TypeError,
      `the tasks of a job write zTensor 2, safetensors or GGUF, not ${format}: use convert on one machine`,
    )
  const version = formatted.version ?? shardedVersion(format)
  const own = jsonAttributes(read.attributes)
  const given = { ...formatted, format, version, maxShardBytes: most, attributes: own }
  const request = writeRequest({ ...given, attributes: own === false ? {} : own })
  const isGguf = format === 'gguf'
  const unusable = isGguf ? undefined : GGUF_OPTIONS.find((name) => read[name] !== undefined)
  if (unusable !== undefined)
    throw invalid(TypeError, `the tasks of a job support ${unusable} only for GGUF: use convert on one machine`)
  if (request.canonical) throw invalid(TypeError, 'a canonical file cannot be divided: set canonical: false')
  const casts = new Casts(read.cast, read.dtype)
  const { signal } = read
  const { file, source: from } = await openPlanned(source, read, signal)
  try {
    const outline = { file, path, most, skips, casts, read: { ...read, rename }, given, alignment: request.alignment }
    const { tasks, leftOut } = await (isGguf ? gguf(outline) : shards(outline))
    const job = makeJob<ConvertTask>('convert', from, [...file.warnings, ...leftOut.map(warningOf)], tasks)
    await checkFree(job, overwrite, read.remote, signal)
    return job
  } finally {
    file.close()
  }
}

/** What is planned. */
interface Outline {
  readonly file: TensorFile
  readonly path: string
  readonly most: number
  readonly skips: Skips
  readonly casts: Casts
  readonly read: PlanConvertOptions
  readonly given: ConvertOptions
  readonly alignment: number
}

/** The tasks of a job, and what they leave out. */
interface Planned {
  readonly tasks: Parameters<typeof makeJob<ConvertTask>>[3]
  readonly leftOut: readonly string[]
}

/** The options that the tasks of all formats have. */
function commonOptions(
  { digest, compression, alignment, cast, dtype, dequantize, strictAttributes, skip = false }: PlanConvertOptions,
  { format, version }: ConvertOptions,
  attributes: ConvertOptions['attributes'],
): ConvertTaskOptions {
  const stored = jsonAttributes(attributes)
  const how = { digest, compression, alignment, cast, dtype, dequantize, attributes: stored, strictAttributes, skip }
  return { format, version, ...(format === 'zt' ? { canonical: false } : {}), ...how }
}

/** Plans the files of a GGUF model. */
async function gguf({ file, path, most, skips, read, given }: Outline): Promise<Planned> {
  const options = { ...commonOptions(read, given, given.attributes), ...ggufOptions(read) }
  const planned = await planGguf(
    file,
    path,
    { ...given, rename: read.rename },
    plain(options) as ConvertTaskOptions,
    most,
    skips,
  )
  return { tasks: planned.tasks, leftOut: summary(planned.leftOut) }
}

/** Plans the shards of zTensor 2 or safetensors. */
async function shards({ file, path, most, skips, casts, read, given, alignment }: Outline): Promise<Planned> {
  const catalog = await TensorFile.ready(file, read.signal)
  const taken = new Taken(catalog)
  await choose(file, (ordinals, names) => taken.take(ordinals, names), read)
  const { attributes, leftOut } = await check(file, taken, casts, given, skips)
  const zt2 = given.format === 'zt'
  const measure = zt2 ? alignedMeasure(most, alignment) : plainMeasure(most)
  const name = (ordinal: number) => taken.name(ordinal)
  const parts = await divide(
    zt2 ? taken.byName() : taken.ordinals,
    measure,
    sizes(catalog, casts, read.dequantize),
    name,
  )
  const options = plain(commonOptions(read, given, attributes)) as ConvertTaskOptions
  const tasks = parts.map((part) => ({ target: path, options, ...part, renamed: taken.renamed(part) }))
  return { tasks, leftOut }
}

const warningOf = (message: string): Warning => ({ code: 'ZT_WARN_SKIPPED', message })

/** Whether a task can contain an attribute. */
function isPlainJson(key: AttributeValue, value: AttributeValue): boolean {
  try {
    return typeof key === 'string' && jsonAttributes({ [key]: value }) !== undefined
  } catch {
    return false
  }
}

/** Removes undefined properties, which JSON cannot represent. */
function plain(value: object): object {
  return JSON.parse(JSON.stringify(value)) as object
}

/**
 * Throws for tensors that no task could write. Returns the attributes of the target, undefined for those of the source, and which attributes
 * are left out.
 */
async function check(
  file: TensorFile,
  taken: Taken,
  casts: Casts,
  given: ConvertOptions,
  skips: Skips,
): Promise<{ attributes: ConvertOptions['attributes']; leftOut: readonly string[] }> {
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined, canonical: false })
  const store = TensorFile.storeOf(file)
  const selection = newSelection(casts, given, false)
  const names = taken.ordinals.map((ordinal) => taken.name(ordinal))
  rethrowNative(() => selection.take(Uint32Array.from(taken.ordinals), names))
  if (needsCatalog(casts)) await castTensors(selection, casts, await TensorFile.ready(file, given.signal))
  const { signal, strictAttributes: strict = false } = given
  const selected = await run(store, { signal }, (control) =>
    selection.look(store.native, writeFormat, canonical, strict, control),
  )
  const own = given.attributes === undefined
  const refused = await refusalsOf(selection, own && strict)
  const writing = writingOfId(writeFormat) as Writing
  const failed = refused.filter((error) => !skips(error))
  if (failed.length > 0) throw refusal(failed, writing.title)
  const left = refused.filter(({ tensor }) => tensor !== undefined).length
  if (left > 0 && left === selected.tensors) throw nothingLeft(refused)
  const bare = await bareOf(selection)
  if (!own || selected.attributes) return { attributes: given.attributes, leftOut: summary(bare) }
  // `skip` leaves out what `strictAttributes` refuses.
  if (strict) return { attributes: {}, leftOut: summary(refused.filter(({ tensor }) => tensor === undefined)) }
  const fitted = fitAttributes(file.attributes, writing, canonical)
  const [plain, other] = [new Map<AttributeValue, AttributeValue>(), [] as AttributeValue[]]
  for (const [key, value] of fitted.attributes) {
    if (isPlainJson(key, value)) plain.set(key, value)
    else other.push(key)
  }
  const dropped = other.length > 0 ? [cannotStore('a job, which is JSON,', other)] : []
  return { attributes: Object.fromEntries(plain), leftOut: summary([...bare, ...fitted.skipped, ...dropped]) }
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
  const [{ target, options, count }] = tasks as [ConvertTask]
  const last = lastPathOf(target, options.format, count)
  const hint =
    'remove it and its shards first, because it would refer to a mixture of old and new files while the tasks run'
  for (const path of new Set([target, ...(last === undefined ? [] : [last])])) {
    if (await isThere(path, remote, signal)) throw new ZTensorError('ZT_EXISTS', `'${path}' exists: ${hint}`)
  }
  // A complete set of GGUF has no other file that says so.
  const isSet = last === undefined && (await allThere(tasks.map(filePathOf), remote, signal))
  if (isSet) throw new ZTensorError('ZT_EXISTS', `the files of '${target}' exist: remove them first`)
  if (overwrite) return
  for (let from = 0; from < tasks.length; from += LANES) {
    const paths = tasks.slice(from, from + LANES).map(filePathOf)
    const there = await Promise.all(paths.map((path) => isThere(path, remote, signal)))
    const at = there.indexOf(true)
    if (at >= 0)
      throw new ZTensorError('ZT_EXISTS', `'${paths[at]}' exists (option overwrite replaces the shards of another job)`)
  }
}
