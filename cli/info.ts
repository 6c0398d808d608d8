// `ztensor info`: describes a file, from its index alone.
import type { TensorFile } from '../index.js'
import type { Paint } from './color.js'
import { describeEach, type EachOptions } from './each.js'
import { jsonAttribute, jsonText } from './json.js'
import { type Entry, entries, showPlaced } from './listing.js'
import { modelFields } from './model.js'
import { showBytes, showCount, showCounted } from './quantity.js'
import { printable, shorten, showName } from './text.js'

interface Total {
  tensors: number
  bytes: number
}

// An attribute may be a megabyte of vocabulary; `--json` has all of it.
const attributeColumns = 100
const warningsShown = 20

function totals(listed: readonly Entry[], key: (entry: Entry) => string): Map<string, Total> {
  const found = new Map<string, Total>()
  for (const one of listed) {
    const total = found.get(key(one)) ?? { tensors: 0, bytes: 0 }
    total.tensors++
    total.bytes += one.tensor.byteLength ?? 0
    found.set(key(one), total)
  }
  return new Map(Array.from(found).sort(([, a], [, b]) => b.bytes - a.bytes || b.tensors - a.tensors))
}

/** The number of elements of all tensors, as a bigint: sparse shapes may add up to more than 2^53. */
function parameters(listed: readonly Entry[]): bigint {
  return listed.reduce((sum, { tensor }) => sum + BigInt(tensor.size), 0n)
}

function attributePairs(attributes: TensorFile['attributes']): [unknown, unknown][] {
  return attributes instanceof Map ? Array.from(attributes) : Object.entries(attributes)
}

function showAttribute(value: unknown): string {
  if (typeof value === 'string') return shorten(printable(value), attributeColumns)
  if (!Array.isArray(value) || value.length <= attributeColumns) {
    return shorten(jsonText(jsonAttribute(value)), attributeColumns)
  }
  // Only formats the beginning of a long list, such as a vocabulary.
  const text = jsonText(jsonAttribute(value.slice(0, attributeColumns)))
  return `${shorten(text, attributeColumns)} (${showCounted(value.length, 'value')})`
}

function* lines(file: TensorFile, listed: readonly Entry[], paint: Paint): Generator<string> {
  const field = (title: string, value: string): string => `${paint('bold', title.padEnd(12))}${value}`
  const version = file.version === undefined ? '' : ` ${printable(file.version)}`
  if (file.path !== undefined) yield field('path', printable(file.path))
  yield field('format', `${file.format}${version}`)
  if (file.generator !== undefined) yield field('generator', shorten(printable(file.generator), attributeColumns))
  yield field('size', `${showBytes(file.byteLength)} (${showCounted(file.byteLength, 'byte')})`)
  if (file.files.length > 1) yield field('files', showCount(file.files.length))
  yield field('tensors', showCount(file.size))
  yield field('parameters', showCount(parameters(listed)))
  for (const [title, text] of modelFields(file, listed)) yield field(title, text)

  const groups = {
    dtypes: totals(listed, ({ tensor }) => printable(tensor.storageType)),
    layouts: totals(listed, ({ tensor }) => printable(tensor.layout)),
    encodings: totals(listed, ({ encoding }) => printable(encoding)),
  }
  for (const [title, group] of Object.entries(groups)) {
    let head = title
    for (const [key, total] of group) {
      yield field(head, `${key}: ${showCounted(total.tensors, 'tensor')}, ${showBytes(total.bytes)}`)
      head = ''
    }
  }
  const pairs = attributePairs(file.attributes)
  if (pairs.length > 0) yield paint('bold', 'attributes')
  for (const [key, value] of pairs) {
    const name = shorten(typeof key === 'string' ? showName(key) : jsonText(jsonAttribute(key)), attributeColumns)
    yield `  ${paint('cyan', name)}: ${showAttribute(value)}`
  }
  if (file.warnings.length > 0) yield paint('bold', 'warnings')
  for (const warning of file.warnings.slice(0, warningsShown)) {
    yield `  ${paint('yellow', warning.code)}  ${showPlaced(warning, warning.message)}`
  }
  const unseen = file.warnings.length - warningsShown
  if (unseen > 0) yield `  … and ${showCount(unseen)} more (--json has them all)`
}

function json(file: TensorFile, listed: readonly Entry[]): object {
  return {
    path: file.path ?? null,
    format: file.format,
    version: file.version ?? null,
    generator: file.generator ?? null,
    byteLength: file.byteLength,
    ...(file.files.length > 1 ? { files: file.files } : {}),
    tensors: file.size,
    parameters: jsonAttribute(parameters(listed)),
    dtypes: Object.fromEntries(totals(listed, ({ tensor }) => printable(tensor.storageType))),
    layouts: Object.fromEntries(totals(listed, ({ tensor }) => tensor.layout)),
    encodings: Object.fromEntries(totals(listed, ({ encoding }) => encoding)),
    attributes: jsonAttribute(file.attributes),
    warnings: file.warnings,
  }
}

/** Describes each file, or several as one: format, totals, attributes and warnings. */
export async function info(paths: readonly string[], options: EachOptions): Promise<void> {
  await describeEach(paths, options, {
    lines: (file, paint) => lines(file, entries(file), paint),
    document: (file) => [jsonText(json(file, entries(file)), 2)],
    element: (file) => json(file, entries(file)),
  })
}
