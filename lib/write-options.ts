import { aBoolean, aString, aText, aWholeNumber, filePath, oneOf, optional, options, wrongType } from './arguments.js'
import { type AttributeInput, freezeMap } from './attributes.js'
import { invalid } from './errors.js'
import type { WriteRequest } from './native.js'

/** How to write a file. */
export interface CreateOptions {
  /** The container: `'zt'` by default. */
  format?: 'zt' | 'safetensors' | 'btf' | undefined
  /** The zTensor version: `'1.0'` by default. 1.0 is read by Python 1.0.0 and 1.0.1, 1.2 by 1.0.2 to 1.2.3. */
  version?: '0.1' | '1.0' | '1.2' | undefined
  /** A digest over each stored blob: crc32c by default for zTensor, the only format that has them. */
  digest?: 'crc32c' | 'sha256' | false | undefined
  /** zstd for blobs that it makes smaller; off by default, zTensor only. */
  compression?: { readonly level?: number | undefined; readonly minSavings?: number | undefined } | false | undefined
  /** The file's metadata: text only in safetensors, none in BTF and zTensor 0.1. */
  attributes?: AttributeInput | undefined
  /** What 1.0 names as its writer. */
  generator?: string | undefined
  /** Blobs begin at multiples of this power of two, from 64 to 2^24; zTensor only. */
  alignment?: number | undefined
  /** Replace a file that is there; otherwise that is ZT_EXISTS. */
  overwrite?: boolean | undefined
}

const ZSTD_LEVEL = 3
const MIN_SAVINGS = 0.05

/** What the binding needs to know to write a file. */
export function writeRequest(given: CreateOptions | undefined): WriteRequest {
  const read = options(given, [
    'format',
    'version',
    'digest',
    'compression',
    'attributes',
    'generator',
    'alignment',
    'overwrite',
  ])
  const format = optional(read.format, (value) => oneOf('format', ['zt', 'safetensors', 'btf'], value)) ?? 'zt'
  const version = optional(read.version, (value) => oneOf('version', ['0.1', '1.0', '1.2'], value))
  if (format !== 'zt' && version !== undefined) throw invalid(TypeError, `${format} has no version`)
  const zt = format === 'zt'
  const digest = read.digest === false ? undefined : (read.digest ?? (zt ? 'crc32c' : undefined))
  if (digest !== undefined) {
    oneOf('digest', ['crc32c', 'sha256'], digest)
    if (!zt) throw invalid(TypeError, `${format} has no digests`)
  }
  const request: WriteRequest = {
    dialect: zt ? (version ?? '1.0') : format,
    alignment: optional(read.alignment, anAlignment) ?? 64,
    minSavings: MIN_SAVINGS,
    overwrite: optional(read.overwrite, (value) => aBoolean('overwrite', value)) ?? false,
    attributes: fileAttributes(format, version, read.attributes),
  }
  if (digest !== undefined) request.digest = digest
  if (!zt && read.alignment !== undefined) throw invalid(TypeError, `${format} has no alignment`)
  if (request.dialect !== '1.0' && read.generator !== undefined)
    throw invalid(TypeError, 'only zTensor 1.0 names a generator')
  const generator = optional(read.generator, (value) => aText('generator', value))
  if (generator !== undefined) request.generator = generator
  if (read.compression !== undefined && read.compression !== false) {
    if (!zt) throw invalid(TypeError, `${format} is never compressed`)
    const { level, minSavings } = options(read.compression, ['level', 'minSavings'])
    request.level = optional(level, aLevel) ?? ZSTD_LEVEL
    request.minSavings = optional(minSavings, aPart) ?? MIN_SAVINGS
  }
  return request
}

function anAlignment(value: unknown): number {
  const alignment = aWholeNumber('alignment', value, 64)
  if (alignment > 2 ** 24 || !Number.isInteger(Math.log2(alignment))) {
    throw invalid(RangeError, `alignment must be a power of two from 64 to 2^24, got ${alignment}`)
  }
  return alignment
}

function aLevel(value: unknown): number {
  const level = aWholeNumber('compression.level', value, 1)
  if (level > 22) throw invalid(RangeError, `compression.level must be from 1 to 22, got ${level}`)
  return level
}

function aPart(value: unknown): number {
  if (typeof value !== 'number' || !(value >= 0 && value < 1))
    throw wrongType('compression.minSavings', 'a number from 0 to below 1', value)
  return value
}

function fileAttributes(format: string, version: string | undefined, given: AttributeInput | undefined) {
  const tagged = freezeMap('attributes', given === undefined ? {} : given)
  if (tagged.map.length > 0 && (format === 'btf' || version === '0.1')) {
    throw invalid(TypeError, `${format === 'btf' ? 'BTF' : 'zTensor 0.1'} has no attributes of a file`)
  }
  if (format === 'safetensors' && tagged.map.some((item) => typeof item !== 'string')) {
    throw invalid(TypeError, 'attributes of safetensors must be text')
  }
  return tagged
}

/** A path to write to. */
export function targetPath(path: string | URL): string {
  const target = path instanceof URL ? filePath('path', path) : aString('path', path)
  if (target === '' || target.includes('\0')) throw invalid(TypeError, 'path must not be empty or hold null bytes')
  return target
}
