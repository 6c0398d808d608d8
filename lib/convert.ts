import type { Writable } from 'node:stream'
import { aBoolean, aFunction, anObject, aText, optional, options, wrongType } from './arguments.js'
import { type DType, dtypeInfo } from './dtype.js'
import { calling, type ErrorCode, type NativeError, ZTensorError } from './errors.js'
import { TensorFile } from './file.js'
import { type JobOptions, type Progress, run } from './job.js'
import { binding, type NativeOutflow, type NativeWriter } from './native.js'
import { type OpenOptions, open, type Source } from './open.js'
import type { Outlet } from './outlet.js'
import { urlText } from './realm.js'
import type { AnyTensor } from './tensor.js'
import { bytesIn, jobOptions } from './verify.js'
import { type CreateOptions, writeRequest } from './write-options.js'
import { aTarget, TensorWriter } from './writer.js'

/** What to convert, and into what. The file's own attributes and generator go along unless others are given. */
export interface ConvertOptions extends CreateOptions, JobOptions {
  /** How to open the source. */
  source?: OpenOptions | undefined
  /** Which tensors to take; all by default. */
  filter?: ((tensor: AnyTensor) => boolean) | undefined
  /** New names. BTF has none: there tensors are numbered. */
  rename?: ((name: string) => string) | undefined
  /**
   * Which dtypes become which, in dense tensors and in the values of sparse ones: `{ float32: 'bfloat16' }`. Floats (float64,
   * float32, float16, bfloat16, float8_e4m3fn, float8_e5m2) among each other, whatever widens to float32 into them, integers
   * into wider ones. Rounds to the nearest, ties to even; what is too large becomes infinite, in float8_e4m3fn NaN. Other
   * dtypes, and the components of any other layout, stay as they are.
   */
  cast?: { readonly [From in DType]?: DType | undefined } | undefined
  /** Leave out the tensors that the target cannot hold, for their type, layout, name or data, rather than refuse the whole. */
  skip?: boolean | undefined
}

/** What was converted. */
export interface ConvertResult {
  /** Tensors written. */
  readonly tensors: number
  /** What was left out, and why. Empty unless `skip` was given. */
  readonly skipped: readonly ZTensorError[]
  /** Which programs read the file. */
  readonly readers: readonly string[]
}

const readers: Record<string, readonly string[]> = {
  '0.1': ['ztensor for Python 0.1.x', 'this package'],
  '1.0': ['ztensor for Python 1.0.0 and 1.0.1', 'this package'],
  '1.2': ['ztensor for Python 1.0.2 to 1.2.3', 'this package'],
  2: ['ztensor for Python 2.x', 'this package'],
  safetensors: ['safetensors for Python', 'every other reader of safetensors', 'this package'],
  btf: ['readers of BTF', 'this package'],
}

/** The format that a path's ending names. */
function formatOf(path: string | undefined): 'safetensors' | 'btf' | undefined {
  if (path?.endsWith('.safetensors')) return 'safetensors'
  return path?.endsWith('.btf') ? 'btf' : undefined
}

/** The codes of a table of casts, as the binding takes them. */
function castCodes(cast: ConvertOptions['cast']): number[] {
  if (cast === undefined) return []
  const code = (value: unknown) => {
    const info = typeof value === 'string' ? dtypeInfo(value) : undefined
    if (info === undefined) throw wrongType('cast', 'a table of dtypes, such as { float32: "bfloat16" }', value)
    return info.code
  }
  const given = Object.entries(anObject('cast', cast)).filter(([, to]) => to !== undefined)
  return given.flatMap(([from, to]) => [code(from), code(to)])
}

/** The error of a source that the target cannot hold: all reasons at once. */
function refusal(refusals: readonly ZTensorError[], target: string): ZTensorError {
  const [first] = refusals as [ZTensorError]
  const shown = refusals.slice(0, 20).map((error) => error.message)
  const more = refusals.length > shown.length ? `; and ${refusals.length - shown.length} more` : ''
  const message = `${target} cannot hold all of the source (option skip leaves it out): ${shown.join('; ')}${more}`
  const { code, tensor, component, rule } = first
  return new ZTensorError(code, message, { tensor, component, rule, cause: refusals })
}

/**
 * Writes the tensors of a file into a new file of any format that can be written. Raw data passes in pieces, whatever
 * its size; digests of the source are checked on the way. Into a Node Writable, formats whose index comes first
 * (safetensors, BTF) and canonical zTensor 2 cannot be written; it is ended, or destroyed where the work fails halfway.
 *
 * @throws ZTensorError what `open`, `load` and `create` throw; where the target cannot hold something, an error
 * that lists it, before anything is written; the signal's reason. The target is then as it was.
 */
export async function convert(
  source: Source,
  target: string | URL | Writable,
  given?: ConvertOptions,
): Promise<ConvertResult> {
  const read = options(given, ['source', 'filter', 'rename', 'skip', 'cast', 'overwrite'])
  const begin = aTarget('target', target, read.overwrite)
  const job = jobOptions(given)
  optional(read.filter, (value) => aFunction('filter', value))
  optional(read.rename, (value) => aFunction('rename', value))
  const skip = optional(read.skip, (value) => aBoolean('skip', value)) ?? false
  const file = await open(source, { ...read.source, signal: job.signal })
  try {
    const format = given?.format ?? formatOf(typeof target === 'string' ? target : urlText(target))
    return await convertFile(file, begin, { ...given, format }, job, skip)
  } finally {
    file.close()
  }
}

/** A tensor of the source, and the name that it gets. */
interface Chosen {
  readonly ordinal: number
  readonly name: string
  readonly to: string
}

/** The tensors to take. A new name that stands twice is refused here, before anything is written. */
function choose(file: TensorFile, { filter, rename }: ConvertOptions, numbered: boolean): Chosen[] {
  const chosen: Chosen[] = []
  const names = new Set<string>()
  let ordinal = -1
  // No objects are made of tensors that nobody looks at.
  for (const one of filter === undefined ? file.keys() : file.values()) {
    ordinal += 1
    if (typeof one !== 'string' && !filter?.(one)) continue
    const name = typeof one === 'string' ? one : one.name
    if (rename === undefined || numbered) {
      chosen.push({ ordinal, name, to: name })
      continue
    }
    const to = aText('what rename gives', rename(name))
    if (names.has(to)) {
      const message = `rename calls a second tensor ${JSON.stringify(to)}`
      throw new ZTensorError('ZT_BAD_INDEX', message, { tensor: name })
    }
    names.add(to)
    chosen.push({ ordinal, name, to })
  }
  return chosen
}

/** In the order of canonical files, by the bytes of the names: their blobs then need not be moved at the end. */
function canonically(chosen: readonly Chosen[]): Chosen[] {
  const all = chosen.map((one) => ({ one, bytes: Buffer.from(one.to) }))
  return all.sort((a, b) => Buffer.compare(a.bytes, b.bytes)).map(({ one }) => one)
}

/** In the order of the tensors; last what is of the file. */
function inOrder(refusals: readonly ZTensorError[], chosen: readonly Chosen[]): ZTensorError[] {
  const places = new Map<string | undefined, number>(chosen.map(({ name }, at) => [name, at]))
  const place = ({ tensor }: ZTensorError): number => places.get(tensor) ?? chosen.length
  return [...refusals].sort((a, b) => place(a) - place(b))
}

/** Whatever their code, they say which tensor they are of: it is by that that they are left out. */
function asErrors(found: readonly NativeError[]): ZTensorError[] {
  return found.map(({ code, message, ...where }) => new ZTensorError(code as ErrorCode, message, where))
}

/** What is to be made of a file. */
interface Work {
  readonly file: TensorFile
  readonly writer: TensorWriter
  readonly native: NativeWriter
  readonly outlet: Outlet | undefined
  readonly casts: number[]
  readonly job: JobOptions
}

/** Which of the tensors of some ordinals cannot be held for their data; `bytes` are to be copied later. */
async function judge({ file, native, casts, job }: Work, judged: number[], bytes: number, tensors: number) {
  const store = TensorFile.storeOf(file)
  let done = 0
  const onProgress = ({ bytes: read, totalBytes }: Progress): void => {
    done = totalBytes
    job.onProgress?.({ bytes: read, totalBytes: totalBytes + bytes, tensors: 0, totalTensors: tensors })
  }
  const look = (ordinals: number[], options: JobOptions, stage?: Awaited<ReturnType<typeof store.stage>>) => {
    const request = { ordinals: Uint32Array.from(ordinals), names: [], casts }
    // It makes files without a name beside the target.
    return run(store, options, (control) => native.judge(store.native, request, control, stage), 'when undone')
  }
  if (store.memory === undefined) {
    const found = await look(judged, job.onProgress === undefined ? job : { ...job, onProgress })
    return { refusals: asErrors(found), bytes: done }
  }
  const found: NativeError[] = []
  for (const ordinal of judged) {
    const stage = await store.stage(ordinal, undefined, job.signal)
    found.push(...(await look([ordinal], { signal: job.signal }, stage)))
  }
  return { refusals: asErrors(found), bytes: 0 }
}

/** Copies tensors under their names; `before` are the bytes that were read before. */
async function copy(
  { file, writer, native, outlet, casts, job }: Work,
  taken: Chosen[],
  named: boolean,
  before: number,
) {
  const store = TensorFile.storeOf(file)
  const some = (tensors: Chosen[], options: JobOptions, stage?: Awaited<ReturnType<typeof store.stage>>) => {
    const ordinals = Uint32Array.from(tensors, (one) => one.ordinal)
    // Their own names need not cross.
    const request = { ordinals, names: named ? tensors.map((one) => one.to) : [], casts }
    const make = (blocks?: NativeOutflow, signal = options.signal) =>
      run(
        store,
        { ...options, signal },
        (control) => native.copy(store.native, request, control, stage, blocks),
        'when undone',
      )
    // In the writer's turn, so that giving the file up waits until nothing works on it.
    return TensorWriter.during(writer, () => (outlet === undefined ? make() : outlet.pass(make, options.signal)))
  }
  const { onProgress } = job
  if (store.memory === undefined) {
    const shifted = (progress: Progress): void =>
      onProgress?.({ ...progress, bytes: before + progress.bytes, totalBytes: before + progress.totalBytes })
    await some(taken, onProgress === undefined ? job : { ...job, onProgress: shifted })
    return
  }
  const totalBytes = taken.reduce((total, one) => total + bytesIn(store.ranges(one.ordinal)), 0)
  let progress: Progress = { bytes: 0, totalBytes, tensors: 0, totalTensors: taken.length }
  for (const [at, one] of taken.entries()) {
    await some([one], { signal: job.signal }, await store.stage(one.ordinal, undefined, job.signal))
    const bytes = progress.bytes + bytesIn(store.ranges(one.ordinal))
    progress = { ...progress, bytes, tensors: at + 1 }
    onProgress?.(progress)
  }
}

async function convertFile(
  file: TensorFile,
  begin: (signal?: AbortSignal) => Promise<string | Outlet>,
  given: ConvertOptions,
  job: JobOptions,
  skip: boolean,
): Promise<ConvertResult> {
  const { attributes } = given
  const store = TensorFile.storeOf(file)
  const casts = castCodes(given.cast)
  // The target's own options are checked without the source's attributes, which may have to be left out.
  const { dialect, canonical } = writeRequest({ ...given, attributes: undefined })
  const numbered = dialect === 'btf'
  const chosen = choose(file, given, numbered)
  const ordinals = Uint32Array.from(chosen, (one) => one.ordinal)
  calling(() => store.native.checkTotal(ordinals, 'copy'), store.path)
  const renamed = given.rename === undefined ? [] : chosen.map((one) => one.to)
  const asked = { ordinals, names: renamed, casts }
  const told = calling(() => binding.refusals(store.native, asked, dialect, canonical))
  const refused = asErrors(told.refused)
  let skipped = attributes === undefined ? refused : refused.filter((error) => error.tensor !== undefined)
  const refuse = () => {
    if (skipped.length > 0 && !skip) throw refusal(skipped, dialect)
  }
  if (told.judged.length === 0) refuse()
  const generator = given.generator ?? (dialect === '1.0' ? file.generator : undefined)
  const writer = await TensorWriter.make(await begin(job.signal), writeRequest({ ...given, generator }), job.signal)
  const { native, outlet } = TensorWriter.partsOf(writer)
  const work = { file, writer, native, outlet, casts, job }
  try {
    let before = 0
    if (told.judged.length > 0) {
      try {
        const later = job.onProgress === undefined ? [] : chosen
        const bytes = later.reduce((total, one) => total + bytesIn(store.ranges(one.ordinal)), 0)
        const found = await judge(work, told.judged, bytes, chosen.length)
        before = found.bytes
        skipped = inOrder([...skipped, ...found.refusals], chosen)
        refuse()
      } catch (error) {
        // Nothing has come to a stream yet.
        outlet?.release()
        throw error
      }
    }
    // From now on: what is given up before it has left a stream as it was.
    await TensorWriter.heed(writer)
    const left = new Set(skipped.map((error) => error.tensor))
    const kept = left.size === 0 ? chosen : chosen.filter(({ name }) => !left.has(name))
    const ordered = dialect === '2' ? canonically(kept) : kept
    const taken = numbered ? ordered.map((one, at) => ({ ...one, to: String(at) })) : ordered
    if (attributes === undefined && !left.has(undefined)) calling(() => native.takeAttributes(store.native))
    await copy(work, taken, given.rename !== undefined || numbered, before)
    await writer.finish()
    return { tensors: taken.length, skipped, readers: readers[dialect] as readonly string[] }
  } catch (error) {
    await writer.abort()
    throw error
  }
}
