// Finishes a distributed conversion: checks the shards and writes the root or index.

import { existsSync, promises } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { builtins } from '../native/builtins.js'
import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { run } from '../native/job.js'
import { messageOf } from '../native/realm.js'
import { TURN } from '../read/batches.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import { type OpenOptions, open } from '../read/open.js'
import type { RemoteOptions } from '../read/remote.js'
import { optional, readOptions, validateAbortSignal, validateBoolean } from '../values/arguments.js'
import { Casts } from '../values/cast.js'
import { writingOf } from '../values/formats.js'
import type { Warning } from '../values/warning.js'
import { castOf, castTensors, dequantizedAs, needsCatalog } from '../write/casts.js'
import type { ConvertResult } from '../write/convert-options.js'
import { writeRequest } from '../write/options.js'
import { NOT_QUANTIZED } from '../write/quantize.js'
import { readersOf } from '../write/readers.js'
import { newSelection, refusalsOf, skipping } from '../write/selection.js'
import { refusedOf } from '../write/taking.js'
import { TensorWriter } from '../write/writer.js'
import {
  algorithmOf,
  type ConvertJob,
  type ConvertTask,
  type ConvertTaskResult,
  filePathOf,
  lastPathOf,
  shardName,
  validateConvertResult,
  validateConvertTask,
} from './convert-tasks.js'
import { checkJob, checkResults, type TaskError, type TaskResult } from './format.js'
import { checkOutlines, checkParts, optionsOf, outlinesOf, takePlanned } from './gguf-tasks.js'
import { checkOrdinals, namesOf } from './ordinals.js'
import { ALONE, errorJson, identified } from './run-convert.js'
import { openSource } from './source.js'
import { isStored, putStored } from './stored.js'

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
  /** The skipped tensors, with the reasons. */
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

/** The size of a file in bytes. */
async function sizeOf(done: Done, signal?: AbortSignal): Promise<number> {
  if (!isStored(done.path)) return (await promises.stat(done.path)).size
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

/** The expected output of a job. */
interface Plan {
  readonly catalog: Catalog
  readonly casts: Casts
  /** Names in the source of tensors that the target cannot represent, so that a task may skip them. */
  readonly unfit: ReadonlySet<string>
}

const maySkip = ({ skip }: ConvertTask['options']): boolean => skip !== undefined && skip !== false

/** Determines what the tasks of a job must have written. Throws the same errors as `planConvert`. */
async function planOf(source: TensorFile, tasks: readonly ConvertTask[], signal?: AbortSignal): Promise<Plan> {
  const [{ options }] = tasks as [ConvertTask]
  const casts = new Casts(options.cast, options.dtype)
  const catalog = await TensorFile.ready(source, signal)
  const unfit = new Set<string>()
  const skips = skipping(options.skip)
  if (maySkip(options)) {
    const { writeFormat } = writeRequest({ ...optionsOf(options), attributes: undefined, canonical: false })
    const store = TensorFile.storeOf(source)
    const selection = newSelection(casts, options, false)
    for (const task of tasks) {
      const ordinals = checkOrdinals(task.ordinals, catalog.size)
      rethrowNative(() => selection.take(ordinals, namesOf(task, ordinals, catalog)))
    }
    if (needsCatalog(casts)) await castTensors(selection, casts, catalog)
    await run(store, { signal }, (control) =>
      selection.look(store.native, writeFormat, false, options.strictAttributes ?? false, control),
    )
    const refused = (await refusalsOf(selection, false)).map(({ tensor }) => tensor)
    // For other tensors it depends on the data, so they may be skipped too.
    const judged = Array.from(
      rethrowNative(() => selection.judgedOrdinals()),
      (ordinal) => catalog.name(ordinal),
    )
    for (const tensor of [...refused, ...judged]) if (tensor !== undefined && skips({ tensor })) unfit.add(tensor)
  }
  return { catalog, casts, unfit }
}

/** Checks that a file has exactly the tensors of its task: names, shapes, layouts and dtypes. */
async function checkTensors({ task, result, path }: Done, file: TensorFile, plan: Plan): Promise<void> {
  const { catalog: source, casts, unfit } = plan
  const ordinals = checkOrdinals(task.ordinals, source.size)
  const names = namesOf(task, ordinals, source)
  const skipped = new Set(result.skipped.map(({ tensor }) => tensor))
  const made = await TensorFile.ready(file)
  const { native } = TensorFile.storeOf(file)
  const wrong = (what: string, tensor?: string) =>
    new ZTensorError('ZT_BAD_INDEX', `'${path}' ${what}: run task ${task.task} again`, { tensor })
  let held = 0
  for (const [at, ordinal] of ordinals.entries()) {
    if (at % TURN === TURN - 1) await nextTurn()
    const own = source.name(ordinal)
    const name = names[at] ?? own
    const written = rethrowNative(() => native.find(name))
    if (written < 0) {
      if (skipped.has(own) && unfit.has(own)) continue
      const message = `'${path}' has no tensor ${JSON.stringify(name)}: run task ${task.task} again`
      throw new ZTensorError('ZT_NOT_FOUND', message, { tensor: name })
    }
    held++
    if (skipped.has(own)) throw wrong(`has the tensor ${JSON.stringify(name)}, which its result lists as skipped`, name)
    const floats = dequantizedAs(task.options.dequantize, source, ordinal)
    const layout = floats === undefined ? source.layout(ordinal) : 'dense'
    const shape = source.shape(ordinal)
    const numbers = layout === 'dense' || layout === 'sparse_csr' || layout === 'sparse_coo'
    const dtype = (floats ?? castOf(casts, source, ordinal) ?? source.dtype(ordinal))?.code
    const planned = [layout, shape, numbers ? dtype : undefined]
    const found = [made.layout(written), made.shape(written), numbers ? made.dtype(written)?.code : undefined]
    if (JSON.stringify(found) !== JSON.stringify(planned))
      throw wrong(`has the tensor ${JSON.stringify(name)} with a different layout, shape or dtype than planned`, name)
  }
  if (held !== file.size) throw wrong(`has tensors that task ${task.task} does not have`)
  if (held !== result.tensors) throw wrong(`has ${held} tensors, not the ${result.tensors} of its result`)
}

/** How the files of a job are checked, and what the job says about its source. */
interface Checks {
  readonly check: (done: Done, file: TensorFile) => Promise<void>
  readonly skipped: readonly TaskError[]
  readonly quantized: ConvertResult['quantized']
}

async function shardChecks(
  source: TensorFile,
  tasks: readonly ConvertTask[],
  results: readonly ConvertTaskResult[],
  signal: AbortSignal | undefined,
): Promise<Checks> {
  const plan = await planOf(source, tasks, signal)
  const skipped = results.flatMap(({ skipped }) => skipped)
  return { check: (done, file) => checkTensors(done, file, plan), skipped, quantized: NOT_QUANTIZED }
}

async function ggufChecks(
  source: TensorFile,
  tasks: readonly ConvertTask[],
  opening: OpenOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<Checks> {
  const [first] = tasks as [ConvertTask]
  const taking = await takePlanned(source, first, opening, signal)
  const refused = await refusedOf(taking, { attributes: first.options.attributes }, skipping(first.options.skip))
  const outlines = await outlinesOf(source, taking, signal)
  checkParts(tasks, outlines.length)
  const check = async ({ task, result, path }: Done, file: TensorFile): Promise<void> => {
    const wrong = (what: string, tensor?: string) =>
      new ZTensorError('ZT_BAD_INDEX', `'${path}' ${what}: run task ${task.task} again`, { tensor })
    await checkOutlines(file, task, outlines, wrong)
    if (file.size !== result.tensors) throw wrong(`has ${file.size} tensors, not the ${result.tensors} of its result`)
  }
  return {
    check,
    skipped: refused.filter(({ tensor }) => tensor !== undefined).map(errorJson),
    quantized: taking.quantization?.result ?? NOT_QUANTIZED,
  }
}

/** A JSON string as in the index: only characters that must be escaped are. */
function quoted(text: string): string {
  const escaped = (one: string) => (one < ' ' ? `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}` : one)
  return `"${text.replace(/["\\]/g, '\\$&').replace(/\p{Cc}/gu, escaped)}"`
}

/** The tensor names of a file, and the total size of its tensors. */
interface Held {
  readonly names: readonly string[]
  readonly byteLength: number
}

async function heldIn(file: TensorFile): Promise<Held> {
  const catalog = await TensorFile.ready(file)
  const names: string[] = []
  let byteLength = 0
  for (let ordinal = 0; ordinal < catalog.size; ordinal++) {
    if (ordinal % TURN === TURN - 1) await nextTurn()
    names.push(catalog.name(ordinal))
    byteLength += catalog.byteLength(ordinal)
  }
  return { names, byteLength }
}

/** The index of a safetensors checkpoint, byte for byte as `convert` writes it. */
function indexOf(dones: readonly Done[], held: readonly Held[]): string {
  const entries = held.flatMap(({ names }, at) => {
    const file = basename((dones[at] as Done).path)
    return names.map((name) => ({ key: Buffer.from(name), name, file }))
  })
  entries.sort((a, b) => Buffer.compare(a.key, b.key))
  const total = held.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const lines = entries.map(({ name, file }) => `\n    ${quoted(name)}: ${quoted(file)}`)
  return `{\n  "metadata": {\n    "total_size": ${total}\n  },\n  "weight_map": {${lines.join(',')}\n  }\n}\n`
}

const NO_CHANGES = { map: [] }

/** Writes the root of a zTensor 2 model, which refers to the shards by size and digest. */
async function writeRoot(
  path: string,
  dones: readonly Done[],
  source: TensorFile,
  signal?: AbortSignal,
): Promise<void> {
  const [{ task }] = dones as [Done]
  const { attributes } = task.options
  const own = attributes === false ? {} : attributes
  const request = writeRequest({ ...optionsOf(task.options), attributes: own, overwrite: true })
  const writer = await TensorWriter.make(path, request, signal)
  try {
    const { native } = TensorWriter.partsOf(writer)
    if (attributes === undefined)
      rethrowNative(() => native.takeAttributes(TensorFile.storeOf(source).native, NO_CHANGES, NO_CHANGES))
    for (const done of dones) {
      const { task, result } = done
      const linked = { name: shardName(task), size: result.byteLength, digest: result.digest }
      // One at a time: a process may not open thousands of files.
      await withFile(done, signal, async (file) => {
        const store = TensorFile.storeOf(file)
        const catalog = await TensorFile.ready(file, signal)
        for (let ordinal = 0; ordinal < catalog.size; ordinal++) {
          if (ordinal % TURN === TURN - 1) await nextTurn()
          signal?.throwIfAborted()
          rethrowNative(() => native.link(store.native, ordinal, catalog.name(ordinal), linked))
        }
      })
    }
    await writer.finish()
  } catch (error) {
    await writer.abort()
    throw error
  }
}

/** Syncs a file or folder to disk. Not every system can sync folders. */
async function flush(path: string): Promise<void> {
  const handle = await promises.open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function taken(path: string): ZTensorError {
  return new ZTensorError('ZT_EXISTS', `'${path}' exists and was not written by this job: remove it, or plan the job for another target`) // biome-ignore format: one message
}

/** Publishes the file that `write` writes in an object store, unless an identical object exists. */
async function publishStored(
  path: string,
  remote: RemoteOptions | undefined,
  signal: AbortSignal | undefined,
  write: (temporary: string) => Promise<void>,
): Promise<void> {
  const folder = await promises.mkdtemp(join(builtins.os.tmpdir(), 'ztensor-'))
  try {
    const temporary = join(folder, 'last')
    await write(temporary)
    if (!(await putStored(temporary, path, remote, signal))) throw taken(path)
  } finally {
    await promises.rm(folder, { force: true, recursive: true })
  }
}

/** Publishes the file that `write` writes at its path, atomically, unless an identical file exists. */
async function publish(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${builtins.crypto.randomBytes(8).toString('hex')}.tmp`)
  try {
    await write(temporary)
    if (existsSync(path)) {
      if (!(await promises.readFile(temporary)).equals(await promises.readFile(path))) throw taken(path)
      return
    }
    await promises.rename(temporary, path)
    await flush(dirname(path)).catch(() => {})
  } finally {
    await promises.rm(temporary, { force: true })
  }
}

async function writeText(path: string, text: string): Promise<void> {
  const handle = await promises.open(path, 'wx')
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
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
  const [{ target, options: common, count }] = tasks as [ConvertTask]
  for (const { target: other, options } of tasks) {
    if (other !== target || JSON.stringify(options) !== JSON.stringify(common))
      throw invalid(TypeError, 'job.tasks must all have the same target and options')
  }
  const said = ({ file, byteLength, digest, tensors }: ConvertTaskResult) => ({ file, byteLength, digest, tensors })
  const found = checkResults(checked, results, validateConvertResult, said)
  const dones = tasks.map((task, at) => ({
    task,
    result: found[at] as ConvertTaskResult,
    path: filePathOf(task),
    remote,
  }))
  const isGguf = common.format === 'gguf'
  const mayList = maySkip(common) && !isGguf
  const dishonest = mayList ? undefined : dones.find(({ result }) => result.skipped.length > 0)
  if (dishonest !== undefined && isGguf)
    throw invalid(TypeError, `the result of task ${dishonest.task.task} lists skipped tensors, which only the end of a job of GGUF lists: run it again`) // biome-ignore format: one message
  if (dishonest !== undefined)
    throw invalid(TypeError, `the result of task ${dishonest.task.task} lists skipped tensors, but the job has no skip: run it again`) // biome-ignore format: one message
  const last = lastPathOf(target, common.format, count)
  const source = await openSource(from, opening, signal)
  try {
    const { check, skipped, quantized } = await (isGguf
      ? ggufChecks(source, tasks, opening, signal)
      : shardChecks(source, tasks, found, signal))
    const held: Held[] = []
    await inLanes(dones, signal, async (done, at) => {
      await checkFile(done, verify, signal)
      await withFile(done, signal, async (file) => {
        await check(done, file)
        held[at] = await heldIn(file)
      })
    })
    signal?.throwIfAborted()
    if (count > 1 && last !== undefined) {
      const isIndex = common.format === 'safetensors'
      const put = isStored(last) ? publishStored.bind(undefined, last, remote, signal) : publish.bind(undefined, last)
      await put(async (temporary) => {
        if (isIndex) await writeText(temporary, indexOf(dones, held))
        else await writeRoot(temporary, dones, source, signal)
      })
    }
    const writing = writingOf(common.format ?? 'zt', common.version)
    const attributes = common.attributes === false ? {} : (common.attributes ?? source.attributes)
    return {
      // The first file of a set of GGUF opens the others.
      path: last ?? (dones[0] as Done).path,
      files: count > 1 ? dones.map(({ path }) => path) : [],
      tensors: held.reduce((sum, { names }) => sum + names.length, 0),
      byteLength: found.reduce((sum, { byteLength }) => sum + byteLength, 0),
      skipped,
      quantized,
      warnings: source.warnings,
      readers: writing === undefined ? [] : readersOf(writing, attributes),
    }
  } finally {
    source.close()
  }
}
