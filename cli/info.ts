// `ztensor info`: describes a file, from its index alone.
import type { FileSummary, TensorFile } from '../index.js'
import { DTYPE_NAMES } from '../lib/values/dtype-names.js'
import { MODELS } from '../lib/values/format-names.js'
import { OUTLINE } from '../lib/values/outline.js'
import type { Paint } from './color.js'
import { shortDtype } from './dtype.js'
import { describeEach, type EachOptions } from './each.js'
import { fail } from './failure.js'
import { NameFilter } from './filter.js'
import { jsonAttribute, jsonText, metadataJson } from './json.js'
import { type Entry, entries } from './listing.js'
import { modelFields, modelLine } from './model.js'
import { showBytes, showCount, showCounted } from './quantity.js'
import { printable, shorten, showName } from './text.js'

interface Total {
  readonly tensors: number
  readonly byteLength: number
  readonly bitsPerWeight?: number | undefined
}

export interface InfoOptions extends EachOptions {
  filter?: string[]
  shortDtypes?: boolean
}

// An attribute may be a megabyte of vocabulary; `--json` has all of it.
const valueColumns = 100
// More than fit into so many columns, with all their combining marks.
const valueUnits = 4096

/** The totals of groups of tensors, that of most bytes first. */
function totals(listed: readonly Entry[], key: (entry: Entry) => string): [string, Total][] {
  const groups = new Map<string, Total>()
  for (const one of listed) {
    const name = key(one)
    const group = groups.get(name) ?? { tensors: 0, byteLength: 0 }
    groups.set(name, { tensors: group.tensors + 1, byteLength: group.byteLength + one.tensor.byteLength })
  }
  return Array.from(groups).sort(([, a], [, b]) => b.byteLength - a.byteLength || b.tensors - a.tensors)
}

function showTotal({ tensors, byteLength, bitsPerWeight }: Total): string {
  const bits = bitsPerWeight !== undefined ? `, ${bitsPerWeight} bits per weight` : ''
  return `${showCounted(tensors, 'tensor')}, ${showBytes(byteLength)}${bits}`
}

/** Whether a storage type is not a dtype: its elements share scales, so that they have no whole number of bits. */
const isQuantizedType = (type: string): boolean => !Object.hasOwn(DTYPE_NAMES, type) && type !== 'unknown'

/** As much of the metadata of a file as their lines show. */
export const shownMetadata = (file: TensorFile): TensorFile['metadata'] =>
  file[OUTLINE]({ items: valueColumns, units: valueUnits }).metadata

/** The keys of the metadata of a file whose values are text. */
export function textKeys(file: TensorFile): ReadonlySet<unknown> {
  const pairs = Object.entries(file[OUTLINE]({ items: 0, units: 0 }).metadata)
  return new Set(pairs.flatMap(([key, value]) => (typeof value === 'string' ? [key] : [])))
}

function showValue(value: unknown): string {
  if (typeof value === 'string') return shorten(printable(value), valueColumns)
  const text = shorten(jsonText(jsonAttribute(value, valueColumns)), valueColumns)
  // Only the beginning of a long list, such as a vocabulary.
  return Array.isArray(value) && value.length > valueColumns ? `${text} (${showCounted(value.length, 'value')})` : text
}

/** Shows each value on one line, shortened. */
export function* metadataLines(metadata: TensorFile['metadata'], paint: Paint): Generator<string> {
  for (const [key, value] of Object.entries(metadata)) {
    yield `${paint('cyan', shorten(showName(key), valueColumns))}: ${showValue(value)}`
  }
}

/** The summary of the listed tensors. */
function summaryOf(file: TensorFile, listed: readonly Entry[]): FileSummary {
  if (listed.length === file.size) return file.summary()
  const names = new Set(listed.map(({ tensor }) => tensor.name))
  return file.summary({ filter: ({ name }) => names.has(name) })
}

/** The chat template, if the format of the file has one. */
function templateOf({ format }: TensorFile, metadata: TensorFile['metadata']): string | undefined {
  const key = MODELS[format]?.chatTemplate
  const template = key === undefined ? undefined : metadata[key]
  return typeof template === 'string' ? template : undefined
}

function* lines(
  file: TensorFile,
  listed: readonly Entry[],
  paint: Paint,
  shortDtypes: boolean | undefined,
): Generator<string> {
  const field = (title: string, value: string): string => `${paint('bold', title.padEnd(12))}${value}`
  const version = file.version === undefined ? '' : ` ${printable(file.version)}`
  const summary = summaryOf(file, listed)
  const headline = modelLine(summary)
  if (headline !== undefined) yield paint('bold', headline)
  if (file.path !== undefined) yield field('path', printable(file.path))
  yield field('format', `${file.format}${version}`)
  if (file.generator !== undefined) yield field('generator', shorten(printable(file.generator), valueColumns))
  yield field('size', `${showBytes(file.byteLength)} (${showCounted(file.byteLength, 'byte')})`)
  if (summary.files > 1) yield field('files', showCount(summary.files))
  const share = listed.length === file.size ? '' : `${showCount(listed.length)} of `
  yield field('tensors', `${share}${showCount(file.size)}`)
  yield field('parameters', showCount(summary.parameters))
  if (file.warnings.length > 0) yield field('warnings', `${showCount(file.warnings.length)}, on standard error`)
  const types = Object.entries(summary.storageTypes)
  if (summary.bitsPerWeight !== undefined && types.some(([type]) => isQuantizedType(type)))
    yield field('bits/weight', String(summary.bitsPerWeight))
  const metadata = shownMetadata(file)
  for (const [title, text] of modelFields(summary, templateOf(file, metadata))) yield field(title, text)

  const groups: Record<string, [string, Total][]> = {
    dtypes: types.map(([type, { tensors, byteLength, bitsPerWeight }]) => [
      printable(shortDtypes ? shortDtype(type) : type),
      { tensors, byteLength, ...(isQuantizedType(type) ? { bitsPerWeight } : {}) },
    ]),
    layouts: totals(listed, ({ tensor }) => printable(tensor.layout)),
    encodings: totals(listed, ({ encoding }) => printable(encoding)),
  }
  for (const [title, group] of Object.entries(groups)) {
    let head = title
    for (const [key, total] of group) {
      yield field(head, `${key}: ${showTotal(total)}`)
      head = ''
    }
  }
  if (Object.entries(metadata).length > 0) yield paint('bold', 'metadata')
  for (const line of metadataLines(metadata, paint)) yield `  ${line}`
}

function json(file: TensorFile, listed: readonly Entry[]): object {
  const summary = summaryOf(file, listed)
  return {
    ...summary,
    path: summary.path ?? null,
    version: summary.version ?? null,
    generator: summary.generator ?? null,
    files: file.files,
    layouts: Object.fromEntries(totals(listed, ({ tensor }) => tensor.layout)),
    encodings: Object.fromEntries(totals(listed, ({ encoding }) => encoding)),
    metadata: metadataJson(file.metadata),
    warnings: file.warnings,
  }
}

/** Describes each file, or several as one: format, totals, metadata and warnings. */
export async function info(paths: readonly string[], options: InfoOptions): Promise<void> {
  const { shortDtypes } = options
  const filter = new NameFilter(options.filter)
  const found = (file: TensorFile): Entry[] => entries(file, filter.keep)
  await describeEach(paths, options, {
    lines: (file, paint) => lines(file, found(file), paint, shortDtypes),
    document: (file) => [jsonText(json(file, found(file)), 2)],
    element: (file) => json(file, found(file)),
  })
  const error = filter.error()
  if (error !== undefined) fail(error)
}
