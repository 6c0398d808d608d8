// Finishes a distributed conversion: checks the shards and writes the root or index.

import { promises } from 'node:fs'
import { basename } from 'node:path'
import { withMetadata } from '../convert/convert.js'
import type { ConvertResult } from '../convert/options.js'
import { leftOutOf, skipping, tensorsOf } from '../convert/refusals.js'
import { quantizedResult } from '../convert/write.js'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { run, type ValidJob } from '../native/job.js'
import { toBufferSync } from '../native/memory.js'
import type { ExpectedTensors, NativeControl } from '../native/native.js'
import { messageOf } from '../native/realm.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import { optional, readOptions, validateAbortSignal, validateBoolean } from '../values/arguments.js'
import { type RemoteOptions, remoteRequest } from '../values/remote.js'
import type { Warning } from '../values/warning.js'
import { writeWhole } from '../write/whole-file.js'
import {
  algorithmOf,
  type ConvertJob,
  type ConvertTask,
  type ConvertTaskResult,
  filePathOf,
  lastPathOf,
  validateConvertResult,
  validateConvertTask,
} from './convert-tasks.js'
import { checkJob, checkResults, type TaskError, type TaskResult } from './format.js'
import { optionsOf, planTasks } from './job-tensors.js'
import { ALONE, errorJson, identified, withoutRoot } from './run-convert.js'
import { isStored, openSource } from './source.js'

/** How to finish a conversion. */
export interface FinishConvertOptions {
  /** Read every file again and check its digest. */
  verify?: boolean | undefined
  /** How to open the source, as for `runTask`. */
  source?: OpenOptions | undefined
  /** How to access the object store of the target. */
  remote?: RemoteOptions | undefined
  signal?: AbortSignal | undefined
}

/** The result of a conversion. */
export interface FinishConvertResult {
  /** The path to open: the root, the index, or the only file. */
  readonly path: string
  /** The shards, in order; empty if there is only one file. */
  readonly files: readonly string[]
  /** Number of tensors. */
  readonly tensors: number
  /** Total size in bytes of all files, without the root or index. */
  readonly byteLength: number
  /** What was left out, with the reasons: skipped tensors, and what the target cannot store of the metadata, as `convert` lists it. */
  readonly skipped: readonly TaskError[]
  /** With `quantize`: the number of tensors of each type, and the others that `convert` lists. */
  readonly quantized: ConvertResult['quantized']
  /** The warnings of the source, as in `file.warnings`. */
  readonly warnings: readonly Warning[]
  /** The programs that can read the files. */
  readonly readers: readonly string[]
}

/** A task, its result and its file. */
interface Done {
  readonly task: ConvertTask
  readonly result: ConvertTaskResult
  readonly path: string
  /** How to access the file. */
  readonly remote: RemoteOptions | undefined
}

function again({ task }: Done, what: string): ZTensorError {
  return new ZTensorError('ZT_IO', `${what}: run task ${task.task} again`)
}

function wrongFile(
  { task, path }: Done,
  what: string,
  { code, tensor }: Pick<ZTensorError, 'code' | 'tensor'> = { code: 'ZT_BAD_INDEX' },
): ZTensorError {
  return new ZTensorError(code, `'${path}' ${what}: run task ${task.task} again`, { tensor })
}

/** Files that are checked concurrently: each may wait for a remote disk. */
const LANES = 16

/** Runs the work for each item, several concurrently. Combines all failures into one error. */
async function inLanes<T>(
  all: readonly T[],
  signal: AbortSignal | undefined,
  work: (one: T, at: number) => Promise<void>,
): Promise<void> {
  const failed = new Map<number, unknown>()
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < all.length) {
      const at = next++
      await work(all[at] as T, at).catch((error) => failed.set(at, error))
      signal?.throwIfAborted()
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  const errors = [...failed.keys()].sort((a, b) => a - b).map((at) => failed.get(at))
  const [first] = errors
  if (errors.length < 2 || !(first instanceof ZTensorError)) {
    if (errors.length > 0) throw first
    return
  }
  const shown = errors.slice(0, 20).map(messageOf).join('; ')
  const more = errors.length > 20 ? `; and ${errors.length - 20} more` : ''
  throw new ZTensorError(first.code, `${errors.length} files are wrong: ${shown}${more}`, { cause: errors })
}

async function withFile(
  { path, remote, task }: Done,
  signal: AbortSignal | undefined,
  work: (file: TensorFile) => Promise<void>,
): Promise<void> {
  const file = await open(path, { format: task.options.format, remote, signal, ...ALONE })
  try {
    await work(file)
  } finally {
    file.close()
  }
}

/** The size of a file in bytes. A task writes a regular file, never a link. */
async function sizeOf(done: Done, signal?: AbortSignal): Promise<number> {
  if (!isStored(done.path)) {
    const found = await promises.lstat(done.path)
    if (!found.isFile()) throw new ZTensorError('ZT_IO', `'${done.path}' is a link, not the file that the task wrote`)
    return found.size
  }
  let size = 0
  await withFile(done, signal, async ({ byteLength }) => {
    size = byteLength
  })
  return size
}

/** Checks that a file is the one of the result. */
async function checkFile(done: Done, verify: boolean, signal?: AbortSignal): Promise<void> {
  const { task, result, path } = done
  if (result.file !== basename(path))
    throw invalid(TypeError, `the result of task ${task.task} names the file ${JSON.stringify(result.file)}, not ${basename(path)}`) // biome-ignore format: one message
  const size = await sizeOf(done, signal).catch((cause: Error) => {
    signal?.throwIfAborted()
    throw new ZTensorError('ZT_IO', `${cause.message}: run task ${task.task} again`, { cause })
  })
  if (size !== result.byteLength)
    throw again(done, `'${path}' has ${size} bytes, not the ${result.byteLength} of its result`)
  if (!verify) return
  await withFile(done, signal, async (file) => {
    const { digest } = await identified(file, algorithmOf(task.options), signal)
    if (digest === result.digest) return
    const message = `'${path}' has the digest ${digest}, not the ${result.digest} of its result: run task ${task.task} again`
    throw new ZTensorError('ZT_DIGEST_MISMATCH', message)
  })
}

/** Checks that a file has no bytes besides its index and its tensors, as far as its format defines it. */
async function checkPacked(done: Done, file: TensorFile, writeFormat: string, signal?: AbortSignal): Promise<void> {
  const store = TensorFile.storeOf(file)
  const checking = run(store, { signal }, (control) => store.native.checkPacked(writeFormat, control))
  await checking.catch((error: unknown) => {
    if (!(error instanceof ZTensorError) || error.code !== 'ZT_BAD_INDEX') throw error
    throw wrongFile(done, 'has bytes that belong to no tensor', {
      code: error.code,
      ...(error.tensor === undefined ? {} : { tensor: error.tensor }),
    })
  })
}

/** How the files of a job are checked and joined, and what the job says about its source. */
interface Checks {
  /** Checks a file, and returns its number of tensors. */
  readonly check: (done: Done, file: TensorFile) => Promise<number>
  /** The bytes of the file that refers to all checked files. */
  readonly join: () => Promise<Uint8Array | undefined>
  readonly skipped: readonly TaskError[]
  readonly quantized: ConvertResult['quantized']
  /** The programs that can read the files. */
  readonly readers: readonly string[]
}

/** Checks that the parts of tasks are all `count` tensors, in order. */
function checkParts(tasks: readonly ConvertTask[], count: number): void {
  let end = 0
  for (const [at, { part }] of tasks.entries()) {
    if (part === undefined) return
    if (part[0] !== end) throw invalid(RangeError, `job.tasks[${at}].part must begin at ${end}: plan the job again`)
    end = part[1]
  }
  if (end !== count)
    throw invalid(RangeError, `the tasks of the job write ${end} tensors, of ${count}: plan the job again`)
}

/** The positions of each task's tensors. */
function expectedBy(tasks: readonly ConvertTask[]): readonly Omit<ExpectedTensors, 'skipped'>[] {
  let end = 0
  return tasks.map(({ part, ordinals }) => {
    if (part !== undefined) return { from: part[0], end: part[1], onlyWritten: true }
    const from = end
    end = ordinals.reduce((sum, [first, last]) => sum + last - first, from)
    return { from, end, onlyWritten: false }
  })
}

/** Determines what the files of a job must be like. */
async function checksOf(
  source: TensorFile,
  tasks: readonly ConvertTask[],
  results: readonly ConvertTaskResult[],
  opening: OpenOptions | undefined,
  job: ValidJob,
): Promise<Checks> {
  const [first] = tasks as [ConvertTask]
  const options = optionsOf(first.options)
  const skips = skipping(options.skip)
  const conversion = await planTasks(source, tasks, opening, job.signal)
  const { native, writing, plan } = conversion
  const { refused, others } = await leftOutOf(conversion, options, skips)
  const tensors = plan.tensors - tensorsOf(refused)
  checkParts(tasks, tensors)
  const ranges = expectedBy(tasks)
  const { given, conversion: own } = withoutRoot(first, conversion)
  const attributes = await withMetadata(source, own, given, job, (writer) => writer.expectedAttributes())
  const { native: reference } = TensorFile.storeOf(source)
  const check = async (done: Done, file: TensorFile): Promise<number> => {
    const { task, result } = done
    const skipped = result.skipped.map(({ tensor }) => tensor ?? '')
    const unasked = skipped.find((tensor) => !skips({ tensor }))
    if (unasked !== undefined)
      throw wrongFile(
        done,
        `has a result that lists as skipped ${JSON.stringify(unasked)}, which the job does not skip`,
      )
    const store = TensorFile.storeOf(file)
    const expected: ExpectedTensors = { ...(ranges[task.task] as (typeof ranges)[number]), skipped }
    const reported = { number: task.task, size: result.byteLength, digest: result.digest }
    const compare = (control: NativeControl) =>
      native.checkFile(reference, store.native, writing.id, expected, reported, control)
    const { count, wrong } = await run(store, job, compare)
    if (wrong !== undefined) throw wrongFile(done, wrong.what, wrong)
    if (count !== file.size) throw wrongFile(done, `has tensors that task ${task.task} does not have`)
    if (count !== result.tensors) throw wrongFile(done, `has ${count} tensors, not the ${result.tensors} of its result`)
    try {
      const isPlaced = task.part !== undefined && task.count > 1
      const position = isPlaced ? { number: task.task, count: task.count, tensors } : undefined
      rethrowNative(() => attributes.check(store.native, position))
    } catch (error) {
      throw error instanceof ZTensorError ? wrongFile(done, error.message, error) : error
    }
    await checkPacked(done, file, writing.id, job.signal)
    return count
  }
  const join = async (): Promise<Uint8Array | undefined> => {
    const store = TensorFile.storeOf(source)
    const bytes = await withMetadata(source, conversion, options, job, (writer) =>
      run(store, job, (control) => native.join(writer, first.target, control)),
    )
    return bytes === null ? undefined : new Uint8Array(toBufferSync(bytes))
  }
  const known = new Set(refused.map(({ tensor }) => tensor))
  const seen = results.flatMap(({ skipped }) => skipped.filter(({ tensor }) => !known.has(tensor)))
  return {
    check,
    join,
    skipped: [...refused.map(errorJson), ...seen, ...others.map(errorJson)],
    quantized: quantizedResult(plan),
    readers: plan.readers,
  }
}

/** Publishes the root or index, unless an identical one exists. */
async function publish(
  path: string,
  bytes: Uint8Array,
  remote: RemoteOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const store = isStored(path) ? remoteRequest(remote) : undefined
  await writeWhole(path, bytes, { store, signal }).catch((error) => {
    if (!(error instanceof ZTensorError) || error.code !== 'ZT_EXISTS') throw error
    throw new ZTensorError('ZT_EXISTS', `'${path}' exists and was not written by this job: remove it, or plan the job for another target`) // biome-ignore format: one message
  })
}

/** `finishJob` of a conversion. */
export async function finishConvert(
  job: ConvertJob,
  results: readonly TaskResult[],
  options?: FinishConvertOptions,
): Promise<FinishConvertResult> {
  const {
    verify: given,
    source: opening,
    remote,
    signal,
  } = readOptions(options, ['verify', 'source', 'remote', 'signal'])
  const verify = optional(given, (value) => validateBoolean('verify', value)) ?? false
  optional(signal, validateAbortSignal)
  const checked = checkJob<ConvertTask>(job, 'convert', validateConvertTask)
  const { tasks, source: from } = checked
  const [first] = tasks as [ConvertTask]
  const { target, options: common, count } = first
  for (const { target: other, options } of tasks) {
    if (other !== target || JSON.stringify(options) !== JSON.stringify(common))
      throw invalid(TypeError, 'job.tasks must all have the same target and options')
  }
  const claims = ({ file, byteLength, digest, tensors }: ConvertTaskResult) => ({ file, byteLength, digest, tensors })
  const found = checkResults(checked, results, validateConvertResult, claims)
  const dones = tasks.map((task, at) => ({
    task,
    result: found[at] as ConvertTaskResult,
    path: filePathOf(task),
    remote,
  }))
  const lists = dones.find(({ result }) => result.skipped.length > 0)
  if (lists !== undefined && first.part !== undefined)
    throw invalid(TypeError, `the result of task ${lists.task.task} lists skipped tensors, which only the end of such a job lists: run it again`) // biome-ignore format: one message
  if (lists !== undefined && (common.skip === undefined || common.skip === false))
    throw invalid(TypeError, `the result of task ${lists.task.task} lists skipped tensors, but the job has no skip: run it again`) // biome-ignore format: one message
  const last = lastPathOf(first)
  const source = await openSource(from, opening, signal)
  try {
    const { check, join, skipped, quantized, readers } = await checksOf(source, tasks, found, opening, { signal })
    let tensors = 0
    await inLanes(dones, signal, async (done) => {
      await checkFile(done, verify, signal)
      await withFile(done, signal, async (file) => {
        const count = await check(done, file)
        tensors += count
      })
    })
    signal?.throwIfAborted()
    const bytes = count > 1 && last !== undefined ? await join() : undefined
    if (bytes !== undefined && last !== undefined) await publish(last, bytes, remote, signal)
    return {
      // The first file of a set without a root or an index opens the others.
      path: last ?? (dones[0] as Done).path,
      files: count > 1 ? dones.map(({ path }) => path) : [],
      tensors,
      byteLength: found.reduce((sum, { byteLength }) => sum + byteLength, 0),
      skipped,
      quantized,
      warnings: source.warnings,
      readers,
    }
  } finally {
    source.close()
  }
}
