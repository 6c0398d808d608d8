// What is known of the formats, from the one table of them: names, versions, endings, and what each can hold when it is written.
import { extname } from 'node:path'
import { invalid } from '../native/errors.js'
import { FORMATS, type Format, type WritableFormat, type WritableVersion } from './format-table.js'

/** A format, as the addon has it. */
export interface FormatInfo {
  readonly name: string
  /** As messages name it. */
  readonly title: string
  /** What file names end in, without the dot. */
  readonly endings: readonly string[]
  /** The versions that are written, or the format as such; empty for one that is only read. */
  readonly writes: readonly Writing[]
}

/** What a format, in one of its versions, can hold when it is written. */
export interface Writing {
  /** The version, or the name of a format without versions: what the binding calls a write format. */
  readonly id: string
  readonly version?: string
  /** Whether it is written where no version is named. */
  readonly usual: boolean
  readonly title: string
  /** What reads it. */
  readonly readers: readonly string[]
  /** The usual one first. */
  readonly digests: readonly string[]
  /** What blobs begin at multiples of, where they can be aligned at all. */
  readonly alignment?: { readonly least: number; readonly usual: number; readonly powersOfTwo: boolean }
  /** How blobs are compressed, where they can be: `zstd`, `zstd-seekable` (in frames) or `deflate`. */
  readonly compression?: string
  /** The attributes of a file: none, text alone, or any. */
  readonly attributes: string
  /** Whether tensors are numbered, and have no names. */
  readonly numbered: boolean
  readonly canonical: boolean
  readonly shards: boolean
  readonly generator: boolean
}

const writable = FORMATS.filter(({ writes }) => writes.length > 0)
const writings = writable.flatMap(({ writes }) => writes)

/** The formats that files are opened as. */
export const FORMAT_NAMES = FORMATS.map(({ name }) => name as Format)
export const WRITABLE_FORMATS = writable.map(({ name }) => name as WritableFormat)
export const WRITABLE_VERSIONS = writings.flatMap(({ version }) => version ?? []) as WritableVersion[]
/** The digests that any format has. */
export const DIGESTS = [...new Set(writings.flatMap(({ digests }) => digests))] as ('crc32c' | 'sha256' | 'xxh3')[]

/** What is written of a format, in a version or in the usual one; undefined where the format has no such version. */
export function writingOf(format: WritableFormat, version?: string): Writing | undefined {
  const writes = writable.find(({ name }) => name === format)?.writes
  return writes?.find((writing) => (version === undefined ? writing.usual : writing.version === version))
}

/** The writing that the binding calls `dialect`. */
export function writingOfId(writeFormat: string): Writing | undefined {
  return writings.find(({ id }) => id === writeFormat)
}

/** Endings of files that other programs write, and that no format of the table has. */
const FOREIGN = new Set(
  (
    'arrow bin ckpt feather ggml gguf gz h5 hdf5 json keras mlmodel msgpack npy npz onnx onnx_data orbax parquet pb pdiparams ' +
    'pdparams pickle pkl pt pte pth tar tflite zip'
  ).split(' '),
)

/**
 * The format that a path's ending names, among those that can be written; undefined where it names none.
 *
 * @throws TypeError ZT_INVALID_ARG where it is the ending of a format that cannot be written
 */
export function formatOf(path: string): WritableFormat | undefined {
  const ending = extname(path).slice(1).toLowerCase()
  const has = ({ endings }: FormatInfo) => endings.includes(ending)
  const format = writable.find(has)
  if (format === undefined && (FOREIGN.has(ending) || FORMATS.some(has))) {
    const ours = list(writable.flatMap(({ endings }) => endings.map((one) => `.${one}`)))
    const message = `files that end in .${ending} cannot be written: ${ours} can (option format writes another one under this name)`
    throw invalid(TypeError, message)
  }
  return format?.name as WritableFormat | undefined
}

/** Names in a sentence: `a, b and c`. */
export function list(names: readonly string[], last = 'and'): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} ${last} ${names.at(-1)}`
}

/** The titles of what can be written that has something. */
export function titlesWith(has: (writing: Writing) => boolean): string[] {
  return writings.filter(has).map(({ title }) => title)
}

/** The titles of formats of which any version has something. */
export function formatsWith(has: (writing: Writing) => boolean): string[] {
  return writable.filter(({ writes }) => writes.some(has)).map(({ title }) => title)
}
