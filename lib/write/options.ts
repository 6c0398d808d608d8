import { inspect } from 'node:util'
import { invalid } from '../native/errors.js'
import type { AppendRequest, WriteRequest } from '../native/native.js'
import { urlText } from '../native/realm.js'
import { type RemoteOptions, remoteUrl } from '../read/remote.js'
import {
  filePath,
  optional,
  readOptions,
  validateBoolean,
  validateInteger,
  validateOneOf,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { type AttributeInput, freezeMap } from '../values/attributes.js'
import { FORMATS, type WritableFormat, type WritableVersion } from '../values/format-table.js'
import {
  DIGESTS,
  formatOf,
  formatsWith,
  list,
  titlesWith,
  WRITABLE_FORMATS,
  WRITABLE_VERSIONS,
  type Writing,
  writingOf,
} from '../values/formats.js'

/** How to write a file. */
export interface CreateOptions {
  /** The container: by default the one that the path ends in (`.zt`, `.safetensors`, …), zTensor without such an ending. */
  format?: WritableFormat | undefined
  /**
   * The zTensor version: `'1.0'` by default; other formats have none. 1.0 is read by Python 1.0.0 and 1.0.1, 1.2 by 1.0.2 to 1.2.3, 2 by 2.x.
   */
  version?: WritableVersion | undefined
  /**
   * zTensor 2: whether the same tensors give the same bytes, whatever the order in which they are added (§6.3); true by
   * default. Such a file is aligned to 64 KiB, has xxh3 digests, is not compressed, and holds equal tensors once.
   */
  canonical?: boolean | undefined
  /**
   * A digest of each component, zTensor only: by default crc32c over what is stored up to 1.2, xxh3 over the content in 2
   * (or sha256, in a file that is not canonical).
   */
  digest?: 'crc32c' | 'sha256' | 'xxh3' | false | undefined
  /**
   * For blobs that it makes smaller by the part `minSavings` (0.05 by default); off by default. zTensor has zstd of a `level`
   * from 1 to 22 (3 by default), npz deflate of one from 1 to 9 (6 by default); the others have none. `true` takes the
   * defaults. The first 256 KiB of a blob decide whether it is tried; one that then saves less as a whole is stored raw after
   * all, except where the blob is larger than 8 MiB and goes into a stream, an npz or a file that is appended to.
   * zTensor 2 compresses in frames of `frameSize` bytes (1 MiB by default, from 4096 to 2^24), of which a slice decodes only those
   * that it needs.
   */
  compression?:
    | true
    | {
        readonly level?: number | undefined
        readonly minSavings?: number | undefined
        readonly frameSize?: number | undefined
      }
    | false
    | undefined
  /** The file's metadata: text only in safetensors, none in BTF and zTensor 0.1. */
  attributes?: AttributeInput | undefined
  /** What 1.0 names as its writer. */
  generator?: string | undefined
  /**
   * Blobs begin at multiples of this, zTensor only: a power of two from 64 to 2^24; in version 2 any multiple of 4096 up to
   * that, 65536 by default.
   */
  alignment?: number | undefined
  /**
   * zTensor 2 and safetensors: bytes that a file may have before the next tensor goes into another one; where all fits into
   * one file, that is all there is. zTensor 2: `model.zt` then has the index, and `model-00001-of-00003.zt` and so on the
   * data; such a model is not canonical. safetensors: `model-00001-of-00003.safetensors` and so on, of so many bytes of
   * tensors, and `model.safetensors.index.json`, which is put there last. A tensor that is larger has a file of its own.
   */
  maxShardBytes?: number | undefined
  /**
   * Replace a file that is there; otherwise that is ZT_EXISTS. Owner, group, permissions and, on Linux, access lists of the old
   * file are kept as far as the writer may give them; other hard links to it stay what they were. Of a set of files the old one
   * goes as a whole. Only files are replaced: a pipe or a character device is written to, as a stream is.
   */
  overwrite?: boolean | undefined
  /** How to reach the store that the file goes to: of `s3:`, `gs:` and `az:` URLs. */
  remote?: RemoteOptions | undefined
  /** Gives the file up, as `abort()` does; what is called after it rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

export const CREATE_OPTIONS = [
  'format',
  'version',
  'canonical',
  'maxShardBytes',
  'digest',
  'compression',
  'attributes',
  'generator',
  'alignment',
  'overwrite',
  'remote',
  'signal',
] as const

/** The method whose frames have a size that can be chosen. */
const FRAMED = 'zstd-seekable'
/** The usual level of a method, and the highest. */
const LEVELS: Readonly<Record<string, readonly [number, number]>> = {
  zstd: [3, 22],
  [FRAMED]: [3, 22],
  deflate: [6, 9],
}
const MIN_SAVINGS = 0.05
const FRAME = 2 ** 20
/** For the core to choose, once it knows the version. */
const USUAL_FRAME = 0
/** Asked of the binding where blobs are not aligned. */
const ANY_ALIGNMENT = 64

/** What the binding needs to know to write a file. */
export function writeRequest(read: CreateOptions): WriteRequest {
  const writing = writingFor(read)
  const maxShard = optional(read.maxShardBytes, (value) => validateInteger('maxShardBytes', value, 1))
  if (maxShard !== undefined && !writing.shards)
    throw invalid(TypeError, `only ${list(titlesWith(({ shards }) => shards))} are written in shards`)
  const canonical =
    optional(read.canonical, (value) => validateBoolean('canonical', value)) ??
    (writing.canonical && maxShard === undefined)
  if (canonical && !writing.canonical)
    throw invalid(TypeError, `only ${list(titlesWith(({ canonical }) => canonical))} has canonical files`)
  const digest = digestOf(writing, read.digest)
  const request: WriteRequest = {
    writeFormat: writing.id,
    alignment: alignmentOf(writing, read.alignment),
    ...compressionOf(writing, read.compression),
    canonical,
    overwrite: optional(read.overwrite, (value) => validateBoolean('overwrite', value)) ?? false,
    attributes: fileAttributes(writing, read.attributes),
  }
  if (digest !== undefined) request.digest = digest
  if (maxShard !== undefined) request.maxShard = maxShard
  if (!writing.generator && read.generator !== undefined)
    throw invalid(TypeError, `only ${list(titlesWith(({ generator }) => generator))} names a generator`)
  const generator = optional(read.generator, (value) => validateText('generator', value))
  if (generator !== undefined) request.generator = generator
  return request
}

/** What the options ask to be written: zTensor by default, and of a format with versions the usual one. */
function writingFor(read: Pick<CreateOptions, 'format' | 'version'>): Writing {
  const format = optional(read.format, (value) => validateOneOf('format', WRITABLE_FORMATS, value)) ?? 'zt'
  const version = optional(read.version, (value) => validateOneOf('version', WRITABLE_VERSIONS, value))
  const writing = writingOf(format, version)
  if (writing === undefined) {
    const versioned = list(formatsWith(({ version }) => version !== undefined))
    throw invalid(TypeError, `${format} has no version: only ${versioned} has (option format chooses the container)`)
  }
  return writing
}

/** How the new blobs of a file are stored; without an alignment, as its old ones are. Its version is not known here. */
export function storage(
  read: Pick<CreateOptions, 'digest' | 'compression' | 'alignment'>,
): Pick<AppendRequest, 'digest' | 'level' | 'minSavings' | 'frame' | 'alignment'> {
  const digest =
    read.digest === undefined ? 'usual' : optional(read.digest === false ? undefined : read.digest, validateDigest)
  const alignment = optional(read.alignment, validateAlignment)
  return {
    ...compressionOf({ title: 'zTensor', compression: 'zstd-seekable' }, read.compression, USUAL_FRAME),
    ...(digest === undefined ? {} : { digest }),
    ...(alignment === undefined ? {} : { alignment }),
  }
}

function compressionOf(
  { title, compression: method }: Pick<Writing, 'title' | 'compression'>,
  given: CreateOptions['compression'],
  usual = FRAME,
): Pick<WriteRequest, 'level' | 'minSavings' | 'frame'> {
  if (given === undefined || given === false) return { minSavings: MIN_SAVINGS, frame: usual }
  if (method === undefined)
    throw invalid(
      TypeError,
      `${title} is not compressed: ${list(formatsWith(({ compression }) => compression !== undefined))} can be`,
    )
  const asked = given === true ? {} : given
  if (typeof asked !== 'object' || asked === null)
    throw wrongType('compression', 'true, false or an object such as { level: 3 }', asked)
  const { level, minSavings, frameSize } = readOptions(asked, ['level', 'minSavings', 'frameSize'], 'compression')
  if (frameSize !== undefined && method !== FRAMED)
    throw invalid(
      TypeError,
      `only ${list(titlesWith(({ compression }) => compression === FRAMED))} compresses in frames`,
    )
  const [usualLevel, highest] = LEVELS[method] ?? [1, 1]
  return {
    level: optional(level, (value) => validateLevel(value, highest, title)) ?? usualLevel,
    minSavings: optional(minSavings, validatePart) ?? MIN_SAVINGS,
    frame: optional(frameSize, validateFrameSize) ?? usual,
  }
}

function validateAlignment(value: unknown): number {
  const alignment = validateInteger('alignment', value, 64)
  if (alignment > 2 ** 24 || !Number.isInteger(Math.log2(alignment))) {
    throw invalid(RangeError, `alignment must be a power of two from 64 to 2^24, got ${alignment}`)
  }
  return alignment
}

function alignmentOf({ id, title, alignment }: Writing, given: unknown): number {
  if (alignment === undefined) {
    if (given !== undefined) throw invalid(TypeError, `${id} has no alignment`)
    return ANY_ALIGNMENT
  }
  const { least, usual, powersOfTwo } = alignment
  const check = powersOfTwo ? validateAlignment : (value: unknown) => validateMultiple(value, least, title)
  return optional(given, check) ?? usual
}

function validateMultiple(value: unknown, least: number, title: string): number {
  const alignment = validateInteger('alignment', value, 1)
  if (alignment > 2 ** 24 || alignment % least !== 0) {
    throw invalid(RangeError, `alignment must be a multiple of ${least} up to 2^24 in ${title}, got ${alignment}`)
  }
  return alignment
}

function validateFrameSize(value: unknown): number {
  const size = validateInteger('compression.frameSize', value, 4096)
  if (size > 2 ** 24) throw invalid(RangeError, `compression.frameSize must be from 4096 to 2^24, got ${size}`)
  return size
}

function validateDigest(value: unknown): (typeof DIGESTS)[number] {
  if (!DIGESTS.includes(value as never))
    throw wrongType('digest', `false or one of ${DIGESTS.map((name) => `'${name}'`).join(', ')}`, value)
  return value as (typeof DIGESTS)[number]
}

function digestOf({ id, title, digests }: Writing, given: unknown): string | undefined {
  if (given === false) return undefined
  if (given === undefined) return digests[0]
  const digest = validateDigest(given)
  if (digests.length === 0) throw invalid(TypeError, `${id} has no digests`)
  if (digests.includes(digest)) return digest
  const others = titlesWith((writing) => writing.digests.includes(digest))
  const wrong = others.length === 1 ? `one of ${others[0]} alone` : `not one of ${title}: ${list(digests)} are`
  throw invalid(TypeError, `${digest} is ${wrong}`)
}

function validateLevel(value: unknown, highest: number, title: string): number {
  const level = validateInteger('compression.level', value, 1)
  if (level > highest)
    throw invalid(RangeError, `compression.level must be from 1 to ${highest} in ${title}, got ${level}`)
  return level
}

function validatePart(value: unknown): number {
  if (typeof value !== 'number' || !(value >= 0 && value < 1))
    throw wrongType('compression.minSavings', 'a number from 0 to below 1', value)
  return value
}

function fileAttributes({ title, attributes }: Writing, given: AttributeInput | undefined) {
  const tagged = freezeMap('attributes', given === undefined ? {} : given)
  if (tagged.map.length > 0 && attributes === 'none') throw invalid(TypeError, `${title} has no attributes of a file`)
  const at = attributes === 'text' ? tagged.map.findIndex((item) => typeof item !== 'string') : -1
  if (at >= 0) {
    const key = inspect(tagged.map[at - (at % 2)], { maxStringLength: 40, depth: 1 })
    throw invalid(TypeError, `attributes of ${title} must be text, but the one called ${key} is not`)
  }
  return tagged
}

/** The options with the format that the path's ending names, where they name none. */
export function withFormat<T extends Pick<CreateOptions, 'format'>>(read: T, target: string | undefined): T {
  return read.format === undefined && target !== undefined ? { ...read, format: formatOf(target) } : read
}

/** A path to write to. */
export function targetPath(path: string | URL): string {
  const far = remoteUrl(path)
  if (far !== undefined) throw invalid(TypeError, `path must be of this machine, got ${scheme(far)}: ${EDIT_HINT}`)
  const url = urlText(path)
  const target = url === undefined ? validateText('path', path) : filePath('path', url)
  if (target === '') throw invalid(TypeError, 'path must not be empty')
  if (target.includes('\0')) throw invalid(TypeError, 'path must not hold null bytes')
  if (/[\\/]$/.test(process.platform === 'win32' ? target : target.replaceAll('\\', '.')))
    throw invalid(TypeError, `path must name a file, but ${target} ends with a separator, as a folder does`)
  return target
}

const EDIT_HINT = 'a file elsewhere is not edited in its place; convert it to another one, or fetch, edit and upload it'

const scheme = (url: string): string => url.slice(0, url.indexOf(':') + 1).toLowerCase()

/** The URL of a store to write to, where it is one. A folder stands for `model.zt` in it, or the like of another format. */
export function storeTarget(path: unknown, format: CreateOptions['format'] = 'zt'): string | undefined {
  const url = remoteUrl(path)
  if (url === undefined) return undefined
  validateText('path', url)
  if (!STORES.includes(scheme(url)))
    throw invalid(
      TypeError,
      `${scheme(url)} cannot be written to, only ${list(STORES)} can: write a file of this machine, and upload it`,
    )
  if (/[?#]/.test(url)) throw invalid(TypeError, "a URL to write to has no query or fragment ('?' and '#')")
  if (!url.endsWith('/')) return url
  const ending = FORMATS.find(({ name }) => name === format)?.endings[0]
  return `${url}model.${ending ?? format}`
}

const STORES: readonly string[] = ['s3:', 'gs:', 'az:']
