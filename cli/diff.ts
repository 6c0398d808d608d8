// `ztensor diff`: prints the differences between two files of any formats.
import { diff as diffOf, type FileDiff, open, type TensorChange, type TensorFile } from '../index.js'
import { type Paint, painter } from './color.js'
import { renaming } from './convert.js'
import { exitCodes, UsageError } from './failure.js'
import { NameFilter } from './filter.js'
import type { SourceOptions } from './format.js'
import { jsonAttribute, jsonFloat, jsonText } from './json.js'
import { showDtype, showShape } from './listing.js'
import { naturalOrder } from './natural.js'
import { followProgress, type ProgressOptions } from './progress.js'
import { showCount, showCounted, showMeasured } from './quantity.js'
import { openOptions, sourceOf } from './source.js'
import { printLines } from './stdout.js'
import { printable, shorten, showName } from './text.js'
import { printWarnings } from './warnings.js'

export interface DiffOptions extends SourceOptions, ProgressOptions {
  atol?: string
  rtol?: string
  values?: boolean
  metadata?: boolean
  rename?: string[]
  sort?: 'name' | 'change'
  filter?: string[]
  json?: boolean
}

// An attribute may be a megabyte of vocabulary; `--json` has all of it.
const valueColumns = 60

function distance(option: string, text: string | undefined): number {
  if (text === undefined) return 0
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value >= 0)) throw new UsageError(`--${option} must be 0 or more, got ${text}`)
  return value
}

/** The indices, such as `[1, 5]`, of the element at a flat, row-major index. */
function coordinates(flat: number, shape: readonly number[]): number[] {
  const found: number[] = []
  let rest = flat
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size)
    rest = Math.floor(rest / size)
  }
  return found
}

const showComponents = (roles: readonly string[]): string => `the bytes of ${roles.map(printable).join(', ')} differ`

type Values = NonNullable<TensorChange['values']>

function showValues(values: Values, shape: readonly number[]): string {
  if ('components' in values) return showComponents(values.components)
  const { comparison } = values
  const { differing, elements, unmatchedNaN, maxAbsolute, maxRelative, firstDifference = 0 } = comparison
  const { relativeChange, cosine } = comparison
  const whole = elements === shape.reduce((product, size) => product * size, 1)
  const parts = [
    `${showCount(differing)} of ${showCounted(elements, 'value')} differ`,
    `by at most ${showMeasured(maxAbsolute)} (relative ${showMeasured(maxRelative)})`,
  ]
  if (relativeChange !== undefined) parts.push(`‖Δ‖ / ‖before‖ ${showPercent(relativeChange)}`)
  if (cosine !== undefined) parts.push(`cosine ${showMeasured(cosine)}`)
  if (unmatchedNaN > 0) parts.push(`${showCount(unmatchedNaN)} NaN on one side`)
  parts.push(`first ${whole ? showShape(coordinates(firstDifference, shape)) : `stored value ${firstDifference}`}`)
  return parts.join(', ')
}

function showAttribute(value: unknown): string {
  if (value === undefined) return 'none'
  return shorten(typeof value === 'string' ? showName(value) : jsonText(jsonAttribute(value)), valueColumns)
}

const attributeKey = (key: unknown): string => (typeof key === 'string' ? key : jsonText(jsonAttribute(key)))

const showValueChange = (word: string, { key, values }: FileDiff['metadata'][number]): string =>
  `${word} ${shorten(showName(attributeKey(key)), valueColumns)}: ${values.map(showAttribute).join(' → ')}`

function* changeLines(changed: TensorChange, shape: readonly number[]): Generator<string> {
  const { dtype, layout, values, components } = changed
  if (dtype !== undefined) yield `dtype ${dtype.map(showDtype).join(' → ')}`
  if (changed.shape !== undefined) yield `shape ${changed.shape.map(showShape).join(' → ')}`
  if (layout !== undefined) yield `layout ${layout.map(printable).join(' → ')}`
  if (values !== undefined) yield `values: ${showValues(values, shape)}`
  if (components.length > 0) yield `components: ${showComponents(components)}`
  for (const attribute of changed.attributes) yield showValueChange('attribute', attribute)
}

/** Keys of metadata that differ and are listed: files of two formats may have hundreds. */
const LISTED_KEYS = 20

const showPercent = (ratio: number): string => (Number.isFinite(ratio) ? `${showMeasured(100 * ratio)} %` : 'infinite')

/** How much of a tensor changed: its values by the norm of the difference; any other change comes first. */
function changeOf({ values }: TensorChange): number {
  return values !== undefined && 'comparison' in values
    ? (values.comparison.relativeChange ?? Number.POSITIVE_INFINITY)
    : Number.POSITIVE_INFINITY
}

/** In the order of `ztensor ls`. */
const inOrder = <T extends { readonly name: string }>(tensors: readonly T[]): T[] =>
  [...tensors].sort((a, b) => naturalOrder(a.name, b.name))

function* lines(a: TensorFile, diff: FileDiff, paint: Paint, sort: DiffOptions['sort']): Generator<string> {
  const described = ({ name, dtype, shape }: FileDiff['added'][number]) =>
    `${showName(name)}  ${showDtype(dtype)} ${showShape(shape)}`
  for (const tensor of inOrder(diff.removed)) yield `${paint('red', 'removed')}  ${described(tensor)}`
  for (const tensor of inOrder(diff.added)) yield `${paint('green', 'added')}    ${described(tensor)}`
  const changes = inOrder(diff.changed)
  if (sort === 'change') changes.sort((a, b) => changeOf(b) - changeOf(a) || 0)
  for (const changed of changes) {
    const renamed = changed.renamed === undefined ? '' : ` (now ${showName(changed.renamed)})`
    yield `${paint('yellow', 'changed')}  ${showName(changed.name)}${renamed}`
    for (const line of changeLines(changed, a.tensor(changed.name).shape)) yield `  ${line}`
  }
  for (const value of diff.metadata.slice(0, LISTED_KEYS))
    yield `${paint('yellow', 'changed')}  ${showValueChange('metadata', value)}`
  const more = diff.metadata.length - LISTED_KEYS
  if (more > 0)
    yield `${showCounted(more, 'more key')} of the metadata differ${more === 1 ? 's' : ''}: --json lists all`
  const counts = (['removed', 'added', 'changed'] as const).filter((kind) => diff[kind].length > 0)
  const different = counts.map((kind) => `${showCount(diff[kind].length)} ${kind}`)
  yield [...different, `${showCounted(diff.unchanged, 'tensor')} the same`].join(', ')
}

const jsonTensor = ({ name, dtype, shape, layout }: FileDiff['added'][number]) => ({
  name,
  dtype: dtype ?? null,
  shape,
  layout,
})

function jsonChanges(changed: FileDiff['metadata']): object {
  return changed.map(({ key, values: [a, b] }) => ({
    key: attributeKey(key),
    ...(a === undefined ? {} : { a: jsonAttribute(a) }),
    ...(b === undefined ? {} : { b: jsonAttribute(b) }),
  }))
}

function jsonValues(values: Values | undefined): unknown {
  if (values === undefined) return null
  if ('components' in values) return values
  const { maxAbsolute, maxRelative, relativeChange, cosine, ...rest } = values.comparison
  return {
    ...rest,
    maxAbsolute: jsonFloat(maxAbsolute),
    maxRelative: jsonFloat(maxRelative),
    relativeChange: relativeChange === undefined ? null : jsonFloat(relativeChange),
    cosine: cosine ?? null,
  }
}

function jsonDiff(diff: FileDiff): object {
  return {
    same: diff.same,
    removed: diff.removed.map(jsonTensor),
    added: diff.added.map(jsonTensor),
    changed: diff.changed.map(({ name, renamed, dtype, shape, layout, values, components, attributes }) => ({
      name,
      ...(renamed === undefined ? {} : { renamed }),
      dtype: dtype?.map((one) => one ?? null) ?? null,
      shape: shape ?? null,
      layout: layout ?? null,
      values: jsonValues(values),
      ...(components.length > 0 ? { components } : {}),
      attributes: jsonChanges(attributes),
    })),
    unchanged: diff.unchanged,
    metadata: jsonChanges(diff.metadata),
  }
}

/** Compares the files `a` and `b`, prints what differs and sets the exit code. */
export async function diff(a: string, b: string, options: DiffOptions): Promise<void> {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const opening = openOptions(options)
  const files = [await open(await sourceOf(a), opening)]
  try {
    files.push(await open(await sourceOf(b), opening))
    for (const [at, file] of files.entries()) printWarnings(file.warnings, [a, b][at])
    const [left, right] = files as [TensorFile, TensorFile]
    const { filter, values, metadata } = options
    if (filter !== undefined) new NameFilter(filter).check([...left.keys(), ...right.keys()])
    const tolerance = { atol: distance('atol', options.atol), rtol: distance('rtol', options.rtol) }
    const progress = await followProgress(left.path ?? '', options)
    const renames = options.rename === undefined ? {} : { rename: renaming(options.rename) }
    const how = {
      ...tolerance,
      norms: true,
      filter,
      values,
      metadata,
      ...renames,
      signal: stop.signal,
      ...progress.listen,
    }
    const found = await diffOf(left, right, how).finally(() => progress.stop())
    if (!found.same) process.exitCode = exitCodes.different
    if (options.json) await printLines([jsonText(jsonDiff(found), 2)])
    else if (!options.quiet) await printLines(lines(left, found, painter(), options.sort))
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    for (const file of files) file.close()
  }
}
