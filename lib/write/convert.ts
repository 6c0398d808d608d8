import type { Writable } from 'node:stream'
import { rethrowNative, type ZTensorError } from '../native/errors.js'
import { type JobOptions, type Progress, run } from '../native/job.js'
import type { NativeOutflow, NativeSelection, NativeWriter, PartRequest, Selected } from '../native/native.js'
import { isMap } from '../native/realm.js'
import { inBatches } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { withOpen } from '../read/open.js'
import type { Source } from '../read/source.js'
import type { Store } from '../read/store.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean } from '../values/arguments.js'
import {
  type AttributeChanges,
  type AttributeInput,
  type Attributes,
  freezeChanges,
  freezeMap,
  mergeChanges,
  thaw,
} from '../values/attributes.js'
import { tensorFilter } from '../values/filter.js'
import type { Writing } from '../values/formats.js'
import { validateRenaming } from '../values/rename.js'
import { CONVERT_OPTIONS, type ConvertOptions, type ConvertResult, validateDequantize } from './convert-options.js'
import { cannotStore, fitAttributes } from './fitted-attributes.js'
import { type CreateOptions, metadataOf, withFormat, writeRequest } from './options.js'
import type { Outlet } from './outlet.js'
import { NOT_QUANTIZED } from './quantize.js'
import { readersOf } from './readers.js'
import { bareOf, type Skips, skipping, type Take } from './selection.js'
import { refusedOf, type Taking, takeTensors, tensorsOf } from './taking.js'
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

/** A conversion, with the errors of the tensors that were skipped. */
interface Converted {
  readonly result: ConvertResult
  readonly refused: readonly ZTensorError[]
}

/** Finds the tensors that cannot be written because of their data. Returns what is skipped, and the number of bytes read. */
async function judged(
  work: Work,
  taking: Taking,
  given: ConvertOptions,
  skips: Skips,
): Promise<{ skipped: readonly ZTensorError[]; bytes: number }> {
  try {
    const bytes = await judge(work, taking.selected)
    return { skipped: await refusedOf(taking, given, skips), bytes }
  } catch (error) {
    // Nothing was written to the stream yet.
    work.outlet?.release()
    throw error
  }
}

/** Copies the attributes of the source, or those of the checkpoint, to the writer. `stated` says what was quantized. */
function copyAttributes(
  { store, selection, native }: Work,
  copied: Attributes,
  metadata: AttributeChanges | undefined,
  stated: AttributeInput | undefined,
  isCheckpoint: boolean,
): void {
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  // What a mixture states comes last, as llama.cpp writes it.
  const moved = freezeMap('metadata', { ...copied, ...stated }).map
  const removed = { map: [...unset.map, ...moved] }
  rethrowNative(() =>
    isCheckpoint ? selection.giveAttributes(native, set, removed) : native.takeAttributes(store.native, set, removed),
  )
}

/** Begins to write the target. */
async function beginTarget(
  { begin, remote }: Pick<Target, 'begin' | 'remote'>,
  given: CreateOptions,
  { selection }: Taking,
  store: Store,
  job: JobOptions,
): Promise<Work> {
  const writer = await TensorWriter.make(await begin(job.signal), writeRequest(given), job.signal, remote)
  return { store, selection, writer, ...TensorWriter.partsOf(writer), job }
}

/** Converts an open file: the tensors that `choosing` takes, by default those that `filter` selects. */
export async function convertFile(
  file: TensorFile,
  target: Pick<Target, 'begin' | 'remote'>,
  given: ConvertOptions,
  job: JobOptions,
  skips: Skips,
  choosing?: (take: Take) => void,
): Promise<Converted> {
  const taking = await takeTensors(file, { ...given, signal: job.signal }, { choosing })
  return writeTaken(file, taking, target, given, job, skips)
}

/** Writes the tensors that were taken; with `part`, only some of them, as one file of a set. */
export async function writeTaken(
  file: TensorFile,
  taking: Taking,
  target: Pick<Target, 'begin' | 'remote'>,
  given: ConvertOptions,
  job: JobOptions,
  skips: Skips,
  part?: PartRequest,
): Promise<Converted> {
  const { writing, canonical, selection, selected, checkpoint, quantization } = taking
  const { signal } = job
  const store = TensorFile.storeOf(file)
  const bare = await bareOf(selection)
  let skipped = selected.judged === 0 ? await refusedOf(taking, given, skips) : []
  const generator = given.generator ?? (writing.generator ? file.generator : undefined)
  const { attributes, copied, skipped: leftOut } = attributesOf(file, writing, canonical, given, selected.attributes)
  const stated = writing.typedAttributes ? (quantization?.metadata ?? checkpoint?.metadata) : undefined
  const changes = mergeChanges({ ...checkpoint?.named, ...stated }, given.metadata)
  const metadata = metadataOf(writing, { ...given, metadata: changes })
  const work = await beginTarget(target, { ...given, attributes, generator, metadata }, taking, store, job)
  const { writer, native } = work
  try {
    let before = 0
    if (selected.judged > 0) ({ skipped, bytes: before } = await judged(work, taking, given, skips))
    // From here on an abort destroys the stream. Before, it is not changed.
    await TensorWriter.listen(writer)
    if (copied !== undefined) copyAttributes(work, copied, metadata, stated, checkpoint !== undefined)
    const left = await run(store, { signal }, (control) => selection.settle(store.native, native, part, control))
    await copy(work, left, before)
    signal?.throwIfAborted()
    await writer.finish()
    const result = {
      tensors: left.tensors,
      quantized: quantization?.result ?? NOT_QUANTIZED,
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
