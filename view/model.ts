// The data of the page, decoded into columns, which views read by tensor ordinal.
import { naturalOrder } from '../cli/natural.js'
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
import type { Values } from './live.js'
import { Tree } from './tree.js'

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
  const [positive, negative, maxCount] = [
    columns.positiveInfinite,
    columns.negativeInfinite,
    columns.histograms?.maxCount ?? { all: 0 },
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
    found[at] = bins ? { ...numbers, histogram: { bins, maxCount: maxCount[at] as number } } : numbers
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

/** Matches the layouts that store weights in fewer bits than a dtype has. */
const QUANTIZED =
  /^(?:gguf(?:_be)?\.[a-z0-9_]+|tflite\.quantized|torch\.per_(?:tensor|channel)_affine|zt\.quant_group|zt\.mx)\/\d+$/

/** The number of colors for dtypes and modules. */
export const HUES = 10

/** Sums over tensors. */
export interface Sums {
  tensors: number
  elements: number
  /** Decoded size in bytes. */
  bytes: number
}

/** Matches the number in a name, which is its layer. */
const NUMBER = /(?<=^|[./])\d+(?=[./]|$)/

/** The data of all views. */
export class Model {
  readonly data: ReportData
  /** What a live page reads on demand. */
  readonly values: Values
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
  /** The tree of all tensors. */
  readonly tree: Tree
  readonly #elements: Float64Array
  readonly #quantized: readonly boolean[]
  #hues: Int8Array | undefined
  #lower: string[] | undefined
  #all: Uint32Array | undefined
  #layers: { layer: Int32Array; module: string[] } | undefined

  constructor(data: ReportData, values: Values) {
    this.data = data
    this.values = values
    this.names = data.tensors.names
    this.size = this.names.length
    this.bytes = expanded(data.tensors.bytes, this.size)
    this.#dtype = expanded(data.tensors.dtype, this.size)
    this.#shape = expanded(data.tensors.shape, this.size)
    this.#layout = expanded(data.tensors.layout, this.size)
    this.#elements = Float64Array.from(data.shapes, (shape) =>
      // Infinity × 0 would be NaN.
      shape.includes(0) ? 0 : shape.reduce((product, size) => product * size, 1),
    )
    this.#quantized = data.layouts.map((layout) => QUANTIZED.test(layout))
    this.tree = new Tree(this, undefined)
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

  /** The storage type of a tensor: its dtype, its block type such as `q4_k`, or the name of another layout. */
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

  elements(at: number): number {
    return this.#elements[this.shapeNumber(at)] as number
  }

  quantized(at: number): boolean {
    return this.#quantized[this.#layout[at] as number] as boolean
  }

  /** The layout of a tensor, with one name for all quantized layouts. */
  layoutKind(at: number): string {
    return this.quantized(at) ? 'quantized' : this.layout(at)
  }

  /** The color of a dtype: its rank by bytes, or -1 for all after the ninth if there are more than ten. */
  dtypeHue(dtype: number): number {
    if (this.#hues === undefined) {
      const shares = this.shares(undefined)
      const distinct = shares.length > HUES ? HUES - 1 : HUES
      this.#hues = new Int8Array(this.data.dtypes.length).fill(-1)
      for (const [rank, share] of shares.slice(0, distinct).entries()) this.#hues[share.dtype] = rank
    }
    return this.#hues[dtype] as number
  }

  /** The sums of each dtype over the tensors in `rows`, or all tensors: most bytes first. */
  shares(rows: Uint32Array | undefined): (Sums & { readonly dtype: number; readonly quantized: boolean })[] {
    const shares = this.data.dtypes.map((_, dtype) => ({ dtype, tensors: 0, elements: 0, bytes: 0, quantized: false }))
    for (const at of this.ordinals(rows)) {
      const share = shares[this.dtypeNumber(at)] as (typeof shares)[number]
      share.tensors += 1
      share.elements += this.elements(at)
      share.bytes += this.bytes[at] as number
      share.quantized ||= this.quantized(at)
    }
    return shares.filter(({ tensors }) => tensors > 0).sort((a, b) => b.bytes - a.bytes)
  }

  /** The ordinals in `rows`, or those of all tensors in the natural order of their names. */
  ordinals(rows: Uint32Array | undefined): Uint32Array {
    this.#all ??= Uint32Array.from({ length: this.size }, (_, at) => at).sort((a, b) => this.byName(a, b))
    return rows ?? this.#all
  }

  /** Compares two tensors by the natural order of their names: layer 2 comes before layer 10. */
  byName(a: number, b: number): number {
    return naturalOrder(this.name(a), this.name(b))
  }

  /** The number of tensors in each file, of those in `rows` or all. A tensor may be in several files. */
  tensorsOfFiles(rows: Uint32Array | undefined): number[] {
    const counts = this.data.file.files.map(() => 0)
    if (counts.length < 2) return counts.map(() => this.ordinals(rows).length)
    for (const at of this.ordinals(rows)) {
      const [first, end] = [this.#firstPart[at] as number, this.#firstPart[at + 1] as number]
      for (const file of new Set(this.#parts.file.subarray(first, end))) counts[file] = (counts[file] ?? 0) + 1
    }
    return counts
  }

  /** The tensors with NaN or infinity. */
  notFinite(rows: Uint32Array | undefined): number[] {
    return Array.from(this.ordinals(rows)).filter((at) => this.flaw(at) !== '')
  }

  /** Whether the values of a tensor have NaN (`NaN`), infinities (`∞`), or both (`NaN, ∞`). */
  flaw(at: number): string {
    return this.flawOf([at])
  }

  /** Like `flaw`, of several tensors. */
  flawOf(tensors: Iterable<number>): string {
    let [nan, infinite] = [false, false]
    for (const at of tensors) {
      const found = this.numbers(at)
      if (found === undefined) continue
      nan ||= found.nan > 0
      infinite ||= found.positiveInfinite + found.negativeInfinite > 0
    }
    return [nan ? 'NaN' : '', infinite ? '∞' : ''].filter(Boolean).join(', ')
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

  /** Lowercase names, for searches. */
  get lower(): readonly string[] {
    this.#lower ??= this.names.map((name) => name.toLowerCase())
    return this.#lower
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
