// The module @ztensor/web/convert: writes what @ztensor/web has opened.
import { CONVERT_OPTIONS, type ConvertOptions, type ConvertPlan, type ConvertResult } from '../convert/options.js'
import { type Conversion, planConversion } from '../convert/plan.js'
import { validateConversion, writeConversion } from '../convert/write.js'
import { invalid, rethrowNative } from '../native/errors.js'
import { TensorFile } from '../read/file.js'
import { readOptions } from '../values/arguments.js'
import { withFormatOf } from '../values/formats.js'
import type { Tensors } from '../write/save-tensors.js'
import { binding } from './binding.js'
import { BlobTarget } from './blob-target.js'
import { conversions, inThread, writer } from './conversion.js'
import type { WasmSource } from './module.js'
import { type InitOptions, open, validateWorker, type WebOpenOptions } from './open.js'
import { nameOf, outputTo, targetOf, type WebTarget } from './output.js'
import { createWriter, saveAll, type WebCreateOptions, type WebSaveFileOptions, type WebTensorWriter } from './save.js'
import { saving } from './saving.js'
import type { WebSource } from './source.js'
import { Thread } from './thread.js'

export type { ConvertPlan, ConvertResult, Tensors, WebCreateOptions, WebSaveFileOptions, WebTarget, WebTensorWriter }

Object.assign(binding, conversions, saving)

/** How to convert a file in a browser: as in Node, without what needs paths and several files. */
export interface WebConvertOptions
  extends Omit<ConvertOptions, 'imatrix' | 'maxShardBytes' | 'overwrite' | 'remote' | 'source'> {
  /** How to open the source. */
  readonly source?: WebOpenOptions | undefined
  /** Read, convert and quantize in a worker, so that the page never waits: it only writes. False by default. */
  readonly worker?: boolean | undefined
}

/** What was written without a target. */
interface WithBlob {
  readonly blob: Blob
}

/** The result of a conversion. Without a target, it has the file. */
export interface WebConvertResult extends ConvertResult {
  readonly blob?: Blob | undefined
}

/**
 * Loads the module that writes, once: `convert` does so if it was not called.
 *
 * @example await init({ wasm: '/assets/ztensor-convert.wasm' })
 */
export async function init({ wasm }: InitOptions = {}): Promise<void> {
  await writer.load(wasm)
}

/** Sets the default location of the module, for a runtime that cannot fetch the file next to this one. */
export function locate(source: () => WasmSource): void {
  writer.locate(source)
}

/** Options of Node, and why a browser does not have them. */
const OF_NODE: Readonly<Record<string, string>> = {
  imatrix: 'is the path of a file: quantize with it in Node',
  maxShardBytes: 'writes several files next to each other: write one file, or convert in Node',
  overwrite: 'is for paths: a stream or a handle is always written',
  remote: 'is for object stores; for the source, set source: { remote }',
}

/**
 * Writes the tensors of a file into a new file, as in Node: the same formats, options, result, errors and bytes. zTensor 2 needs
 * `canonical: false`. Data is fetched, converted and written in pieces; that of npz is kept in Blobs first. A stream is closed on success, and
 * aborted by the signal and by an error once the writing has begun; an earlier error leaves it as it is. Without a target, `blob` of the
 * result is the file.
 *
 * @example
 * const { blob } = await convert(input.files[0], undefined, { format: 'gguf', quantize: 'q4_k_m' })
 *
 * @throws ZTensorError and TypeError as `convert` in Node; ZT_IO if the stream fails, with its error as the cause; the signal's reason
 */
export function convert(
  source: WebSource | TensorFile,
  target?: null,
  options?: WebConvertOptions & { readonly dryRun?: false | undefined },
): Promise<WebConvertResult & WithBlob>
export function convert(
  source: WebSource | TensorFile,
  target?: WebTarget | null,
  options?: WebConvertOptions,
): Promise<WebConvertResult>
export async function convert(
  source: WebSource | TensorFile,
  target?: WebTarget | null,
  options?: WebConvertOptions,
): Promise<WebConvertResult> {
  const { worker: inWorker, ...read } = readOptions(options as ConvertOptions & Pick<WebConvertOptions, 'worker'>, [
    ...CONVERT_OPTIONS,
    'worker',
  ])
  for (const [option, why] of Object.entries(OF_NODE))
    if (read[option as keyof ConvertOptions] !== undefined) throw invalid(TypeError, `${option} ${why}`, { option })
  const to = targetOf(target)
  const named = withFormatOf(read, nameOf(target), () => false)
  const { given, job, skips, dryRun } = validateConversion({ ...named, source: undefined })
  const hasThread = validateWorker(inWorker)
  await init()
  return withFile(source, options?.source, job.signal, async (file) => {
    const thread = hasThread
      ? rethrowNative(
          () =>
            new Thread({ what: 'the conversion', afterwards: 'convert again, or without worker', instead: 'convert' }),
        )
      : undefined
    let conversion: Conversion | undefined
    try {
      conversion = await inThread(thread, () => planConversion(file, { ...given, signal: job.signal }))
      const output = outputTo(dryRun ? new BlobTarget() : to, job.signal)
      const { result } = await writeConversion(file, conversion, output, given, job, skips)
      return to instanceof BlobTarget && !dryRun ? { ...result, blob: to.blob } : result
    } catch (error) {
      // An abort may end what runs with another error.
      job.signal?.throwIfAborted()
      throw error
    } finally {
      ;(conversion?.native as unknown as { close(): void } | undefined)?.close()
      thread?.close()
    }
  })
}

/**
 * Creates a writer, as in Node: the same methods, options, errors and bytes. Data is written as it is added, except in formats whose index
 * comes first (safetensors, GGUF, NumPy, BTF): it is kept in Blobs, and written by `finish()`. A stream is closed by `finish()`. It is aborted by
 * `abort()`, the signal, and an error of the stream or of the data; after an `add` that was refused the writer goes on. If `create` itself
 * fails, the stream is left as it is. Without a target, `blob` of the writer is the file.
 *
 * @example
 * const writer = await create(await handle.createWritable(), { format: 'safetensors' })
 * await writer.add('weight', new Float32Array(6), { shape: [2, 3] })
 * await writer.finish()
 *
 * @throws ZTensorError and TypeError as `create` in Node; ZT_IO if the stream fails, with its error as the cause; the signal's reason
 */
export async function create(target?: WebTarget | null, options?: WebCreateOptions): Promise<WebTensorWriter> {
  return createWriter(init, target, options)
}

/**
 * Writes tensors to a file in one call, as in Node. Without a target, `blob` of the result is the file.
 *
 * @example const { blob } = await saveFile(undefined, { weight: new Float32Array(6) }, { format: 'safetensors' })
 *
 * @throws ZTensorError and TypeError as `saveFile` in Node; ZT_IO if the stream fails, with its error as the cause; the signal's reason
 */
export function saveFile(target: null | undefined, tensors: Tensors, options?: WebSaveFileOptions): Promise<WithBlob>
export function saveFile(
  target: WebTarget | null | undefined,
  tensors: Tensors,
  options?: WebSaveFileOptions,
): Promise<{ readonly blob?: Blob | undefined }>
export async function saveFile(
  target: WebTarget | null | undefined,
  tensors: Tensors,
  options?: WebSaveFileOptions,
): Promise<{ readonly blob?: Blob | undefined }> {
  return saveAll(init, target, tensors, options)
}

/** Opens the source, unless it is open. */
async function withFile<T>(
  source: WebSource | TensorFile,
  options: WebOpenOptions | undefined,
  signal: AbortSignal | undefined,
  work: (file: TensorFile) => Promise<T>,
): Promise<T> {
  if (source instanceof TensorFile) {
    for (const [key, value] of Object.entries(options ?? {}))
      if (value !== undefined)
        throw invalid(TypeError, `${key} is an option for opening, and the file is already open`, { option: key })
    signal?.throwIfAborted()
    return TensorFile.storeOf(source).calls.hold(() => work(source))
  }
  const file = await open(source, { ...options, signal })
  try {
    return await work(file)
  } finally {
    file.close()
  }
}
