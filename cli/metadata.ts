// `ztensor metadata`: prints the metadata of a file, or edits it.
import { editMetadata } from '../index.js'
import { hasTextAttributes } from '../lib/values/formats.js'
import { painter } from './color.js'
import { renaming } from './convert.js'
import { exitCodes, UsageError } from './failure.js'
import { attributeLines, shownAttributes, textKeys } from './info.js'
import { jsonAttribute, jsonLine, jsonText } from './json.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showBytes } from './quantity.js'
import { settings } from './settings.js'
import { withFile } from './source.js'
import { printLines } from './stdout.js'
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

/** Prints the metadata of the file at `path`, or edits it. Ctrl-C leaves the file unchanged. */
export async function metadata(path: string, options: MetadataOptions): Promise<void> {
  const { set = [], remove = [], rename = [], drop = [], inPlace = false, json = false } = options
  const edits = set.length + remove.length + rename.length + drop.length > 0
  if (inPlace && !edits)
    throw new UsageError('--in-place applies to edits: use it with --set, --remove, --rename or --drop')
  let texts: ReadonlySet<unknown> = new Set()
  let isText = false
  await withFile(path, {}, async (file) => {
    isText = hasTextAttributes(file.format)
    if (edits) {
      texts = textKeys(file)
      return
    }
    if (json) await printLines([jsonText(jsonAttribute(file.attributes), 2)])
    else await printLines(attributeLines(shownAttributes(file), painter()))
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
