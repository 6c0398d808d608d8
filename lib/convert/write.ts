// Writes what was planned: the metadata, and then the tensors.
import type { ZTensorError } from '../native/errors.js'
import { type Counts, run, type ValidJob } from '../native/job.js'
import type {
  BeginRequest,
  Begun,
  ConversionPlan,
  NativeConversion,
  NativeOutflow,
  NativeWriter,
  PartRequest,
  WriteRequest,
} from '../native/native.js'
import { inBatches } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import type { Store } from '../read/store.js'
import { jobOptions } from '../read/verify.js'
import { optional, validateBoolean } from '../values/arguments.js'
import { type AttributeChanges, freezeChanges, freezeMap, mergeChanges } from '../values/attribute-input.js'
import { dtypes } from '../values/dtype.js'
import { tensorFilter } from '../values/filter.js'
import { validateRenaming } from '../values/rename.js'
import { storageTypeOf } from '../values/storage-type.js'
import { metadataOf, writeRequest } from '../write/options.js'
import { type ConvertOptions, type ConvertPlan, type ConvertResult, validateDequantize } from './options.js'
import type { Conversion } from './plan.js'
import { leftOutErrors, refusedOf, type Skips, skipping, tensorsOf, withoutAttributes } from './refusals.js'

/** The options of a conversion, checked before the source is opened. */
export interface ValidConversion {
  readonly given: ConvertOptions
  readonly job: ValidJob
  readonly skips: Skips
  readonly dryRun: boolean
}

/** Validates the options of a conversion that do not depend on its source. */
export function validateConversion(read: ConvertOptions): ValidConversion {
  for (const option of ['copyMetadata', 'copyAttributes', 'strictMetadata'] as const)
    optional(read[option], (value) => validateBoolean(option, value))
  optional(read.dequantize, validateDequantize)
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  tensorFilter(read.filter)
  const rename = optional(read.rename, validateRenaming)
  const skips = skipping(read.skip)
  const dryRun = optional(read.dryRun, (value) => validateBoolean('dryRun', value)) ?? false
  return { given: { ...read, rename, dryRun }, job, skips, dryRun }
}

/** What a conversion would write. */
function planOf({ outlines = [] }: Begun, unchecked: number): ConvertPlan {
  const tensors = outlines.map(({ name, shape, layout, dtype, byteLength, file }) => ({
    name,
    storageType: storageTypeOf(layout, dtype === undefined ? undefined : dtypes[dtype]?.name),
    shape,
    byteLength,
    file,
  }))
  const byteLength = tensors.reduce((sum, tensor) => sum + tensor.byteLength, 0)
  return { tensors, byteLength, files: (tensors[tensors.length - 1]?.file ?? 0) + 1, unchecked }
}

/** Whether the source's own metadata is copied natively. */
const copiesMetadata = ({ plan }: Conversion, { copyMetadata = true, strictMetadata }: ConvertOptions): boolean =>
  copyMetadata && (plan.attributes || !strictMetadata)

/** The part of a conversion's result that says what was quantized. */
export function quantizedResult({ quantized }: ConversionPlan): ConvertResult['quantized'] {
  if (quantized === undefined) return { types: {}, fallbacks: [], unweighted: [] }
  const { types, fallbacks, unweighted } = quantized
  return { types: Object.fromEntries(types.map(({ type, tensors }) => [type, tensors])), fallbacks, unweighted }
}

/** The file that a conversion writes. */
export interface Output {
  readonly native: NativeWriter
  /** Gives up a target that got nothing yet, and leaves it as it is. */
  release(): void
  /** Opens the target, and begins to abort it when the signal is aborted. */
  listen(): Promise<void>
  /** Runs native work that writes. The file is aborted only after it has ended. */
  write(make: (blocks?: NativeOutflow, stop?: AbortSignal) => Promise<void>): Promise<void>
  finish(): Promise<void>
  abort(): Promise<void>
  /** The path or URL that opens what was written, if there is one. */
  readonly entry: string | undefined
}

/** Begins the file of a conversion. */
export type BeginOutput = (request: WriteRequest, conversion: Conversion) => Promise<Output>

/** The state of a conversion. */
interface Work {
  readonly store: Store
  readonly native: NativeConversion
  readonly output: Output
  readonly job: ValidJob
}

/** Finds the tensors that the target cannot represent because of their data. Returns the number of bytes read. */
async function inspect({ store, native, output, job }: Work, plan: ConversionPlan): Promise<number> {
  const { onProgress, signal } = job
  let bytes = 0
  const report = (progress: Counts): void => {
    bytes = progress.totalBytes
    const totals = { totalBytes: progress.totalBytes + plan.bytes, totalTensors: plan.tensors }
    onProgress?.({ bytes: progress.bytes, tensors: 0, ...totals })
  }
  const many = {
    count: plan.inspected,
    bytes: plan.inspectedBytes,
    next: (from: number) => native.stageNext(store.native, true, from),
    onProgress: onProgress && report,
    signal,
  }
  await inBatches(store, many, ({ from, end, stage, onProgress }) =>
    // It creates temporary files in the target's folder, which are removed before it rejects.
    run(
      store,
      { onProgress, signal },
      (control) => native.write(store.native, output.native, { inspected: true, from, end }, control, stage),
      'when undone',
    ),
  )
  return bytes
}

/** Copies the remaining tensors. `before` is the number of bytes that were read before. */
async function copy({ store, native, output, job }: Work, left: Begun, before: number): Promise<void> {
  const { onProgress, signal } = job
  const report = (progress: Counts): void =>
    onProgress?.({ ...progress, bytes: before + progress.bytes, totalBytes: before + progress.totalBytes })
  const many = {
    count: left.tensors,
    bytes: left.bytes,
    next: (from: number) => native.stageNext(store.native, false, from),
    onProgress: onProgress && report,
    signal,
  }
  await inBatches(store, many, ({ from, end, stage, onProgress }) => {
    const make = (blocks?: NativeOutflow, stop = signal) =>
      run(
        store,
        { onProgress, signal: stop },
        (control) => native.write(store.native, output.native, { inspected: false, from, end }, control, stage, blocks),
        'when undone',
      )
    return output.write(make)
  })
}

/** A conversion, with the errors of the tensors that were skipped. */
interface Converted {
  readonly result: ConvertResult
  readonly refused: readonly ZTensorError[]
}

/** Finds the tensors that cannot be written because of their data. Returns what is skipped, and the number of bytes read. */
async function inspected(
  work: Work,
  conversion: Conversion,
  given: ConvertOptions,
  skips: Skips,
): Promise<{ skipped: readonly ZTensorError[]; bytes: number }> {
  try {
    const bytes = await inspect(work, conversion.plan)
    return { skipped: await refusedOf(conversion, given, skips), bytes }
  } catch (error) {
    // Nothing was written to the stream yet.
    work.output.release()
    throw error
  }
}

/** The changes of the metadata that is copied natively. `stated` says what was quantized. */
function changesOf(metadata: AttributeChanges | undefined, stated: AttributeChanges | undefined) {
  const { set, unset } = freezeChanges('metadata', metadata ?? {})
  // What a mixture states comes last, as llama.cpp writes it.
  const keys = Object.keys(stated ?? {}).map((key) => [key, null])
  const moved = freezeMap('metadata', Object.fromEntries(keys)).map
  return { set, unset: { map: [...unset.map, ...moved] } }
}

/** Begins the target of a conversion. `begin` hands over the metadata that is no option of the writer, and the tensors. */
export async function beginConversion(
  file: TensorFile,
  conversion: Conversion,
  beginOutput: BeginOutput,
  given: ConvertOptions,
  job: ValidJob,
) {
  const { writing, stated } = conversion
  const store = TensorFile.storeOf(file)
  const generator = given.generator ?? (writing.generator ? file.generator : undefined)
  const isCopied = copiesMetadata(conversion, given)
  const changes = mergeChanges({ ...stated }, given.metadata)
  const metadata = metadataOf(writing, { ...given, metadata: changes })
  const output = await beginOutput(writeRequest({ ...given, generator, metadata }), conversion)
  const work: Work = { store, native: conversion.native, output, job }
  const begin = (request: BeginRequest): Promise<Begun> => {
    const whole = isCopied ? { ...request, ...changesOf(metadata, stated) } : request
    return run(store, { signal: job.signal }, (control) =>
      work.native.begin(store.native, output.native, whole, control),
    )
  }
  return { work, begin, skipped: isCopied ? leftOutErrors(conversion.plan, writing) : [] }
}

/** Writes the tensors that were selected; with `part`, only some of them, as one file of a set. */
export async function writeConversion(
  file: TensorFile,
  conversion: Conversion,
  target: BeginOutput,
  given: ConvertOptions,
  job: ValidJob,
  skips: Skips,
  part?: PartRequest,
): Promise<Converted> {
  const { native, plan: planned, checkpoint } = conversion
  const { signal } = job
  const bare = await withoutAttributes(native)
  const inspects = planned.inspected > 0 && !given.dryRun
  let skipped = inspects ? [] : await refusedOf(conversion, given, skips)
  const { work, begin, skipped: leftOut } = await beginConversion(file, conversion, target, given, job)
  const { output } = work
  try {
    let before = 0
    if (inspects) ({ skipped, bytes: before } = await inspected(work, conversion, given, skips))
    // From here on an abort destroys the stream. Before, it is not changed.
    await output.listen()
    const outlines = given.dryRun ?? false
    const left = await begin({ tensors: true, outlines, ...(part === undefined ? {} : { part }) })
    const plan = outlines ? planOf(left, planned.inspected) : undefined
    if (plan === undefined) await copy(work, left, before)
    signal?.throwIfAborted()
    if (plan === undefined) await output.finish()
    else await output.abort()
    const result = {
      ...(plan === undefined ? {} : { plan }),
      tensors: left.tensors,
      quantized: quantizedResult(planned),
      skipped: [...skipped, ...bare, ...leftOut, ...conversion.leftOut],
      skippedTensors: tensorsOf(skipped),
      warnings: [...file.warnings, ...(checkpoint?.warnings ?? [])],
      readers: left.readers,
    }
    // The results of equal conversions are equal.
    const path = plan === undefined ? output.entry : undefined
    return { result: Object.defineProperty(result, 'path', { value: path }), refused: skipped }
  } catch (error) {
    await output.abort()
    throw error
  }
}
