// The first step of a conversion: which tensors are written, with which names and types. It reads the index and writes nothing.
import { invalid, rethrowNative, type ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import type { ConversionPlan, NativeSelection } from '../native/native.js'
import { everything } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { type AttributeChanges, freezeChanges, freezeMap } from '../values/attributes.js'
import { Casts } from '../values/cast.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { needsCatalog, type SingleCasts, singleCasts } from './casts.js'
import { type Checkpoint, noCheckpoint, passedOver, RENAMED, takeCheckpoint } from './checkpoint.js'
import type { ConversionOptions, ConvertOptions } from './convert-options.js'
import { checkEffects } from './effects.js'
import { statedAttributes } from './fitted-attributes.js'
import { writeRequest } from './options.js'
import { quantizeRequest } from './quantize.js'
import { choose, newSelection, nothingLeft, refusal, refusalsOf, type Skips, type Take } from './selection.js'

/** The tensors that a conversion writes. */
export interface Taking {
  readonly writing: Writing
  readonly canonical: boolean
  readonly selection: NativeSelection
  readonly plan: ConversionPlan
  readonly checkpoint: Checkpoint | undefined
  /** What the target does not get of a checkpoint. */
  readonly leftOut: readonly ZTensorError[]
  /** What the metadata states of the types of tensors. */
  readonly stated: AttributeChanges | undefined
  /** Whether a task of a job chose them: the job was checked when it was planned, and all tensors of a task may be skipped. */
  readonly isTask: boolean
}

/** Takes the tensors of a task. */
export type Choosing = (take: Take) => void

/** Takes the tensors of a checkpoint, those that `choosing` takes, or those that `filter` selects. */
async function fill(
  file: TensorFile,
  selection: NativeSelection,
  given: ConvertOptions,
  writing: Writing,
  choosing: Choosing | undefined,
  chosen: Uint32Array[],
): Promise<Checkpoint | undefined> {
  const take: Take = (ordinals, names) => {
    chosen.push(ordinals)
    selection.take(ordinals, names)
  }
  if (choosing !== undefined) {
    rethrowNative(() => choosing(take))
    return undefined
  }
  const checkpoint = await takeCheckpoint(file, selection, given, writing, given.signal)
  if (checkpoint !== undefined) chosen.push(everything(checkpoint.castable.size))
  else if (writing.numbered && given.rename !== undefined)
    throw invalid(TypeError, `rename has no effect: the tensors of ${writing.title} have numbers instead of names`, {
      option: 'rename',
    })
  else await choose(file, take, given)
  return checkpoint
}

const NONE = new Uint32Array(0)
const NO_CASTS: SingleCasts = { cast: NONE, from: NONE, to: NONE }

/** What the options say of a plan, besides casts. */
function requestOf(given: ConversionOptions, isTask: boolean) {
  const { attributes, metadata, checkpoint, strictAttributes: strict = false } = given
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  const quantize = quantizeRequest(given)
  return {
    strict,
    copies: attributes === undefined && !strict,
    set,
    unset,
    isAny: isTask || checkpoint === false,
    ...(attributes !== undefined ? { own: freezeMap('attributes', attributes === false ? {} : attributes) } : {}),
    ...(quantize === undefined ? {} : { quantize }),
  }
}

/** Chooses the tensors of a conversion, by default those that `filter` selects, and their types. */
export async function takeTensors(file: TensorFile, given: ConversionOptions, choosing?: Choosing): Promise<Taking> {
  const { signal } = given
  const store = TensorFile.storeOf(file)
  const casts = new Casts(given.cast, given.dtype)
  // Validates the target's options without the source's attributes, which may be skipped.
  const { writeFormat, canonical } = writeRequest({ ...given, attributes: undefined, metadata: undefined })
  const writing = writingOfId(writeFormat) as Writing
  const selection = newSelection(casts, given, writing.numbered)
  const isTask = choosing !== undefined
  const chosen: Uint32Array[] = []
  const checkpoint = await fill(file, selection, given, writing, choosing, chosen)
  const passed = checkpoint === undefined && !isTask ? await passedOver(file, given, writing) : []
  const lack = passed.length > 0 ? RENAMED : noCheckpoint(file, given, writing)
  const catalog = async () => checkpoint?.castable ?? (await TensorFile.ready(file, signal))
  const single = needsCatalog(casts) ? await singleCasts(casts, await catalog()) : NO_CASTS
  const request = {
    writeFormat,
    canonical,
    ...single,
    ...requestOf(given, isTask),
    ...(lack === undefined ? {} : { lack }),
  }
  const plan = await run(store, { signal }, (control) => selection.plan(store.native, request, control))
  if (!isTask) await checkEffects(plan, { casts, chosen, catalog }, given)
  const stated = statedAttributes(plan, writing)
  const leftOut = checkpoint?.leftOut ?? passed
  return { writing, canonical, selection, plan, checkpoint, leftOut, stated, isTask }
}

/** The number of tensors among refusals; that of the file's attributes has none. */
export const tensorsOf = (refused: readonly ZTensorError[]): number =>
  refused.filter(({ tensor }) => tensor !== undefined).length

/** The errors for what the target cannot hold and `skips` leaves out. Throws for the rest, and if no tensor is left. */
export async function refusedOf(
  { selection, plan, writing, isTask }: Taking,
  { attributes, strictAttributes }: ConvertOptions,
  skips: Skips,
): Promise<readonly ZTensorError[]> {
  const refused = await refusalsOf(selection, attributes === undefined && (strictAttributes ?? false))
  const failed = refused.filter((error) => !skips(error))
  if (failed.length > 0) throw refusal(failed, writing.title)
  if (!isTask && refused.length > 0 && tensorsOf(refused) === plan.tensors) throw nothingLeft(refused)
  return refused
}
