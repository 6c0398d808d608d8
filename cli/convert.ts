// `ztensor convert`, `ztensor merge`, `ztensor quantize` and `ztensor split`.
import { readdirSync, rmdirSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  type ConvertOptions,
  type ConvertPlan,
  type ConvertResult,
  convert as convertFile,
  type OpenOptions,
  open,
  type Progress,
  type Source,
} from '../index.js'
import type { CastRule, DTypeGroup } from '../lib/values/cast.js'
import { dtypeCalled } from '../lib/values/dtype-names.js'
import { FORMATS, type WritableVersion } from '../lib/values/format-table.js'
import { formatOf, hasTextMetadata, isSharded, list } from '../lib/values/formats.js'
import { saysLeftOut, summary } from '../lib/values/summary.js'
import { painter } from './color.js'
import { parseDType } from './dtype.js'
import { errorCode, errorMessage, exitCodes, UsageError } from './failure.js'
import { NameFilter } from './filter.js'
import type { RemoteCommandOptions, SourceOptions } from './format.js'
import { jsonLine } from './json.js'
import { showShape } from './listing.js'
import { makeFolders } from './output-file.js'
import { checkUnique, pairsOf } from './pairs.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { parseBytes, showBytes, showCounted } from './quantity.js'
import { settings } from './settings.js'
import { isRemote, openOptions, remoteOf, STANDARD, sourceOf } from './source.js'
import { dataOutput, printLines } from './stdout.js'
import { lineWidth, table } from './table.js'
import { printable, showName } from './text.js'
import { printWarnings } from './warnings.js'

export interface ConvertCommandOptions extends RemoteCommandOptions, ProgressOptions {
  format?: NonNullable<ConvertOptions['format']>
  version?: NonNullable<ConvertOptions['version']>
  from?: NonNullable<SourceOptions['format']>
  maxDecodedBytes?: number
  followLinks?: boolean
  /** False with `--no-canonical`. */
  canonical: boolean
  digest?: 'crc32c' | 'sha256' | 'xxh3' | 'none'
  compress?: true | string
  filter?: string[]
  rename?: string[]
  cast?: string[]
  dtype?: string
  maxShardSize?: string
  overwrite?: boolean
  /** True without a pattern. */
  skip?: true | string[]
  strictMetadata?: boolean
  /** False with `--no-copy-metadata`. */
  copyMetadata?: boolean
  /** False with `--no-copy-attributes`. */
  copyAttributes?: boolean
  /** True without a dtype. */
  dequantize?: true | string
  quantize?: string[]
  imatrix?: string
  requantize?: boolean
  /** False with `--no-checkpoint`. */
  checkpoint?: boolean
  metadata?: string[]
  json?: boolean
  dryRun?: boolean
  plan?: boolean
}

function compression(compress: true | string): NonNullable<ConvertOptions['compression']> {
  if (compress === true) return true
  const level = Number(compress)
  if (!Number.isInteger(level) || level < 1 || level > 22) {
    throw new UsageError(`--compress must be a level from 1 to 22, or to 9 for npz, got ${compress}`)
  }
  return { level }
}

function shardSize(text: string): number {
  const size = parseBytes(text)
  if (size === undefined) throw new UsageError(`a size is a number of bytes, such as 5GB or 512MiB, got ${text}`)
  return size
}

/** Names as `ztensor ls` shows them, with patterns. */
export function renaming(pairs: readonly string[]): NonNullable<ConvertOptions['rename']> {
  const given = pairsOf('--rename', 'OLD=NEW', pairs)
  for (const [from, to] of given) {
    const [stars, newStars] = [from, to].map((name) => name.split('*').length - 1) as [number, number]
    if (newStars !== 0 && newStars !== stars)
      throw new UsageError(`--rename ${from}=${to}: the new name has ${newStars} *, but the old one ${stars}`)
  }
  checkUnique('--rename', 'pattern', given)
  return Object.fromEntries(given)
}

const GROUPS: readonly string[] = ['float*', 'int*', 'uint*'] satisfies DTypeGroup[]
const NAME = 'name:'

/** A rule of `--cast`: a dtype in any spelling, a group of dtypes, or else a pattern of names, also after `name:`. */
function castRule([from, target]: [string, string]): CastRule {
  const to = parseDType('--cast', target)
  if (from.startsWith(NAME)) return { name: from.slice(NAME.length), to }
  const dtype = GROUPS.includes(from) ? (from as DTypeGroup) : dtypeCalled(from)
  return dtype === undefined ? { name: from, to } : { dtype, to }
}

/** The options to open the source. */
function opening({ format: _target, from, ...options }: ConvertCommandOptions): OpenOptions {
  return openOptions({ ...options, ...(from === undefined ? {} : { format: from }) })
}

/** How to access the target, if it is in an object store. Headers are for the source only. */
function targetAccess(options: RemoteCommandOptions, target: string): Pick<ConvertOptions, 'remote'> {
  const { header: _, ...access } = options
  const remote = /^(s3|gs|az):\/\//i.test(target) ? remoteOf(access) : undefined
  return remote === undefined ? {} : { remote }
}

const DEQUANTIZED = ['bfloat16', 'float16', 'float32'] as const

/** The dtype of `--dequantize`: bfloat16 by default. */
function dequantized(given: true | string): (typeof DEQUANTIZED)[number] {
  const dtype = given === true ? 'bfloat16' : parseDType('--dequantize', given)
  const known = DEQUANTIZED.find((one) => one === dtype)
  if (known === undefined) throw new UsageError(`--dequantize takes ${list(DEQUANTIZED, 'or')}, got ${given}`)
  return known
}

/** The format of the target, by `--format` or by its extension: zTensor by default, as in the library. */
const formatFor = ({ format }: Pick<ConvertCommandOptions, 'format'>, target: string) =>
  format ?? formatOf(target) ?? 'zt'

/** Whether the metadata of the target is text. */
const isText = (options: ConvertCommandOptions, target: string): boolean => hasTextMetadata(formatFor(options, target))

/** The mixture or the rules of `--quantize`. */
function quantization(given: readonly string[]): NonNullable<ConvertOptions['quantize']> {
  const [first, ...others] = given as [string, ...string[]]
  if (!given.some((one) => one.includes('='))) {
    if (others.length > 0) throw new UsageError(`--quantize takes one mixture, or PATTERN=TYPE, got ${given.join(' ')}`)
    return first.toLowerCase()
  }
  const rules = pairsOf('--quantize', "a mixture, or PATTERN=TYPE such as '*.ffn_down.*=q6_k'", given)
  checkUnique('--quantize', 'pattern', rules)
  return Object.fromEntries(rules.map(([pattern, type]) => [pattern, type.toLowerCase()]))
}

export function convertOptions(options: ConvertCommandOptions, target: string): ConvertOptions {
  const { format, version, canonical, digest, compress, maxShardSize, overwrite, skip } = options
  const { strictMetadata, copyMetadata, copyAttributes, dequantize } = options
  return {
    ...(format === undefined ? {} : { format }),
    ...(version === undefined ? {} : { version }),
    ...(canonical ? {} : { canonical }),
    ...(maxShardSize === undefined ? {} : { maxShardBytes: shardSize(maxShardSize) }),
    source: opening(options),
    ...targetAccess(options, target),
    ...(digest === undefined ? {} : { digest: digest === 'none' ? false : digest }),
    ...(compress === undefined ? {} : { compression: compression(compress) }),
    ...(strictMetadata ? { strictMetadata } : {}),
    ...(copyMetadata === false ? { copyMetadata } : {}),
    ...(copyAttributes === false ? { copyAttributes } : {}),
    ...(dequantize === undefined ? {} : { dequantize: dequantized(dequantize) }),
    ...(options.quantize === undefined ? {} : { quantize: quantization(options.quantize) }),
    ...(options.imatrix === undefined ? {} : { imatrix: options.imatrix }),
    ...(options.requantize ? { requantize: true } : {}),
    ...(options.dryRun ? { dryRun: true } : {}),
    ...(options.checkpoint === false ? { checkpoint: false } : {}),
    ...(options.metadata === undefined
      ? {}
      : { metadata: settings('--metadata', options.metadata, () => isText(options, target)) }),
    overwrite: overwrite ?? false,
    skip: skip ?? false,
    ...(options.filter === undefined ? {} : { filter: options.filter }),
    ...(options.rename === undefined ? {} : { rename: renaming(options.rename) }),
    ...(options.cast === undefined ? {} : { cast: pairsOf('--cast', 'FROM=TO', options.cast).map(castRule) }),
    ...(options.dtype === undefined ? {} : { dtype: parseDType('--dtype', options.dtype) }),
  }
}

/** Throws for globs that match no tensor, since a typo would silently change the result. The library checks the other patterns. */
export async function checkFilter(source: Source, options: ConvertCommandOptions, stop: AbortSignal): Promise<void> {
  if (options.filter === undefined) return
  const file = await open(source, { ...opening(options), signal: stop })
  try {
    new NameFilter(options.filter).check(file.keys())
  } finally {
    file.close()
  }
}

/** The stream for the data, and the stream for messages. */
function outputs(target: string) {
  if (target !== STANDARD) return { to: target, name: target, words: process.stdout }
  if (process.stdout.isTTY) {
    throw new UsageError(
      'standard output is a terminal',
      'Pipe the data to a program: ztensor convert FILE - | PROGRAM',
    )
  }
  // The exit code until everything is written: see exitQuietlyOnBrokenPipe.
  process.exitCode = exitCodes.unread
  return { to: dataOutput(), name: 'standard output', words: process.stderr }
}

/** The Python releases that read zTensor 1.0, the default version. */
const PYTHON_1_0 = 'ztensor for Python 1.0.0 and 1.0.1'

/** The number of tensors of each type, of those whose rows did not fit the wanted type, and of those without importance. */
export function* quantizedLines({ types, fallbacks, unweighted }: ConvertResult['quantized']): Generator<string> {
  const counts = Object.entries(types).sort(([, a], [, b]) => b - a)
  if (counts.length > 0) yield `types: ${counts.map(([type, count]) => `${count} ${type}`).join(', ')}`
  const pairs = new Map<string, { count: number; first: string }>()
  for (const { tensor, wanted, type } of fallbacks) {
    const pair = `${type} instead of ${wanted}`
    const { count, first } = pairs.get(pair) ?? { count: 0, first: tensor }
    pairs.set(pair, { count: count + 1, first })
  }
  for (const [pair, { count, first }] of pairs)
    yield `${painter()('yellow', 'rows are not whole blocks')}: ${pair} for ${showCounted(count, 'tensor')}, first: ${printable(first)}`
  const [first] = unweighted
  if (first !== undefined)
    yield `${painter()('yellow', 'not in the importance matrix')}: ${showCounted(unweighted.length, 'tensor')}, first: ${printable(first)}`
}

/** Whether releases of the package for Python read files of a format, so that a file that they do not read needs a note. */
const isReadByPython = (format: string): boolean =>
  FORMATS.some(
    ({ name, writes }) =>
      name === format &&
      writes.some(({ readers }) => readers.some((reader) => reader.startsWith('ztensor for Python'))),
  )

/** What `--dry-run` prints: the tensors, then what the file would be. */
function* planLines(name: string, plan: ConvertPlan, result: ConvertResult, isForPython: boolean): Generator<string> {
  const paint = painter()
  const heads = [{ title: 'NAME' }, { title: 'DTYPE' }, { title: 'SHAPE' }, { title: 'SIZE', align: 'right' as const }]
  const rows = plan.tensors.map(({ name, storageType, shape, byteLength }) => [
    showName(name),
    printable(storageType),
    showShape(shape),
    showBytes(byteLength),
  ])
  if (rows.length > 0) yield* table(heads, rows, (text) => paint('bold', text), lineWidth())
  const files = plan.files > 1 ? ` in ${plan.files} files` : ''
  yield `would write ${printable(name)}: ${showCounted(result.tensors, 'tensor')}, ${showBytes(plan.byteLength)}${files}`
  if (plan.unchecked > 0)
    yield paint('yellow', `${showCounted(plan.unchecked, 'tensor')} may be rejected, depending on their values`)
  yield* resultLines(result, isForPython)
}

function* lines(name: string, result: ConvertResult, isForPython: boolean): Generator<string> {
  yield `${painter()('green', 'wrote')}  ${printable(name)}: ${showCounted(result.tensors, 'tensor')}`
  yield* resultLines(result, isForPython)
}

/** The readers of a file, what was quantized, and what was left out. */
function* resultLines(result: ConvertResult, isForPython: boolean): Generator<string> {
  const paint = painter()
  yield `read by: ${result.readers.join(', ')}`
  if (isForPython && result.readers.includes('ztensor') && result.readers.length === 1) {
    yield paint(
      'dim',
      '  Python cannot read the file: it has quantized tensors, which --version 2 writes for Python 2.x, or metadata that is not text, which --version 1.2 and 2 write for Python.',
    )
  }
  if (result.readers.includes(PYTHON_1_0)) {
    yield paint(
      'dim',
      '  Later releases of the Python package cannot read it: write --version 1.2 for 1.0.2 to 1.2.3, --version 2 for 2.x.',
    )
  }
  yield* quantizedLines(result.quantized)
  for (const clause of summary(result.skipped)) {
    const text = printable(clause)
    yield saysLeftOut(clause) ? paint('yellow', text) : `${paint('yellow', 'left out')}: ${text}`
  }
}

/** Converts `source` to `target`; `-` is standard output. Ctrl-C leaves no partial file. */
export async function convert(
  source: string | readonly string[],
  target: string,
  options: ConvertCommandOptions,
): Promise<void> {
  const given = convertOptions(options, target)
  const { to, name, words } = outputs(target)
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const events = (progress: Progress) => words.write(jsonLine({ event: 'progress', ...progress }))
  const progress = await followProgress(name, options)
  const listen = options.json ? { onProgress: events } : progress.listen
  try {
    const from = typeof source === 'string' ? await sourceOf(source) : source
    await checkFilter(from, options, stop.signal)
    const result = await convertFile(from, to, { ...given, ...listen, signal: stop.signal })
    progress.stop()
    const { tensors, skipped, warnings, readers, plan } = result
    printWarnings(warnings)
    const left = skipped.map((error) => ({
      code: errorCode(error),
      tensor: error.tensor,
      message: errorMessage(error),
    }))
    // Tensors that are missing in the target are a failure for scripts, unless --skip names them.
    const isWhole = result.skippedTensors === 0 || Array.isArray(given.skip)
    if (to !== target || !isWhole) process.exitCode = isWhole ? 0 : exitCodes.different
    const { quantized, path = target } = result
    const isForPython = isReadByPython(formatFor(options, target))
    const entry = path === target ? {} : { path }
    if (options.json)
      words.write(
        jsonLine(
          plan === undefined
            ? { event: 'done', target, ...entry, tensors, quantized, skipped: left, warnings, readers }
            : { event: 'plan', target, ...plan, quantized, skipped: left, warnings, readers },
        ),
      )
    else if (plan !== undefined) await printLines(planLines(target, plan, result, isForPython))
    else if (to !== target) words.write([...lines(name, result, isForPython), ''].join('\n'))
    else await printLines(lines(path === target ? target : `${path} and its shards`, result, isForPython))
  } catch (error) {
    progress.stop()
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  }
}

/** Quantizes `source` to the mixture `mixture`, or by `--type`. */
export async function quantize(
  source: string,
  target: string,
  mixture: string | undefined,
  { type, ...options }: Omit<ConvertCommandOptions, 'canonical' | 'quantize'> & { type?: string[] },
): Promise<void> {
  if (mixture !== undefined && type !== undefined)
    throw new UsageError(`there are two types, ${printable(mixture)} and --type ${printable(type.join(' '))}: name one`)
  const types = mixture === undefined ? type : [mixture]
  if (types === undefined)
    throw new UsageError(`no type to quantize to: ztensor quantize ${printable(source)} ${printable(target)} q4_k_m`)
  await convert(source, target, { ...options, canonical: true, quantize: types })
}

export interface SplitCommandOptions extends RemoteCommandOptions, ProgressOptions {
  filter?: string[]
  maxShardSize: string
  overwrite?: boolean
  skip?: true | string[]
  json?: boolean
}

/** Converts `source` to shards: zTensor 2 if the target's name ends in `.zt`. */
export async function split(source: string, target: string, options: SplitCommandOptions): Promise<void> {
  const sharded = FORMATS.flatMap(({ endings, writes }) => {
    const writing = writes.find(isSharded)
    return writing === undefined ? [] : endings.map((ending) => ({ ending: `.${ending}`, writing }))
  })
  const writing = sharded.find(({ ending }) => target.endsWith(ending))?.writing
  if (writing === undefined) {
    const endings = list(
      sharded.map(({ ending }) => ending),
      'or',
    )
    throw new UsageError(`the target must end in ${endings}, got ${printable(target)}`)
  }
  const version = writing.version as WritableVersion | undefined
  const how = version === undefined ? {} : { version }
  const folder = dirname(target)
  // Object stores have no folders.
  const made = isRemote(target) ? undefined : makeFolders(folder)
  try {
    await convert(source, target, { ...options, ...how, canonical: !writing.canonical })
  } finally {
    // After a failure or an interrupt, removes the folder that was created, if it is empty.
    if (made !== undefined && readdirSync(folder).length === 0) rmdirSync(folder)
  }
}
