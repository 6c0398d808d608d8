// `ztensor cat`: the values of one tensor.
import type { AnyTensor, TensorFile } from '../index.js'
import { painter } from './color.js'
import { printDense, printDenseJson } from './dense.js'
import { UsageError } from './failure.js'
import type { SourceOptions } from './format.js'
import { jsonText } from './json.js'
import { jsonComponent, showDigest, showDtype, showShape } from './listing.js'
import { showBytes, showCount } from './quantity.js'
import { everything, parseSlice, regionOf, type Span, spanRange, spanText, volume } from './region.js'
import { withFile } from './source.js'
import { isSparse, printEntries, printEntriesJson, readEntries } from './sparse.js'
import { print, printLines } from './stdout.js'
import { type Column, table } from './table.js'
import { parseName, printable, showName } from './text.js'

export interface CatOptions extends SourceOptions {
  slice?: string
  json?: boolean
  all?: boolean
}

// JSON output is never abbreviated, so more values than this need --all.
const jsonAtMost = 1_000_000

/** The tensor called `name`, or displayed by that name in `ztensor ls`. Throws ZT_NOT_FOUND with similar names. */
function find(file: TensorFile, name: string): AnyTensor {
  return file.get(name) ?? file.get(parseName(name)) ?? file.tensor(name)
}

function head(tensor: AnyTensor, part: readonly Span[] | undefined): string {
  const paint = painter()
  const parts = [
    printable(tensor.storageType),
    showShape(tensor.shape),
    printable(tensor.layout),
    showBytes(tensor.byteLength),
  ]
  if (part !== undefined) parts.push(`slice [${part.map(spanText).join(', ')}]`)
  return `${paint('bold', showName(tensor.name))}  ${parts.join('  ')}\n`
}

function guardJson(amount: number, all: boolean | undefined): void {
  if (all || amount <= jsonAtMost) return
  throw new UsageError(
    `--json would print ${showCount(amount)} values`,
    'Select a part with --slice, or print everything with --all.',
  )
}

/** The start of a JSON object with the properties of `tensor`; `"data"` and the closing brace follow. */
function jsonHead(tensor: AnyTensor, more: object): string {
  const known = { name: tensor.name, dtype: tensor.dtype ?? null, shape: tensor.shape, layout: tensor.layout, ...more }
  return jsonText(known).slice(0, -1)
}

async function catDense(tensor: AnyTensor, options: CatOptions): Promise<void> {
  const part = options.slice === undefined ? undefined : parseSlice(options.slice, tensor.shape)
  const shown = part ?? everything(tensor.shape)
  if (!options.json) return printDense(tensor, shown, head(tensor, part), options.all === true)
  guardJson(volume(regionOf(shown)), options.all)
  const before = `${jsonHead(tensor, part === undefined ? {} : { slice: part.map(spanRange) })},"data":`
  await printDenseJson(tensor, shown, before, '}\n')
}

async function catSparse(tensor: AnyTensor, options: CatOptions): Promise<void> {
  const entries = readEntries(tensor)
  if (!options.json) {
    await print(head(tensor, undefined))
    return printEntries(entries, options.all === true)
  }
  guardJson(entries.nnz, options.all)
  await printEntriesJson(entries, `${jsonHead(tensor, { nnz: entries.nnz })},"data":`, '}\n')
}

/** Prints the components of a tensor of an unknown layout, whose values cannot be interpreted. */
async function catComponents(tensor: AnyTensor, options: CatOptions): Promise<void> {
  const components = Array.from(tensor.components.values())
  if (options.json) return print(`${jsonHead(tensor, { components: components.map(jsonComponent) })}}\n`)
  const heads: Column[] = [
    { title: 'COMPONENT' },
    { title: 'DTYPE' },
    { title: 'SIZE', align: 'right' },
    { title: 'STORED', align: 'right' },
    { title: 'ENCODING' },
    { title: 'DIGEST' },
  ]
  const rows = components.map((component) => [
    printable(component.role),
    showDtype(component.dtype),
    showBytes(component.byteLength),
    showBytes(component.storedLength),
    printable(component.encoding),
    showDigest(component.digest),
  ])
  await print(head(tensor, undefined))
  await printLines(table(heads, rows, (text) => painter()('bold', text)))
}

/** Prints the values of the tensor `name` of `path`. */
export async function cat(path: string, name: string, options: CatOptions): Promise<void> {
  await withFile(path, options, async (file) => {
    const tensor = find(file, name)
    if (tensor.layout === 'dense') return catDense(tensor, options)
    if (options.slice !== undefined) {
      throw new UsageError(`--slice needs a dense tensor, but this one is ${tensor.layout}`)
    }
    if (isSparse(tensor)) return catSparse(tensor, options)
    return catComponents(tensor, options)
  })
}
