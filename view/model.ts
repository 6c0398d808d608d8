// The data of the page, decoded into columns, which views read by tensor ordinal.
import type {
  ChangedTensor,
  Column,
  FoundColumns,
  Measured,
  PartColumns,
  ReportData,
  TensorFound,
  TensorNumbers,
} from '../lib/report/data.js'
import { makeTree, type Node, nodeAt } from './tree.js'

const CONSTANT_SCORE = 0

function expanded(column: Column, length: number): Float64Array {
  const values = new Float64Array(length)
  if ('all' in column) values.fill(column.all)
  else if ('list' in column) values.set(column.list)
  else {
    let value = 0
    for (const [at, step] of column.delta.entries()) {
      value += step
      values[at] = value
    }
  }
  return values
}

const lengthOf = (column: Column): number | undefined =>
  'all' in column ? undefined : 'list' in column ? column.list.length : column.delta.length

/** Decodes the statistics of each tensor from columns. */
function rowsOf(columns: FoundColumns, size: number): TensorFound[] {
  const [count, nan, zeros] = [columns.count, columns.nan, columns.zeros].map((one) => expanded(one, size)) as Triple
  const [positive, negative, most] = [
    columns.positiveInfinite,
    columns.negativeInfinite,
    columns.histograms?.most ?? { all: 0 },
  ].map((one) => expanded(one, size)) as Triple
  const { min, max, mean, std, histograms } = columns
  const found: TensorFound[] = new Array(size)
  for (let at = 0; at < size; at++) {
    const bins = histograms?.bins[at]
    const numbers = {
      count: count[at] as number,
      nan: nan[at] as number,
      positiveInfinite: positive[at] as number,
      negativeInfinite: negative[at] as number,
      zeros: zeros[at] as number,
      min: min[at] as Measured,
      max: max[at] as Measured,
      mean: mean[at] as Measured,
      std: std[at] as Measured,
    }
    found[at] = bins ? { ...numbers, histogram: { bins, most: most[at] as number } } : numbers
  }
  for (const [at, code, message] of columns.failed) found[at] = { code, message }
  return found
}

type Triple = [Float64Array, Float64Array, Float64Array]

/** One component: its location and how it is read. */
export interface Part {
  readonly tensor: number
  readonly role: string
  readonly file: number
  readonly offset: number
  readonly stored: number
  readonly encoding: string
  readonly digest: string
  readonly reason: string
}

export const isNumbers = (found: TensorFound | undefined): found is TensorNumbers =>
  found !== undefined && 'count' in found

/** The outlier score: the distance of the most extreme element from the mean, in standard deviations. */
export function outlierScore(found: TensorFound | undefined): number {
  if (!isNumbers(found)) return Number.NaN
  const { min, max, mean, std } = found
  if (min === null || max === null || mean === null || std === null) return Number.NaN
  return std === 0 ? CONSTANT_SCORE : Math.max(max - mean, mean - min) / std
}

/** The relative change of a tensor: ‖a - b‖ / ‖b‖. */
export function relativeChange({ sums }: ChangedTensor): number {
  if (sums === undefined) return Number.NaN
  if (sums.differenceSquared === 0) return 0
  return Math.sqrt(sums.differenceSquared / sums.otherSquared)
}

/** Matches the number in a name, which is its layer. */
const NUMBER = /(?<=^|[./])\d+(?=[./]|$)/

/** The data of all views. */
export class Model {
  readonly data: ReportData
  readonly size: number
  readonly names: readonly string[]
  readonly bytes: Float64Array
  readonly #dtype: Float64Array
  readonly #shape: Float64Array
  readonly #layout: Float64Array
  readonly #parts: { readonly [K in keyof PartColumns]: Float64Array }
  readonly partCount: number
  /** The index of the first component of each tensor, and the total number of components. */
  readonly #firstPart: Uint32Array
  readonly found: (TensorFound | undefined)[]
  readonly scores: Float64Array
  readonly changes = new Map<number, ChangedTensor>()
  readonly added: ReadonlySet<number>
  #root: Node | undefined
  #lower: string[] | undefined
  #keys: string[] | undefined
  #layers: { layer: Int32Array; module: string[] } | undefined

  constructor(data: ReportData) {
    this.data = data
    this.names = data.tensors.names
    this.size = this.names.length
    this.bytes = expanded(data.tensors.bytes, this.size)
    this.#dtype = expanded(data.tensors.dtype, this.size)
    this.#shape = expanded(data.tensors.shape, this.size)
    this.#layout = expanded(data.tensors.layout, this.size)
    const columns = Object.entries(data.parts) as [keyof PartColumns, Column][]
    this.partCount = Math.max(...columns.map(([, one]) => lengthOf(one) ?? 0), this.size === 0 ? 0 : 1)
    this.#parts = Object.fromEntries(columns.map(([key, one]) => [key, expanded(one, this.partCount)])) as Record<
      keyof PartColumns,
      Float64Array
    >
    this.#firstPart = new Uint32Array(this.size + 1).fill(this.partCount)
    for (let at = this.partCount - 1; at >= 0; at--) this.#firstPart[this.#parts.tensor[at] as number] = at
    for (let at = this.size - 1; at >= 0; at--) {
      const next = this.#firstPart[at + 1] as number
      if ((this.#firstPart[at] as number) > next) this.#firstPart[at] = next
    }
    this.found = data.found === undefined ? new Array(this.size) : rowsOf(data.found, this.size)
    this.scores = Float64Array.from({ length: this.size }, (_, at) => outlierScore(this.found[at]))
    for (const change of data.diff?.changed ?? []) this.changes.set(change.tensor, change)
    this.added = new Set(data.diff?.added ?? [])
  }

  /** Whether there are statistics of all tensors, not only of those requested. */
  get hasValues(): boolean {
    return this.data.found !== undefined
  }

  name(at: number): string {
    return this.names[at] as string
  }

  dtypeNumber(at: number): number {
    return this.#dtype[at] as number
  }

  dtype(at: number): string {
    return this.data.dtypes[this.dtypeNumber(at)] as string
  }

  shapeNumber(at: number): number {
    return this.#shape[at] as number
  }

  shape(at: number): readonly number[] {
    return this.data.shapes[this.shapeNumber(at)] as readonly number[]
  }

  layout(at: number): string {
    return this.data.layouts[this.#layout[at] as number] as string
  }

  /** The kind of each tensor: a number for each combination of dtype, shape and layout. */
  kind(at: number): number {
    const { layouts, dtypes } = this.data
    const [shape, dtype, layout] = [this.#shape[at] as number, this.#dtype[at] as number, this.#layout[at] as number]
    return (shape * dtypes.length + dtype) * layouts.length + layout
  }

  numbers(at: number): TensorNumbers | undefined {
    const found = this.found[at]
    return isNumbers(found) ? found : undefined
  }

  learn(at: number, found: TensorFound): void {
    this.found[at] = found
    this.scores[at] = outlierScore(found)
  }

  part(at: number): Part {
    const number = (key: keyof PartColumns): number => this.#parts[key][at] as number
    return {
      tensor: number('tensor'),
      role: this.data.roles[number('role')] as string,
      file: number('file'),
      offset: number('offset'),
      stored: number('stored'),
      encoding: this.data.encodings[number('encoding')] as string,
      digest: this.data.digests[number('digest')] as string,
      reason: this.data.reasons[number('reason')] as string,
    }
  }

  /** The components of a tensor. */
  partsOf(at: number): Part[] {
    const [first, end] = [this.#firstPart[at] as number, this.#firstPart[at + 1] as number]
    return Array.from({ length: end - first }, (_, nth) => this.part(first + nth))
  }

  /** The module at a path; the root if it does not exist. */
  node(path: string): Node {
    this.#root ??= makeTree(this)
    return nodeAt(this.#root, path)
  }

  /** Lowercase names, for searches. */
  get lower(): readonly string[] {
    this.#lower ??= this.names.map((name) => name.toLowerCase())
    return this.#lower
  }

  /** Names with padded numbers, for sorting: layer 2 comes before layer 10. */
  get sortKeys(): readonly string[] {
    this.#keys ??= this.names.map((name) => name.replace(/\d{1,8}/g, (digits) => digits.padStart(8, '0')))
    return this.#keys
  }

  /** The layer of each tensor, or -1, and its name without the layer. */
  get layers(): { readonly layer: Int32Array; readonly module: readonly string[] } {
    if (this.#layers === undefined) {
      const layer = new Int32Array(this.size).fill(-1)
      const module = this.names.map((name, at) => {
        const found = NUMBER.exec(name)
        if (found === null || found[0].length > 5) return name
        layer[at] = Number(found[0])
        return `${name.slice(0, found.index)}*${name.slice(found.index + found[0].length)}`
      })
      this.#layers = { layer, module }
    }
    return this.#layers
  }
}

type FromBase64 = { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }

function decoded(text: string): Uint8Array<ArrayBuffer> {
  const { fromBase64 } = Uint8Array as FromBase64
  // Browsers since 2025 have Uint8Array.fromBase64, which takes a tenth of the time.
  if (fromBase64 !== undefined) return fromBase64(text)
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at)
  return bytes
}

/** Decodes the data of the page: gzip in base64. */
export async function unpack(text: string): Promise<ReportData> {
  const stream = new Blob([decoded(text)]).stream().pipeThrough(new DecompressionStream('gzip'))
  return (await new Response(stream).json()) as ReportData
}
