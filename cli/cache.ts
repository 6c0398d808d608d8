// `ztensor cache`: what the cache of the hub has.
import { type CachedRepository, listCache, removeCached, type VerifyCacheResult, verifyCache } from '../hub.js'
import { painter } from './color.js'
import { exitCodes, UsageError } from './failure.js'
import { jsonLine, jsonLines } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes, showCounted } from './quantity.js'
import { print, printLines } from './stdout.js'
import { lineWidth, table } from './table.js'
import { printable } from './text.js'

export interface CacheCommandOptions extends ProgressOptions {
  json?: boolean
  remove?: boolean
}

/** Lists, removes or verifies what the cache has. */
export async function cache(action: string, urls: readonly string[], options: CacheCommandOptions): Promise<void> {
  if (options.remove && action !== 'verify') throw new UsageError('--remove is an option of `ztensor cache verify`')
  if (action === 'ls') await show(urls, options)
  else if (action === 'rm') await remove(urls, options)
  else await verify(urls, options)
}

async function show(urls: readonly string[], { json }: CacheCommandOptions): Promise<void> {
  if (urls.length > 0) throw new UsageError('`ztensor cache ls` takes no URL: it lists all repositories')
  const found = await listCache()
  if (json) return printLines(jsonLines(found))
  const paint = painter()
  const heads = [
    { title: 'REPOSITORY' },
    { title: 'SIZE', align: 'right' as const },
    { title: 'FILES', align: 'right' as const },
    { title: 'MODIFIED' },
    { title: 'COMMITS' },
  ]
  if (found.length > 0) await printLines(table(heads, found.map(rowOf), (text) => paint('bold', text), lineWidth()))
  const bytes = found.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const partial = found.reduce((sum, { incompleteBytes }) => sum + incompleteBytes, 0)
  const note = partial === 0 ? '' : `, ${showBytes(partial)} of it of unfinished downloads`
  const total = found.length === 1 ? '1 repository' : `${found.length} repositories`
  await printLines([paint('dim', `${total}, ${showBytes(bytes)}${note}`)])
}

function rowOf({ url, byteLength, modified, revisions }: CachedRepository): string[] {
  const files = revisions.reduce((sum, revision) => sum + revision.files, 0)
  const commits = revisions.map(({ commit, refs }) => [commit.slice(0, 8), ...refs].join(' '))
  const day = modified.getTime() === 0 ? '-' : modified.toISOString().slice(0, 10)
  return [printable(url), showBytes(byteLength), String(files), day, printable(commits.join(', ')) || '-']
}

async function remove(urls: readonly string[], { json }: CacheCommandOptions): Promise<void> {
  if (urls.length === 0) throw new UsageError('`ztensor cache rm` needs the URL of a repository: hf://owner/repository')
  const results: object[] = []
  for (const url of urls) {
    const { byteLength, commits } = await removeCached(url)
    results.push({ url, byteLength, commits })
    if (!json) await printLines([`removed ${printable(url)}: ${showBytes(byteLength)}`])
  }
  if (json) await printLines(jsonLines(results))
}

async function verify(urls: readonly string[], options: CacheCommandOptions): Promise<void> {
  const stop = new AbortController()
  // A second Ctrl-C has no listener and ends the process immediately.
  process.once('SIGINT', () => stop.abort())
  const all: VerifyCacheResult[] = []
  const { quiet, remove = false } = options
  for (const url of urls.length === 0 ? [undefined] : urls) {
    const progress = await followProgress(url ?? 'cache', quiet === undefined ? {} : { quiet })
    try {
      all.push(await verifyCache(url, { ...progress.listen, remove, signal: stop.signal }))
    } catch (error) {
      if (!stop.signal.aborted) throw error
      process.exitCode = exitCodes.interrupted
      return
    } finally {
      progress.stop()
    }
  }
  const failures = all.flatMap((one) => one.failures)
  const [checked, unchecked] = [
    all.reduce((n, one) => n + one.checked, 0),
    all.reduce((n, one) => n + one.unchecked, 0),
  ]
  if (failures.length > 0) process.exitCode = exitCodes.unsound
  if (options.json) return print(jsonLine({ ok: failures.length === 0, checked, unchecked, failures }))
  const paint = painter()
  const lines = failures.map(({ reason, path, names }) => {
    const what = reason === 'digest' ? 'its bytes do not have the digest that is its name' : 'its blob is missing'
    const named = reason === 'digest' && names.length > 0 ? ` (${names.map(printable).join(', ')})` : ''
    return `${paint('red', 'FAILED')}  ${printable(path)}${named}: ${what}${remove ? '; removed' : ''}`
  })
  const verdict = failures.length === 0 ? paint('green', 'ok') : `${showCounted(failures.length, 'failure')}`
  const rest = unchecked === 0 ? '' : `, ${unchecked} without a digest`
  await printLines([...lines, `${verdict}  ${showCounted(checked, 'file')} checked${rest}`])
  if (failures.length > 0 && !remove)
    process.stderr.write(`${paint('dim', '`ztensor cache verify --remove` removes them. Then download them again.')}\n`)
}
