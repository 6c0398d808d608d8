// Statistics of tensors for a report.
import { ZTensorError } from '../native/errors.js'
import type { Progress } from '../native/job.js'
import { withinCall } from '../read/calls.js'
import { TensorFile } from '../read/file.js'
import type { Histogram, TensorStats } from '../read/stats.js'
import type { AnyTensor } from '../read/tensor.js'
import { base64 } from './base64.js'
import { column } from './columns.js'
import type { FoundColumns, Measured, TensorFound, TensorNumbers } from './data.js'

/** Bins of a histogram on the page: a multiple of three, so that base64 needs no padding. */
export const BINS = 48
/** The maximum number of tensors with histograms in a page: those of 100,000 tensors would take megabytes. */
export const MAX_HISTOGRAMS = 4096
/** Tensors that are processed concurrently: small ones wait for the native call, large ones for the disk. */
const AT_ONCE = 8

/** Rounds to five digits, as many as 65504, the maximum of float16, has. A page shows fewer. */
export function measured(value: number): Measured {
  return Number.isFinite(value) ? Number(value.toPrecision(5)) : null
}

/** Encodes each count as a byte: 0 for none, else its logarithm, so that bins with one and with a billion elements are both visible. */
function packed({ counts }: Histogram): { bins: string; maxCount: number } {
  const maxCount = counts.reduce((one, other) => Math.max(one, other), 0)
  const scale = Math.log1p(maxCount)
  const bytes = Uint8Array.from(counts, (count) =>
    count === 0 ? 0 : Math.max(1, Math.round((255 * Math.log1p(count)) / scale)),
  )
  return { bins: base64(bytes), maxCount }
}

function numbersOf({ histogram, min, max, mean, std, ...counts }: TensorStats): TensorFound {
  const extremes = { min: measured(min), max: measured(max), mean: measured(mean), std: measured(std) }
  if (histogram === undefined || counts.count === 0) return { ...counts, ...extremes }
  return { ...counts, ...extremes, histogram: packed(histogram) }
}

/** Errors that the page shows instead of statistics. Any other error, such as a failing disk, fails the report. */
const WITHOUT = new Set<string>([
  'ZT_BAD_LAYOUT',
  'ZT_BAD_DTYPE',
  'ZT_BAD_SPARSE',
  'ZT_BAD_SHAPE',
  'ZT_DECODE',
  'ZT_DIGEST_MISMATCH',
  'ZT_LIMIT',
  'ZT_OUT_OF_BOUNDS',
  'ZT_TRUNCATED',
  'ZT_UNSUPPORTED_ENCODING',
])

/** Computes the statistics of a tensor, or returns the error if it has none. */
export async function tensorFound(
  tensor: AnyTensor,
  bins: number | undefined,
  signal: AbortSignal | undefined,
): Promise<TensorFound> {
  try {
    return numbersOf(await withinCall(() => tensor.stats({ bins, signal })))
  } catch (error) {
    if (!(error instanceof ZTensorError) || !WITHOUT.has(error.code)) throw error
    return { code: error.code, message: error.message }
  }
}

/** Computes the statistics of the tensors of these ordinals, several concurrently. */
export async function allFound(
  file: TensorFile,
  chosen: Uint32Array,
  progress: ((done: Pick<Progress, 'bytes' | 'tensors'>) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<TensorFound[]> {
  const bins = chosen.length <= MAX_HISTOGRAMS ? BINS : undefined
  const found: TensorFound[] = new Array(chosen.length)
  // The first failure stops the others.
  const failed = new AbortController()
  const signals = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal])
  let [next, bytes, tensors] = [0, 0, 0]
  const work = async () => {
    while (next < chosen.length) {
      const at = next++
      const tensor = TensorFile.at(file, chosen[at] as number)
      found[at] = await tensorFound(tensor, bins, signals)
      bytes += tensor.byteLength
      tensors += 1
      progress?.({ bytes, tensors })
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, chosen.length) }, work))
  } catch (error) {
    failed.abort()
    throw signal?.aborted ? signal.reason : error
  }
  return found
}

const NOTHING: TensorNumbers = {
  ...{ count: 0, nan: 0, positiveInfinite: 0, negativeInfinite: 0, zeros: 0 },
  ...{ min: null, max: null, mean: null, std: null },
}

/** Converts statistics to columns. */
export function foundColumns(found: readonly TensorFound[]): FoundColumns {
  const rows = found.map((one) => ('count' in one ? one : NOTHING))
  const counts = (key: 'count' | 'nan' | 'positiveInfinite' | 'negativeInfinite' | 'zeros') =>
    column(rows.map((row) => row[key]))
  const numbers = (key: 'min' | 'max' | 'mean' | 'std') => rows.map((row) => row[key])
  const histograms = rows.some(({ histogram }) => histogram !== undefined)
    ? {
        bins: rows.map(({ histogram }) => histogram?.bins ?? null),
        maxCount: column(rows.map(({ histogram }) => histogram?.maxCount ?? 0)),
      }
    : undefined
  return {
    count: counts('count'),
    nan: counts('nan'),
    positiveInfinite: counts('positiveInfinite'),
    negativeInfinite: counts('negativeInfinite'),
    zeros: counts('zeros'),
    min: numbers('min'),
    max: numbers('max'),
    mean: numbers('mean'),
    std: numbers('std'),
    ...(histograms === undefined ? {} : { histograms }),
    failed: found.flatMap((one, at) => ('code' in one ? [[at, one.code, one.message] as const] : [])),
  }
}
