// Runs one task of a conversion.
import { basename } from 'node:path'
import { outputTo } from '../convert/convert.js'
import type { ConvertOptions } from '../convert/options.js'
import type { Conversion } from '../convert/plan.js'
import { skipping } from '../convert/refusals.js'
import { writeConversion } from '../convert/write.js'
import { ZTensorError } from '../native/errors.js'
import { run, type ValidJob } from '../native/job.js'
import { binding } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import { type RemoteOptions, remoteRequest } from '../values/remote.js'
import {
  algorithmOf,
  type ConvertTask,
  type ConvertTaskResult,
  filePathOf,
  joiningOf,
  lastPathOf,
} from './convert-tasks.js'
import { TASK_VERSION, type TaskError } from './format.js'
import { optionsOf, planTasks, withStated } from './job-tensors.js'
import { checkSource, isStored, isThere, openSource } from './source.js'

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

/** How the file of a task is written: its options, and its tensors. If a set has a root, only the root has metadata. */
export function withoutRoot(
  task: ConvertTask,
  conversion: Conversion,
): { given: ConvertOptions; conversion: Conversion } {
  const given = optionsOf(task.options)
  const hasRoot = task.count > 1 && joiningOf(task.options.format) === 'root'
  if (!hasRoot) return { given, conversion }
  const none = { copyMetadata: false, metadata: undefined }
  return { given: { ...given, ...none }, conversion: { ...conversion, stated: undefined } }
}

/** Writes the file of a task. After the job was finished, it only describes the existing file. */
export async function runConvert(
  task: ConvertTask,
  opening: OpenOptions | undefined,
  given: RemoteOptions | undefined,
  { onProgress, signal }: ValidJob,
): Promise<ConvertTaskResult> {
  const { options, count, part } = task
  const path = filePathOf(task)
  const remote = isStored(path) ? remoteRequest(given) : undefined
  const source = await openSource(task.source, opening, signal)
  try {
    const last = lastPathOf(task)
    if (last !== undefined && (await isThere(last, given, signal)))
      return await describeExisting(task, path, given, signal)
    const planned = withStated(await planTasks(source, [task], opening, signal), task)
    const { given: written, conversion } = withoutRoot(task, planned)
    // A single file must not exist yet. An existing shard belongs to this job and has the same bytes, so it may be replaced.
    const writing = { ...written, overwrite: count > 1 }
    const place = part === undefined ? undefined : { from: part[0], end: part[1], number: task.task, count }
    const to = { begin: async () => path, remote }
    const skips = skipping(options.skip)
    const { refused } = await writeConversion(
      source,
      conversion,
      outputTo(to, signal),
      writing,
      { onProgress, signal },
      skips,
      place,
    )
    await checkSource(source, task.source, signal)
    // The job's warnings name the metadata that is left out, and its end the tensors that a task with a part leaves out.
    const skipped = part === undefined ? refused.filter(({ tensor }) => tensor !== undefined) : []
    return await describe(task, path, skipped, given, signal)
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
