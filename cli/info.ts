// `ztensor info`: describes a file, from its index alone.
import type { TensorFile } from '../index.js'
import { namesMatching } from '../lib/values/filter.js'
import { OUTLINE } from '../lib/values/outline.js'
import type { Paint } from './color.js'
import { shortDtype } from './dtype.js'
import { describeEach, type EachOptions } from './each.js'
import { fail, NothingMatches } from './failure.js'
import { jsonAttribute, jsonText } from './json.js'
import { type Entry, entries } from './listing.js'
import { modelFields } from './model.js'
import { showBytes, showCount, showCounted } from './quantity.js'
import { printable, shorten, showName } from './text.js'

interface Total {
  tensors: number
  bytes: number
  /** Average bits of an element, for quantized tensors. */
  bitsPerWeight?: number
}

export interface InfoOptions extends EachOptions {
  filter?: string[]
  shortDtypes?: boolean
}

/** Matches the layouts of quantized tensors. */
const QUANTIZED = /^(zt\.quant_group|zt\.mx|gguf\.|tflite\.quantized)/

/** Average bits of an element, without compression, rounded to two decimals; undefined unless a tensor is quantized. */
function bitsPerWeight(listed: readonly Entry[]): number | undefined {
  if (!listed.some(({ tensor }) => QUANTIZED.test(tensor.layout))) return undefined
  let [bytes, elements] = [0, 0]
  for (const { tensor } of listed) {
    bytes += tensor.byteLength ?? 0
    elements += tensor.size
  }
  return elements === 0 ? undefined : Math.round((800 * bytes) / elements) / 100
}

// An attribute may be a megabyte of vocabulary; `--json` has all of it.
const attributeColumns = 100
// More than fit into so many columns, with all their combining marks.
const attributeUnits = 4096

/** The totals of groups; of quantized dtypes with the bits per weight. */
function totals(listed: readonly Entry[], key: (entry: Entry) => string, isDtype = false): Map<string, Total> {
  const groups = new Map<string, Entry[]>()
  for (const one of listed) {
    const group = groups.get(key(one))
    if (group === undefined) groups.set(key(one), [one])
    else group.push(one)
  }
  const found = Array.from(groups, ([name, group]): [string, Total] => {
    const bytes = group.reduce((sum, { tensor }) => sum + (tensor.byteLength ?? 0), 0)
    const bits = isDtype ? bitsPerWeight(group) : undefined
    return [name, { tensors: group.length, bytes, ...(bits === undefined ? {} : { bitsPerWeight: bits }) }]
  })
  return new Map(found.sort(([, a], [, b]) => b.bytes - a.bytes || b.tensors - a.tensors))
}

function showTotal({ tensors, bytes, bitsPerWeight }: Total): string {
  const bits = bitsPerWeight === undefined ? '' : `, ${bitsPerWeight} bits per weight`
  return `${showCounted(tensors, 'tensor')}, ${showBytes(bytes)}${bits}`
}

/** The number of elements of all tensors, as a bigint: sparse shapes may add up to more than 2^53. */
function parameters(listed: readonly Entry[]): bigint {
  return listed.reduce((sum, { tensor }) => sum + BigInt(tensor.size), 0n)
}

function attributePairs(attributes: TensorFile['attributes']): [unknown, unknown][] {
  return attributes instanceof Map ? Array.from(attributes) : Object.entries(attributes)
}

/** As much of the attributes of a file as their lines show. */
export const shownAttributes = (file: TensorFile): TensorFile['attributes'] =>
  file[OUTLINE]({ items: attributeColumns, units: attributeUnits }).attributes

/** The keys of the attributes of a file whose values are text. */
export function textKeys(file: TensorFile): ReadonlySet<unknown> {
  const pairs = attributePairs(file[OUTLINE]({ items: 0, units: 0 }).attributes)
  return new Set(pairs.flatMap(([key, value]) => (typeof value === 'string' ? [key] : [])))
}

function showAttribute(value: unknown): string {
  if (typeof value === 'string') return shorten(printable(value), attributeColumns)
  const text = shorten(jsonText(jsonAttribute(value, attributeColumns)), attributeColumns)
  // Only the beginning of a long list, such as a vocabulary.
  return Array.isArray(value) && value.length > attributeColumns
    ? `${text} (${showCounted(value.length, 'value')})`
    : text
}

/** Shows each attribute on one line, shortened. */
export function* attributeLines(attributes: TensorFile['attributes'], paint: Paint): Generator<string> {
  for (const [key, value] of attributePairs(attributes)) {
    const name = shorten(typeof key === 'string' ? showName(key) : jsonText(jsonAttribute(key)), attributeColumns)
    yield `${paint('cyan', name)}: ${showAttribute(value)}`
  }
}

function* lines(
  file: TensorFile,
  listed: readonly Entry[],
  paint: Paint,
  shortDtypes: boolean | undefined,
): Generator<string> {
  const field = (title: string, value: string): string => `${paint('bold', title.padEnd(12))}${value}`
  const version = file.version === undefined ? '' : ` ${printable(file.version)}`
  if (file.path !== undefined) yield field('path', printable(file.path))
  yield field('format', `${file.format}${version}`)
  if (file.generator !== undefined) yield field('generator', shorten(printable(file.generator), attributeColumns))
  yield field('size', `${showBytes(file.byteLength)} (${showCounted(file.byteLength, 'byte')})`)
  if (file.files.length > 1) yield field('files', showCount(file.files.length))
  const share = listed.length === file.size ? '' : `${showCount(listed.length)} of `
  yield field('tensors', `${share}${showCount(file.size)}`)
  yield field('parameters', showCount(parameters(listed)))
  if (file.warnings.length > 0) yield field('warnings', `${showCount(file.warnings.length)}, on standard error`)
  const bits = bitsPerWeight(listed)
  if (bits !== undefined) yield field('bits/weight', String(bits))
  const attributes = shownAttributes(file)
  for (const [title, text] of modelFields(file, attributes, listed)) yield field(title, text)

  const groups = {
    dtypes: totals(
      listed,
      ({ tensor }) => printable(shortDtypes ? shortDtype(tensor.storageType) : tensor.storageType),
      true,
    ),
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
  if (attributePairs(attributes).length > 0) yield paint('bold', 'attributes')
  for (const line of attributeLines(attributes, paint)) yield `  ${line}`
}

function json(file: TensorFile, listed: readonly Entry[]): object {
  return {
    path: file.path ?? null,
    format: file.format,
    version: file.version ?? null,
    generator: file.generator ?? null,
    byteLength: file.byteLength,
    ...(file.files.length > 1 ? { files: file.files } : {}),
    tensors: listed.length,
    parameters: jsonAttribute(parameters(listed)),
    ...(bitsPerWeight(listed) === undefined ? {} : { bitsPerWeight: bitsPerWeight(listed) }),
    dtypes: Object.fromEntries(totals(listed, ({ tensor }) => printable(tensor.storageType), true)),
    layouts: Object.fromEntries(totals(listed, ({ tensor }) => tensor.layout)),
    encodings: Object.fromEntries(totals(listed, ({ encoding }) => encoding)),
    attributes: jsonAttribute(file.attributes),
    warnings: file.warnings,
  }
}

/** Describes each file, or several as one: format, totals, attributes and warnings. */
export async function info(paths: readonly string[], options: InfoOptions): Promise<void> {
  const { filter, shortDtypes } = options
  let matched = 0
  const found = (file: TensorFile): Entry[] => {
    const some = entries(file, filter === undefined ? undefined : namesMatching(filter))
    matched += some.length
    return some
  }
  await describeEach(paths, options, {
    lines: (file, paint) => lines(file, found(file), paint, shortDtypes),
    document: (file) => [jsonText(json(file, found(file)), 2)],
    element: (file) => json(file, found(file)),
  })
  if (filter !== undefined && matched === 0) fail(new NothingMatches(filter))
}
