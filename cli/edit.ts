// `ztensor rename` and `ztensor remove`: edit the index of a file, in a clone that then replaces the file.
import { append, type TensorEditor } from '../index.js'
import { painter } from './color.js'
import { exitCodes } from './failure.js'
import { jsonLine } from './json.js'
import { printWarningsOf } from './source.js'
import { printLines } from './stdout.js'
import { printable } from './text.js'

export interface EditOptions {
  inPlace?: boolean
  json?: boolean
}

/** Edits the file at `path`. Ctrl-C leaves it unchanged. */
async function edit(
  path: string,
  { inPlace = false, json = false }: EditOptions,
  work: (editor: TensorEditor) => Promise<void>,
  done: { readonly verb: string; readonly what: string; readonly event: object },
): Promise<void> {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  try {
    await printWarningsOf(path)
    await using editor = await append(path, { inPlace, signal: stop.signal })
    await work(editor)
    await editor.finish()
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
    return
  }
  if (json) process.stdout.write(jsonLine({ path, ...done.event }))
  else await printLines([`${painter()('green', done.verb)}  ${printable(path)}: ${done.what}`])
}

/** Renames a tensor. */
export async function rename(path: string, from: string, to: string, options: EditOptions): Promise<void> {
  const what = `${printable(from)} is now ${printable(to)}`
  await edit(path, options, (editor) => editor.rename(from, to), { verb: 'renamed', what, event: { from, to } })
}

/** Removes tensors: all of them or none. */
export async function remove(path: string, names: readonly string[], options: EditOptions): Promise<void> {
  const removeAll = async (editor: TensorEditor): Promise<void> => {
    for (const name of names) await editor.remove(name)
  }
  const what = `${names.map(printable).join(', ')}; \`ztensor compact\` reclaims the space`
  await edit(path, options, removeAll, { verb: 'removed', what, event: { removed: names } })
}
