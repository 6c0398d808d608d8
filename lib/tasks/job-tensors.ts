// The tensors that a job of a conversion, or one of its tasks, writes: chosen by the same code as those of `convert`.
import { createReadStream } from 'node:fs'
import type { ConversionOptions, ConvertOptions } from '../convert/options.js'
import { type Conversion, planConversion } from '../convert/plan.js'
import type { Select } from '../convert/select.js'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import type { Catalog } from '../read/catalog.js'
import { TensorFile } from '../read/file.js'
import type { OpenOptions } from '../read/open.js'
import type { AttributeChanges } from '../values/attribute-input.js'
import type { ConvertTask, ConvertTaskOptions } from './convert-tasks.js'
import { checkOrdinals } from './divide.js'
import { digestOfJson } from './format.js'

/** The options of a conversion that a task contains. */
export function optionsOf({ metadata, ...options }: ConvertTaskOptions): ConversionOptions {
  if (metadata === undefined) return options
  return { ...options, metadata: new Map(metadata.map(([key, value]) => [key, value])) as AttributeChanges }
}

/** The conversion of a task's tensors, in a file that states the types of all tensors of the job. */
export function withStated(conversion: Conversion, { stated }: ConvertTask): Conversion {
  if (stated === undefined) return conversion
  return { ...conversion, stated: Object.fromEntries(stated) as AttributeChanges }
}

/** A digest of the files that a conversion reads besides its source: configuration, tokenizer, importance matrix. */
export async function inputsOf(
  { checkpoint }: Conversion,
  { imatrix, quantize }: Pick<ConvertOptions, 'imatrix' | 'quantize'>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
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

/** The new names of tensors, in the order of their ordinals; empty if no tensor is renamed. */
function namesOf(renamed: ConvertTask['renamed'], ordinals: Uint32Array, catalog: Catalog): string[] {
  if (renamed.length === 0) return []
  const names = new Map(renamed)
  return Array.from(ordinals, (ordinal) => names.get(ordinal) ?? catalog.name(ordinal))
}

/** Chooses the tensors of a task, or those of all tasks of a job. */
export async function planTasks(
  file: TensorFile,
  tasks: readonly ConvertTask[],
  opening: OpenOptions | undefined,
  signal: AbortSignal | undefined,
): Promise<Conversion> {
  const [first] = tasks as [ConvertTask]
  const options = optionsOf(first.options)
  // A task with a part has the tensors of all.
  const all = first.part === undefined ? tasks : [first]
  const ordinals = checkOrdinals(
    all.flatMap(({ ordinals }) => ordinals),
    file.size,
  )
  const renamed = all.flatMap(({ renamed }) => renamed)
  const names = namesOf(renamed, ordinals, await TensorFile.ready(file, signal))
  const select = options.checkpoint ? undefined : (select: Select) => select(ordinals, names)
  const conversion = await planConversion(file, { ...options, source: opening, signal }, select)
  if ((await inputsOf(conversion, options, signal)) !== first.inputs) {
    const message =
      'config.json, the tokenizer or the importance matrix has changed since the job was planned: plan the job again'
    throw new ZTensorError('ZT_IO', message)
  }
  return conversion
}
