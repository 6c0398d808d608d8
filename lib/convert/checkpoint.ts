// Checkpoints of the Hugging Face hub that become GGUF.
import { reasons } from '#host'
import { invalid, optionHint, ZTensorError } from '../native/errors.js'
import { run } from '../native/job.js'
import { binding, type NativeConversion } from '../native/native.js'
import { TensorFile } from '../read/file.js'
import { openRequest } from '../read/open-request.js'
import { optional, validateBoolean } from '../values/arguments.js'
import { freezeChanges } from '../values/attribute-input.js'
import { dtypes } from '../values/dtype.js'
import type { Writing } from '../values/formats.js'
import { remoteRequest, remoteUrl } from '../values/remote.js'
import type { Warning } from '../values/warning.js'
import type { Castable } from './casts.js'
import type { ConvertOptions } from './options.js'

/** A checkpoint of the Hugging Face hub as GGUF has it. */
export interface Checkpoint {
  /** The tensors that GGUF does not have. */
  readonly leftOut: readonly ZTensorError[]
  /** Peculiarities of the files next to the weights. */
  readonly warnings: readonly Warning[]
  /** The tensors of GGUF, for casts. */
  readonly castable: Castable
  /** A digest of the files next to the weights. */
  readonly digest: string
}

/** The path of a file, or the folder that a browser opened by its handle. */
const locationOf = (file: TensorFile): string | undefined => file.path ?? TensorFile.storeOf(file).folder

/** Whether a file is in a format of checkpoints, and its folder is known. */
const mayBeCheckpoint = (file: TensorFile, { checkpoints }: Writing): boolean =>
  checkpoints.includes(file.format) && locationOf(file) !== undefined

/** Why a file in a format of checkpoints is not a checkpoint, for messages. */
function reasonFor(file: TensorFile, { checkpoints }: Writing): string | undefined {
  if (!checkpoints.includes(file.format)) return undefined
  return reasons.noFolder(file.files.some(({ path }) => path !== undefined))
}

/** Why a source in a format of checkpoints is not converted as a checkpoint; undefined if it may be. */
export function noCheckpoint(file: TensorFile, { checkpoint }: ConvertOptions, writing: Writing): string | undefined {
  return checkpoint !== undefined || mayBeCheckpoint(file, writing) ? undefined : reasonFor(file, writing)
}

/** Where the files next to the weights are, and how they are read. */
function placeOf(file: TensorFile, { source }: ConvertOptions) {
  const path = locationOf(file) ?? ''
  const url = remoteUrl(path)
  const remote = url === undefined ? undefined : remoteRequest(source?.remote)
  const { followLinks = false } = openRequest({ followLinks: source?.followLinks })
  return { location: url ?? path, remote, followLinks }
}

export const RENAMED = 'rename gives the tensors other names, so that they are not converted as a checkpoint'

/** What is left out of a checkpoint that is not converted as one, because `rename` is given. */
export async function passedOver(
  file: TensorFile,
  given: ConvertOptions,
  writing: Writing,
): Promise<readonly ZTensorError[]> {
  if (given.rename === undefined || given.checkpoint !== undefined || !mayBeCheckpoint(file, writing)) return []
  const { location, remote, followLinks } = placeOf(file, given)
  const { signal } = given
  const looking = run(TensorFile.storeOf(file), { signal }, (control) =>
    binding.isCheckpoint(location, remote, followLinks, control),
  )
  // Files that cannot be read are not needed.
  const found = await looking.catch(() => signal?.throwIfAborted() ?? false)
  if (!found) return []
  const message = `the metadata and the tokenizer of config.json and the files next to it: ${RENAMED}`
  return [new ZTensorError('ZT_INVALID_ARG', message)]
}

/** Selects the tensors of a checkpoint, if the source is one and becomes a model of the target's format. */
export async function selectCheckpoint(
  file: TensorFile,
  native: NativeConversion,
  given: ConvertOptions,
  writing: Writing,
  signal: AbortSignal | undefined,
): Promise<Checkpoint | undefined> {
  const asked = optional(given.checkpoint, (value) => validateBoolean('checkpoint', value))
  const hasCheckpoints = writing.checkpoints.length > 0
  if (asked !== undefined && !hasCheckpoints)
    throw invalid(TypeError, 'checkpoint is only supported for GGUF', { option: 'checkpoint' })
  const store = TensorFile.storeOf(file)
  if (!hasCheckpoints || asked === false) return undefined
  if (!mayBeCheckpoint(file, writing)) {
    const why = reasonFor(file, writing)
    if (asked) {
      const needs = 'checkpoint needs the path or the URL of safetensors or PyTorch weights, or of their folder'
      throw invalid(TypeError, `${needs}${why === undefined ? '' : `: ${why}`}`, { option: 'checkpoint' })
    }
    return undefined
  }
  if (given.rename !== undefined && !asked) return undefined
  const { location, remote, followLinks } = placeOf(file, given)
  const { set } = freezeChanges('metadata', given.metadata ?? {})
  const info = await run(store, { signal }, (control) =>
    native.selectCheckpoint(store.native, location, remote, followLinks, asked ?? false, set, control),
  )
  if (info === null) {
    if (asked) throw new ZTensorError('ZT_NOT_FOUND', `no config.json is next to the weights of ${location}`)
    return undefined
  }
  for (const option of ['filter', 'rename'] as const)
    if (given[option] !== undefined) {
      const hint = optionHint('checkpoint', '; with checkpoint: false, these are copied')
      throw invalid(TypeError, `${option} selects tensors by their own names${hint.text}`, { option, hints: [hint] })
    }
  const leftOut = info.leftOut.map(
    ({ tensor, reason }) =>
      new ZTensorError('ZT_INVALID_ARG', `tensor ${JSON.stringify(tensor)}: ${reason}`, { tensor }),
  )
  leftOut.push(...info.lost.map((message) => new ZTensorError('ZT_INVALID_ARG', message)))
  return {
    leftOut,
    warnings: info.warnings.map((message) => ({ code: 'ZT_WARN_REPEATED_KEY', message })),
    digest: info.digest,
    castable: {
      size: info.names.length,
      name: (ordinal) => info.names[ordinal] as string,
      dtype: (ordinal) => dtypes[info.dtypes[ordinal] as number],
      layout: () => 'dense',
      named: `the names of a checkpoint are those that it gets in GGUF, such as '${info.names[0] ?? 'output.weight'}'`,
    },
  }
}
