// Divides a conversion into tasks.
import { resolve } from 'node:path'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding } from '../native/native.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import type { RemoteOptions } from '../read/remote.js'
import {
  optional,
  readOptions,
  validateAbortSignal,
  validateBoolean,
  validateFunction,
  validateInteger,
} from '../values/arguments.js'
import { dtypes } from '../values/dtype.js'
import { CONVERT_OPTIONS, type ConvertOptions, castCodes, choose, refusal, refusalsOf } from '../write/convert.js'
import { withFormat, writeRequest } from '../write/options.js'
import {
  type ConvertJob,
  type ConvertTask,
  type ConvertTaskOptions,
  filePathOf,
  jobTarget,
  jsonAttributes,
  lastPathOf,
} from './convert-tasks.js'
import { divide, type Measure, type Part, plainMeasure } from './divide.js'
import { makeJob } from './format.js'
import { openPlanned, type RemoteSource, type TaskSourceOptions } from './source.js'
import { isStored, isThere } from './stored.js'

/** What to convert, and into what, as `convert` takes it. The functions are called while the job is planned. */
export interface PlanConvertOptions extends Omit<ConvertOptions, 'source' | 'onProgress'>, TaskSourceOptions {
  /** Bytes of an output file, and so of a task: 5 GB by default. One tensor is never divided. */
  maxShardBytes?: number | undefined
  /** Replace the shards of an earlier job that was given up. A target that is there is ZT_EXISTS all the same. */
  overwrite?: boolean | undefined
}

/** As the Hugging Face hub divides models. */
const SHARD = 5e9

const PLAN_OPTIONS = [...CONVERT_OPTIONS.filter((name) => name !== 'onProgress'), 'checkModified'] as const

/** Bytes that a manifest of zTensor 2 has for a tensor beside its name, and for its whole: more than they are. */
const ENTRY = 512
const FRAME = 4096

/** Counts a whole zTensor 2 file: blobs that are aligned, and their index. */
function alignedMeasure(most: number, alignment: number): Measure {
  const start = 8
  let [end, index] = [start, FRAME]
  const next = (at: number): number => Math.ceil(at / alignment) * alignment
  return {
    add: (bytes, name) => {
      const [behind, entries] = [next(end) + bytes, index + ENTRY + 2 * Buffer.byteLength(name)]
      if (end > start && next(behind) + entries > most) return false
      end = behind
      index = entries
      return true
    },
    next: () => {
      end = start
      index = FRAME
    },
  }
}

/** Bytes of a tensor as it is written: a cast changes them. */
function sizes(catalog: Catalog, casts: readonly number[]): (ordinal: number) => number {
  const cast = new Map<number, number>()
  for (let at = 0; at < casts.length; at += 2) cast.set(casts[at] as number, casts[at + 1] as number)
  return (ordinal) => {
    const to = cast.get(catalog.dtype(ordinal)?.code ?? -1)
    const bits = to === undefined || catalog.layout(ordinal) !== 'dense' ? undefined : dtypes[to]?.bits
    return bits === undefined ? catalog.byteLength(ordinal) : Math.ceil((catalog.elements(ordinal) * bits) / 8)
  }
}

/** The tensors that are taken, by their new names. */
class Taken {
  readonly ordinals: number[] = []
  readonly #names = new Map<number, string>()
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  take(ordinals: Uint32Array, names: readonly string[]): void {
    for (const [at, ordinal] of ordinals.entries()) {
      this.ordinals.push(ordinal)
      const name = names[at]
      if (name !== undefined && name !== this.#catalog.name(ordinal)) this.#names.set(ordinal, name)
    }
  }

  name(ordinal: number): string {
    return this.#names.get(ordinal) ?? this.#catalog.name(ordinal)
  }

  /** The new names of a part. */
  renamed({ ordinals }: Part): [number, string][] {
    const pairs: [number, string][] = []
    for (const [from, end] of ordinals) {
      for (let ordinal = from; ordinal < end; ordinal++) {
        const name = this.#names.get(ordinal)
        if (name !== undefined) pairs.push([ordinal, name])
      }
    }
    return pairs
  }

  /** In the order of canonical files, as zTensor 2 is written: by the bytes of the names. */
  byName(): number[] {
    const keyed = this.ordinals.map((ordinal) => ({ ordinal, key: Buffer.from(this.name(ordinal)) }))
    return keyed.sort((a, b) => Buffer.compare(a.key, b.key)).map(({ ordinal }) => ordinal)
  }
}

/** `planJob` of a conversion. */
export async function planConvert(
  source: RemoteSource,
  target: string | URL,
  options?: PlanConvertOptions,
): Promise<ConvertJob> {
  const read = readOptions<PlanConvertOptions>(options, PLAN_OPTIONS)
  const named = jobTarget(target, read.format)
  const path = isStored(named) ? named : resolve(named)
  optional(read.filter, (value) => validateFunction('filter', value))
  optional(read.rename, (value) => validateFunction('rename', value))
  optional(read.signal, validateAbortSignal)
  const skip = optional(read.skip, (value) => validateBoolean('skip', value)) ?? false
  const overwrite = optional(read.overwrite, (value) => validateBoolean('overwrite', value)) ?? false
  const most = optional(read.maxShardBytes, (value) => validateInteger('maxShardBytes', value, 1)) ?? SHARD
  const formatted = withFormat(read, path)
  const format = formatted.format ?? 'zt'
  // The zTensor version that has shards.
  const versioned = format === 'zt' ? { version: formatted.version ?? '2' } : { version: formatted.version }
  const given = { ...formatted, format, ...versioned, maxShardBytes: most, attributes: jsonAttributes(read.attributes) }
  const request = writeRequest(given)
  if (request.canonical)
    throw invalid(TypeError, 'a canonical file is one file: its shards are written with canonical: false')
  const casts = castCodes(read.cast)
  const { signal } = read
  const { file, source: from } = await openPlanned(source, read, signal)
  try {
    const catalog = await TensorFile.ready(file, signal)
    const taken = new Taken(catalog)
    await choose(file, (ordinals, names) => taken.take(ordinals, names), read)
    const attributes = await check(file, taken, casts, given, skip)
    const zt2 = format === 'zt'
    const measure = zt2 ? alignedMeasure(most, request.alignment) : plainMeasure(most)
    const name = (ordinal: number) => taken.name(ordinal)
    const parts = await divide(zt2 ? taken.byName() : taken.ordinals, measure, sizes(catalog, casts), name)
    const { digest, compression, alignment, cast } = read
    const kept = { format, ...versioned, ...(zt2 ? { canonical: false } : {}), digest, compression, alignment, cast }
    const taskOptions = plain({ ...kept, attributes, skip }) as ConvertTaskOptions
    const tasks = parts.map((part) => ({ target: path, options: taskOptions, ...part, renamed: taken.renamed(part) }))
    const job = makeJob<ConvertTask>('convert', from, file.warnings, tasks)
    await checkFree(job, overwrite, read.remote, signal)
    return job
  } finally {
    file.close()
  }
}

/** Without what is undefined, which JSON has not. */
function plain(value: object): object {
  return JSON.parse(JSON.stringify(value)) as object
}

/**
 * Refuses now what no task could write. Gives the attributes of the target: undefined for the source's own, none where these cannot be
 * held and may be left out.
 */
async function check(
  file: TensorFile,
  taken: Taken,
  casts: number[],
  given: ConvertOptions,
  skip: boolean,
): Promise<ConvertOptions['attributes']> {
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined, canonical: false })
  const store = TensorFile.storeOf(file)
  const selection = rethrowNative(() => new binding.Selection(casts, false))
  const names = taken.ordinals.map((ordinal) => taken.name(ordinal))
  rethrowNative(() => selection.take(Uint32Array.from(taken.ordinals), names))
  const { signal } = given
  const told = await run(store, { signal }, (control) => selection.look(store.native, writeFormat, canonical, control))
  const own = given.attributes === undefined
  const refused = await refusalsOf(selection, own)
  if (refused.length > 0 && !skip) throw refusal(refused, writeFormat)
  return own && !told.attributes ? {} : given.attributes
}

/** Files of a store that are asked for at once. */
const LANES = 16

/** Refuses a target that is there: while the tasks run, its old index would name new files. */
async function checkFree(
  { tasks }: ConvertJob,
  overwrite: boolean,
  remote: RemoteOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [{ target, options, count }] = tasks as [ConvertTask]
  const last = lastPathOf(target, options.format, count)
  const hint = 'remove it first, with its shards: while the tasks run it would name a mixture of old and new files'
  for (const path of new Set([target, last])) {
    if (await isThere(path, remote, signal)) throw new ZTensorError('ZT_EXISTS', `'${path}' exists: ${hint}`)
  }
  if (overwrite) return
  for (let from = 0; from < tasks.length; from += LANES) {
    const paths = tasks.slice(from, from + LANES).map(filePathOf)
    const there = await Promise.all(paths.map((path) => isThere(path, remote, signal)))
    const at = there.indexOf(true)
    if (at >= 0)
      throw new ZTensorError('ZT_EXISTS', `'${paths[at]}' exists (option overwrite replaces the shards of another job)`)
  }
}
