// Runs one task of a conversion.
import { basename } from 'node:path'
import { invalid, ZTensorError } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import { binding } from '../native/native.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import { type RemoteOptions, remoteRequest } from '../read/remote.js'
import { convertFile } from '../write/convert.js'
import { skipping } from '../write/selection.js'
import { algorithmOf, type ConvertTask, type ConvertTaskResult, filePathOf, lastPathOf } from './convert-tasks.js'
import { ordinalsOf } from './divide.js'
import { TASK_VERSION, type TaskError } from './format.js'
import { checkSource, openSource } from './source.js'
import { isStored, isThere } from './stored.js'

/** Converts an error to JSON. */
export function errorJson(error: ZTensorError): TaskError {
  const { code, message, tensor, component, offset, rule } = error
  return JSON.parse(JSON.stringify({ code, message, tensor, component, offset, rule })) as TaskError
}

/** Computes the size and digest of a whole file. */
export async function identified(file: TensorFile, algorithm: 'sha256' | 'xxh3', signal?: AbortSignal) {
  const store = TensorFile.storeOf(file)
  const label = 'shard'
  return run(store, { signal }, (control) => binding.identify(store.native, label, algorithm, control))
}

async function describe(
  task: ConvertTask,
  path: string,
  skipped: readonly ZTensorError[],
  remote: RemoteOptions | undefined,
  signal?: AbortSignal,
): Promise<ConvertTaskResult> {
  const { job, task: index, options } = task
  const { format } = options
  const file = await open(path, { format, remote, signal })
  try {
    const { size, digest } = await identified(file, algorithmOf(options), signal)
    const what = { file: basename(path), byteLength: size, digest, tensors: file.size }
    return { ztensor: TASK_VERSION, kind: 'convert', job, task: index, ...what, skipped: skipped.map(errorJson) }
  } finally {
    file.close()
  }
}

/** The new names of the task's tensors, by ordinal order; empty if no tensor is renamed. */
export function namesOf({ renamed }: ConvertTask, ordinals: Uint32Array, catalog: Catalog): string[] {
  if (renamed.length === 0) return []
  const names = new Map(renamed)
  return Array.from(ordinals, (ordinal) => names.get(ordinal) ?? catalog.name(ordinal))
}

/** Validates that the file has all ordinals. */
export function checkOrdinals(ordinals: ConvertTask['ordinals'], size: number): Uint32Array {
  const last = ordinals[ordinals.length - 1]
  if (last !== undefined && last[1] > size)
    throw invalid(
      RangeError,
      `task.ordinals must not exceed ${size}, the number of tensors in the source, got ${last[1]}`,
    )
  return ordinalsOf(ordinals)
}

/** Writes the file of a task. After the job was finished, it only describes the existing file. */
export async function runConvert(
  task: ConvertTask,
  opening: OpenOptions | undefined,
  given: RemoteOptions | undefined,
  { onProgress, signal }: JobOptions,
): Promise<ConvertTaskResult> {
  const { target, options, count } = task
  const path = filePathOf(task)
  const remote = isStored(path) ? remoteRequest(given) : undefined
  const source = await openSource(task.source, opening, signal)
  try {
    if (await isThere(lastPathOf(target, options.format, count), given, signal))
      return await describeExisting(task, path, given, signal)
    const ordinals = checkOrdinals(task.ordinals, source.size)
    const names = namesOf(task, ordinals, await TensorFile.ready(source, signal))
    // In sharded zTensor 2, only the root has attributes.
    const isShard = count > 1 && options.format === 'zt'
    const shard = isShard && options.attributes !== false ? { ...options, attributes: {} } : options
    // A single file must not exist yet. An existing shard belongs to this job and has the same bytes, so it may be replaced.
    const writing = { ...shard, overwrite: count > 1 }
    const { refused } = await convertFile(
      source,
      { begin: async () => path, remote },
      writing,
      { onProgress, signal },
      skipping(options.skip),
      (take) => take(ordinals, names),
    )
    await checkSource(source, task.source, signal)
    // The job's warnings name the attributes that are left out.
    return await describe(task, path, refused, given, signal)
  } catch (error) {
    // The same task ran concurrently.
    if (count === 1 && error instanceof ZTensorError && error.code === 'ZT_EXISTS')
      return await describeExisting(task, path, given, signal)
    throw error
  } finally {
    source.close()
  }
}

/** The result of a task that runs after its file is complete: describes the file without writing. */
async function describeExisting(
  task: ConvertTask,
  path: string,
  remote: RemoteOptions | undefined,
  signal?: AbortSignal,
): Promise<ConvertTaskResult> {
  if (await isThere(path, remote, signal)) return describe(task, path, [], remote, signal)
  const message = `'${task.target}' exists, but the file of this task does not: another job or program wrote it; remove it, or plan the job for another target`
  throw new ZTensorError('ZT_EXISTS', message)
}
