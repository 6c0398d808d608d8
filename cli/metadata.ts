// `ztensor metadata`: prints the metadata of a file, or edits it.
import { editMetadata, type TensorFile } from '../index.js'
import { hasTextMetadata } from '../lib/values/formats.js'
import { painter } from './color.js'
import { renaming } from './convert.js'
import { exitCodes, UsageError } from './failure.js'
import { metadataLines, shownMetadata, textKeys } from './info.js'
import { jsonLine, jsonText, metadataJson } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes } from './quantity.js'
import { settings } from './settings.js'
import { withFile } from './source.js'
import { print, printLines } from './stdout.js'
import { printable } from './text.js'

export interface MetadataOptions extends ProgressOptions {
  set?: string[]
  remove?: string[]
  rename?: string[]
  drop?: string[]
  inPlace?: boolean
  json?: boolean
}

/** How the file was edited, in words. */
const METHODS = {
  unchanged: 'nothing to change',
  'in-place': 'written in place',
  inserted: 'written in place, after blocks were inserted',
  cloned: 'replaced by a clone that shares its blocks',
  copied: 'replaced by a copy',
} as const

/** Prints one value of the metadata: a text as it is, any other value as JSON. */
async function printValue(file: TensorFile, key: string, json: boolean): Promise<void> {
  const { metadata } = file
  if (!Object.hasOwn(metadata, key)) {
    const where = file.path === undefined ? 'FILE' : printable(file.path)
    throw new UsageError(`the metadata has no key ${jsonText(key)}`, `\`ztensor metadata ${where}\` lists the keys.`)
  }
  const value = metadata[key]
  if (typeof value === 'string' && !json) {
    // A terminal would obey the control characters of a text.
    const text = process.stdout.isTTY ? value.split('\n').map(printable).join('\n') : value
    await print(text.endsWith('\n') ? text : `${text}\n`)
  } else await printLines([jsonText(metadataJson(value), json ? 2 : 0)])
}

/** Prints the metadata of the file at `path` or the value of a key, or edits it. Ctrl-C leaves the file unchanged. */
export async function metadata(path: string, key: string | undefined, options: MetadataOptions): Promise<void> {
  const { set = [], remove = [], rename = [], drop = [], inPlace = false, json = false } = options
  const edits = set.length + remove.length + rename.length + drop.length > 0
  if (inPlace && !edits)
    throw new UsageError('--in-place applies to edits: use it with --set, --remove, --rename or --drop')
  if (key !== undefined && edits)
    throw new UsageError(
      `'${printable(key)}' would be printed, but this command edits the file: use --set or --remove for a key`,
    )
  let texts: ReadonlySet<unknown> = new Set()
  let isText = false
  await withFile(path, {}, async (file) => {
    isText = hasTextMetadata(file.format)
    if (edits) {
      texts = textKeys(file)
      return
    }
    if (key !== undefined) await printValue(file, key, json)
    else if (json) await printLines([jsonText(metadataJson(file.metadata), 2)])
    else await printLines(metadataLines(shownMetadata(file), painter()))
  })
  if (!edits) return
  const values = settings('--set', set, (key) => isText || texts.has(key))
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const progress = await followProgress(path, options)
  try {
    const result = await editMetadata(path, {
      set: values,
      remove,
      ...(rename.length === 0 ? {} : { rename: renaming(rename) }),
      drop,
      inPlace,
      ...progress.listen,
      signal: stop.signal,
    })
    progress.stop()
    const { byteLength, method } = result
    if (json) process.stdout.write(jsonLine({ path, byteLength, method }))
    else {
      const what = `${showBytes(byteLength)}, ${METHODS[method]}`
      await printLines([`${painter()('green', 'metadata')}  ${printable(path)}: ${what}`])
    }
  } catch (error) {
    progress.stop()
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  }
}
