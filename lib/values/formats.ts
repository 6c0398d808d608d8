// Properties of the formats, from the generated table: names, versions, extensions, and the features that a writer supports.
import { extname } from '#host'
import { invalid, optionHint } from '../native/errors.js'
import { FORMATS, type WritableFormat, type WritableVersion } from './format-table.js'

/** A format of the addon's table. */
export interface FormatInfo {
  readonly name: string
  /** The name in messages. */
  readonly title: string
  /** File extensions, without the dot. */
  readonly endings: readonly string[]
  /** The versions that can be written; one entry for a format without versions, none for a read-only format. */
  readonly writes: readonly Writing[]
}

/** Where a model is described: keys of metadata, and names of tensors. `{}` in a key is the architecture. */
export interface ModelInfo {
  readonly name: string
  readonly architecture: string
  readonly contextLength: string
  /** The number of tokens. */
  readonly vocabularySize: string
  /** The list of tokens. */
  readonly tokens: string
  readonly chatTemplate: string
  readonly license: string
  /** The number of the mixture of types. */
  readonly mixture: string
  /** The names of mixtures by their numbers. */
  readonly mixtures: Readonly<Record<string, string>>
  /** The tensor of the embeddings of tokens, which is the output, too, if there is no other. */
  readonly embeddings: string
  readonly output: string
}

/** A version of a format that can be written, and the features that it supports. */
export interface Writing {
  /** The version, or the name of a format without versions: `WriteFormat` of the binding. */
  readonly id: string
  readonly version?: string
  /** Whether it is the default version of its format. */
  readonly isDefault: boolean
  readonly title: string
  /** The programs that read it. */
  readonly readers: readonly string[]
  /** The supported digests; the first is the default. */
  readonly digests: readonly string[]
  /** The supported alignments of blobs, if any. */
  readonly alignment?: {
    readonly min: number
    readonly default: number
    readonly powersOfTwo: boolean
    readonly attribute?: string
  }
  /** The compression of blobs, if any: `zstd`, `zstd-seekable` (in frames) or `deflate`. */
  readonly compression?: string
  /** The supported metadata of files: `none`, `text` or `any`. */
  readonly attributes: string
  /** Whether metadata records the type of each number. */
  readonly typedAttributes: boolean
  /** Keys of metadata that the writer determines itself. */
  readonly reserved: readonly string[]
  /** Whether tensors have numbers instead of names. */
  readonly numbered: boolean
  readonly canonical: boolean
  /** Whether a content digest is defined. */
  readonly contentDigest: boolean
  /**
   * How a model is divided into several files: not at all, by a root or an index that refers to them, or by numbers that each file states.
   */
  readonly shards: 'none' | 'root' | 'index' | 'numbers'
  /** The formats of files that may be the weights of a checkpoint, which becomes a model of this format. */
  readonly checkpoints: readonly string[]
  /** How files describe a model, if they are models that programs run by their metadata. */
  readonly model?: ModelInfo | undefined
  readonly generator: boolean
  /** What must be known before the first byte of a stream: the sizes of all tensors if the index comes first, and all data if checksums do. */
  readonly needsFirst: 'nothing' | 'sizes' | 'data'
  /** Whether packed dtypes are padded to a whole byte. */
  readonly padsPacked: boolean
}

const writable = FORMATS.filter(({ writes }) => writes.length > 0)
const writings = writable.flatMap(({ writes }) => writes)

export const WRITABLE_FORMATS = writable.map(({ name }) => name as WritableFormat)
export const WRITABLE_VERSIONS = writings.flatMap(({ version }) => version ?? []) as WritableVersion[]
/** All digests that any format supports. */
export const DIGESTS = [...new Set(writings.flatMap(({ digests }) => digests))] as ('crc32c' | 'sha256' | 'xxh3')[]

/** The properties of a version of a format, by default of its default version; undefined if there is no such version. */
export function writingOf(format: WritableFormat, version?: string): Writing | undefined {
  const writes = writable.find(({ name }) => name === format)?.writes
  return writes?.find((writing) => (version === undefined ? writing.isDefault : writing.version === version))
}

/** The version of a format that is written in several files; undefined if there is none. */
export function shardedWriting(format: WritableFormat): Writing | undefined {
  return writable.find(({ name }) => name === format)?.writes.find(isSharded)
}

/** Whether a model can be divided into several files. */
export const isSharded = ({ shards }: Writing): boolean => shards !== 'none'

/** Whether a content digest is defined for files of a format and version. */
export function hasContentDigest({ format, version }: { format: string; version?: string | undefined }): boolean {
  return writingOf(format as WritableFormat, version)?.contentDigest ?? false
}

/** The properties of the version that the binding calls `writeFormat`. */
export function writingOfId(writeFormat: string): Writing | undefined {
  return writings.find(({ id }) => id === writeFormat)
}

/** Extensions of other programs' files that no writable format has. */
const FOREIGN = new Set(
  (
    'arrow bin ckpt feather ggml gz h5 hdf5 json keras mlmodel msgpack npy npz onnx onnx_data orbax parquet pb pdiparams ' +
    'pdparams pickle pkl pt pte pth tar tflite zip'
  ).split(' '),
)

/** The extensions of formats that can be written. */
const ENDINGS = writable.flatMap(({ endings }) => endings.map((one) => `.${one}`))

/**
 * The writable format of a path's extension; undefined for an unknown extension.
 *
 * @throws TypeError ZT_INVALID_ARG for the extension of a format that cannot be written
 */
export function formatOf(path: string): WritableFormat | undefined {
  const ending = extname(path).slice(1).toLowerCase()
  const has = ({ endings }: FormatInfo) => endings.includes(ending)
  const format = writable.find(has)
  if (format === undefined && (FOREIGN.has(ending) || FORMATS.some(has))) {
    const hint = optionHint('format', ' (set the option format to write another format under this name)')
    throw invalid(TypeError, `.${ending} files cannot be written, only ${list(ENDINGS)}${hint.text}`, { hints: [hint] })
  }
  return format?.name as WritableFormat | undefined
}

/** The error for a new file whose extension belongs to no format. */
function unknownEnding(path: string): TypeError {
  const ending = extname(path)
  const what = ending === '' ? 'the name of the new file has no extension' : `${ending} is the extension of no format`
  const hint = optionHint('format', ', or set the option format')
  return invalid(TypeError, `${what}: use ${list(ENDINGS, 'or')}${hint.text}`, { hints: [hint] })
}

/**
 * Adds the format of a file's extension to options, unless they have a format, or a version, which only zTensor has. `isFree`: whether a name
 * says nothing of the format.
 */
export function withFormatOf<T extends { readonly format?: string | undefined; readonly version?: string | undefined }>(
  read: T,
  name: string | undefined,
  isFree: (name: string) => boolean,
): T {
  if (read.format !== undefined || name === undefined) return read
  const format = formatOf(name)
  if (format === undefined && read.version === undefined && !isFree(name)) throw unknownEnding(name)
  return { ...read, format }
}

/** Whether files of a format have only text as metadata. */
export function hasTextMetadata(format: string): boolean {
  return writable.some(({ name, writes }) => name === format && writes.some(({ attributes }) => attributes === 'text'))
}

/** The names of the mixtures of types that tensors are quantized to, as the option `quantize` takes them. */
export const MIXTURES: readonly string[] = writings.flatMap(({ model }) =>
  Object.values(model?.mixtures ?? {}).map((name) => name.toLowerCase()),
)

/** Joins names in a sentence: `a, b and c`. */
export function list(names: readonly string[], last = 'and'): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} ${last} ${names.at(-1)}`
}

/** The titles of the writable versions with a property. */
export function titlesWith(has: (writing: Writing) => boolean): string[] {
  return writings.filter(has).map(({ title }) => title)
}

/** The titles of the writable formats of which any version has a property. */
export function formatsWith(has: (writing: Writing) => boolean): string[] {
  return writable.filter(({ writes }) => writes.some(has)).map(({ title }) => title)
}
