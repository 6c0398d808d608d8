// Prints errors: one line `ztensor: <message> (CODE)`, followed by hints, never a stack trace.
import { FORMATS } from '../lib/values/format-table.js'
import { list } from '../lib/values/formats.js'
import { painter } from './color.js'
import { printable } from './text.js'

/**
 * Exit codes: 1, a file is damaged, two files differ, or a filter matches nothing; 2, invalid arguments, or a file cannot be read; 130,
 * interrupted; 141, the reader of standard output has closed it, as shells report for SIGPIPE.
 */
export const exitCodes = { unsound: 1, different: 1, unmatched: 1, unusable: 2, interrupted: 130, unread: 141 } as const

/** An error in the arguments of a command. */
export class UsageError extends Error {
  readonly code = 'ZT_INVALID_ARG'
  readonly hint: string | undefined
  constructor(message: string, hint?: string) {
    super(message)
    this.hint = hint
  }
}

/** The error for a `--filter` that matches no tensor. The exit code is 1, as for `grep`. */
export class NothingMatches extends Error {
  readonly code = 'ZT_NOT_FOUND'
  constructor(globs: readonly string[]) {
    super(`--filter ${globs.map((glob) => `'${glob}'`).join(' ')} matches no tensor`)
  }
}

const hints: Readonly<Record<string, string>> = {
  ZT_NOT_FOUND: '`ztensor ls FILE` lists the names.',
  ZT_TRUNCATED: 'The file is incomplete: a download or a copy may have been interrupted.',
  ZT_DIGEST_MISMATCH: 'The data is damaged: download or copy the file again.',
  ZT_INTERNAL: 'This is a bug in ztensor. Please report it.',
}

const KNOWN = `The supported formats are ${list(FORMATS.map(({ title }) => title))}. BTF has no signature: pass --format btf.`

/** The code of `error`; undefined if it has none. */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** The message of `error` on one line, safe for a terminal. */
export function errorMessage(error: unknown): string {
  return printable((error instanceof Error ? error.message : String(error)).trim())
}

/** The command-line flags of the library's options. */
const FLAGS: Readonly<Record<string, string>> = {
  overwrite: '--overwrite',
  skip: '--skip',
  dequantize: '--dequantize',
  imatrix: '--imatrix',
  quantize: '--quantize',
  requantize: '--requantize',
  cast: '--cast',
  rename: '--rename',
  digest: '--digest',
  version: '--version',
  maxShardBytes: '--max-shard-size',
  format: '--format',
  maxDecodedBytes: '--max-decoded-bytes',
  followLinks: '--follow-links',
  dtype: '--dtype',
}

/** Other phrases of the library's messages, and their replacements on the command line. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/specify its format in the options/, 'specify its format with --format'],
  [/\bset canonical: false\b/, 'pass --no-canonical'],
  [/\bcanonical: false\b/, '--no-canonical'],
  [/\bmaxShardBytes\b/, '--max-shard-size'],
  [/\brename: (?=['$])/, '--rename '],
  [/\brename: (?=there)/, '--rename: '],
  [/\bdtype must be a floating/, '--dtype must be a floating'],
  [/\bcast: (?=['$])/, '--cast '],
  [/, or open a single file with shards: 'none'/, ''],
  [/, or only this one with shards: 'none'/, ''],
  [/set the option followLinks, or let the option shards give its path/, 'use --follow-links'],
  [/; attributes: \{\} omits them/, ''],
  [/\bcompression\.level\b/, 'the level of --compress'],
  [/ \(os\.homedir\(\)\)/, ''],
  [/ \(option timeout\)/, ''],
  [/ \(option (maxIndexBytes|maxRank|maxAttributeValues)\)/, ''],
  [/\bomit the option format\b/, 'omit --format'],
  [/\bset the option format\b/, 'pass --format'],
  [/\bset remote: { store: { region: '([^']*)' } }/, 'pass --region $1'],
  [
    /\bset the server of the bucket with remote: { store: { endpoint, region } } or the environment/,
    'pass --endpoint and --region',
  ],
  [/\bpass remote: { store: { anonymous: true } }/, 'pass --anonymous'],
  [/, or pass remote: { store: { account } }/, ''],
  [/\bthe option store\.endpoint\b/, '--endpoint'],
  [/\bopen the index by its path, without shards: 'none'/, 'name the index instead of piping it'],
  [/\bpass its path in the option shards\b/, 'name the file instead of piping it'],
  [/: use bytes, or components\.get\('data'\)/, ', so there are no values to show'],
  [/; if each machine has its own copy, set checkModified: false/, ''],
]

/** Replaces the library's options by flags: `(option overwrite)` becomes `(--overwrite)`. */
function withFlags(message: string): string {
  const called = message.replace(/^(source|target) must\b/, 'the $1 must')
  const worded = WORDS.reduce((text, [words, flags]) => text.replace(words, flags), called)
  return worded.replace(/\boption (\w+)/g, (whole, option) => {
    return Object.hasOwn(FLAGS, option) ? (FLAGS[option] as string) : whole
  })
}

/** What to do next, where the message does not say it already. */
function hintFor(code: string, message: string): string | undefined {
  if (code === 'ZT_BAD_MAGIC' && message.includes('not a tensor file known here')) return KNOWN
  if (code === 'ZT_NOT_FOUND' && message.includes('in the metadata')) return '`ztensor metadata FILE` lists the keys.'
  return hints[code]
}

/** Prints `error` on standard error and sets the exit code. */
export function fail(error: unknown): void {
  const paint = painter(process.stderr)
  const text = withFlags(error instanceof Error ? error.message.trim() : String(error))
  const [message = '', ...rest] = text.split('\n').filter((line) => line.trim() !== '')
  const known = errorCode(error) ?? 'ZT_INTERNAL'
  // Node's own errors of the file system have other codes.
  const code = known.startsWith('ZT_') ? known : 'ZT_IO'
  const hint = error instanceof UsageError ? error.hint : hintFor(code, message)
  const lines = [`${paint('red', 'ztensor:')} ${printable(message)} (${printable(code)})`]
  for (const line of hint === undefined ? rest : [...rest, hint]) lines.push(`  ${paint('dim', printable(line))}`)
  process.stderr.write(`${lines.join('\n')}\n`)
  if (!(error instanceof NothingMatches)) process.exitCode = exitCodes.unusable
  else if (process.exitCode !== exitCodes.unusable) process.exitCode = exitCodes.unmatched
}
