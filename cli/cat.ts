// `ztensor cat`: the values of one tensor.
import type { AnyTensor, Tensor, TensorFile } from '../index.js'
import { painter } from './color.js'
import { printDense, printDenseJson } from './dense.js'
import { errorCode, UsageError } from './failure.js'
import type { SourceOptions } from './format.js'
import { jsonText } from './json.js'
import { jsonComponent, showDigest, showDtype, showShape } from './listing.js'
import { showBytes, showCount, showCounted } from './quantity.js'
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

/**
 * The tensor called `name`, or displayed by that name in `ztensor ls`. Throws ZT_NOT_FOUND with similar names. The name may be left out if
 * the file has a single tensor.
 */
function find(file: TensorFile, name: string | undefined): AnyTensor {
  if (name === undefined) {
    const [only, ...others] = file.values()
    if (only !== undefined && others.length === 0) return only
    const some = others.length === 0 ? 'no tensors' : showCounted(file.size, 'tensor')
    throw new UsageError(`the file has ${some}: name one of them`, '`ztensor ls FILE` lists the names.')
  }
  return file.get(name) ?? file.get(parseName(name)) ?? file.tensor(name)
}

function head(tensor: AnyTensor, part: readonly Span[] | undefined, isDequantized = false): string {
  const paint = painter()
  const parts = [
    printable(tensor.storageType),
    showShape(tensor.shape),
    printable(tensor.layout),
    showBytes(tensor.byteLength),
  ]
  if (isDequantized) parts.push('dequantized to float32')
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

/** Whether the elements of a tensor can be read as float32: it is dense, or of a quantized layout that the library decodes. */
async function isReadable(tensor: AnyTensor): Promise<boolean> {
  if (tensor.layout === 'dense') return true
  if (isSparse(tensor)) return false
  try {
    // Reads nothing but checks the layout.
    await (tensor as Tensor).load({ as: 'float32', slice: tensor.shape.map(() => [0, 0]) })
    return true
  } catch (error) {
    if (errorCode(error) === 'ZT_BAD_LAYOUT') return false
    throw error
  }
}

/** Prints elements. Those of a quantized tensor are dequantized. */
async function catElements(tensor: AnyTensor, options: CatOptions): Promise<void> {
  const part = options.slice === undefined ? undefined : parseSlice(options.slice, tensor.shape)
  const shown = part ?? everything(tensor.shape)
  if (!options.json)
    return printDense(tensor, shown, head(tensor, part, tensor.layout !== 'dense'), options.all === true)
  guardJson(volume(regionOf(shown)), options.all)
  const more = {
    ...(tensor.layout === 'dense' ? {} : { storageType: tensor.storageType, as: 'float32' }),
    ...(part === undefined ? {} : { slice: part.map(spanRange) }),
  }
  const before = `${jsonHead(tensor, more)},"data":`
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
export async function cat(path: string, name: string | undefined, options: CatOptions): Promise<void> {
  await withFile(path, options, async (file) => {
    const tensor = find(file, name)
    if (await isReadable(tensor)) return catElements(tensor, options)
    if (options.slice !== undefined) {
      throw new UsageError(`--slice needs a dense or quantized tensor, but this one is ${tensor.layout}`)
    }
    if (isSparse(tensor)) return catSparse(tensor, options)
    return catComponents(tensor, options)
  })
}
