import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { builtins } from '../native/builtins.js'
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
} from '../native/native.js'
import { inBatches } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import { withOpen } from '../read/open.js'
import type { Source } from '../read/source.js'
import type { Store } from '../read/store.js'
import { jobOptions } from '../read/verify.js'
import { optional, readOptions, validateBoolean } from '../values/arguments.js'
import { type AttributeChanges, freezeChanges, freezeMap, mergeChanges } from '../values/attributes.js'
import { dtypes } from '../values/dtype.js'
import { tensorFilter } from '../values/filter.js'
import { validateRenaming } from '../values/rename.js'
import { storageTypeOf } from '../values/storage-type.js'
import { type CreateOptions, metadataOf, withFormat, writeRequest } from '../write/options.js'
import type { Outlet } from '../write/outlet.js'
import { type Target, validateTarget } from '../write/target.js'
import { TensorWriter } from '../write/writer.js'
import {
  CONVERT_OPTIONS,
  type ConvertOptions,
  type ConvertPlan,
  type ConvertResult,
  validateDequantize,
} from './options.js'
import { type Conversion, planConversion } from './plan.js'
import { leftOutErrors, refusedOf, type Skips, skipping, tensorsOf, withoutAttributes } from './refusals.js'

/** `convert` of lib/lazy.ts. */
export async function convert(
  source: Source | TensorFile,
  target: string | URL | Writable,
  options?: ConvertOptions,
): Promise<ConvertResult> {
  const read = readOptions(options, CONVERT_OPTIONS)
  const to = validateTarget('target', target, read)
  const creating = withFormat(read, to.path)
  for (const option of ['copyMetadata', 'copyAttributes', 'strictMetadata'] as const)
    optional(read[option], (value) => validateBoolean(option, value))
  optional(read.dequantize, validateDequantize)
  const job = jobOptions({ onProgress: read.onProgress, signal: read.signal })
  tensorFilter(read.filter)
  const rename = optional(read.rename, validateRenaming)
  const skips = skipping(read.skip)
  const dryRun = optional(read.dryRun, (value) => validateBoolean('dryRun', value)) ?? false
  return withOpen(source, { ...read.source, signal: job.signal }, async (file) => {
    const given = { ...creating, rename, dryRun }
    const conversion = await planConversion(file, { ...given, signal: job.signal })
    const { result } = await writeConversion(file, conversion, dryRun ? NOWHERE : to, given, job, skips)
    return result
  })
}

/** The target of a file that is not written: its writer is aborted. */
const NOWHERE: Pick<Target, 'begin' | 'remote'> = {
  begin: async () => join(builtins.os.tmpdir(), `ztensor-dry-run-${builtins.crypto.randomUUID()}`),
  remote: undefined,
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

/** The state of a conversion. */
interface Work {
  readonly store: Store
  readonly native: NativeConversion
  readonly writer: TensorWriter
  readonly target: NativeWriter
  readonly outlet: Outlet | undefined
  /** The stream, if bytes go to it as they are written. */
  readonly direct: Outlet | undefined
  readonly job: ValidJob
}

/** Finds the tensors that the target cannot represent because of their data. Returns the number of bytes read. */
async function inspect({ store, native, target, job }: Work, plan: ConversionPlan): Promise<number> {
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
      (control) => native.write(store.native, target, { inspected: true, from, end }, control, stage),
      'when undone',
    ),
  )
  return bytes
}

/** Copies the remaining tensors. `before` is the number of bytes that were read before. */
async function copy({ store, native, writer, target, direct, job }: Work, left: Begun, before: number): Promise<void> {
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
        (control) => native.write(store.native, target, { inspected: false, from, end }, control, stage, blocks),
        'when undone',
      )
    // Queued in the writer, so that abort() waits for it.
    return TensorWriter.during(writer, () => (direct === undefined ? make() : direct.pass(make, signal)))
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
    work.outlet?.release()
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

/** Begins to write the target. */
async function beginTarget(
  { begin, remote }: Pick<Target, 'begin' | 'remote'>,
  given: CreateOptions,
  { native, plan }: Conversion,
  store: Store,
  job: ValidJob,
): Promise<Work> {
  const writer = await TensorWriter.make(await begin(), writeRequest(given), job.signal, remote, plan.isSized)
  const { native: target, ...streams } = TensorWriter.partsOf(writer)
  return { store, native, writer, target, ...streams, job }
}

/** Begins a file with the metadata of a conversion, in memory, and passes its writer to `use`. */
export async function withMetadata<T>(
  file: TensorFile,
  conversion: Conversion,
  given: ConvertOptions,
  job: ValidJob,
  use: (writer: NativeWriter) => T | Promise<T>,
): Promise<T> {
  const { work, begin } = await beginConversion(file, conversion, NOWHERE, given, job)
  try {
    await begin({ tensors: false, outlines: false })
    return await use(work.target)
  } finally {
    await work.writer.abort()
  }
}

/** Begins the target of a conversion. `begin` hands over the metadata that is no option of the writer, and the tensors. */
async function beginConversion(
  file: TensorFile,
  conversion: Conversion,
  target: Pick<Target, 'begin' | 'remote'>,
  given: ConvertOptions,
  job: ValidJob,
) {
  const { writing, stated } = conversion
  const store = TensorFile.storeOf(file)
  const generator = given.generator ?? (writing.generator ? file.generator : undefined)
  const isCopied = copiesMetadata(conversion, given)
  const changes = mergeChanges({ ...stated }, given.metadata)
  const metadata = metadataOf(writing, { ...given, metadata: changes })
  const work = await beginTarget(target, { ...given, generator, metadata }, conversion, store, job)
  const begin = (request: BeginRequest): Promise<Begun> => {
    const whole = isCopied ? { ...request, ...changesOf(metadata, stated) } : request
    return run(store, { signal: job.signal }, (control) => work.native.begin(store.native, work.target, whole, control))
  }
  return { work, begin, skipped: isCopied ? leftOutErrors(conversion.plan, writing) : [] }
}

/** Writes the tensors that were selected; with `part`, only some of them, as one file of a set. */
export async function writeConversion(
  file: TensorFile,
  conversion: Conversion,
  target: Pick<Target, 'begin' | 'remote'>,
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
  const { writer } = work
  try {
    let before = 0
    if (inspects) ({ skipped, bytes: before } = await inspected(work, conversion, given, skips))
    // From here on an abort destroys the stream. Before, it is not changed.
    await TensorWriter.listen(writer)
    const outlines = given.dryRun ?? false
    const left = await begin({ tensors: true, outlines, ...(part === undefined ? {} : { part }) })
    const plan = outlines ? planOf(left, planned.inspected) : undefined
    if (plan === undefined) await copy(work, left, before)
    signal?.throwIfAborted()
    if (plan === undefined) await writer.finish()
    else await writer.abort()
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
    const path = plan === undefined ? TensorWriter.entryOf(writer) : undefined
    return { result: Object.defineProperty(result, 'path', { value: path }), refused: skipped }
  } catch (error) {
    await writer.abort()
    throw error
  }
}
