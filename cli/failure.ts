// Prints errors: one line `ztensor: <message> (CODE)`, followed by hints, never a stack trace.

import type { ZTensorError } from '../index.js'
import type { OptionHint } from '../lib/native/errors.js'
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

/** The message of `error` on one line, with the flags of the command, safe for a terminal. */
export function errorMessage(error: unknown): string {
  return printable(withFlags(error))
}

/** The flag for each option of the library that an error may name. Advice about other options is left out. */
const FLAGS: Readonly<Record<string, string>> = {
  canonical: '--no-canonical',
  cast: '--cast',
  checkpoint: '--no-checkpoint',
  compression: '--compress',
  copyMetadata: '--no-copy-metadata',
  'compression.level': 'the level of --compress',
  dequantize: '--dequantize',
  digest: '--digest',
  drop: '--drop',
  dtype: '--dtype',
  filter: '--filter',
  followLinks: '--follow-links',
  format: '--format',
  imatrix: '--imatrix',
  inPlace: '--in-place',
  maxDecodedBytes: '--max-decoded-bytes',
  maxShardBytes: '--max-shard-size',
  metadata: '--metadata',
  overwrite: '--overwrite',
  quantize: '--quantize',
  'remote.cache': '--cache',
  'remote.headers': '--header',
  'remote.store.anonymous': '--anonymous',
  'remote.store.endpoint': '--endpoint',
  'remote.store.region': '--region',
  rename: '--rename',
  requantize: '--requantize',
  skip: '--skip',
  to: '--to',
  version: '--version',
}

/** Advice for programs that is not about an option, and what the command says instead. */
const ADVICE: readonly (readonly [string, string])[] = [
  // A shell has no such functions.
  [' (os.homedir())', ''],
  [": use bytes, or components.get('data')", ', so there are no values to show'],
]

/** The message of `error` with the flag of each option that it names: `(option overwrite)` becomes `(--overwrite)`. */
function withFlags(error: unknown): string {
  if (!(error instanceof Error)) return String(error).trim()
  const { option, hints = [] } = error as Pick<ZTensorError, 'option' | 'hints'>
  const flagOf = (name: string) => (Object.hasOwn(FLAGS, name) ? FLAGS[name] : undefined)
  let message = ADVICE.reduce((text, [advice, instead]) => text.replaceAll(advice, instead), error.message)
  for (let at = 0; at < hints.length; ) {
    // Hints that follow one another become one pair of parentheses.
    let text = ''
    const flags: string[] = []
    do {
      const hint = hints[at++] as OptionHint
      text += hint.text
      const flag = flagOf(hint.option)
      if (flag !== undefined) flags.push(flag)
    } while (at < hints.length && message.includes(text + hints[at]?.text))
    message = message.replaceAll(text, () => (flags.length === 0 ? '' : ` (${flags.join(', ')})`))
  }
  // An error about an argument begins with its name.
  const flag = option === undefined ? undefined : flagOf(option)
  const isNamed = flag !== undefined && message.startsWith(option as string)
  return (isNamed ? `${flag}${message.slice((option as string).length)}` : message).trim()
}

/** What to do next, where the message does not say it already. */
function hintFor(code: string, message: string): string | undefined {
  if (code === 'ZT_BAD_MAGIC' && message.includes('not a tensor file known here')) return KNOWN
  if (code === 'ZT_NOT_FOUND' && message.includes('in the metadata')) return '`ztensor metadata FILE` lists the keys.'
  // A file is missing, such as a tokenizer, and not a tensor.
  // A file of the hub, or a repository in its cache.
  if (code === 'ZT_NOT_FOUND' && message.startsWith("'hf://")) return undefined
  if (code === 'ZT_NOT_FOUND' && /\.json\b|\btokenizer\b/.test(message)) return undefined
  return hints[code]
}

/** Prints `error` on standard error and sets the exit code. */
export function fail(error: unknown): void {
  const paint = painter(process.stderr)
  const text = withFlags(error)
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
