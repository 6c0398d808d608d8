import { extname, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { type ErrorCode, invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { type JobOptions, type Progress, run } from '../native/job.js'
import {
  binding,
  type ImportanceInfo,
  type NativeError,
  type NativeOutflow,
  type NativeSelection,
  type NativeWriter,
  type Selected,
} from '../native/native.js'
import { isMap, isPlainObject } from '../native/realm.js'
import { everything, inBatches, TURN } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, withOpen } from '../read/open.js'
import { remoteRequest, remoteUrl } from '../read/remote.js'
import type { Source } from '../read/source.js'
import type { Store } from '../read/store.js'
import type { AnyTensor } from '../read/tensor.js'
import { jobOptions } from '../read/verify.js'
import {
  optional,
  readOptions,
  refusePromise,
  validateBoolean,
  validateOneOf,
  validateText,
  wrongType,
} from '../values/arguments.js'
import {
  type AttributeInput,
  type Attributes,
  type AttributeValueInput,
  freezeChanges,
  freezeMap,
  mergeChanges,
  thaw,
} from '../values/attributes.js'
import { type CastRules, Casts } from '../values/cast.js'
import { type DType, dtypes } from '../values/dtype.js'
import { validateDType } from '../values/elements.js'
import { type Filter, namesMatching, tensorFilter } from '../values/filter.js'
import { type Writing, writingOfId } from '../values/formats.js'
import { Patterns, type Renaming, validateRenaming } from '../values/rename.js'
import { summary } from '../values/summary.js'
import type { Warning } from '../values/warning.js'
import { type Castable, castTensors, needsCatalog } from './casts.js'
import { cannotStore, fitAttributes } from './fitted-attributes.js'
import { CREATE_OPTIONS, type CreateOptions, metadataOf, withFormat, writeRequest } from './options.js'
import type { Outlet } from './outlet.js'
import { readersOf } from './readers.js'
import { type Target, validateTarget } from './target.js'
import { TensorWriter } from './writer.js'

/** How to convert a file. Its attributes and generator are copied unless you set others. */
export interface ConvertOptions extends Omit<CreateOptions, 'attributes'>, JobOptions {
  /**
   * The file attributes to write instead of the source's. `false` writes no attributes at all, neither of the file nor of tensors;
   * parameters of quantized layouts stay.
   */
  attributes?: AttributeInput | false | undefined
  /**
   * Fail if the target cannot store attributes of the source. By default they are left out and listed in `skipped`. Where the target
   * stores only text (safetensors), other plain values become JSON text.
   */
  strictAttributes?: boolean | undefined
  /**
   * Stores the elements of quantized tensors (GGUF block types, TFLite, `zt.quant_group/1`, `zt.mx/1`) as a dense tensor of this dtype.
   * Each element is computed as float32 and rounded once, to nearest, ties to even.
   */
  dequantize?: 'float32' | 'float16' | 'bfloat16' | undefined
  /**
   * Quantizes tensors to ggml's block types, bit for bit as llama.cpp does: the name of a mixture of `llama-quantize` (`'q4_k_m'`,
   * `'q8_0'`, …), or block types by patterns of the new names, of which the first match counts: `{ '*.ffn_down.*': 'q6_k', '*': 'q5_k' }`.
   * Types of rules may also be `f32`, `f16` and `bf16`. Tensors that llama.cpp does not quantize (norms, biases, small ones) stay as they
   * are. A tensor whose rows are not whole blocks gets a type with smaller blocks, or float16; `quantized.fallbacks` of the result lists
   * these. A mixture orders the tensors as llama.cpp does.
   */
  quantize?: string | Readonly<Record<string, string>> | undefined
  /**
   * The importance matrix that weighs errors while quantizing: the path of a file by `llama-imatrix`, as GGUF or in its older format.
   * `iq1_s` to `iq3_xxs`, and the mixture `q2_k_s`, need one.
   */
  imatrix?: string | undefined
  /** Quantize tensors that are quantized already. By default they are an error, because each time loses precision. */
  requantize?: boolean | undefined
  /**
   * GGUF from a checkpoint of the Hugging Face hub: names, shapes, metadata and tokenizer become those of `convert_hf_to_gguf.py`, from
   * `config.json` and the tokenizer's files beside the weights. By default if the target is GGUF, the source is safetensors or PyTorch with
   * such a `config.json`, and `rename` is not given. `false` copies the tensors under their own names.
   */
  checkpoint?: boolean | undefined
  /** How to open the source. */
  source?: OpenOptions | undefined
  /** Selects the tensors to convert, all by default: a glob, a list of globs (`!` excludes), or a function. */
  filter?: Filter<AnyTensor> | undefined
  /**
   * New names of tensors: a function, or an object of names and patterns such as `{ 'model.*': 'm.*' }`, in which each `*` stands for what
   * it matched. Two tensors with the same new name are an error. Not used for BTF, where tensors have numbers instead of names.
   */
  rename?: Renaming | undefined
  /** Casts all floating-point tensors to this dtype. A rule of `cast` that matches a tensor takes precedence. */
  dtype?: DType | undefined
  /**
   * Casts dense tensors and the values of sparse tensors, by dtype (`{ float32: 'bfloat16' }`), by groups of dtypes (`float*`, `int*`,
   * `uint*`) and by names (`{ 'lm_head.*': 'float32' }`), or a list of rules `{ name, dtype, to }`. The first rule that matches a tensor is
   * used. A rule with a name and no dtype casts only floats to floats and integers to integers. Supported are casts between float64,
   * float32, float16, bfloat16, float8_e4m3fn and float8_e5m2, from any dtype that widens to float32 to these, and from integers to wider
   * integers. Values are rounded to nearest, ties to even. Overflow gives infinity, or NaN in float8_e4m3fn. Other dtypes, and components
   * of other layouts, are not changed.
   */
  cast?: CastRules | undefined
  /**
   * Skip tensors that the target format cannot represent, because of their dtype, layout, name or data, instead of failing. Fails if
   * no tensor would be left. A glob or a list of globs skips only tensors whose names match.
   */
  skip?: boolean | string | readonly string[] | undefined
}

export const CONVERT_OPTIONS = [
  ...CREATE_OPTIONS,
  'strictAttributes',
  'dequantize',
  'checkpoint',
  'quantize',
  'imatrix',
  'requantize',
  'source',
  'filter',
  'rename',
  'cast',
  'dtype',
  'skip',
  'onProgress',
] as const

const DEQUANTIZED = ['float32', 'float16', 'bfloat16'] as const

/** Validates the option `dequantize`. */
export function validateDequantize(value: unknown): (typeof DEQUANTIZED)[number] {
  return validateOneOf('dequantize', DEQUANTIZED, value)
}

/** The result of a conversion. */
export interface ConvertResult {
  /** Number of tensors written. */
  readonly tensors: number
  /**
   * What was left out, with the reasons: attributes that the target cannot store, and with `skip` the tensors that it cannot represent.
   * The errors of tensors and their attributes have the property `tensor`.
   */
  readonly skipped: readonly ZTensorError[]
  /** Number of tensors that were skipped: 0 without `skip`. */
  readonly skippedTensors: number
  /**
   * With `quantize`, the number of tensors of each type that they were quantized to, without those that stay as they are; and the tensors
   * whose rows are not whole blocks of the wanted type.
   */
  readonly quantized: {
    readonly types: Readonly<Record<string, number>>
    readonly fallbacks: readonly { readonly tensor: string; readonly wanted: string; readonly type: string }[]
  }
  /** The warnings of the source, as in `file.warnings`. */
  readonly warnings: readonly Warning[]
  /** The programs that can read the new file. Python only reads zTensor 1.0 if all file attributes are text. */
  readonly readers: readonly string[]
}

/** The error for tensors that the target cannot represent, with all reasons. */
export function refusal(refusals: readonly ZTensorError[], target: string): ZTensorError {
  const [first] = refusals as [ZTensorError]
  const cast = refusals.some(({ code }) => code === 'ZT_BAD_DTYPE') ? ', option cast converts dtypes' : ''
  const message = `${target} cannot represent everything in the source (option skip leaves it out${cast}): ${summary(refusals).join('; ')}`
  const { code, tensor, component, rule } = first
  return new ZTensorError(code, message, { tensor, component, rule, cause: refusals })
}

/** The error if `skip` would skip every tensor. */
export function nothingLeft(refused: readonly ZTensorError[]): ZTensorError {
  const { code, tensor, component, rule } = refused[0] as ZTensorError
  const message = `no tensor is left: ${summary(refused).join('; ')}`
  return new ZTensorError(code, message, { tensor, component, rule, cause: refused })
}

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

/** Whether a refusal skips its tensor, instead of failing the conversion. Refusals of attributes have no tensor. */
export type Skips = (refused: Pick<ZTensorError, 'tensor'>) => boolean

/** Validates the option `skip`. */
export function skipping(skip: ConvertOptions['skip']): Skips {
  if (skip === undefined || typeof skip === 'boolean') return () => skip === true
  if (typeof skip !== 'string' && !Array.isArray(skip))
    throw wrongType('skip', 'a boolean, a glob or a list of globs', skip)
  const matches = namesMatching(skip)
  return ({ tensor }) => tensor !== undefined && matches(tensor)
}

/** Names that are made before a yield to the event loop. */
const RENAMED = 2000

/** Adds tensors to a selection, by ordinal. `names` has their new names; it is empty if they keep their names. */
export type Take = (ordinals: Uint32Array, names: string[]) => void

/** Calls `take` with the tensors that `filter` selects, and their new names. */
export async function choose(
  file: TensorFile,
  take: Take,
  { filter: given, rename, signal }: Pick<ConvertOptions, 'filter' | 'rename' | 'signal'>,
): Promise<void> {
  const filter = tensorFilter(given)
  const chosen = filter === undefined ? everything(file.size) : await TensorFile.filtered(file, filter, signal)
  if (rename === undefined) return rethrowNative(() => take(chosen, []))
  const catalog = await TensorFile.ready(file, signal)
  const names = new NewNames(rename)
  for (let from = 0; from < chosen.length; from += TURN) {
    const some = chosen.subarray(from, from + TURN)
    const renamed: string[] = []
    for (const ordinal of some) {
      if (renamed.length % RENAMED === RENAMED - 1) await nextTurn()
      renamed.push(names.of(catalog.name(ordinal)))
    }
    rethrowNative(() => take(some, renamed))
  }
  names.check()
}

/** Gives tensors new names, and rejects a name that two tensors would get. */
class NewNames {
  readonly #patterns: Patterns | undefined
  readonly #rename: (name: string) => string
  readonly #owners = new Map<string, string>()

  constructor(rename: Renaming) {
    const patterns = typeof rename === 'function' ? undefined : new Patterns(rename)
    this.#patterns = patterns
    this.#rename = typeof rename === 'function' ? rename : (name) => (patterns as Patterns).of(name)
  }

  of(name: string): string {
    const returned: unknown = this.#rename(name)
    refusePromise('rename', returned)
    const renamed = validateText('the return value of rename', returned)
    const owner = this.#owners.get(renamed)
    if (owner !== undefined) {
      const [first, second, both] = [owner, name, renamed].map((one) => JSON.stringify(one))
      const message = `the tensors ${first} and ${second} would both be called ${both} (option rename)`
      throw new ZTensorError('ZT_BAD_INDEX', message, { tensor: name })
    }
    this.#owners.set(renamed, name)
    return renamed
  }

  /** Throws for a pattern that matched no selected tensor. */
  check(): void {
    this.#patterns?.checkUsed()
  }
}

/** The errors for what the target cannot represent. Each names its tensor, which may then be skipped. */
export async function refusalsOf(selection: NativeSelection, attributes: boolean): Promise<ZTensorError[]> {
  return errorsOf(() => selection.refusals(attributes))
}

/** The errors for tensors that are written without their attributes. */
export async function bareOf(selection: NativeSelection): Promise<ZTensorError[]> {
  return errorsOf(() => selection.withoutAttributes())
}

/** All errors of pages of the binding. */
async function errorsOf(next: () => NativeError[]): Promise<ZTensorError[]> {
  const all: ZTensorError[] = []
  for (let page = next(); page.length > 0; page = next()) {
    for (const { code, message, ...where } of page) all.push(new ZTensorError(code as ErrorCode, message, where))
    await nextTurn()
  }
  return all
}

/** The changes that a selection makes, as the binding takes them. `castTensors` adds the casts that depend on names. */
export function newSelection(
  casts: Casts,
  { attributes, dequantize }: Pick<ConvertOptions, 'attributes' | 'dequantize'>,
  numbered: boolean,
): NativeSelection {
  const dequantized = optional(dequantize, (value) => validateDType('dequantize', value).code)
  return rethrowNative(() => new binding.Selection(casts.pairs ?? [], dequantized, attributes !== false, numbered))
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

/** A checkpoint of the Hugging Face hub as GGUF has it. */
interface Checkpoint {
  /** The name of the model. */
  readonly named: Readonly<Record<string, AttributeValueInput>>
  /** What states the type of its matrices. */
  readonly metadata: Readonly<Record<string, AttributeValueInput>>
  /** The tensors that GGUF does not have. */
  readonly leftOut: readonly ZTensorError[]
  /** The tensors of GGUF, for casts. */
  readonly castable: Castable
}

/** `general.file_type` of a model of one dtype. */
const FILE_TYPES: Readonly<Record<string, number>> = { float32: 0, float16: 1, bfloat16: 32 }
const CHECKPOINTS: readonly string[] = ['safetensors', 'pytorch']

/** The name of a model by the path or the URL of its weights or their folder. */
function modelName(location: string): string {
  const path = location.replace(/^[a-z0-9]+:\/\//i, '').replace(/[?#].*$/, '')
  const parts = resolve('/', path.replaceAll('\\', '/')).split(/[\\/]/).filter(Boolean)
  const names = parts.filter((part, at) => at < parts.length - 1 || extname(part) === '' || parts.length === 1)
  const words = (names.at(-1) ?? 'model').replace(/@[^@]*$/, '').split(/[-\s]+/)
  const isPlain = (word: string): boolean => word === word.toLowerCase() && !/^(v\d|\d)/.test(word)
  return words.map((word) => (isPlain(word) ? `${word[0]?.toUpperCase() ?? ''}${word.slice(1)}` : word)).join(' ')
}

/** Takes the tensors of a checkpoint, if the source is one and the target is GGUF. */
async function takeCheckpoint(
  file: TensorFile,
  selection: NativeSelection,
  given: ConvertOptions,
  { typedAttributes }: Writing,
  signal: AbortSignal | undefined,
): Promise<Checkpoint | undefined> {
  const asked = optional(given.checkpoint, (value) => validateBoolean('checkpoint', value))
  if (asked && !typedAttributes) throw invalid(TypeError, 'checkpoint is only supported for GGUF')
  const store = TensorFile.storeOf(file)
  const { path } = store
  const fits = typedAttributes && CHECKPOINTS.includes(file.format) && path !== undefined
  if (asked === false || !fits || (given.rename !== undefined && !asked)) {
    if (asked) throw invalid(TypeError, 'checkpoint needs the path or the URL of safetensors or PyTorch weights')
    return undefined
  }
  const url = remoteUrl(path)
  const remote = url === undefined ? undefined : remoteRequest(given.source?.remote)
  const { set } = freezeChanges('metadata', given.metadata ?? {})
  const info = await run(store, { signal }, (control) =>
    selection.takeCheckpoint(store.native, url ?? path, remote, asked ?? false, set, control),
  )
  if (info === null) {
    if (asked) throw new ZTensorError('ZT_NOT_FOUND', `no config.json is beside the weights of ${path}`)
    return undefined
  }
  for (const option of ['filter', 'rename'] as const)
    if (given[option] !== undefined)
      throw invalid(TypeError, `${option} selects tensors by their own names; with checkpoint: false, these are copied`)
  const leftOut = info.leftOut.map(
    ({ tensor, reason }) =>
      new ZTensorError('ZT_INVALID_ARG', `tensor ${JSON.stringify(tensor)}: ${reason}`, { tensor }),
  )
  const type = FILE_TYPES[given.dtype ?? info.dtype ?? '']
  return {
    named: { 'general.name': modelName(path) },
    metadata: type === undefined ? {} : { 'general.file_type': { type: 'uint32', value: type } },
    leftOut,
    castable: {
      size: info.names.length,
      name: (ordinal) => info.names[ordinal] as string,
      dtype: (ordinal) => dtypes[info.dtypes[ordinal] as number],
      layout: () => 'dense',
    },
  }
}

/** What `quantize` of a conversion chose: its part of the result, and the metadata that states it. */
interface Quantization {
  readonly result: ConvertResult['quantized']
  readonly metadata: Readonly<Record<string, AttributeValueInput>> | undefined
}

/** The version of ggml's block types: the only one since 2023. */
const QUANTIZATION_VERSION = 2

/** Validates the option `quantize`. */
export function validateQuantize(value: unknown): string | Readonly<Record<string, string>> {
  if (typeof value === 'string') return value
  if (!isPlainObject(value)) throw wrongType('quantize', "a mixture such as 'q4_k_m' or types by patterns", value)
  const rules = Object.entries(value)
  for (const [pattern, type] of rules) validateText(`quantize[${JSON.stringify(pattern)}]`, type)
  if (rules.length === 0) throw invalid(RangeError, 'quantize must have at least one pattern')
  return value as Readonly<Record<string, string>>
}

/** The longest text that llama-quantize records. */
const LONGEST = 127

/** What llama-quantize records of an importance matrix. */
function importanceMetadata(
  path: string,
  { dataset, entries, chunks }: ImportanceInfo,
): Record<string, AttributeValueInput> {
  return {
    'quantize.imatrix.file': path.slice(0, LONGEST),
    ...(dataset === undefined ? {} : { 'quantize.imatrix.dataset': dataset.slice(0, LONGEST) }),
    'quantize.imatrix.entries_count': { type: 'uint32', value: entries },
    ...(chunks === 0 ? {} : { 'quantize.imatrix.chunks_count': { type: 'uint32', value: chunks } }),
  }
}

/** Chooses the types of tensors to quantize. */
async function quantizeTensors(
  file: TensorFile,
  selection: NativeSelection,
  { quantize, requantize, imatrix, metadata }: ConvertOptions,
  signal: AbortSignal | undefined,
): Promise<Quantization | undefined> {
  const wanted = optional(quantize, validateQuantize)
  const again = optional(requantize, (value) => validateBoolean('requantize', value)) ?? false
  const matrix = optional(imatrix, (value) => validateText('imatrix', value))
  if (wanted === undefined) return undefined
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  const mixture = typeof wanted === 'string' ? wanted : undefined
  const rules = typeof wanted === 'string' ? [] : Object.entries(wanted).flat()
  const store = TensorFile.storeOf(file)
  const { fileType, types, fallbacks, importance } = await run(store, { signal }, (control) =>
    selection.quantize(store.native, mixture, rules, again, matrix, set, unset, control),
  )
  const uint32 = (value: number): AttributeInput => ({ type: 'uint32', value })
  return {
    result: { types: Object.fromEntries(types.map(({ type, tensors }) => [type, tensors])), fallbacks },
    metadata:
      fileType === undefined
        ? undefined
        : {
            'general.quantization_version': uint32(QUANTIZATION_VERSION),
            'general.file_type': uint32(fileType),
            ...(importance === undefined ? {} : importanceMetadata(matrix ?? '', importance)),
          },
  }
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
      quantized: quantization?.result ?? { types: {}, fallbacks: [] },
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
