// `ztensor ls`: one row a tensor, from the index alone.

import { globMatcher } from '../index.js'
import { painter } from './color.js'
import type { SourceOptions } from './format.js'
import { jsonLines } from './json.js'
import { type Entry, entries, jsonEntry, showDigests, showDtype, showShape } from './listing.js'
import { showBytes, showCounted } from './quantity.js'
import { withFile } from './source.js'
import { printLines } from './stdout.js'
import { type Column, table } from './table.js'
import { printable, showName } from './text.js'

export type SortKey = 'name' | 'size' | 'offset' | 'dtype'
export interface LsOptions extends SourceOptions {
  json?: boolean
  sort?: SortKey
  filter?: string
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
  dtype: (a, b) => ascending(showDtype(a.tensor.dtype), showDtype(b.tensor.dtype)),
}

function row({ tensor, components, encoding }: Entry): string[] {
  return [
    showName(tensor.name),
    showDtype(tensor.dtype),
    showShape(tensor.shape),
    printable(tensor.layout),
    showBytes(tensor.byteLength),
    printable(encoding),
    showDigests(components),
  ]
}

/** Prints the tensors of a file, or of several as one, as a table or as one JSON array. */
export async function ls(paths: readonly string[], options: LsOptions): Promise<void> {
  await withFile(paths, options, async (file) => {
    const listed = entries(file, options.filter === undefined ? undefined : globMatcher(options.filter))
    if (options.sort !== undefined) listed.sort(orders[options.sort])
    if (options.json) return printLines(jsonLines(listed.map(jsonEntry)))

    const paint = painter()
    let bytes = 0
    for (const { tensor } of listed) bytes += tensor.byteLength ?? 0
    const count =
      listed.length === file.size
        ? showCounted(file.size, 'tensor')
        : `${showCounted(listed.length, 'tensor')} of ${file.size}`
    const rows = table(heads, listed.map(row), (text) => paint('bold', text))
    await printLines([...(listed.length === 0 ? [] : rows), paint('dim', `${count}, ${showBytes(bytes)}`)])
  })
}
