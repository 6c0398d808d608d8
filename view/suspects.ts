// Finds tensors with suspicious values.
import type { Model } from './model.js'

export type Suspicion = 'not finite' | 'all zero' | 'constant' | 'saturated' | 'outliers' | 'unreadable'

export interface Suspect {
  readonly tensor: number
  readonly kind: Suspicion
  readonly why: string
}

/** The maximum of dtypes whose range is small enough to overflow by mistake. */
const LARGEST = new Map<string, number>([
  ['float16', 65504],
  ['float8_e4m3fn', 448],
  ['float8_e4m3fnuz', 240],
  ['float8_e5m2', 57344],
  ['float8_e5m2fnuz', 57344],
])

/** The outlier threshold in standard deviations. The most extreme of 10^12 normally distributed elements has 7. */
export const OUTLIER_SCORE = 32

export const MEANING: Readonly<Record<Suspicion, string>> = {
  'not finite': 'NaN or infinity among the values',
  unreadable: 'the values cannot be read',
  saturated: 'values at the maximum of the dtype: larger ones were probably clipped',
  outliers: `an element more than ${OUTLIER_SCORE} standard deviations from the mean`,
  'all zero': 'every value is zero',
  constant: 'all values are equal, and not 0 or 1',
}

const UNSUPPORTED = new Set(['ZT_BAD_DTYPE', 'ZT_BAD_LAYOUT', 'ZT_UNSUPPORTED_ENCODING'])

function suspicion(model: Model, tensor: number): Omit<Suspect, 'tensor'> | undefined {
  const found = model.found[tensor]
  if (found === undefined) return undefined
  if (!('count' in found)) {
    return UNSUPPORTED.has(found.code) ? undefined : { kind: 'unreadable', why: `${found.message} (${found.code})` }
  }
  const { count, nan, positiveInfinite, negativeInfinite, zeros, min, max } = found
  const infinite = positiveInfinite + negativeInfinite
  if (nan + infinite > 0) {
    const parts = [
      nan > 0 ? `${nan.toLocaleString('en')} NaN` : '',
      infinite > 0 ? `${infinite.toLocaleString('en')} infinite` : '',
    ]
    return { kind: 'not finite', why: `${parts.filter(Boolean).join(', ')} of ${count.toLocaleString('en')}` }
  }
  if (count < 2 || min === null || max === null) return undefined
  const largest = LARGEST.get(model.dtype(tensor))
  if (largest !== undefined && (max >= largest || min <= -largest)) {
    return { kind: 'saturated', why: `reaches ±${largest}, the end of ${model.dtype(tensor)}` }
  }
  if (zeros === count) return { kind: 'all zero', why: `all ${count.toLocaleString('en')} values` }
  // Newly initialized norms and masks are all ones.
  if (min === max)
    return min === 1 ? undefined : { kind: 'constant', why: `all ${count.toLocaleString('en')} values are ${min}` }
  const score = model.scores[tensor] as number
  if (score > OUTLIER_SCORE) return { kind: 'outliers', why: `${score.toFixed(0)} standard deviations from the mean` }
  return undefined
}

const ORDER = Object.keys(MEANING)

/** The suspicious tensors in `rows`, or of all, the most severe first, and those of one kind in the order of `rows`. */
export function suspects(model: Model, rows: Uint32Array | undefined): Suspect[] {
  const found: Suspect[] = []
  for (const tensor of model.ordinals(rows)) {
    const one = suspicion(model, tensor)
    if (one !== undefined) found.push({ tensor, ...one })
  }
  return found.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))
}
