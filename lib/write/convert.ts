import type { Writable } from 'node:stream'
import { rethrowNative, type ZTensorError } from '../native/errors.js'
import { type JobOptions, type Progress, run } from '../native/job.js'
import type { NativeOutflow, NativeSelection, NativeWriter, Selected } from '../native/native.js'
import { isMap } from '../native/realm.js'
import { inBatches } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { withOpen } from '../read/open.js'
import type { Source } from '../read/source.js'
import type { Store } from '../read/store.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean } from '../values/arguments.js'
import {
  type AttributeInput,
  type Attributes,
  freezeChanges,
  freezeMap,
  mergeChanges,
  thaw,
} from '../values/attributes.js'
import { Casts } from '../values/cast.js'
import { tensorFilter } from '../values/filter.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { validateRenaming } from '../values/rename.js'
import { castTensors, needsCatalog } from './casts.js'
import { takeCheckpoint } from './checkpoint.js'
import { CONVERT_OPTIONS, type ConvertOptions, type ConvertResult, validateDequantize } from './convert-options.js'
import { cannotStore, fitAttributes } from './fitted-attributes.js'
import { metadataOf, withFormat, writeRequest } from './options.js'
import type { Outlet } from './outlet.js'
import { quantizeTensors } from './quantize.js'
import { readersOf } from './readers.js'
import {
  bareOf,
  choose,
  newSelection,
  nothingLeft,
  refusal,
  refusalsOf,
  type Skips,
  skipping,
  type Take,
} from './selection.js'
import { type Target, validateTarget } from './target.js'
import { TensorWriter } from './writer.js'

/** `convert` of lib/lazy.ts. */
export async function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  const read = readOptions(options, CONVERT_OPTIONS)
  const to = validateTarget('target', target, read)
  const creating = withFormat(read, to.path)
  optional(read.strictAttributes, (value) => validateBoolean('strictAttributes', value))
  optional(read.dequantize, validateDequantize)
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  tensorFilter(read.filter)
  const rename = optional(read.rename, validateRenaming)
  const skips = skipping(read.skip)
  return withOpen(source, { ...read.source, signal: job.signal }, async (file) => {
    const { result } = await convertFile(file, to, { ...creating, rename }, job, skips)
    return result
  })
}

/** The attributes of a conversion. */
interface ChosenAttributes {
  /** Those to write, unless they are copied natively. */
  readonly attributes: AttributeInput | undefined
  /** The source's own are copied natively, without these. */
  readonly copied: Attributes | undefined
  /** Errors for those that the target cannot store. */
  readonly skipped: readonly ZTensorError[]
}

/** Chooses the attributes to write. `all`: the target can store all attributes of the source. */
function attributesOf(
  file: TensorFile,
  writing: Writing,
  canonical: boolean,
  { attributes, strictAttributes }: ConvertOptions,
  all: boolean,
): ChosenAttributes {
  if (attributes === false) return { attributes: {}, copied: undefined, skipped: [] }
  if (attributes !== undefined) return { attributes, copied: undefined, skipped: [] }
  if (all || strictAttributes) return { attributes, copied: all ? {} : undefined, skipped: [] }
  if (writing.typedAttributes) {
    const { native } = TensorFile.storeOf(file)
    const copied = thaw(rethrowNative(() => native.unheldAttributes(writing.id, canonical)))
    const keys = isMap(copied) ? [...copied.keys()] : Object.keys(copied)
    return { attributes, copied, skipped: [cannotStore(writing.title, keys)] }
  }
  return { copied: undefined, ...fitAttributes(file.attributes, writing, canonical) }
}

/** The state of a conversion. */
interface Work {
  readonly store: Store
  readonly selection: NativeSelection
  readonly writer: TensorWriter
  readonly native: NativeWriter
  readonly outlet: Outlet | undefined
  readonly job: JobOptions
}

/** Finds the tensors that the target cannot represent because of their data. Returns the number of bytes read. */
async function judge({ store, selection, native, job }: Work, selected: Selected): Promise<number> {
  const { onProgress, signal } = job
  let bytes = 0
  const report = (progress: Progress): void => {
    bytes = progress.totalBytes
    const totals = { totalBytes: progress.totalBytes + selected.bytes, totalTensors: selected.tensors }
    onProgress?.({ bytes: progress.bytes, tensors: 0, ...totals })
  }
  const many = {
    count: selected.judged,
    bytes: selected.judgedBytes,
    next: (from: number) => selection.stageNext(store.native, true, from),
    onProgress: onProgress && report,
    signal,
  }
  await inBatches(store, many, ({ from, end, stage, onProgress }) =>
    // It creates temporary files in the target's folder, which are removed before it rejects.
    run(
      store,
      { onProgress, signal },
      (control) => selection.judge(store.native, native, from, end, control, stage),
      'when undone',
    ),
  )
  return bytes
}

/** Copies the remaining tensors. `before` is the number of bytes that were read before. */
async function copy(
  { store, selection, writer, native, outlet, job }: Work,
  left: Left,
  before: number,
): Promise<void> {
  const { onProgress, signal } = job
  const report = (progress: Progress): void =>
    onProgress?.({ ...progress, bytes: before + progress.bytes, totalBytes: before + progress.totalBytes })
  const many = {
    count: left.tensors,
    bytes: left.bytes,
    next: (from: number) => selection.stageNext(store.native, false, from),
    onProgress: onProgress && report,
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
    // Queued in the writer, so that abort() waits for it.
    return TensorWriter.during(writer, () => (outlet === undefined ? make() : outlet.pass(make, signal)))
  })
}

/** The rest of a selection, without skipped tensors. */
type Left = Awaited<ReturnType<NativeSelection['settle']>>

/** The number of tensors among refusals; that of the file's attributes has none. */
const tensorsOf = (refused: readonly ZTensorError[]): number =>
  refused.filter(({ tensor }) => tensor !== undefined).length

/** A conversion, with the errors of the tensors that were skipped. */
interface Converted {
  readonly result: ConvertResult
  readonly refused: readonly ZTensorError[]
}

/** Converts an open file: the tensors that `choosing` takes, by default those that `filter` selects. */
export async function convertFile(
  file: TensorFile,
  { begin, remote }: Pick<Target, 'begin' | 'remote'>,
  given: ConvertOptions,
  job: JobOptions,
  skips: Skips,
  choosing?: (take: Take) => void,
): Promise<Converted> {
  const { signal } = job
  const store = TensorFile.storeOf(file)
  const casts = new Casts(given.cast, given.dtype)
  // Validates the target's options without the source's attributes, which may be skipped.
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined, metadata: undefined })
  const writing = writingOfId(writeFormat) as Writing
  const { numbered, generator: named } = writing
  const selection = newSelection(casts, given, numbered)
  const strict = given.strictAttributes ?? false
  const take: Take = (ordinals, names) => selection.take(ordinals, names)
  const checkpoint = choosing === undefined ? await takeCheckpoint(file, selection, given, writing, signal) : undefined
  if (choosing !== undefined) rethrowNative(() => choosing(take))
  else if (checkpoint === undefined) await choose(file, take, numbered ? { ...given, rename: undefined } : given)
  // The tasks of a job convert only some of the tensors, and the job was checked when it was planned.
  if (needsCatalog(casts)) {
    const castable = checkpoint?.castable ?? (await TensorFile.ready(file, signal))
    await castTensors(selection, casts, castable, choosing === undefined)
  }
  const quantization = await quantizeTensors(file, selection, given, signal)
  const selected = await run(store, { signal }, (control) =>
    selection.look(store.native, writeFormat, canonical, strict, control),
  )
  /** Whether the file's own attributes are copied. */
  const own = given.attributes === undefined
  const refuse = async (): Promise<readonly ZTensorError[]> => {
    const refused = await refusalsOf(selection, own && strict)
    const failed = refused.filter((error) => !skips(error))
    if (failed.length > 0) throw refusal(failed, writing.title)
    // All tensors of a task may be skipped.
    const isEmpty = refused.length > 0 && tensorsOf(refused) === selected.tensors
    if (isEmpty && choosing === undefined) throw nothingLeft(refused)
    return refused
  }
  const bare = await bareOf(selection)
  let skipped = selected.judged === 0 ? await refuse() : []
  const generator = given.generator ?? (named ? file.generator : undefined)
  const { attributes, copied, skipped: leftOut } = attributesOf(file, writing, canonical, given, selected.attributes)
  const stated = writing.typedAttributes ? (quantization?.metadata ?? checkpoint?.metadata) : undefined
  const metadata = metadataOf(writing, {
    ...given,
    metadata: mergeChanges({ ...checkpoint?.named, ...stated }, given.metadata),
  })
  const writer = await TensorWriter.make(
    await begin(job.signal),
    writeRequest({ ...given, attributes, generator, metadata }),
    job.signal,
    remote,
  )
  const { native, outlet } = TensorWriter.partsOf(writer)
  const work = { store, selection, writer, native, outlet, job }
  try {
    let before = 0
    if (selected.judged > 0) {
      try {
        before = await judge(work, selected)
        skipped = await refuse()
      } catch (error) {
        // Nothing was written to the stream yet.
        outlet?.release()
        throw error
      }
    }
    // From here on an abort destroys the stream. Before, it is not changed.
    await TensorWriter.listen(writer)
    if (copied !== undefined) {
      const { set, unset } = freezeChanges('metadata', metadata ?? {})
      // What a mixture states comes last, as llama.cpp writes it.
      const moved = freezeMap('metadata', { ...copied, ...stated }).map
      const removed = { map: [...unset.map, ...moved] }
      rethrowNative(() =>
        checkpoint === undefined
          ? native.takeAttributes(store.native, set, removed)
          : selection.giveAttributes(native, set, removed),
      )
    }
    const left = await run(store, { signal }, (control) => selection.settle(store.native, native, control))
    await copy(work, left, before)
    signal?.throwIfAborted()
    await writer.finish()
    const result = {
      tensors: left.tensors,
      quantized: quantization?.result ?? { types: {}, fallbacks: [], unweighted: [] },
      skipped: [...skipped, ...bare, ...leftOut, ...(checkpoint?.leftOut ?? [])],
      skippedTensors: tensorsOf(skipped),
      warnings: file.warnings,
      readers: readersOf(writing, copied === undefined ? attributes : file.attributes),
    }
    return { result, refused: skipped }
  } catch (error) {
    await writer.abort()
    throw error
  }
}
