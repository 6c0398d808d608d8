// The columns of a report that come from the index alone. Nothing here reads data, or needs Node.
import { basename, inspect } from '#host'
import { isUint8Array } from '../native/realm.js'
import { inTurns } from '../read/batches.js'
import { withinCall } from '../read/calls.js'
import { TensorFile } from '../read/file.js'
import { modelSummary } from '../read/summary.js'
import { OUTLINE } from '../values/outline.js'
import type { Column, FileFacts, MetadataRow, PartColumns, ReportData, TensorColumns } from './data.js'
import type { ReportOptions } from './report.js'

/** Limits of a page: an attribute may be a vocabulary of megabytes, and a file may have a thousand warnings. */
const MAX_KEYS = 2000
const MAX_TEXT = 4000
const MAX_ITEMS = 64
const MAX_WARNINGS = 1000
/** Tensors that are processed before a yield to the event loop: each creates its components. */
const TURN = 1000

/** Encodes numbers in the shortest form. */
export function column(values: readonly number[], sorted = false): Column {
  const [first = 0] = values
  if (values.every((value) => value === first)) return { all: first }
  if (!sorted) return { list: values }
  return { delta: values.map((value, at) => value - (values[at - 1] ?? 0)) }
}

/** Numbers the distinct values of a column. */
class Table<T> {
  readonly values: T[] = []
  readonly #numbers = new Map<unknown, number>()

  number(value: T, key: unknown = value): number {
    let number = this.#numbers.get(key)
    if (number === undefined) {
      number = this.values.push(value) - 1
      this.#numbers.set(key, number)
    }
    return number
  }
}

/** Formats an attribute value as text, truncated if it is long. */
export function attributeText(value: unknown): string {
  if (typeof value === 'string') return value.length > MAX_TEXT ? `${value.slice(0, MAX_TEXT)}…` : value
  if (isUint8Array(value)) return `${value.byteLength} bytes`
  if (typeof value !== 'object' || value === null) return String(value)
  const text = inspect(value, {
    breakLength: Number.POSITIVE_INFINITY,
    compact: true,
    depth: 6,
    maxArrayLength: MAX_ITEMS,
    maxStringLength: MAX_TEXT,
  }).replace(/^\[Object: null prototype\] /, '')
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text
}

function metadataRows(metadata: Readonly<Record<string, unknown>>): MetadataRow[] {
  return Object.entries(metadata).map(([key, value]) => ({
    key: attributeText(key),
    value: attributeText(value),
  }))
}

function parameters(file: TensorFile, chosen: Uint32Array): number | string {
  let total = 0n
  for (const ordinal of chosen) total += BigInt(TensorFile.at(file, ordinal).size)
  return total <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(total) : total.toString()
}

/** The name of a file without its folders: a report may be shared, and folder names may be private. */
const shortName = (path: string): string => basename(path) || path

/** The display name of a file: of a remote file its URL without the query, which may contain a key. */
export function nameOf(file: TensorFile): string {
  const { files } = file
  const url = TensorFile.storeOf(file).native.location ?? undefined
  if (url !== undefined) return url
  if (file.path !== undefined) return shortName(file.path)
  if (files.length > 1) return `${files.length} files`
  const [only] = files
  return only?.path === undefined ? (only?.name ?? 'a file in memory') : shortName(only.path)
}

const namesOf = (file: TensorFile, chosen: Uint32Array): string[] =>
  Array.from(chosen, (ordinal) => TensorFile.at(file, ordinal).name)

/** What the facts of a file depend on. */
interface FactOptions extends Pick<ReportOptions, 'filter' | 'title'> {
  /** The display name. */
  readonly name: string
  /** The configuration of the model. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
}

function facts(file: TensorFile, chosen: Uint32Array, { filter, title, name, config }: FactOptions): FileFacts {
  const model = modelSummary(file, () => TensorFile.beginnings(file))
  const { metadata, keys } = file[OUTLINE]({ keys: MAX_KEYS, items: MAX_ITEMS, units: MAX_TEXT + 1 })
  const names = filter === undefined ? undefined : new Set(namesOf(file, chosen))
  const warnings = file.warnings.filter(({ tensor }) => tensor === undefined || (names?.has(tensor) ?? true))
  return {
    name,
    ...(title === undefined ? {} : { title }),
    format: file.format,
    version: file.version ?? null,
    generator: file.generator ?? null,
    byteLength: file.byteLength,
    parameters: parameters(file, chosen),
    files: file.files.map(({ path, name, byteLength }) => ({ name: name ?? shortName(path ?? ''), byteLength })),
    ...(model === undefined ? {} : { model }),
    metadata: metadataRows(metadata),
    moreMetadata: Math.max(0, keys - MAX_KEYS),
    ...(config === undefined ? {} : { config: metadataRows(config).slice(0, MAX_KEYS) }),
    warnings: warnings.slice(0, MAX_WARNINGS).map(({ code, message, tensor }) => ({
      code,
      message,
      ...(tensor === undefined ? {} : { tensor }),
    })),
    moreWarnings: Math.max(0, warnings.length - MAX_WARNINGS),
    ...(filter === undefined
      ? {}
      : { filter: { globs: typeof filter === 'function' ? [] : [filter].flat(), tensors: file.size } }),
  }
}

/**
 * Reads `copyReason` of the smallest tensor first: if the runtime does not support external buffers, the first tensor is copied, and all
 * others are then known to be copies.
 */
function probe(file: TensorFile, chosen: Uint32Array): void {
  let [smallest, bytes] = [-1, Number.POSITIVE_INFINITY]
  for (const at of chosen) {
    const { layout, byteLength } = TensorFile.at(file, at)
    if (layout === 'dense' && byteLength > 0 && byteLength < bytes) [smallest, bytes] = [at, byteLength]
  }
  if (smallest < 0) return
  for (const component of TensorFile.at(file, smallest).components.values()) void withinCall(() => component.copyReason)
}

/** Collects the parts of a report that come from the index, for the tensors of these ordinals. */
export async function columns(
  file: TensorFile,
  chosen: Uint32Array,
  options: FactOptions,
  live: boolean,
  signal: AbortSignal | undefined,
): Promise<ReportData> {
  await TensorFile.ready(file, signal)
  const [dtypes, layouts, roles] = [new Table<string>(), new Table<string>(), new Table<string>()]
  const [encodings, digests, reasons] = [new Table<string>(), new Table<string>(), new Table<string>()]
  const shapes = new Table<readonly number[]>()
  const paths = new Map(file.files.map(({ path }, at) => [path, at]))
  const tensors = { names: [] as string[], dtype: [] as number[], shape: [] as number[], layout: [] as number[] }
  const bytes: number[] = []
  const parts: Record<keyof PartColumns, number[]> = {
    ...{ tensor: [], role: [], file: [], offset: [], stored: [] },
    ...{ encoding: [], digest: [], reason: [] },
  }
  reasons.number('')
  digests.number('')
  probe(file, chosen)
  await inTurns(chosen.length, TURN, (at) => {
    signal?.throwIfAborted()
    const tensor = TensorFile.at(file, chosen[at] as number)
    tensors.names.push(tensor.name)
    tensors.dtype.push(dtypes.number(tensor.storageType))
    // The catalog has one array for each distinct shape.
    tensors.shape.push(shapes.number(tensor.shape))
    tensors.layout.push(layouts.number(tensor.layout))
    bytes.push(tensor.byteLength)
    for (const component of tensor.components.values()) {
      parts.tensor.push(at)
      parts.role.push(roles.number(component.role))
      parts.file.push(paths.get(component.path) ?? 0)
      parts.offset.push(component.offset ?? -1)
      parts.stored.push(component.storedLength)
      parts.encoding.push(encodings.number(component.encoding))
      parts.digest.push(digests.number(component.digest?.split(':', 1)[0] ?? ''))
      parts.reason.push(reasons.number(withinCall(() => component.copyReason) ?? ''))
    }
  })
  const listed: TensorColumns = {
    names: tensors.names,
    dtype: column(tensors.dtype),
    shape: column(tensors.shape),
    layout: column(tensors.layout),
    bytes: column(bytes),
  }
  const rising = new Set(['tensor', 'offset'])
  const encoded = Object.entries(parts).map(([key, values]) => [key, column(values, rising.has(key))])
  return {
    ztensor: 1,
    live,
    file: facts(file, chosen, options),
    dtypes: dtypes.values,
    shapes: shapes.values,
    layouts: layouts.values,
    roles: roles.values,
    encodings: encodings.values,
    digests: digests.values,
    reasons: reasons.values,
    tensors: listed,
    parts: Object.fromEntries(encoded) as unknown as PartColumns,
  }
}
