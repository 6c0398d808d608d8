// `ztensor ls`: one row a tensor, from the index alone.
import type { TensorFile } from '../index.js'
import { namesMatching } from '../lib/values/filter.js'
import type { Paint } from './color.js'
import { describeEach, type EachOptions } from './each.js'
import { jsonLines } from './json.js'
import { type Entry, entries, jsonEntry, showDigests, showShape } from './listing.js'
import { showBytes, showCounted } from './quantity.js'
import { type Column, table } from './table.js'
import { printable, showName } from './text.js'

export type SortKey = 'name' | 'size' | 'offset' | 'dtype'
export interface LsOptions extends EachOptions {
  sort?: SortKey
  filter?: string[]
}

const heads: readonly Column[] = [
  { title: 'NAME' },
  { title: 'DTYPE' },
  { title: 'SHAPE' },
  { title: 'LAYOUT' },
  { title: 'SIZE', align: 'right' },
  { title: 'ENCODING' },
  { title: 'DIGEST' },
]

// By code unit, not by locale: the order is the same on every machine.
const ascending = <T extends string | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)
const orders: Readonly<Record<SortKey, (a: Entry, b: Entry) => number>> = {
  name: (a, b) => ascending(a.tensor.name, b.tensor.name),
  size: (a, b) => ascending(b.tensor.byteLength ?? 0, a.tensor.byteLength ?? 0),
  offset: (a, b) => ascending(a.offset ?? Number.POSITIVE_INFINITY, b.offset ?? Number.POSITIVE_INFINITY),
  dtype: (a, b) => ascending(a.tensor.storageType, b.tensor.storageType),
}

function row({ tensor, components, encoding }: Entry): string[] {
  return [
    showName(tensor.name),
    printable(tensor.storageType),
    showShape(tensor.shape),
    printable(tensor.layout),
    showBytes(tensor.byteLength),
    printable(encoding),
    showDigests(components),
  ]
}

function listed(file: TensorFile, { filter, sort }: LsOptions): Entry[] {
  const found = entries(file, filter === undefined ? undefined : namesMatching(filter))
  if (sort !== undefined) found.sort(orders[sort])
  return found
}

function* lines(file: TensorFile, options: LsOptions, paint: Paint): Generator<string> {
  const found = listed(file, options)
  let bytes = 0
  for (const { tensor } of found) bytes += tensor.byteLength ?? 0
  const count =
    found.length === file.size
      ? showCounted(file.size, 'tensor')
      : `${showCounted(found.length, 'tensor')} of ${file.size}`
  if (found.length > 0) yield* table(heads, found.map(row), (text) => paint('bold', text))
  yield paint('dim', `${count}, ${showBytes(bytes)}`)
}

/** Prints the tensors of each file, or of several as one, as tables or as JSON. */
export async function ls(paths: readonly string[], options: LsOptions): Promise<void> {
  await describeEach(paths, options, {
    lines: (file, paint) => lines(file, options, paint),
    document: (file) => jsonLines(listed(file, options).map(jsonEntry)),
    element: (file, path) => ({ path, tensors: listed(file, options).map(jsonEntry) }),
  })
}
