// `ztensor stats`: prints statistics of tensors.
import type { AnyTensor, StatsOptions, TensorFile, TensorStats } from '../index.js'
import { painter } from './color.js'
import { csvCell } from './csv.js'
import { shortDtype } from './dtype.js'
import { errorCode, UsageError } from './failure.js'
import { NameFilter } from './filter.js'
import type { SourceOptions } from './format.js'
import { jsonFloat, jsonLines } from './json.js'
import { naturalOrder } from './natural.js'
import { type Counts, followProgress, type ProgressOptions } from './progress.js'
import { showCount, showMeasured } from './quantity.js'
import { withFile } from './source.js'
import { printLines } from './stdout.js'
import { lineWidth, type OptionalColumn, table, withoutAlike } from './table.js'
import { parseName, printable, showName } from './text.js'

export interface StatsCommandOptions extends SourceOptions, ProgressOptions {
  filter?: string[]
  shortDtypes?: boolean
  bins?: string
  json?: boolean
  csv?: boolean
}

/** A tensor with its statistics, or with the error code if there are none. */
export interface Row {
  tensor: Pick<AnyTensor, 'name' | 'dtype'> & { readonly storageType?: string }
  stats: TensorStats | undefined
  code: string | undefined
}

/** The note for a column that is left out if no tensor has such elements. */
const none = (what: string) => (cell: string) => (cell === '0' ? `no ${what}` : undefined)

const heads: readonly OptionalColumn[] = [
  { title: 'name' },
  { title: 'dtype', note: (cell) => (cell === '-' ? '' : cell) },
  { title: 'count', align: 'right' },
  { title: 'min', align: 'right' },
  { title: 'max', align: 'right' },
  { title: 'mean', align: 'right' },
  { title: 'std', align: 'right' },
  { title: 'zeros', align: 'right', note: none('zeros') },
  { title: 'NaN', align: 'right', note: none('NaN') },
  { title: 'Inf', align: 'right', note: none('Inf') },
  { title: 'error', note: (cell) => (cell === '' ? '' : undefined) },
]

/** Digits of numbers in the table, so that it fits 80 columns; `--json` has all of them. */
const digits = 4

const barColumns = 50

/** Errors of unknown layouts and complex dtypes, which have no statistics. If all tensors are listed, their rows have the code instead. */
const nothingToFind = new Set(['ZT_BAD_LAYOUT', 'ZT_BAD_DTYPE', 'ZT_UNSUPPORTED_ENCODING'])

export function binCount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const bins = Number(text)
  if (!Number.isInteger(bins) || bins < 1 || bins > 4096) {
    throw new UsageError(`--bins must be a whole number from 1 to 4096, got ${text}`)
  }
  return bins
}

function cells({ tensor, stats, code }: Row, shortDtypes: boolean): string[] {
  const type = tensor.storageType ?? '-'
  const known = [showName(tensor.name), printable(shortDtypes ? shortDtype(type) : type)]
  if (stats === undefined) return [...known, ...Array<string>(heads.length - 3).fill('-'), code ?? '-']
  const { count, min, max, mean, std, zeros, nan, positiveInfinite, negativeInfinite } = stats
  const numbers = [min, max, mean, std].map((number) => showMeasured(number, digits))
  const counts = [zeros, nan, positiveInfinite + negativeInfinite].map(showCount)
  return [...known, showCount(count), ...numbers, ...counts, '']
}

function* bars({ tensor, stats }: Row, title: (text: string) => string): Generator<string> {
  const histogram = stats?.histogram
  if (histogram === undefined) return
  yield ''
  yield title(showName(tensor.name))
  const maxCount = Math.max(1, ...histogram.counts)
  const edges = histogram.edges.map((edge) => showMeasured(edge))
  const widest = Math.max(...edges.map((edge) => edge.length))
  const countColumns = showCount(maxCount).length
  for (const [at, count] of histogram.counts.entries()) {
    const bar = '█'.repeat(Math.round((count / maxCount) * barColumns))
    yield `${(edges[at] as string).padStart(widest)}  ${showCount(count).padStart(countColumns)}  ${bar}`.trimEnd()
  }
  yield (edges.at(-1) as string).padStart(widest)
}

export function* rowLines(rows: readonly Row[], shortDtypes = false): Generator<string> {
  const paint = painter()
  const title = (text: string) => paint('bold', text)
  const all = rows.map((row) => cells(row, shortDtypes))
  const shown = withoutAlike(heads, all)
  yield* table(shown.heads, shown.rows, title, lineWidth())
  if (shown.notes.length > 0) yield paint('dim', `all tensors: ${shown.notes.join(', ')}`)
  for (const row of rows) yield* bars(row, title)
}

export function rowJson({ tensor, stats, code }: Row): object {
  const { name, dtype } = tensor
  if (stats === undefined) return { name, dtype: dtype ?? null, error: code ?? null }
  const { min, max, mean, std, histogram, ...counts } = stats
  return {
    ...{ name, dtype: dtype ?? null, ...counts },
    ...{ min: jsonFloat(min), max: jsonFloat(max), mean: jsonFloat(mean), std: jsonFloat(std) },
    ...(histogram === undefined ? {} : { histogram }),
  }
}

const COUNTS = ['count', 'zeros', 'nan', 'positiveInfinite', 'negativeInfinite'] as const
const NUMBERS = ['min', 'max', 'mean', 'std'] as const

/** The rows as CSV, with a header. Numbers are written in full. */
function* csvLines(rows: readonly Row[]): Generator<string> {
  yield ['name', 'type', ...COUNTS, ...NUMBERS, 'error'].join(',')
  for (const { tensor, stats, code } of rows) {
    const numbers = [...COUNTS, ...NUMBERS].map((key) => stats?.[key])
    yield [tensor.name, tensor.storageType ?? tensor.dtype, ...numbers, code].map(csvCell).join(',')
  }
}

function chosen(file: TensorFile, names: readonly string[], filter: readonly string[] | undefined): AnyTensor[] {
  const named = names.map((name) => file.get(name) ?? file.get(parseName(name)) ?? file.tensor(name))
  if (filter === undefined) return names.length === 0 ? Array.from(file.values()) : named
  const own = new NameFilter(filter)
  const some = (names.length === 0 ? Array.from(file.values()) : named).filter(({ name }) => own.keep(name))
  const error = own.error()
  if (error !== undefined) throw error
  return some
}

/** Combines the progress of tensors, one after the other. Returns the options for each. */
function listener(tensors: readonly AnyTensor[], onProgress: ((counts: Counts) => void) | undefined) {
  const totalBytes = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const totalTensors = tensors.length
  let [before, count] = [0, 0]
  return ({ byteLength }: AnyTensor): Pick<StatsOptions, 'onProgress'> => {
    const [start, done] = [before, count++]
    before += byteLength
    if (onProgress === undefined) return {}
    return {
      onProgress: ({ bytes, totalBytes: whole, tensors }) => {
        // A histogram reads the elements twice.
        const share = whole === 0 ? 0 : bytes / whole
        onProgress({ bytes: start + Math.round(share * byteLength), totalBytes, tensors: done + tensors, totalTensors })
      },
    }
  }
}

/** Prints statistics of the named tensors, or of all tensors. */
export async function stats(path: string, names: readonly string[], options: StatsCommandOptions): Promise<void> {
  const bins = binCount(options.bins)
  if (options.csv && bins !== undefined) throw new UsageError('--csv has no histogram: use --json with --bins')
  await withFile(path, options, async (file) => {
    const rows: Row[] = []
    const tensors = chosen(file, names, options.filter)
    const progress = await followProgress(path, options)
    const listen = listener(tensors, progress.listen.onProgress)
    try {
      for (const tensor of tensors) {
        try {
          rows.push({ tensor, stats: await tensor.stats({ bins, ...listen(tensor) }), code: undefined })
        } catch (error) {
          const code = errorCode(error)
          if (names.length > 0 || !nothingToFind.has(code ?? '')) throw error
          rows.push({ tensor, stats: undefined, code })
        }
      }
    } finally {
      progress.stop()
    }
    if (options.json) return printLines(jsonLines(rows.map(rowJson)))
    if (options.csv) return printLines(csvLines(rows))
    // As `ztensor ls`, unless the caller has an order.
    if (names.length === 0) rows.sort((a, b) => naturalOrder(a.tensor.name, b.tensor.name))
    await printLines(rowLines(rows, options.shortDtypes))
  })
}
