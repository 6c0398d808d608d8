// `ztensor convert`: any file that can be read into any format that can be written.
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs'
import { dirname } from 'node:path'
import {
  type AnyTensor,
  type ConvertOptions,
  type ConvertResult,
  convert as convertFile,
  globMatcher,
  open,
  type Progress,
  type Source,
} from '../index.js'
import { FORMATS, type WritableVersion } from '../lib/values/format-table.js'
import { list } from '../lib/values/formats.js'
import { painter } from './color.js'
import { parseDType } from './dtype.js'
import { errorCode, errorMessage, exitCodes, UsageError } from './failure.js'
import type { SourceOptions } from './format.js'
import { jsonLine } from './json.js'
import { followProgress } from './progress.js'
import { parseBytes, showCounted } from './quantity.js'
import { isRemote, openOptions, STANDARD, sourceOf } from './source.js'
import { dataOutput, printLines } from './stdout.js'
import { printable } from './text.js'
import { printWarnings } from './warnings.js'

export interface ConvertCommandOptions {
  format?: NonNullable<ConvertOptions['format']>
  version?: NonNullable<ConvertOptions['version']>
  from?: NonNullable<SourceOptions['format']>
  maxDecodedBytes?: number
  followLinks?: boolean
  /** False where `--no-canonical` was given. */
  canonical: boolean
  digest?: 'crc32c' | 'sha256' | 'xxh3' | 'none'
  compress?: true | string
  include?: string[]
  exclude?: string[]
  rename?: string[]
  cast?: string[]
  maxShardSize?: string
  overwrite?: boolean
  skip?: boolean
  json?: boolean
  plan?: boolean
}

function compression(compress: true | string): NonNullable<ConvertOptions['compression']> {
  if (compress === true) return true
  const level = Number(compress)
  if (!Number.isInteger(level) || level < 1 || level > 22) {
    throw new UsageError(`--compress takes a level from 1 to 22, or to 9 in an npz, got ${compress}`)
  }
  return { level }
}

function shardSize(text: string): number {
  const size = parseBytes(text)
  if (size === undefined) throw new UsageError(`a size is a number of bytes, such as 5GB or 512MiB, got ${text}`)
  return size
}

/** Whether a tensor is taken: by any of `include`, and by none of `exclude`. */
function filter({ include, exclude }: ConvertCommandOptions): (tensor: AnyTensor) => boolean {
  const included = include?.map(globMatcher)
  const excluded = exclude?.map(globMatcher) ?? []
  return ({ name }) =>
    (included?.some((matches) => matches(name)) ?? true) && !excluded.some((matches) => matches(name))
}

/** What stands before and after the `=` of each pair. */
function table(option: string, usage: string, pairs: readonly string[] | undefined): Map<string, string> {
  const entries = new Map<string, string>()
  for (const pair of pairs ?? []) {
    const at = pair.indexOf('=')
    if (at < 1) throw new UsageError(`${option} takes ${usage}, got ${pair}`)
    entries.set(pair.slice(0, at), pair.slice(at + 1))
  }
  return entries
}

function renaming(pairs: readonly string[] | undefined): (name: string) => string {
  const names = table('--rename', 'OLD=NEW', pairs)
  return (name) => names.get(name) ?? name
}

function casts(pairs: readonly string[] | undefined): NonNullable<ConvertOptions['cast']> {
  const given = Array.from(table('--cast', 'FROM=TO', pairs))
  return Object.fromEntries(given.map(([from, to]) => [parseDType('--cast', from), parseDType('--cast', to)]))
}

/** How the source is opened. */
function opening({ format: _target, from, ...options }: ConvertCommandOptions): SourceOptions {
  return openOptions({ ...options, ...(from === undefined ? {} : { format: from }) })
}

export function convertOptions(options: ConvertCommandOptions): ConvertOptions {
  const { format, version, canonical, digest, compress, maxShardSize, overwrite, skip } = options
  return {
    ...(format === undefined ? {} : { format }),
    ...(version === undefined ? {} : { version }),
    ...(canonical ? {} : { canonical }),
    ...(maxShardSize === undefined ? {} : { maxShardBytes: shardSize(maxShardSize) }),
    source: opening(options),
    ...(digest === undefined ? {} : { digest: digest === 'none' ? false : digest }),
    ...(compress === undefined ? {} : { compression: compression(compress) }),
    overwrite: overwrite ?? false,
    skip: skip ?? false,
    filter: filter(options),
    rename: renaming(options.rename),
    cast: casts(options.cast),
  }
}

/** Refuses patterns and names that are of no tensor: a typing mistake would convert something else without a word. */
export async function checkNames(source: Source, options: ConvertCommandOptions, stop: AbortSignal): Promise<void> {
  const renamed = [...table('--rename', 'OLD=NEW', options.rename).keys()]
  if (options.include === undefined && renamed.length === 0) return
  const file = await open(source, { ...opening(options), signal: stop })
  try {
    const names = [...file.keys()]
    for (const pattern of options.include ?? []) {
      if (!names.some(globMatcher(pattern)))
        throw new UsageError(`--include ${printable(pattern)} matches no tensor`, NAMES)
    }
    const missing = renamed.find((name) => !file.has(name))
    if (missing !== undefined) throw new UsageError(`--rename: there is no tensor ${printable(missing)}`, NAMES)
  } finally {
    file.close()
  }
}

const NAMES = '`ztensor ls FILE` lists the names.'

/** Where the data goes, and what is said of it. */
function outputs(target: string) {
  if (target !== STANDARD) return { to: target, name: target, words: process.stdout }
  if (process.stdout.isTTY) {
    throw new UsageError('standard output is a terminal', 'Send the data on: ztensor convert FILE - | PROGRAM')
  }
  // Until all is written: see exitQuietlyOnBrokenPipe.
  process.exitCode = exitCodes.unread
  return { to: dataOutput(), name: 'standard output', words: process.stderr }
}

/** What one opens: of safetensors in several files the index. */
async function written(target: string, sharded: boolean): Promise<string> {
  const index = `${target}.index.json`
  const there = sharded && (isRemote(target) ? await opens(index) : existsSync(index))
  return there ? `${index} and the files that it names` : target
}

async function opens(url: string): Promise<boolean> {
  return open(url).then(
    (file) => {
      file.close()
      return true
    },
    () => false,
  )
}

function* lines(name: string, result: ConvertResult): Generator<string> {
  const paint = painter()
  yield `${paint('green', 'wrote')}  ${printable(name)}: ${showCounted(result.tensors, 'tensor')}`
  for (const error of result.skipped) yield `  left out  ${errorCode(error) ?? ''}  ${errorMessage(error)}`
  yield `read by: ${result.readers.join(', ')}`
  if (result.readers.length === 1) {
    yield paint(
      'dim',
      '  Attributes of the file that are not text keep Python 1.0.0 and 1.0.1 from reading it; --version 1.2 or 2 has other readers.',
    )
  }
}

/** Converts `source` into `target`, `-` being standard output. Ctrl-C leaves nothing behind. */
export async function convert(
  source: string | readonly string[],
  target: string,
  options: ConvertCommandOptions,
): Promise<void> {
  const given = convertOptions(options)
  const { to, name, words } = outputs(target)
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const events = (progress: Progress) => words.write(jsonLine({ event: 'progress', ...progress }))
  const progress = await followProgress(name)
  const listen = options.json ? { onProgress: events } : progress.listen
  try {
    const from = typeof source === 'string' ? await sourceOf(source) : source
    await checkNames(from, options, stop.signal)
    const result = await convertFile(from, to, { ...given, ...listen, signal: stop.signal })
    progress.stop()
    const { tensors, skipped, warnings, readers } = result
    printWarnings(warnings)
    const left = skipped.map((error) => ({
      code: errorCode(error),
      tensor: error.tensor,
      message: errorMessage(error),
    }))
    if (to !== target) process.exitCode = 0
    if (options.json) words.write(jsonLine({ event: 'done', target, tensors, skipped: left, warnings, readers }))
    else if (to !== target) words.write([...lines(name, result), ''].join('\n'))
    else await printLines(lines(await written(target, options.maxShardSize !== undefined), result))
  } catch (error) {
    progress.stop()
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  }
}

export interface SplitCommandOptions {
  maxShardSize: string
  overwrite?: boolean
  skip?: boolean
  json?: boolean
}

/** Converts `source` into files of a limited size: zTensor 2 where the target's name ends in `.zt`. */
export async function split(source: string, target: string, options: SplitCommandOptions): Promise<void> {
  const sharded = FORMATS.flatMap(({ endings, writes }) => {
    const writing = writes.find(({ shards }) => shards)
    return writing === undefined ? [] : endings.map((ending) => ({ ending: `.${ending}`, writing }))
  })
  const writing = sharded.find(({ ending }) => target.endsWith(ending))?.writing
  if (writing === undefined) {
    const endings = list(
      sharded.map(({ ending }) => ending),
      'or',
    )
    throw new UsageError(`the target is called ${endings}, got ${printable(target)}`)
  }
  const version = writing.version as WritableVersion | undefined
  const how = version === undefined ? {} : { version }
  const folder = dirname(target)
  // A store has no folders of its own.
  const made = isRemote(target) ? undefined : mkdirSync(folder, { recursive: true })
  try {
    await convert(source, target, { ...options, ...how, canonical: !writing.canonical })
  } finally {
    // Where nothing came of it, or somebody stopped it, the folder goes again, unless there is something in it.
    if (made !== undefined && readdirSync(folder).length === 0) rmdirSync(folder)
  }
}
