// `ztensor ls` of a folder or a repository of the hub with several models: one row a model.
import { type ListedModel, list } from '../hub.js'
import { painter } from './color.js'
import { errorCode, errorMessage } from './failure.js'
import type { SourceOptions } from './format.js'
import { jsonLines } from './json.js'
import { naturalOrder } from './natural.js'
import { showBytes, showCount, showCounted } from './quantity.js'
import { openOptions } from './source.js'
import { printLines } from './stdout.js'
import { lineWidth, type OptionalColumn, table, withoutAlike } from './table.js'
import { printable } from './text.js'

export interface ModelsOptions extends SourceOptions {
  headers?: boolean
  json?: boolean
}

/** Whether a folder could not be opened because it has several models. */
export const hasSeveralModels = (error: unknown): boolean =>
  errorCode(error) === 'ZT_IO' &&
  error instanceof Error &&
  /the folder holds .*: open one by its name/.test(error.message)

const same = (cell: string): string => (cell === '-' ? '' : cell)

function rowOf({ name, format, byteLength, files, mixture, parameters, tensors, architecture, error }: ListedModel) {
  const count = (value: number | undefined): string => (value === undefined ? '-' : showCount(value))
  return [
    printable(name),
    format,
    showBytes(byteLength),
    count(files),
    mixture ?? '-',
    count(parameters),
    count(tensors),
    error === undefined ? printable(architecture ?? '-') : `${errorCode(error)}: ${errorMessage(error)}`,
  ]
}

/** Prints the models of each folder or repository, as a table or as JSON. */
export async function listModels(paths: readonly string[], options: ModelsOptions): Promise<void> {
  const paint = painter()
  const { headers = false } = options
  const { remote } = openOptions(options)
  const models: ListedModel[] = []
  for (const path of paths) models.push(...(await list(path, { headers, ...(remote && { remote }) })))
  if (options.json) {
    return printLines(
      jsonLines(models.map(({ error, ...model }) => (error ? { ...model, error: errorMessage(error) } : model))),
    )
  }
  models.sort((a, b) => naturalOrder(a.name, b.name))
  const heads: OptionalColumn[] = [
    { title: 'MODEL' },
    { title: 'FORMAT' },
    { title: 'SIZE', align: 'right' },
    { title: 'FILES', align: 'right', note: (cell) => (cell === '1' ? '' : undefined) },
    { title: 'MIXTURE', note: same },
    { title: 'PARAMETERS', align: 'right', note: (cell) => (cell === '-' ? '' : undefined) },
    { title: 'TENSORS', align: 'right', note: (cell) => (cell === '-' ? '' : undefined) },
    { title: 'ARCHITECTURE', note: same },
  ]
  const shown = withoutAlike(heads, models.map(rowOf))
  if (models.length > 0) await printLines(table(shown.heads, shown.rows, (text) => paint('bold', text), lineWidth()))
  const bytes = models.reduce((sum, { byteLength = 0 }) => sum + byteLength, 0)
  const notes = shown.notes.length > 0 ? [`all models: ${shown.notes.join(', ')}`] : []
  await printLines(
    [...notes, `${showCounted(models.length, 'model')}, ${showBytes(bytes)}`].map((line) => paint('dim', line)),
  )
}
