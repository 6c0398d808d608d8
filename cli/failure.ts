// How a command fails: one line `ztensor: <message> (CODE)`, hints under it where they help, never a stack.
import { FORMATS } from '../lib/values/format-table.js'
import { list } from '../lib/values/formats.js'
import { painter } from './color.js'
import { printable } from './text.js'

/**
 * Exit codes: 1, a file was read and is not sound, or two differ; 2, the command or the file cannot be used; 130, interrupted;
 * 141, whoever reads the data on standard output has gone, as the shell has it of programs that SIGPIPE ends.
 */
export const exitCodes = { unsound: 1, different: 1, unusable: 2, interrupted: 130, unread: 141 } as const

/** Something wrong with what was typed. */
export class UsageError extends Error {
  readonly code = 'ZT_INVALID_ARG'
  readonly hint: string | undefined
  constructor(message: string, hint?: string) {
    super(message)
    this.hint = hint
  }
}

const hints: Readonly<Record<string, string>> = {
  ZT_NOT_FOUND: '`ztensor ls FILE` lists the names.',
  ZT_TRUNCATED: 'The file ends too early: a download or a copy may have been cut short.',
  ZT_DIGEST_MISMATCH: 'The bytes are not those that were written: fetch the file again.',
  ZT_INTERNAL: 'This is a fault of ztensor, not of the file. Please report it.',
}

const KNOWN = `${list(FORMATS.map(({ title }) => title))} files are known. BTF has no signature of its own: for one of those pass --format btf.`

/** The code of `error`, or undefined where it has none. */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : undefined
}

/** The message of `error` on one line, safe for a terminal. */
export function errorMessage(error: unknown): string {
  return printable((error instanceof Error ? error.message : String(error)).trim())
}

/** The flags that options of the library have in commands. */
const FLAGS: Readonly<Record<string, string>> = {
  overwrite: '--overwrite',
  skip: '--skip',
  cast: '--cast',
  rename: '--rename',
  digest: '--digest',
  version: '--version',
  maxShardBytes: '--max-shard-size',
  format: '--format',
  maxDecodedBytes: '--max-decoded-bytes',
  followLinks: '--follow-links',
}

/** Other words of the library, and how they are said in commands. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/name its format in the options/, 'name its format with --format'],
  [/\bcanonical: false\b/, '--no-canonical'],
  [/, or open one file alone with shards: 'none'/, ''],
  [/, or this one alone with shards: 'none'/, ''],
  [/set the option followLinks, or let the option shards give its path/, 'use --follow-links'],
  [/; attributes: \{\} leaves them out/, ''],
  [/\bcompression\.level\b/, 'the level of --compress'],
  [/ \(os\.homedir\(\)\)/, ''],
]

/** A message with flags in place of the library's options: `(option overwrite)` becomes `(--overwrite)`. */
function withFlags(message: string): string {
  const named = message.replace(/\boption (\w+)/g, (whole, option) => {
    return Object.hasOwn(FLAGS, option) ? (FLAGS[option] as string) : whole
  })
  return WORDS.reduce((text, [words, flags]) => text.replace(words, flags), named)
}

/** Prints `error` on standard error and sets the exit code. */
export function fail(error: unknown): void {
  const paint = painter(process.stderr)
  const text = withFlags(error instanceof Error ? error.message.trim() : String(error))
  const [message = '', ...rest] = text.split('\n').filter((line) => line.trim() !== '')
  const code = errorCode(error) ?? 'ZT_INTERNAL'
  // Of what is known to be something else the message says what to do.
  const unknown = code === 'ZT_BAD_MAGIC' && message.includes('not a tensor file known here')
  const hint = error instanceof UsageError ? error.hint : unknown ? KNOWN : hints[code]
  const lines = [`${paint('red', 'ztensor:')} ${printable(message)} (${printable(code)})`]
  for (const line of hint === undefined ? rest : [...rest, hint]) lines.push(`  ${paint('dim', printable(line))}`)
  process.stderr.write(`${lines.join('\n')}\n`)
  process.exitCode = exitCodes.unusable
}
