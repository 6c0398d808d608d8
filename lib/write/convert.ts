import type { Writable } from 'node:stream'
import { type ErrorCode, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, type Progress, run } from '../native/job.js'
import {
  binding,
  type NativeOutflow,
  type NativeSelection,
  type NativeWriter,
  type Selected,
} from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import { everything, inBatches, TURN } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import type { Source } from '../read/source.js'
import type { Store } from '../read/store.js'
import type { AnyTensor } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import {
  optional,
  readOptions,
  validateBoolean,
  validateFunction,
  validateText,
  wrongType,
} from '../values/arguments.js'
import type { DType } from '../values/dtype.js'
import { validateDType } from '../values/elements.js'
import { type Writing, writingOfId } from '../values/formats.js'
import type { Warning } from '../values/warning.js'
import { CREATE_OPTIONS, type CreateOptions, withFormat, writeRequest } from './options.js'
import type { Outlet } from './outlet.js'
import { readersOf } from './readers.js'
import { type Target, validateTarget } from './target.js'
import { TensorWriter } from './writer.js'

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
  /**
   * Leave out what the target cannot hold, rather than refuse the whole: tensors, for their type, layout, name or data, and the
   * attributes of the file.
   */
  skip?: boolean | undefined
}

export const CONVERT_OPTIONS = [...CREATE_OPTIONS, 'source', 'filter', 'rename', 'cast', 'skip', 'onProgress'] as const

/** What was converted. */
export interface ConvertResult {
  /** Tensors written. */
  readonly tensors: number
  /** What was left out, and why. Empty unless `skip` was given. */
  readonly skipped: readonly ZTensorError[]
  /** What a user should know about the source, as `file.warnings` has it. */
  readonly warnings: readonly Warning[]
  /** Which programs read this very file: zTensor 1.0 is read by Python as long as its attributes are text. */
  readonly readers: readonly string[]
}

function validateTable(cast: object): object {
  const what = 'a table of dtypes, such as { float32: "bfloat16" }'
  if (!isPlainObject(cast)) throw wrongType('cast', what, cast)
  return cast
}

/** The codes of a table of casts, as the binding takes them. */
export function castCodes(cast: ConvertOptions['cast']): number[] {
  if (cast === undefined) return []
  const code = (value: unknown) => {
    return validateDType('a dtype of cast', value).code
  }
  const given = Object.entries(validateTable(cast)).filter(([, to]) => to !== undefined)
  return given.flatMap(([from, to]) => [code(from), code(to)])
}

/** The error of a source that the target cannot hold: all reasons at once. */
export function refusal(refusals: readonly ZTensorError[], target: string): ZTensorError {
  const [first] = refusals as [ZTensorError]
  const shown = refusals.slice(0, 20).map((error) => error.message)
  const more = refusals.length > shown.length ? `; and ${refusals.length - shown.length} more` : ''
  const cast = refusals.some(({ code }) => code === 'ZT_BAD_DTYPE') ? ', option cast changes dtypes' : ''
  const message = `${target} cannot hold all of the source (option skip leaves it out${cast}): ${shown.join('; ')}${more}`
  const { code, tensor, component, rule } = first
  return new ZTensorError(code, message, { tensor, component, rule, cause: refusals })
}

/** `convert` of lib/lazy.ts. */
export async function convert(
  source: Source,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  const read = readOptions(options, CONVERT_OPTIONS)
  const to = validateTarget('target', target, read)
  const creating = withFormat(read, to.path)
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  optional(read.filter, (value) => validateFunction('filter', value))
  optional(read.rename, (value) => validateFunction('rename', value))
  const skip = optional(read.skip, (value) => validateBoolean('skip', value)) ?? false
  const file = await open(source, { ...read.source, signal: job.signal })
  try {
    return await convertFile(file, to, creating, job, skip)
  } finally {
    file.close()
  }
}

/** Tensors that the caller's functions are asked about before the event loop gets a turn. */
const CALLED = 2000

/** Takes tensors by their ordinals; `names`: what they are to be called, none of them for their own names. */
export type Take = (ordinals: Uint32Array, names: string[]) => void

/** Has the tensors taken that are wanted, under their new names. */
export async function choose(
  file: TensorFile,
  take: Take,
  { filter, rename, signal }: Pick<ConvertOptions, 'filter' | 'rename' | 'signal'>,
): Promise<void> {
  if (filter === undefined && rename === undefined) {
    take(everything(file.size), [])
    return
  }
  const catalog = await TensorFile.ready(file, signal)
  for (let from = 0; from < file.size; from += TURN) {
    const [ordinals, names]: [number[], string[]] = [[], []]
    for (let ordinal = from; ordinal < Math.min(from + TURN, file.size); ordinal++) {
      if (ordinal % CALLED === CALLED - 1) await nextTurn()
      // No objects are made of tensors that nobody looks at.
      if (filter !== undefined && !filter(TensorFile.at(file, ordinal))) continue
      ordinals.push(ordinal)
      if (rename !== undefined) names.push(validateText('what rename gives', rename(catalog.name(ordinal))))
    }
    rethrowNative(() => take(Uint32Array.from(ordinals), names))
  }
}

/** What the target cannot hold. Whatever their code, the errors say which tensor they are of: it is by that that they are left out. */
export async function refusalsOf(selection: NativeSelection, attributes: boolean): Promise<ZTensorError[]> {
  const all: ZTensorError[] = []
  for (let page = selection.refusals(attributes); page.length > 0; page = selection.refusals(attributes)) {
    for (const { code, message, ...where } of page) all.push(new ZTensorError(code as ErrorCode, message, where))
    await nextTurn()
  }
  return all
}

/** What is to be made of a file. */
interface Work {
  readonly store: Store
  readonly selection: NativeSelection
  readonly writer: TensorWriter
  readonly native: NativeWriter
  readonly outlet: Outlet | undefined
  readonly job: JobOptions
}

/** Finds which tensors cannot be held for their data; `told` says how many are read for that. Gives how many bytes that were. */
async function judge({ store, selection, native, job }: Work, told: Selected): Promise<number> {
  const { onProgress, signal } = job
  let bytes = 0
  const tell = (progress: Progress): void => {
    bytes = progress.totalBytes
    const totals = { totalBytes: progress.totalBytes + told.bytes, totalTensors: told.tensors }
    onProgress?.({ bytes: progress.bytes, tensors: 0, ...totals })
  }
  const many = {
    count: told.judged,
    bytes: told.judgedBytes,
    next: (from: number) => selection.stageNext(store.native, true, from),
    onProgress: onProgress && tell,
    signal,
  }
  await inBatches(store, many, ({ from, end, stage, onProgress }) =>
    // It makes files without a name beside the target.
    run(
      store,
      { onProgress, signal },
      (control) => selection.judge(store.native, native, from, end, control, stage),
      'when undone',
    ),
  )
  return bytes
}

/** Copies the tensors that are left; `before` are the bytes that were read before. */
async function copy(
  { store, selection, writer, native, outlet, job }: Work,
  left: Left,
  before: number,
): Promise<void> {
  const { onProgress, signal } = job
  const tell = (progress: Progress): void =>
    onProgress?.({ ...progress, bytes: before + progress.bytes, totalBytes: before + progress.totalBytes })
  const many = {
    count: left.tensors,
    bytes: left.bytes,
    next: (from: number) => selection.stageNext(store.native, false, from),
    onProgress: onProgress && tell,
    signal,
  }
  await inBatches(store, many, ({ from, end, stage, onProgress }) => {
    const make = (blocks?: NativeOutflow, stop = signal) =>
      run(
        store,
        { onProgress, signal: stop },
        (control) => selection.copy(store.native, native, from, end, control, stage, blocks),
        'when undone',
      )
    // In the writer's turn, so that giving the file up waits until nothing works on it.
    return TensorWriter.during(writer, () => (outlet === undefined ? make() : outlet.pass(make, signal)))
  })
}

/** What is left of a selection without what cannot be held. */
type Left = Awaited<ReturnType<NativeSelection['settle']>>

/** Converts an open file: the tensors that `choosing` has taken, all that `filter` wants by default. */
export async function convertFile(
  file: TensorFile,
  { begin, remote }: Pick<Target, 'begin' | 'remote'>,
  given: ConvertOptions,
  job: JobOptions,
  skip: boolean,
  choosing?: (take: Take) => void,
): Promise<ConvertResult> {
  const { signal } = job
  const store = TensorFile.storeOf(file)
  const casts = castCodes(given.cast)
  // The target's own options are checked without the source's attributes, which may have to be left out.
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined })
  const writing = writingOfId(writeFormat) as Writing
  const { numbered, generator: named } = writing
  const selection = rethrowNative(() => new binding.Selection(casts, numbered))
  const take: Take = (ordinals, names) => selection.take(ordinals, names)
  if (choosing === undefined) await choose(file, take, numbered ? { ...given, rename: undefined } : given)
  else rethrowNative(() => choosing(take))
  const told = await run(store, { signal }, (control) => selection.look(store.native, writeFormat, canonical, control))
  /** Whether the file's own attributes are to go along. */
  const own = given.attributes === undefined
  const refuse = async (): Promise<readonly ZTensorError[]> => {
    const refused = await refusalsOf(selection, own)
    if (refused.length > 0 && !skip) throw refusal(refused, writeFormat)
    return refused
  }
  let skipped = told.judged === 0 ? await refuse() : []
  const generator = given.generator ?? (named ? file.generator : undefined)
  const writer = await TensorWriter.make(
    await begin(job.signal),
    writeRequest({ ...given, generator }),
    job.signal,
    remote,
  )
  const { native, outlet } = TensorWriter.partsOf(writer)
  const work = { store, selection, writer, native, outlet, job }
  try {
    let before = 0
    if (told.judged > 0) {
      try {
        before = await judge(work, told)
        skipped = await refuse()
      } catch (error) {
        // Nothing has come to a stream yet.
        outlet?.release()
        throw error
      }
    }
    // From now on: what is given up before it has left a stream as it was.
    await TensorWriter.heed(writer)
    if (own && told.attributes) rethrowNative(() => native.takeAttributes(store.native))
    const left = await run(store, { signal }, (control) => selection.settle(store.native, native, control))
    await copy(work, left, before)
    signal?.throwIfAborted()
    await writer.finish()
    const attributes = own ? (told.attributes ? file.attributes : undefined) : given.attributes
    return { tensors: left.tensors, skipped, warnings: file.warnings, readers: readersOf(writing, attributes) }
  } catch (error) {
    await writer.abort()
    throw error
  }
}
