// `ztensor verify`: checks the digests and data rules of files.
import { type VerifyResult, verify as verifyFile } from '../index.js'
import { type Paint, painter } from './color.js'
import { errorCode, errorMessage, exitCodes, fail } from './failure.js'
import { NameFilter } from './filter.js'
import type { SourceOptions } from './format.js'
import { jsonLines } from './json.js'
import { showPlaced } from './listing.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showCounted } from './quantity.js'
import { openOptions, sourceOf } from './source.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'
import { printWarnings } from './warnings.js'

export interface VerifyOptions extends SourceOptions, ProgressOptions {
  filter?: string[]
  json?: boolean
  canonical?: boolean
}

/** A file with its result, or with the error that prevented its verification. */
export interface Report {
  path: string
  result: VerifyResult | undefined
  error: unknown
}

/** All problems of the file: the failures, or the error that prevented its verification. */
function failures({ result, error }: Report): readonly unknown[] {
  return result === undefined ? [error] : result.failures
}

function exitCode({ result, error }: Report): number {
  if (result !== undefined) return result.ok ? 0 : exitCodes.unsound
  const code = errorCode(error)
  // A file with a damaged index is invalid; a file that cannot be read was not verified.
  const isVerified = code?.startsWith('ZT_') && !['ZT_IO', 'ZT_INVALID_ARG', 'ZT_INTERNAL'].includes(code)
  return isVerified ? exitCodes.unsound : exitCodes.unusable
}

function jsonFailure(failure: unknown): object {
  const { tensor, component, offset, rule } = failure as Record<'tensor' | 'component' | 'offset' | 'rule', unknown>
  return {
    code: errorCode(failure) ?? 'ZT_INTERNAL',
    tensor: tensor ?? null,
    component: component ?? null,
    offset: offset ?? null,
    rule: rule ?? null,
    message: errorMessage(failure),
  }
}

export function reportJson(report: Report): object {
  return {
    path: report.path,
    ok: report.result?.ok ?? false,
    checked: report.result?.checked ?? 0,
    undigested: report.result?.undigested ?? 0,
    warnings: report.result?.warnings ?? [],
    failures: failures(report).map(jsonFailure),
  }
}

/** Whether a file was found to be valid without a single digest. */
const isUndigested = ({ result }: Report): boolean =>
  result?.ok === true && result.checked === 0 && result.undigested > 0

/** What the verification of such files does not detect: stated once, after all of them. */
function undigestedLine(count: number, total: number, paint: Paint): string {
  const files =
    total === 1 ? 'The file has' : count === total ? 'The files have' : `${showCounted(count, 'file')} of ${total} have`
  return paint('dim', `${files} no digests: only index and data rules were checked, and modified data is not detected.`)
}

function* reportLines(report: Report, paint: Paint): Generator<string> {
  const { path, result } = report
  const name = printable(path)
  const found = failures(report)
  if (result === undefined) {
    yield `${paint('red', 'FAILED')}  ${name}`
  } else {
    const undigested = `${showCounted(result.undigested, 'component')} without one`
    const counts = `${showCounted(result.checked, 'digest')} checked, ${undigested}`
    const verdict = result.ok ? paint('green', 'ok') : paint('red', 'FAILED')
    yield `${verdict}  ${name}: ${counts}${result.ok ? '' : `, ${showCounted(found.length, 'failure')}`}`
  }
  for (const failure of found) {
    yield `  ${errorCode(failure) ?? 'ZT_INTERNAL'}  ${showPlaced(failure as object, errorMessage(failure))}`
  }
}

/** What is printed of a single file. */
export function* verifiedLines(report: Report, paint: Paint): Generator<string> {
  yield* reportLines(report, paint)
  if (isUndigested(report)) yield undigestedLine(1, 1, paint)
}

/** Verifies each file and sets the exit code: 1 if a file is damaged, 2 if a file cannot be read. */
export async function verify(paths: readonly string[], options: VerifyOptions): Promise<void> {
  const paint = painter()
  const stop = new AbortController()
  // A second Ctrl-C has no listener and ends the process immediately.
  process.once('SIGINT', () => stop.abort())
  const reports: Report[] = []
  const names = new NameFilter(options.filter)
  let undigested = 0
  const filter = ({ name }: { name: string }): boolean => names.keep(name)
  for (const path of paths) {
    const earlier = names.count
    const progress = await followProgress(path, options)
    const report: Report = { path, result: undefined, error: undefined }
    try {
      report.result = await verifyFile(await sourceOf(path), {
        ...openOptions(options),
        ...progress.listen,
        signal: stop.signal,
        canonical: options.canonical,
        ...(names.isGiven ? { filter } : {}),
      })
    } catch (error) {
      report.error = error
    } finally {
      progress.stop()
    }
    if (stop.signal.aborted) {
      process.exitCode = exitCodes.interrupted
      return
    }
    process.exitCode = Math.max(Number(process.exitCode ?? 0), exitCode(report))
    printWarnings(report.result?.warnings ?? [], paths.length > 1 ? path : undefined)
    if (isUndigested(report)) undigested += 1
    if (options.json) reports.push(report)
    // "ok" would say that something was checked.
    else if (names.isGiven && names.count === earlier && report.result?.ok)
      await printLines([`${paint('dim', 'skipped')}  ${printable(path)}: --filter matches no tensor`])
    else await printLines(reportLines(report, paint))
  }
  if (options.json) await printLines(jsonLines(reports.map(reportJson)))
  else if (undigested > 0) await printLines([undigestedLine(undigested, paths.length, paint)])
  const error = names.error()
  if (error !== undefined && process.exitCode !== exitCodes.unusable) fail(error)
}
