// Runs one task of a conversion.
import { basename } from 'node:path'
import { ZTensorError } from '../native/errors.js'
import { type JobOptions, run } from '../native/job.js'
import { binding } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import { type RemoteOptions, remoteRequest } from '../read/remote.js'
import { convertFile, writeTaken } from '../write/convert.js'
import { skipping } from '../write/selection.js'
import type { Target } from '../write/target.js'
import { algorithmOf, type ConvertTask, type ConvertTaskResult, filePathOf, lastPathOf } from './convert-tasks.js'
import { TASK_VERSION, type TaskError } from './format.js'
import { optionsOf, takePlanned } from './gguf-tasks.js'
import { checkOrdinals, namesOf } from './ordinals.js'
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

/** A file of a set of GGUF would open the others. */
export const ALONE = { shards: 'none' } as const

async function describe(
  task: ConvertTask,
  path: string,
  skipped: readonly ZTensorError[],
  remote: RemoteOptions | undefined,
  signal?: AbortSignal,
): Promise<ConvertTaskResult> {
  const { job, task: index, options } = task
  const { format } = options
  const file = await open(path, { format, remote, signal, ...ALONE })
  try {
    const { size, digest } = await identified(file, algorithmOf(options), signal)
    const what = { file: basename(path), byteLength: size, digest, tensors: file.size }
    return { ztensor: TASK_VERSION, kind: 'convert', job, task: index, ...what, skipped: skipped.map(errorJson) }
  } finally {
    file.close()
  }
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
    const last = lastPathOf(target, options.format, count)
    if (last !== undefined && (await isThere(last, given, signal)))
      return await describeExisting(task, path, given, signal)
    const to = { begin: async () => path, remote }
    if (options.format === 'gguf') {
      await writePart(source, task, opening, to, { onProgress, signal })
      await checkSource(source, task.source, signal)
      return await describe(task, path, [], given, signal)
    }
    const ordinals = checkOrdinals(task.ordinals, source.size)
    const names = namesOf(task, ordinals, await TensorFile.ready(source, signal))
    // In sharded zTensor 2, only the root has attributes.
    const isShard = count > 1 && options.format === 'zt'
    const own = optionsOf(options)
    const shard = isShard && options.attributes !== false ? { ...own, attributes: {} } : own
    // A single file must not exist yet. An existing shard belongs to this job and has the same bytes, so it may be replaced.
    const writing = { ...shard, overwrite: count > 1 }
    const { refused } = await convertFile(source, to, writing, { onProgress, signal }, skipping(options.skip), (take) =>
      take(ordinals, names),
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

/** Writes the file of a task of GGUF. */
async function writePart(
  source: TensorFile,
  task: ConvertTask,
  opening: OpenOptions | undefined,
  to: Pick<Target, 'begin' | 'remote'>,
  job: JobOptions,
): Promise<void> {
  const { task: number, count, part: [from, end] = [0, 0], options } = task
  const taking = await takePlanned(source, task, opening, job.signal)
  const given = { ...optionsOf(options), overwrite: count > 1 }
  await writeTaken(source, taking, to, given, job, skipping(options.skip), { from, end, number, count })
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
