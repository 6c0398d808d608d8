// The first step of a conversion: which tensors are written, with which names and types. It reads the index and writes nothing.
import { invalid, optionHint, rethrowNative, type ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding, type ConversionPlan, type NativeConversion, type QuantizeRequest } from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import { everything } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { optional, validateBoolean, validateText, wrongType } from '../values/arguments.js'
import { type AttributeChanges, type AttributeValueInput, freezeChanges, freezeMap } from '../values/attribute-input.js'
import { Casts } from '../values/cast.js'
import { validateDType } from '../values/dtype-argument.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { writeRequest } from '../write/options.js'
import { checkEffects, needsCatalog, type SingleCasts, singleCasts } from './casts.js'
import { type Checkpoint, noCheckpoint, passedOver, RENAMED, selectCheckpoint } from './checkpoint.js'
import type { ConversionOptions, ConvertOptions } from './options.js'
import { type Select, selectTensors } from './select.js'

/** The tensors that a conversion writes. */
export interface Conversion {
  readonly writing: Writing
  readonly canonical: boolean
  readonly native: NativeConversion
  readonly plan: ConversionPlan
  readonly checkpoint: Checkpoint | undefined
  /** What the target does not get of a checkpoint. */
  readonly leftOut: readonly ZTensorError[]
  /** What the metadata states of the types of tensors. */
  readonly stated: AttributeChanges | undefined
  /** Whether a task of a job chose them: the job was checked when it was planned, and all tensors of a task may be skipped. */
  readonly isTask: boolean
}

/** Selects the tensors of a task of a job. */
export type SelectTask = (select: Select) => void

/** Selects the tensors of a task, those of a checkpoint, or those that `filter` matches. */
async function fill(
  file: TensorFile,
  native: NativeConversion,
  given: ConvertOptions,
  writing: Writing,
  selectTask: SelectTask | undefined,
  chosen: Uint32Array[],
): Promise<Checkpoint | undefined> {
  const select: Select = (ordinals, names) => {
    chosen.push(ordinals)
    native.select(ordinals, names)
  }
  if (selectTask !== undefined) {
    rethrowNative(() => selectTask(select))
    return undefined
  }
  const checkpoint = await selectCheckpoint(file, native, given, writing, given.signal)
  if (checkpoint !== undefined) chosen.push(everything(checkpoint.castable.size))
  else if (writing.numbered && given.rename !== undefined)
    throw invalid(TypeError, `rename has no effect: the tensors of ${writing.title} have numbers instead of names`, {
      option: 'rename',
    })
  else await selectTensors(file, select, given)
  return checkpoint
}

/** A conversion of the addon. Its plan adds the casts that depend on names. */
function newConversion(
  casts: Casts,
  { copyAttributes = true, dequantize }: Pick<ConvertOptions, 'copyAttributes' | 'dequantize'>,
  numbered: boolean,
): NativeConversion {
  const dequantized = optional(dequantize, (value) => validateDType('dequantize', value).code)
  return rethrowNative(() => new binding.NativeConversion(casts.pairs ?? [], dequantized, copyAttributes, numbered))
}

/** Validates the option `quantize`. */
function validateQuantize(value: unknown): string | Readonly<Record<string, string>> {
  if (typeof value === 'string') return value
  if (!isPlainObject(value)) throw wrongType('quantize', "a mixture such as 'q4_k_m' or types by patterns", value)
  const rules = Object.entries(value)
  for (const [pattern, type] of rules) validateText(`quantize[${JSON.stringify(pattern)}]`, type)
  if (rules.length === 0) throw invalid(RangeError, 'quantize must have at least one pattern', { option: 'quantize' })
  return value as Readonly<Record<string, string>>
}

/** The request to quantize tensors; undefined if they stay as they are. */
function quantizeRequest({
  quantize,
  requantize,
  imatrix,
  imatrixName,
}: ConversionOptions): QuantizeRequest | undefined {
  const wanted = optional(quantize, validateQuantize)
  const again = optional(requantize, (value) => validateBoolean('requantize', value)) ?? false
  const matrix = optional(imatrix, (value) => validateText('imatrix', value))
  if (wanted === undefined) {
    const idle = matrix !== undefined ? 'imatrix' : again ? 'requantize' : undefined
    if (idle !== undefined) {
      const hint = optionHint('quantize')
      throw invalid(TypeError, `${idle} has no effect without a quantization${hint.text}`, {
        option: idle,
        hints: [hint],
      })
    }
    return undefined
  }
  const what = typeof wanted === 'string' ? { mixture: wanted, rules: [] } : { rules: Object.entries(wanted).flat() }
  return { ...what, requantize: again, ...(matrix === undefined ? {} : { imatrix: [matrix, imatrixName ?? matrix] }) }
}

const NONE = new Uint32Array(0)
const NO_CASTS: SingleCasts = { cast: NONE, from: NONE, to: NONE }

/** What the options say of a plan, besides casts. */
function requestOf(given: ConversionOptions, isTask: boolean) {
  const { metadata, checkpoint, copyMetadata = true, strictMetadata: strict = false } = given
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  const quantize = quantizeRequest(given)
  return {
    strict,
    copies: copyMetadata && !strict,
    set,
    unset,
    isAny: isTask || checkpoint === false,
    ...(copyMetadata ? {} : { own: freezeMap('metadata', {}) }),
    ...(quantize === undefined ? {} : { quantize }),
  }
}

/** Plans a conversion from the index of its source: the tensors, by default those that `filter` matches, and their types. */
export async function planConversion(
  file: TensorFile,
  given: ConversionOptions,
  selectTask?: SelectTask,
): Promise<Conversion> {
  const { signal } = given
  const store = TensorFile.storeOf(file)
  const casts = new Casts(given.cast, given.dtype)
  // Validates the target's options, before anything is found that it cannot store.
  const { writeFormat, canonical } = writeRequest(given)
  const writing = writingOfId(writeFormat) as Writing
  const native = newConversion(casts, given, writing.numbered)
  const isTask = selectTask !== undefined
  const chosen: Uint32Array[] = []
  const checkpoint = await fill(file, native, given, writing, selectTask, chosen)
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
  const plan = await run(store, { signal }, (control) => native.plan(store.native, request, control))
  if (!isTask) await checkEffects(plan, { casts, chosen, catalog }, given)
  const stated = statedMetadata(plan, writing)
  const leftOut = checkpoint?.leftOut ?? passed
  return { writing, canonical, native, plan, checkpoint, leftOut, stated, isTask }
}

/** The metadata that states what is written: those of a mixture, or else the type of most elements, if it is not that of the source. */
function statedMetadata({ quantized, statedType }: ConversionPlan, writing: Writing): AttributeChanges | undefined {
  if (writing.attributes === 'none') return undefined
  const mixture = writing.typedAttributes ? (quantized?.stated ?? []) : []
  const stated = mixture.length > 0 ? mixture : statedType === undefined ? [] : [statedType]
  return Object.fromEntries(stated.map(({ key, text, number }) => [key, text ?? numberAttribute(number, writing)]))
}

function numberAttribute(
  number: number | undefined,
  { typedAttributes, attributes }: Writing,
): AttributeValueInput | undefined {
  if (number === undefined) return undefined
  if (typedAttributes) return { type: 'uint32', value: number }
  return attributes === 'text' ? String(number) : number
}
