// `ztensor diff`: what differs between the tensors of two files, whatever their formats.
import { isDeepStrictEqual } from 'node:util'
import {
  type AnyTensor,
  type Comparison,
  compare,
  globMatcher,
  open,
  type Progress,
  type TensorFile,
} from '../index.js'
import { type Paint, painter } from './color.js'
import { errorCode, exitCodes, UsageError } from './failure.js'
import { jsonAttribute, jsonFloat, jsonText } from './json.js'
import { showDtype, showShape } from './listing.js'
import { followProgress } from './progress.js'
import { showCount, showCounted, showMeasured } from './quantity.js'
import { printLines } from './stdout.js'
import { printable, shorten, showName } from './text.js'

export interface DiffOptions {
  atol?: string
  rtol?: string
  values?: boolean
  attributes?: boolean
  filter?: string
  quiet?: boolean
  json?: boolean
}

type Pair<T> = readonly [a: T, b: T]

/** An attribute with another value; undefined on the side that does not have it. */
interface ChangedAttribute {
  key: string
  values: Pair<unknown>
}

/** How the values of a pair compare: by number, or by the bytes of components where there are no numbers to compare. */
type Values = { comparison: Comparison } | { components: readonly string[] }

interface Change {
  name: string
  dtype: Pair<string | undefined> | undefined
  shape: Pair<readonly number[]> | undefined
  layout: Pair<string> | undefined
  /** Undefined where the values are the same, or the shapes differ. */
  values: Values | undefined
  /** The components beside the values that are not the same bytes, or not on both sides. */
  components: readonly string[]
  attributes: ChangedAttribute[]
}

interface Diff {
  added: AnyTensor[]
  removed: AnyTensor[]
  changed: Change[]
  unchanged: number
  attributes: ChangedAttribute[]
}

/** What cannot be compared by number is compared by its bytes. */
const byBytes = new Set(['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE', 'ZT_BAD_SHAPE', 'ZT_LIMIT', 'ZT_UNSUPPORTED_ENCODING'])
// An attribute may be a megabyte of vocabulary; `--json` has all of it.
const attributeColumns = 60

function distance(option: string, text: string | undefined): number {
  if (text === undefined) return 0
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value >= 0)) throw new UsageError(`--${option} takes a number from 0 on, got ${text}`)
  return value
}

function pairOf<T>(a: T, b: T): Pair<T> | undefined {
  return isDeepStrictEqual(a, b) ? undefined : [a, b]
}

function attributePairs(attributes: TensorFile['attributes']): Map<unknown, unknown> {
  return attributes instanceof Map ? attributes : new Map(Object.entries(attributes))
}

function changedAttributes(a: TensorFile['attributes'], b: TensorFile['attributes']): ChangedAttribute[] {
  const [left, right] = [attributePairs(a), attributePairs(b)]
  const keys = new Set([...left.keys(), ...right.keys()])
  return Array.from(keys).flatMap((key) => {
    const values = pairOf(left.get(key), right.get(key))
    if (values === undefined) return []
    return [{ key: typeof key === 'string' ? key : jsonText(jsonAttribute(key)), values }]
  })
}

type Compare = (...sides: Parameters<typeof compare>) => Promise<Comparison>

/** The components that hold the values of a tensor, by its layout. */
const valueRoles: Readonly<Record<string, readonly string[]>> = {
  dense: ['data'],
  sparse_csr: ['values', 'indices', 'indptr'],
  sparse_coo: ['values', 'coords'],
}

/** The components of a tensor beside those that hold its values. */
function beside({ layout, components }: AnyTensor): string[] {
  const own = Object.hasOwn(valueRoles, layout) ? valueRoles[layout] : undefined
  return own === undefined ? [] : Array.from(components.keys()).filter((role) => !own.includes(role))
}

/** The roles of the components, all or some, that are not the same bytes, or not on both sides. */
async function differingComponents(
  a: AnyTensor,
  b: AnyTensor,
  compared: Compare,
  roles: Iterable<string> = new Set([...a.components.keys(), ...b.components.keys()]),
): Promise<string[]> {
  const differing: string[] = []
  for (const role of roles) {
    const [left, right] = [a.components.get(role), b.components.get(role)]
    const same =
      left !== undefined &&
      right !== undefined &&
      (await compared(left, right).catch((error: unknown) => {
        if (!byBytes.has(errorCode(error) ?? '')) throw error
        return { identical: false }
      }))
    if (same === false || !same.identical) differing.push(role)
  }
  return differing
}

/** How the values differ; undefined where they do not. */
async function changedValues(a: AnyTensor, b: AnyTensor, compared: Compare): Promise<Values | undefined> {
  try {
    const comparison = await compared(a, b)
    return comparison.equal ? undefined : { comparison }
  } catch (error) {
    if (!byBytes.has(errorCode(error) ?? '')) throw error
    const components = await differingComponents(a, b, compared)
    return components.length === 0 ? undefined : { components }
  }
}

async function change(a: AnyTensor, b: AnyTensor, options: DiffOptions, compared: Compare): Promise<Change> {
  const shape = pairOf(a.shape, b.shape)
  return {
    name: a.name,
    dtype: options.values ? undefined : pairOf<string | undefined>(a.dtype, b.dtype),
    shape,
    layout: options.values ? undefined : pairOf<string>(a.layout, b.layout),
    values: shape === undefined ? await changedValues(a, b, compared) : undefined,
    components: options.values ? [] : await differingComponents(a, b, compared, new Set([...beside(a), ...beside(b)])),
    attributes: options.attributes ? changedAttributes(a.attributes, b.attributes) : [],
  }
}

function isChange({ dtype, shape, layout, values, components, attributes }: Change): boolean {
  return [dtype, shape, layout, values].some((part) => part !== undefined) || components.length + attributes.length > 0
}

const bytesOf = ([a, b]: Pair<AnyTensor>): number => a.byteLength + b.byteLength

/** Progress of pairs, of some after the others, as that of them all. */
class Total {
  readonly #report: ((progress: Progress) => void) | undefined
  readonly #all: { totalBytes: number; totalTensors: number }
  #bytes = 0
  #tensors = 0

  constructor(report: ((progress: Progress) => void) | undefined, pairs: readonly Pair<AnyTensor>[]) {
    this.#report = report
    this.#all = { totalBytes: pairs.reduce((total, pair) => total + bytesOf(pair), 0), totalTensors: pairs.length }
  }

  /** Listens to the comparison of one pair. */
  listen(): { onProgress?: (progress: Progress) => void } {
    const report = this.#report
    if (report === undefined) return {}
    return { onProgress: ({ bytes }) => report({ ...this.#all, bytes: this.#bytes + bytes, tensors: this.#tensors }) }
  }

  did(pairs: readonly Pair<AnyTensor>[]): void {
    this.#bytes += pairs.reduce((total, pair) => total + bytesOf(pair), 0)
    this.#tensors += pairs.length
    this.#report?.({ ...this.#all, bytes: this.#bytes, tensors: this.#tensors })
  }
}

// What is asked for at the same time crosses into native code together, where all cores work on it; the bounds leave Ctrl-C its
// turns, and let only what is small enough be decoded at the same time.
const togetherPairs = 2048
const togetherBytes = 64 * 2 ** 20

function* batches(pairs: readonly Pair<AnyTensor>[]): Generator<Pair<AnyTensor>[]> {
  let batch: Pair<AnyTensor>[] = []
  let bytes = 0
  for (const pair of pairs) {
    const more = bytesOf(pair)
    if (batch.length > 0 && (batch.length === togetherPairs || bytes + more > togetherBytes)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(pair)
    bytes += more
  }
  if (batch.length > 0) yield batch
}

async function diffFiles(a: TensorFile, b: TensorFile, options: DiffOptions, signal: AbortSignal): Promise<Diff> {
  const keep = options.filter === undefined ? () => true : globMatcher(options.filter)
  const tolerance = { atol: distance('atol', options.atol), rtol: distance('rtol', options.rtol) }
  const pairs: Pair<AnyTensor>[] = []
  const removed: AnyTensor[] = []
  for (const [name, tensor] of a) {
    if (!keep(name)) continue
    const other = b.get(name)
    if (other === undefined) removed.push(tensor)
    else pairs.push([tensor, other])
  }
  const added = Array.from(b.values()).filter(({ name }) => keep(name) && !a.has(name))
  const changed: Change[] = []
  const progress = await followProgress(a.path ?? '')
  const total = new Total(progress.listen.onProgress, pairs)
  try {
    for (const batch of batches(pairs)) {
      const how = { ...tolerance, signal, ...(batch.length === 1 ? total.listen() : {}) }
      const compared: Compare = (left, right) => compare(left, right, how)
      const found = await Promise.allSettled(batch.map((pair) => change(...pair, options, compared)))
      for (const one of found) {
        if (one.status === 'rejected') throw one.reason
        if (isChange(one.value)) changed.push(one.value)
      }
      total.did(batch)
    }
  } finally {
    progress.stop()
  }
  const attributes = options.attributes ? changedAttributes(a.attributes, b.attributes) : []
  return { added, removed, changed, unchanged: pairs.length - changed.length, attributes }
}

/** `[1, 5]`: where flat, row-major element `flat` is. */
function coordinates(flat: number, shape: readonly number[]): number[] {
  const found: number[] = []
  let rest = flat
  for (const size of [...shape].reverse()) {
    found.unshift(rest % size)
    rest = Math.floor(rest / size)
  }
  return found
}

const showComponents = (roles: readonly string[]): string => `${roles.map(printable).join(', ')} not the same bytes`

function showValues(values: Values, shape: readonly number[]): string {
  if ('components' in values) return showComponents(values.components)
  const { comparison } = values
  const { differing, elements, unmatchedNaN, maxAbsolute, maxRelative, firstDifference = 0 } = comparison
  const whole = elements === shape.reduce((product, size) => product * size, 1)
  const parts = [
    `${showCount(differing)} of ${showCounted(elements, 'value')}`,
    `at most ${showMeasured(maxAbsolute)} apart (relative ${showMeasured(maxRelative)})`,
  ]
  if (unmatchedNaN > 0) parts.push(`${showCount(unmatchedNaN)} NaN on one side`)
  parts.push(`first ${whole ? showShape(coordinates(firstDifference, shape)) : `stored value ${firstDifference}`}`)
  return parts.join(', ')
}

function showAttribute(value: unknown): string {
  if (value === undefined) return 'none'
  return shorten(typeof value === 'string' ? showName(value) : jsonText(jsonAttribute(value)), attributeColumns)
}

const showAttributeChange = ({ key, values }: ChangedAttribute): string =>
  `attribute ${shorten(showName(key), attributeColumns)}: ${values.map(showAttribute).join(' → ')}`

function* changeLines(changed: Change, shape: readonly number[]): Generator<string> {
  const { dtype, layout, values, components } = changed
  if (dtype !== undefined) yield `dtype ${dtype.map(showDtype).join(' → ')}`
  if (changed.shape !== undefined) yield `shape ${changed.shape.map(showShape).join(' → ')}`
  if (layout !== undefined) yield `layout ${layout.map(printable).join(' → ')}`
  if (values !== undefined) yield `values: ${showValues(values, shape)}`
  if (components.length > 0) yield `components: ${showComponents(components)}`
  yield* changed.attributes.map(showAttributeChange)
}

function* lines(a: TensorFile, diff: Diff, paint: Paint): Generator<string> {
  const described = ({ name, dtype, shape }: AnyTensor) => `${showName(name)}  ${showDtype(dtype)} ${showShape(shape)}`
  for (const tensor of diff.removed) yield `${paint('red', 'removed')}  ${described(tensor)}`
  for (const tensor of diff.added) yield `${paint('green', 'added')}    ${described(tensor)}`
  for (const changed of diff.changed) {
    yield `${paint('yellow', 'changed')}  ${showName(changed.name)}`
    for (const line of changeLines(changed, a.tensor(changed.name).shape)) yield `  ${line}`
  }
  for (const attribute of diff.attributes) yield `${paint('yellow', 'changed')}  file ${showAttributeChange(attribute)}`
  const counts = (['removed', 'added', 'changed'] as const).filter((kind) => diff[kind].length > 0)
  const different = counts.map((kind) => `${showCount(diff[kind].length)} ${kind}`)
  yield [...different, `${showCounted(diff.unchanged, 'tensor')} the same`].join(', ')
}

const jsonTensor = ({ name, dtype, shape, layout }: AnyTensor) => ({ name, dtype: dtype ?? null, shape, layout })

function jsonAttributes(changed: readonly ChangedAttribute[]): object {
  return changed.map(({ key, values: [a, b] }) => ({
    key,
    ...(a === undefined ? {} : { a: jsonAttribute(a) }),
    ...(b === undefined ? {} : { b: jsonAttribute(b) }),
  }))
}

function jsonValues(values: Values | undefined): unknown {
  if (values === undefined) return null
  if ('components' in values) return values
  const { maxAbsolute, maxRelative, ...rest } = values.comparison
  return { ...rest, maxAbsolute: jsonFloat(maxAbsolute), maxRelative: jsonFloat(maxRelative) }
}

function jsonDiff(diff: Diff, same: boolean): object {
  return {
    same,
    removed: diff.removed.map(jsonTensor),
    added: diff.added.map(jsonTensor),
    changed: diff.changed.map(({ name, dtype, shape, layout, values, components, attributes }) => ({
      name,
      dtype: dtype?.map((one) => one ?? null) ?? null,
      shape: shape ?? null,
      layout: layout ?? null,
      values: jsonValues(values),
      ...(components.length > 0 ? { components } : {}),
      attributes: jsonAttributes(attributes),
    })),
    unchanged: diff.unchanged,
    attributes: jsonAttributes(diff.attributes),
  }
}

/** Compares the files `a` and `b`, prints what differs and sets the exit code. */
export async function diff(a: string, b: string, options: DiffOptions): Promise<void> {
  const stop = new AbortController()
  process.once('SIGINT', () => stop.abort())
  const files = [await open(a)]
  try {
    files.push(await open(b))
    const [left, right] = files as [TensorFile, TensorFile]
    const found = await diffFiles(left, right, options, stop.signal)
    const same = [found.added, found.removed, found.changed, found.attributes].every((list) => list.length === 0)
    if (!same) process.exitCode = exitCodes.different
    if (options.json) await printLines([jsonText(jsonDiff(found, same), 2)])
    else if (!options.quiet) await printLines(lines(left, found, painter()))
  } catch (error) {
    if (!stop.signal.aborted) throw error
    process.exitCode = exitCodes.interrupted
  } finally {
    for (const file of files) file.close()
  }
}
