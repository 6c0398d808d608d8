// `ztensor ls`: one row a tensor, from the index alone.
import type { TensorFile } from '../index.js'
import type { Paint } from './color.js'
import { shortDtype } from './dtype.js'
import { describeEach, type EachOptions } from './each.js'
import { fail } from './failure.js'
import { fileLabels } from './files.js'
import { NameFilter } from './filter.js'
import { jsonLines } from './json.js'
import { type Entry, entries, jsonEntry, showAlgorithms, showDigests, showShape } from './listing.js'
import { hasSeveralModels, listModels } from './models.js'
import { naturalOrder } from './natural.js'
import { showBytes, showCounted } from './quantity.js'
import { lineWidth, type OptionalColumn, table, withoutAlike } from './table.js'
import { printable, showName } from './text.js'

export type SortKey = 'name' | 'file' | 'size' | 'offset' | 'dtype'
export interface LsOptions extends EachOptions {
  sort?: SortKey
  filter?: string[]
  /** All columns, and digests in full. */
  long?: boolean
  /** Only the names, one a line. */
  names?: boolean
  shortDtypes?: boolean
  /** The models of a folder or repository, not the tensors of a file. */
  models?: boolean
  /** The models, with what their headers say. */
  headers?: boolean
}

const ascending = <T extends string | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)
const orders: Readonly<Record<Exclude<SortKey, 'file'>, (a: Entry, b: Entry) => number>> = {
  name: (a, b) => naturalOrder(a.tensor.name, b.tensor.name),
  size: (a, b) => ascending(b.tensor.byteLength ?? 0, a.tensor.byteLength ?? 0),
  offset: (a, b) => ascending(a.offset ?? Number.POSITIVE_INFINITY, b.offset ?? Number.POSITIVE_INFINITY),
  dtype: (a, b) => ascending(a.tensor.storageType, b.tensor.storageType),
}

function listed(file: TensorFile, filter: NameFilter, sort: SortKey): Entry[] {
  const found = entries(file, filter.keep)
  if (sort !== 'file') found.sort(orders[sort])
  return found
}

/** The table of `found`, and notes on what it leaves out. */
function tableOf(file: TensorFile, found: readonly Entry[], options: LsOptions) {
  const { long = false, shortDtypes = false } = options
  const { label, pattern } = fileLabels(file.files, long)
  const same = (cell: string): string => cell
  const heads: OptionalColumn[] = [
    { title: 'NAME' },
    // A single tensor keeps its dtype: only several of them can be alike.
    { title: 'DTYPE', ...(found.length > 1 ? { note: same } : {}) },
    { title: 'SHAPE' },
    { title: 'LAYOUT', note: same },
    { title: 'SIZE', align: 'right' },
    { title: 'ENCODING', note: same },
    { title: 'DIGEST', note: (cell) => (cell === '-' ? 'no digests' : `${cell} digests`) },
    { title: 'FILE', note: (cell) => (cell === '-' ? '' : `in ${cell}`) },
  ]
  const rows = found.map(({ tensor, components, encoding, files }) => [
    showName(tensor.name),
    printable(shortDtypes ? shortDtype(tensor.storageType) : tensor.storageType),
    showShape(tensor.shape),
    printable(tensor.layout),
    showBytes(tensor.byteLength),
    printable(encoding),
    long ? showDigests(components) : showAlgorithms(components),
    long || file.files.length > 1 ? files.map(label).join('+') || '-' : '-',
  ])
  if (long) return { heads, rows, notes: [], pattern: undefined }
  const { notes, ...rest } = withoutAlike(heads, rows)
  return { ...rest, notes, pattern: rest.heads.some(({ title }) => title === 'FILE') ? pattern : undefined }
}

function* lines(file: TensorFile, found: readonly Entry[], options: LsOptions, paint: Paint): Generator<string> {
  let bytes = 0
  for (const { tensor } of found) bytes += tensor.byteLength ?? 0
  const count =
    found.length === file.size
      ? showCounted(file.size, 'tensor')
      : `${showCounted(found.length, 'tensor')} of ${file.size}`
  if (found.length === 0) return yield paint('dim', `${count}, ${showBytes(bytes)}`)
  const { heads, rows, notes, pattern } = tableOf(file, found, options)
  yield* table(heads, rows, (text) => paint('bold', text), lineWidth())
  if (notes.length > 0) yield paint('dim', `all tensors: ${notes.join(', ')}`)
  if (pattern !== undefined) yield paint('dim', `files: ${printable(pattern)}`)
  yield paint('dim', `${count}, ${showBytes(bytes)}`)
}

/** Prints the tensors of each file, or of several as one, as tables or as JSON. */
export async function ls(paths: readonly string[], options: LsOptions): Promise<void> {
  if (options.models || options.headers) return listModels(paths, options)
  const filter = new NameFilter(options.filter)
  const found = (file: TensorFile, sort: SortKey): Entry[] => listed(file, filter, options.sort ?? sort)
  const describe = describeEach(paths, options, {
    lines: (file, paint) =>
      options.names
        ? found(file, 'name').map(({ tensor }) => showName(tensor.name))
        : lines(file, found(file, 'name'), options, paint),
    document: (file) => jsonLines(found(file, 'file').map(jsonEntry)),
    element: (file, path) => ({ path, tensors: found(file, 'file').map(jsonEntry) }),
  })
  try {
    await describe
  } catch (error) {
    if (options.join || !hasSeveralModels(error)) throw error
    return listModels(paths, options)
  }
  const error = filter.error()
  if (error !== undefined) fail(error)
}
