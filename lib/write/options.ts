import { inspect } from '#host'
import { invalid, optionHint } from '../native/errors.js'
import type { AppendRequest, WriteRequest } from '../native/native.js'
import { isPlainObject } from '../native/realm.js'
import {
  optional,
  readOptions,
  validateBoolean,
  validateInteger,
  validateOneOf,
  validateText,
  wrongType,
} from '../values/arguments.js'
import { type AttributeChanges, changesByKey, freezeChanges, mergeChanges } from '../values/attribute-input.js'
import type { WritableFormat, WritableVersion } from '../values/format-table.js'
import {
  DIGESTS,
  formatsWith,
  isSharded,
  list,
  titlesWith,
  WRITABLE_FORMATS,
  WRITABLE_VERSIONS,
  type Writing,
  writingOf,
} from '../values/formats.js'
import type { RemoteOptions } from '../values/remote.js'

/** How to write a file. */
export interface CreateOptions {
  /** The format: by default that of the file extension (`.zt`, `.safetensors`, …), or zTensor for a name without one. */
  format?: WritableFormat | undefined
  /**
   * The zTensor version: `'1.0'` by default. Python's ztensor 1.0.0 and 1.0.1 read version 1.0, 1.0.2 to 1.2.3 read 1.2, and 2.x reads 2.
   * Other formats have no versions.
   */
  version?: WritableVersion | undefined
  /**
   * zTensor 2: write the canonical form (§6.3): equal tensors give equal files, whatever the order in which they are added. True by
   * default. A canonical file is aligned to 64 KiB, has xxh3 digests, is not compressed, and stores equal tensors once.
   */
  canonical?: boolean | undefined
  /**
   * zTensor: the digest of each component. By default crc32c of the stored bytes up to version 1.2, and xxh3 of the decoded bytes in
   * version 2. A version 2 file with sha256 is not canonical. False for no digests.
   */
  digest?: 'crc32c' | 'sha256' | 'xxh3' | false | undefined
  /**
   * Compress blobs, off by default. zTensor uses zstd with a `level` from 1 to 22 (3 by default), npz uses deflate with a `level` from 1
   * to 9 (6 by default); other formats have no compression. `true` uses the defaults. A blob is only compressed if that saves at least
   * the fraction `minSavings` (0.05 by default). The first 256 KiB are tried first; a blob that then saves less is stored raw, unless
   * it is larger than 8 MiB and is written to a stream, an npz or an edited file. zTensor compresses in frames of `frameSize` bytes
   * (from 4096 to 2^24, 1 MiB by default) with a seek table, so that a slice decodes only the frames that it needs, and all cores decode
   * one tensor. Other readers of zTensor 0.1 to 1.2 see ordinary zstd data.
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
  /**
   * The metadata of the file; in zTensor these are the attributes of its root. safetensors only supports strings; BTF, NumPy and zTensor
   * 0.1 have no metadata. A conversion sets it in addition to the metadata of the source, of which an undefined value removes a key.
   *
   * GGUF stores the type of each value. A value can state it: `{ type: 'uint32', value: 4096 }`, or `{ type: 'float32', value: [0, 1] }`
   * for a list. Otherwise numbers under the keys of the specification have the types that llama.cpp expects, and other numbers are int32
   * if they are integers, and float32.
   */
  metadata?: AttributeChanges | undefined
  /** The program name that a zTensor 1.0 file records. */
  generator?: string | undefined
  /**
   * zTensor and GGUF: the alignment of blobs in bytes. A power of two up to 2^24: from 64 in zTensor, from 8 in GGUF (32 by default). In
   * zTensor 2 a multiple of 4096 up to 2^24, 65536 by default.
   */
  alignment?: number | undefined
  /**
   * zTensor 2, safetensors and GGUF: the maximum size of a file in bytes, beyond which the model is sharded. A larger tensor gets its own file.
   * zTensor 2 writes shards `model-00001-of-00003.zt` and so on, and the index into `model.zt`; a sharded model is not canonical.
   * safetensors writes shards `model-00001-of-00003.safetensors` and so on, and then `model.safetensors.index.json`; the maximum
   * applies to the bytes of tensors. GGUF writes `model-00001-of-00003.gguf` and so on, like `llama-gguf-split`.
   */
  maxShardBytes?: number | undefined
  /**
   * Replace an existing file, which is otherwise ZT_EXISTS. The new file gets the owner, group, permissions and, on Linux, access control
   * lists of the old one, as far as the process has the privileges. Other hard links still refer to the old file. A sharded model is
   * replaced as a whole. Pipes and character devices are not replaced: they are written to, like a stream.
   */
  overwrite?: boolean | undefined
  /** How to access the object store of an `s3:`, `gs:` or `az:` URL. */
  remote?: RemoteOptions | undefined
  /** Aborts the writer, like `abort()`. Later calls reject with `signal.reason`. */
  signal?: AbortSignal | undefined
}

export const CREATE_OPTIONS = [
  'format',
  'version',
  'canonical',
  'maxShardBytes',
  'digest',
  'compression',
  'metadata',
  'generator',
  'alignment',
  'overwrite',
  'remote',
  'signal',
] as const

/** The compression methods with a configurable frame size. */
const FRAMED: readonly string[] = ['zstd', 'zstd-seekable']
/** The default and the highest level of each method. */
const LEVELS: Readonly<Record<string, readonly [number, number]>> = {
  zstd: [3, 22],
  'zstd-seekable': [3, 22],
  deflate: [6, 9],
}
const MIN_SAVINGS = 0.05
const FRAME = 2 ** 20
/** Lets the core choose the frame size, which depends on the file's version. */
const DEFAULT_FRAME = 0
/** The binding's value for formats without alignment. */
const ANY_ALIGNMENT = 64

/** Validates the options of a writer and converts them to the binding's form. */
export function writeRequest(read: CreateOptions): WriteRequest {
  const writing = writingFor(read)
  const maxShard = optional(read.maxShardBytes, (value) => validateInteger('maxShardBytes', value, 1))
  if (maxShard !== undefined && !isSharded(writing)) throw unsupported('maxShardBytes', isSharded)
  const canonical =
    optional(read.canonical, (value) => validateBoolean('canonical', value)) ??
    (writing.canonical && maxShard === undefined)
  if (read.canonical !== undefined && !writing.canonical) throw unsupported('canonical', ({ canonical }) => canonical)
  const digest = digestOf(writing, read.digest)
  const request: WriteRequest = {
    writeFormat: writing.id,
    alignment: alignmentOf(writing, read.alignment),
    ...compressionOf(writing, read.compression),
    canonical,
    overwrite: optional(read.overwrite, (value) => validateBoolean('overwrite', value)) ?? false,
    attributes: frozenMetadata(writing, metadataOf(writing, read)),
  }
  if (digest !== undefined) request.digest = digest
  if (maxShard !== undefined) request.maxShard = maxShard
  if (!writing.generator && read.generator !== undefined) throw unsupported('generator', ({ generator }) => generator)
  const generator = optional(read.generator, (value) => validateText('generator', value))
  if (generator !== undefined) request.generator = generator
  return request
}

/** The error for an option that only some formats support. */
function unsupported(option: string, supports: Parameters<typeof titlesWith>[0]): Error {
  return invalid(TypeError, `${option} is only supported for ${list(titlesWith(supports))}`, { option })
}

/** The format and version to write: zTensor by default, and the default version of a format. */
function writingFor(read: Pick<CreateOptions, 'format' | 'version'>): Writing {
  const format = optional(read.format, (value) => validateOneOf('format', WRITABLE_FORMATS, value)) ?? 'zt'
  const version = optional(read.version, (value) => validateOneOf('version', WRITABLE_VERSIONS, value))
  const writing = writingOf(format, version)
  if (writing === undefined) {
    const versioned = list(formatsWith(({ version }) => version !== undefined))
    const hints = [optionHint('version', ': omit option version'), optionHint('format', ', or set option format')]
    const message = `${format} has no versions, only ${versioned} has${hints.map(({ text }) => text).join('')}`
    throw invalid(TypeError, message, { hints })
  }
  return writing
}

/** Validates the options for new blobs of an edited file, whose version is not known yet. Its own alignment is the default. */
export function storage(
  read: Pick<CreateOptions, 'digest' | 'compression' | 'alignment'>,
): Pick<AppendRequest, 'digest' | 'level' | 'minSavings' | 'frame' | 'alignment'> {
  const digest =
    read.digest === undefined ? 'default' : optional(read.digest === false ? undefined : read.digest, validateDigest)
  const alignment = optional(read.alignment, (value) => validateAlignment(value))
  return {
    ...compressionOf({ title: 'zTensor', compression: 'zstd-seekable' }, read.compression, DEFAULT_FRAME),
    ...(digest === undefined ? {} : { digest }),
    ...(alignment === undefined ? {} : { alignment }),
  }
}

function compressionOf(
  { title, compression: method }: Pick<Writing, 'title' | 'compression'>,
  given: CreateOptions['compression'],
  defaultFrame = FRAME,
): Pick<WriteRequest, 'level' | 'minSavings' | 'frame'> {
  if (given === undefined || given === false) return { minSavings: MIN_SAVINGS, frame: defaultFrame }
  if (method === undefined)
    throw invalid(
      TypeError,
      `${title} has no compression, only ${list(formatsWith(({ compression }) => compression !== undefined))} have`,
      { option: 'compression' },
    )
  const asked = given === true ? {} : given
  if (typeof asked !== 'object' || asked === null)
    throw wrongType('compression', 'true, false or an object such as { level: 3 }', asked)
  const { level, minSavings, frameSize } = readOptions(asked, ['level', 'minSavings', 'frameSize'], 'compression')
  if (frameSize !== undefined && !FRAMED.includes(method))
    throw unsupported('compression.frameSize', ({ compression }) => FRAMED.includes(compression ?? ''))
  const [defaultLevel, highest] = LEVELS[method] ?? [1, 1]
  return {
    level: optional(level, (value) => validateLevel(value, highest, title)) ?? defaultLevel,
    minSavings: optional(minSavings, validatePart) ?? MIN_SAVINGS,
    frame: optional(frameSize, validateFrameSize) ?? defaultFrame,
  }
}

/** The smallest alignment of zTensor up to version 1.2. */
const MIN_ALIGNMENT = 64

function validateAlignment(value: unknown, min = MIN_ALIGNMENT): number {
  const alignment = validateInteger('alignment', value, min)
  if (alignment > 2 ** 24 || !Number.isInteger(Math.log2(alignment))) {
    throw invalid(RangeError, `alignment must be a power of two from ${min} to 2^24, got ${alignment}`, {
      option: 'alignment',
    })
  }
  return alignment
}

/** The metadata to set and to remove. A format may state its alignment in it. */
export function metadataOf(
  { title, alignment, reserved }: Pick<Writing, 'title' | 'alignment' | 'reserved'>,
  read: Pick<CreateOptions, 'metadata' | 'alignment'>,
): AttributeChanges | undefined {
  const changes = changesByKey(read.metadata)
  const own = reserved.find((key) => changes.has(key))
  if (own !== undefined)
    throw invalid(RangeError, `metadata: ${JSON.stringify(own)} follows from how the ${title} file is written: remove the key`, { option: 'metadata' }) // biome-ignore format: one message
  if (alignment?.attribute === undefined || read.alignment === undefined) return read.metadata
  const stated = { type: 'uint32', value: validateAlignment(read.alignment, alignment.min) }
  const other = changes.get(alignment.attribute)
  const value = isPlainObject(other) && 'value' in other ? other.value : other
  if (changes.has(alignment.attribute) && Number(value) !== stated.value)
    throw invalid(RangeError, `alignment is ${stated.value}, and metadata ${JSON.stringify(alignment.attribute)} is another number: give only one of them`, { option: 'alignment' }) // biome-ignore format: one message
  return mergeChanges(read.metadata, { [alignment.attribute]: stated })
}

function alignmentOf({ title, alignment }: Writing, given: unknown): number {
  if (alignment === undefined) {
    if (given !== undefined) throw invalid(TypeError, `${title} has no alignment`, { option: 'alignment' })
    return ANY_ALIGNMENT
  }
  const { min, powersOfTwo } = alignment
  const check = powersOfTwo
    ? (value: unknown) => validateAlignment(value, min)
    : (value: unknown) => validateMultiple(value, min, title)
  return optional(given, check) ?? alignment.default
}

function validateMultiple(value: unknown, min: number, title: string): number {
  const alignment = validateInteger('alignment', value, 1)
  if (alignment > 2 ** 24 || alignment % min !== 0) {
    throw invalid(RangeError, `alignment must be a multiple of ${min} up to 2^24 in ${title}, got ${alignment}`, {
      option: 'alignment',
    })
  }
  return alignment
}

function validateFrameSize(value: unknown): number {
  const size = validateInteger('compression.frameSize', value, 4096)
  if (size > 2 ** 24)
    throw invalid(RangeError, `compression.frameSize must be from 4096 to 2^24, got ${size}`, {
      option: 'compression.frameSize',
    })
  return size
}

function validateDigest(value: unknown): (typeof DIGESTS)[number] {
  if (!DIGESTS.includes(value as never))
    throw wrongType('digest', `false or one of ${DIGESTS.map((name) => `'${name}'`).join(', ')}`, value)
  return value as (typeof DIGESTS)[number]
}

function digestOf({ title, digests }: Writing, given: unknown): string | undefined {
  if (given === false) return undefined
  if (given === undefined) return digests[0]
  const digest = validateDigest(given)
  if (digests.length === 0) throw invalid(TypeError, `${title} has no digests`, { option: 'digest' })
  if (digests.includes(digest)) return digest
  throw invalid(TypeError, `digest ${digest} is not supported for ${title}: use ${list(digests, 'or')}`, {
    option: 'digest',
  })
}

function validateLevel(value: unknown, highest: number, title: string): number {
  const level = validateInteger('compression.level', value, 1)
  if (level > highest)
    throw invalid(RangeError, `compression.level must be from 1 to ${highest} in ${title}, got ${level}`, {
      option: 'compression.level',
    })
  return level
}

function validatePart(value: unknown): number {
  if (typeof value !== 'number' || !(value >= 0 && value < 1))
    throw wrongType('compression.minSavings', 'a number from 0 to below 1', value)
  return value
}

/** Validates the metadata of a format, and encodes it for the binding, without the keys that are removed. */
function frozenMetadata({ title, attributes }: Writing, given: AttributeChanges | undefined) {
  const tagged = freezeChanges('metadata', given ?? {}).set
  if (tagged.map.length > 0 && attributes === 'none')
    throw invalid(TypeError, `${title} has no metadata`, { option: 'metadata' })
  const at = attributes === 'text' ? tagged.map.findIndex((item) => typeof item !== 'string') : -1
  if (at >= 0) {
    const key = inspect(tagged.map[at - (at % 2)], { maxStringLength: 40, depth: 1 })
    throw invalid(TypeError, `metadata of ${title} must be strings, but ${key} is not`, { option: 'metadata' })
  }
  return tagged
}
