// The first step of a conversion: which tensors are written, with which names and types. It reads the index and writes nothing.
import { rethrowNative, type ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import type { NativeSelection, Selected } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { Casts } from '../values/cast.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { castTensors, needsCatalog } from './casts.js'
import { type Checkpoint, takeCheckpoint } from './checkpoint.js'
import type { ConvertOptions } from './convert-options.js'
import { writeRequest } from './options.js'
import { type Quantization, quantizeTensors } from './quantize.js'
import { choose, newSelection, nothingLeft, refusal, refusalsOf, type Skips, type Take } from './selection.js'

/** The tensors that a conversion writes. */
export interface Taking {
  readonly writing: Writing
  readonly canonical: boolean
  readonly selection: NativeSelection
  readonly selected: Selected
  readonly checkpoint: Checkpoint | undefined
  readonly quantization: Quantization | undefined
  /** Whether a task of a job chose them: the job was checked when it was planned, and all tensors of a task may be skipped. */
  readonly isTask: boolean
}

/** How tensors are chosen. */
export interface Choice {
  /** Takes the tensors of a task. */
  readonly choosing?: ((take: Take) => void) | undefined
  /** Called with the tensors that `filter` selects. */
  readonly onTake?: Take | undefined
}

/** Takes the tensors of a checkpoint, those that `choosing` takes, or those that `filter` selects. */
async function fill(
  file: TensorFile,
  selection: NativeSelection,
  given: ConvertOptions,
  writing: Writing,
  { choosing, onTake }: Choice,
): Promise<Checkpoint | undefined> {
  const take: Take = (ordinals, names) => {
    onTake?.(ordinals, names)
    selection.take(ordinals, names)
  }
  if (choosing !== undefined) {
    rethrowNative(() => choosing(take))
    return undefined
  }
  const checkpoint = await takeCheckpoint(file, selection, given, writing, given.signal)
  if (checkpoint === undefined) await choose(file, take, writing.numbered ? { ...given, rename: undefined } : given)
  return checkpoint
}

/** Chooses the tensors of a conversion, by default those that `filter` selects, and their types. */
export async function takeTensors(file: TensorFile, given: ConvertOptions, choice: Choice = {}): Promise<Taking> {
  const { signal } = given
  const store = TensorFile.storeOf(file)
  const casts = new Casts(given.cast, given.dtype)
  // Validates the target's options without the source's attributes, which may be skipped.
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined, metadata: undefined })
  const writing = writingOfId(writeFormat) as Writing
  const selection = newSelection(casts, given, writing.numbered)
  const isTask = choice.choosing !== undefined
  const checkpoint = await fill(file, selection, given, writing, choice)
  if (needsCatalog(casts)) {
    const castable = checkpoint?.castable ?? (await TensorFile.ready(file, signal))
    await castTensors(selection, casts, castable, !isTask)
  }
  const quantization = await quantizeTensors(file, selection, given, signal)
  const strict = given.strictAttributes ?? false
  const selected = await run(store, { signal }, (control) =>
    selection.look(store.native, writeFormat, canonical, strict, control),
  )
  return { writing, canonical, selection, selected, checkpoint, quantization, isTask }
}

/** The number of tensors among refusals; that of the file's attributes has none. */
export const tensorsOf = (refused: readonly ZTensorError[]): number =>
  refused.filter(({ tensor }) => tensor !== undefined).length

/** The errors for what the target cannot hold and `skips` leaves out. Throws for the rest, and if no tensor is left. */
export async function refusedOf(
  { selection, selected, writing, isTask }: Taking,
  { attributes, strictAttributes }: ConvertOptions,
  skips: Skips,
): Promise<readonly ZTensorError[]> {
  const refused = await refusalsOf(selection, attributes === undefined && (strictAttributes ?? false))
  const failed = refused.filter((error) => !skips(error))
  if (failed.length > 0) throw refusal(failed, writing.title)
  if (!isTask && refused.length > 0 && tensorsOf(refused) === selected.tensors) throw nothingLeft(refused)
  return refused
}
