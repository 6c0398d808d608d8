// Conversions to GGUF. The types and the order of its tensors depend on all tensors together, so each task chooses all of them as `convert`
// does, and then writes its own part.
import { createReadStream } from 'node:fs'
import { resolve } from 'node:path'
import { builtins } from '../native/builtins.js'
import { invalid, publicError, rethrowNative, ZTensorError } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { run } from '../native/job.js'
import { binding, type TensorOutline } from '../native/native.js'
import { isMap, messageOf } from '../native/realm.js'
import { TURN } from '../read/batches.js'
import { TensorFile } from '../read/file.js'
import type { OpenOptions } from '../read/open.js'
import { optional, validateText } from '../values/arguments.js'
import {
  type AttributeChanges,
  type AttributeValueInput,
  freezeChanges,
  freezeMap,
  withMetadata,
} from '../values/attributes.js'
import type { ConvertOptions } from '../write/convert-options.js'
import { metadataOf } from '../write/options.js'
import { importanceName } from '../write/quantize.js'
import type { Skips, Take } from '../write/selection.js'
import { refusedOf, type Taking, takeTensors } from '../write/taking.js'
import { type ConvertTask, type ConvertTaskOptions, jsonValue, type MetadataPairs } from './convert-tasks.js'
import { divide, plainMeasure, rangesOf } from './divide.js'
import { digestOfJson } from './format.js'
import { checkOrdinals, namesOf, Taken } from './ordinals.js'

/** Most files of a set: GGUF counts them in 16 bits. */
const MOST_FILES = 0xffff

/** Validates metadata that is stored in a job. A key without a value is removed. */
function metadataPairs(metadata: AttributeChanges): MetadataPairs {
  freezeChanges('metadata', metadata)
  const entries: Iterable<[unknown, unknown]> = isMap(metadata) ? metadata : Object.entries(metadata)
  return Array.from(entries, ([key, value]): readonly [string, AttributeValueInput?] => {
    const name = validateText('a key of metadata', key)
    return value === undefined ? [name] : [name, jsonValue('metadata', value) as AttributeValueInput]
  })
}

/** The options of a conversion that a task of GGUF contains. */
export function optionsOf({ metadata, ...options }: ConvertTaskOptions): ConvertOptions {
  if (metadata === undefined) return options
  return { ...options, metadata: new Map(metadata.map(([key, value]) => [key, value])) as AttributeChanges }
}

/** The options of a task. Machines find an importance matrix by its absolute path, and the file names it as `convert` does. */
export function ggufOptions({ metadata, imatrix, quantize, requantize, checkpoint }: ConvertOptions): object {
  const matrix = optional(imatrix, (value) => validateText('imatrix', value))
  const pairs = metadata === undefined ? [] : [...metadataPairs(metadata)]
  if (matrix !== undefined && typeof quantize === 'string') {
    const stated = importanceName(matrix)
    if (!pairs.some(([key]) => key === stated[0])) pairs.push(stated)
  }
  return {
    quantize,
    requantize,
    checkpoint,
    imatrix: matrix === undefined ? undefined : resolve(matrix),
    ...(pairs.length > 0 ? { metadata: pairs } : {}),
  }
}

/** Throws for metadata that GGUF cannot store, as the writer would. */
function checkMetadata({ writing, canonical }: Taking, given: ConvertOptions): void {
  const own = given.attributes === false ? {} : given.attributes
  const stated = withMetadata(own, metadataOf(writing, given)) ?? {}
  const refused = rethrowNative(() => binding.attributeRefusal(writing.id, canonical, freezeMap('metadata', stated)))
  if (refused !== null) throw publicError(refused)
}

/** A digest of the files that a conversion reads besides its source: configuration, tokenizer, importance matrix. */
async function inputsOf(
  taking: Taking,
  { imatrix, quantize }: Pick<ConvertOptions, 'imatrix' | 'quantize'>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { checkpoint } = taking
  const matrix = quantize === undefined ? undefined : imatrix
  if (checkpoint === undefined && matrix === undefined) return undefined
  const hash = builtins.crypto.createHash('sha256')
  if (matrix !== undefined)
    try {
      for await (const piece of createReadStream(matrix, { signal })) hash.update(piece as Buffer)
    } catch (cause) {
      signal?.throwIfAborted()
      throw new ZTensorError('ZT_IO', `the importance matrix cannot be read: ${messageOf(cause)}`, { cause })
    }
  return digestOfJson([checkpoint?.digest ?? null, hash.digest('hex')])
}

/** The tensors of a conversion in the order of writing. */
export async function outlinesOf(
  file: TensorFile,
  { selection }: Taking,
  signal: AbortSignal | undefined,
): Promise<readonly TensorOutline[]> {
  const store = TensorFile.storeOf(file)
  return run(store, { signal }, (control) => selection.outline(store.native, control))
}

const NOTHING = [0, 0] as const

/** What a plan of GGUF says about each task, and what it leaves out. */
export interface GgufPlan {
  readonly tasks: readonly Omit<ConvertTask, 'ztensor' | 'kind' | 'job' | 'task' | 'count' | 'source' | 'digest'>[]
  readonly leftOut: readonly ZTensorError[]
}

/** Divides a conversion to GGUF into files of at most `most` bytes, as `convert` does. */
export async function planGguf(
  file: TensorFile,
  target: string,
  given: ConvertOptions,
  options: ConvertTaskOptions,
  most: number,
  skips: Skips,
): Promise<GgufPlan> {
  const { signal } = given
  const taken = new Taken(await TensorFile.ready(file, signal))
  const taking = await takeTensors(file, given, { onTake: (ordinals, names) => taken.take(ordinals, names) })
  const refused = await refusedOf(taking, given, skips)
  checkMetadata(taking, given)
  const { checkpoint } = taking
  const outlines = await outlinesOf(file, taking, signal)
  const order = Uint32Array.from(outlines.keys())
  const outline = (at: number): TensorOutline => outlines[at] as TensorOutline
  const parts = await divide(
    order,
    plainMeasure(most),
    (at) => outline(at).byteLength,
    (at) => outline(at).name,
  )
  if (parts.length > MOST_FILES) {
    const message = `a set of ${parts.length} files, and GGUF counts up to ${MOST_FILES} (option maxShardBytes)`
    throw new ZTensorError('ZT_LIMIT', message)
  }
  const inputs = await inputsOf(taking, options, signal)
  const all = file.size === 0 ? [] : [[0, file.size] as const]
  const ordinals = checkpoint === undefined ? rangesOf(taken.ordinals) : all
  const common = {
    target,
    options: { ...options, checkpoint: checkpoint !== undefined },
    ordinals,
    renamed: taken.renamed({ ordinals }),
    ...(inputs === undefined ? {} : { inputs }),
  }
  // The positions of a part are consecutive.
  const tasks = parts.map(({ byteLength, ordinals: [range] }) => ({ ...common, byteLength, part: range ?? NOTHING }))
  return { tasks, leftOut: [...refused, ...(checkpoint?.leftOut ?? [])] }
}

/** Chooses the tensors of a task's job, as they were planned. */
export async function takePlanned(
  file: TensorFile,
  task: ConvertTask,
  opening: OpenOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<Taking> {
  const options = optionsOf(task.options)
  const ordinals = checkOrdinals(task.ordinals, file.size)
  const names = namesOf(task, ordinals, await TensorFile.ready(file, signal))
  const choosing = options.checkpoint ? undefined : { choosing: (take: Take) => take(ordinals, names) }
  const taking = await takeTensors(file, { ...options, source: opening, signal }, choosing)
  if ((await inputsOf(taking, options, signal)) !== task.inputs) {
    const message =
      'config.json, the tokenizer or the importance matrix has changed since the job was planned: plan the job again'
    throw new ZTensorError('ZT_IO', message)
  }
  return taking
}

/** Checks that the parts of tasks are all tensors, in order. */
export function checkParts(tasks: readonly ConvertTask[], count: number): void {
  let end = 0
  for (const [at, { part = NOTHING }] of tasks.entries()) {
    if (part[0] !== end) throw invalid(RangeError, `job.tasks[${at}].part must begin at ${end}: plan the job again`)
    end = part[1]
  }
  if (end !== count)
    throw invalid(RangeError, `the tasks of the job write ${end} tensors, of ${count}: plan the job again`)
}

/** Checks that a file has exactly the planned tensors, and its position in the set. */
export async function checkOutlines(
  file: TensorFile,
  { task, count, part = [0, 0] }: ConvertTask,
  outlines: readonly TensorOutline[],
  wrong: (what: string, tensor?: string) => ZTensorError,
): Promise<void> {
  const made = await TensorFile.ready(file)
  const [from, end] = part
  if (file.size !== end - from) throw wrong(`has ${file.size} tensors, not ${end - from}`)
  for (let at = 0; at < file.size; at++) {
    if (at % TURN === TURN - 1) await nextTurn()
    const { name, shape, layout, dtype } = outlines[from + at] as TensorOutline
    if (made.name(at) !== name)
      throw wrong(`has the tensor ${JSON.stringify(made.name(at))} instead of ${JSON.stringify(name)}`, name)
    const found = [made.layout(at), made.shape(at), layout === 'dense' ? made.dtype(at)?.code : undefined]
    if (JSON.stringify(found) !== JSON.stringify([layout, shape, layout === 'dense' ? dtype : undefined]))
      throw wrong(`has the tensor ${JSON.stringify(name)} with a different layout, shape or dtype than planned`, name)
  }
  const stated = ['split.no', 'split.count', 'split.tensors.count'].map((key) => Reflect.get(file.attributes, key))
  const planned = count === 1 ? [undefined, undefined, undefined] : [task, count, outlines.length]
  if (stated.some((value, at) => value !== planned[at])) throw wrong(`is not file ${task + 1} of a set of ${count}`)
}
