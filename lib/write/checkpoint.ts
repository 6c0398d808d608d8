// Checkpoints of the Hugging Face hub that become GGUF.
import { extname, resolve } from 'node:path'
import { invalid, ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import type { NativeSelection } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { remoteRequest, remoteUrl } from '../read/remote.js'
import { optional, validateBoolean } from '../values/arguments.js'
import { type AttributeValueInput, freezeChanges } from '../values/attributes.js'
import { dtypes } from '../values/dtype.js'
import type { Writing } from '../values/formats.js'
import type { Castable } from './casts.js'
import type { ConvertOptions } from './convert-options.js'

/** A checkpoint of the Hugging Face hub as GGUF has it. */
export interface Checkpoint {
  /** The name of the model. */
  readonly named: Readonly<Record<string, AttributeValueInput>>
  /** What states the type of its matrices. */
  readonly metadata: Readonly<Record<string, AttributeValueInput>>
  /** The tensors that GGUF does not have. */
  readonly leftOut: readonly ZTensorError[]
  /** The tensors of GGUF, for casts. */
  readonly castable: Castable
  /** A digest of the files next to the weights. */
  readonly digest: string
}

/** `general.file_type` of a model of one dtype. */
const FILE_TYPES: Readonly<Record<string, number>> = { float32: 0, float16: 1, bfloat16: 32 }
const CHECKPOINTS: readonly string[] = ['safetensors', 'pytorch']

/** The name of a model by the path or the URL of its weights or their folder. */
function modelName(location: string): string {
  const scheme = /^[a-z0-9]+:\/\//i
  const isUrl = scheme.test(location)
  const path = isUrl ? resolve('/', location.replace(scheme, '').replace(/[?#].*$/, '')) : resolve(location)
  const parts = path.split(/[\\/]/).filter(Boolean)
  const names = parts.filter((part, at) => at < parts.length - 1 || extname(part) === '' || parts.length === 1)
  const words = (names.at(-1) ?? 'model').replace(/@[^@]*$/, '').split(/[-\s]+/)
  const isPlain = (word: string): boolean => word === word.toLowerCase() && !/^(v\d|\d)/.test(word)
  return words.map((word) => (isPlain(word) ? `${word[0]?.toUpperCase() ?? ''}${word.slice(1)}` : word)).join(' ')
}

/** Takes the tensors of a checkpoint, if the source is one and the target is GGUF. */
export async function takeCheckpoint(
  file: TensorFile,
  selection: NativeSelection,
  given: ConvertOptions,
  { typedAttributes }: Writing,
  signal: AbortSignal | undefined,
): Promise<Checkpoint | undefined> {
  const asked = optional(given.checkpoint, (value) => validateBoolean('checkpoint', value))
  if (asked && !typedAttributes) throw invalid(TypeError, 'checkpoint is only supported for GGUF')
  const store = TensorFile.storeOf(file)
  const { path } = store
  const fits = typedAttributes && CHECKPOINTS.includes(file.format) && path !== undefined
  if (asked === false || !fits || (given.rename !== undefined && !asked)) {
    if (asked) throw invalid(TypeError, 'checkpoint needs the path or the URL of safetensors or PyTorch weights')
    return undefined
  }
  const url = remoteUrl(path)
  const remote = url === undefined ? undefined : remoteRequest(given.source?.remote)
  const { set } = freezeChanges('metadata', given.metadata ?? {})
  const info = await run(store, { signal }, (control) =>
    selection.takeCheckpoint(store.native, url ?? path, remote, asked ?? false, set, control),
  )
  if (info === null) {
    if (asked) throw new ZTensorError('ZT_NOT_FOUND', `no config.json is next to the weights of ${path}`)
    return undefined
  }
  for (const option of ['filter', 'rename'] as const)
    if (given[option] !== undefined)
      throw invalid(TypeError, `${option} selects tensors by their own names; with checkpoint: false, these are copied`)
  const leftOut = info.leftOut.map(
    ({ tensor, reason }) =>
      new ZTensorError('ZT_INVALID_ARG', `tensor ${JSON.stringify(tensor)}: ${reason}`, { tensor }),
  )
  const type = FILE_TYPES[given.dtype ?? info.dtype ?? '']
  return {
    named: { 'general.name': modelName(path) },
    metadata: type === undefined ? {} : { 'general.file_type': { type: 'uint32', value: type } },
    leftOut,
    digest: info.digest,
    castable: {
      size: info.names.length,
      name: (ordinal) => info.names[ordinal] as string,
      dtype: (ordinal) => dtypes[info.dtypes[ordinal] as number],
      layout: () => 'dense',
    },
  }
}
