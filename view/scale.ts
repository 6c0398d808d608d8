// Color scales of statistics. The colors are steps of a ratio, so values that are nearly equal have the same color.

export const STEPS = 8

/** The minimum ratio between the ends of a scale. Smaller differences use fewer colors. */
const MIN_RATIO = 8

export interface Scale {
  /** The CSS class of a value. */
  classOf(value: number): string
  /** The colors in use, with the values of each. */
  readonly legend: readonly { readonly color: string; readonly text: string }[]
}

type Show = (value: number) => string

const range = (low: string, high: string): string => (low === high ? low : `${low} to ${high}`)

/** The last entries: zero and missing values have their own colors. */
const others = (values: readonly number[], zero: boolean): Scale['legend'] => [
  ...(zero && values.includes(0) ? [{ color: 'tone-zero', text: '0' }] : []),
  ...(values.some(Number.isNaN) ? [{ color: 'heat-none', text: 'none' }] : []),
]

/** A scale of positive values: logarithmic from the smallest to the largest. */
export function ratioScale(values: readonly number[], show: Show): Scale {
  let [low, high] = [Number.POSITIVE_INFINITY, 0]
  for (const value of values) {
    if (!(value > 0) || value === Number.POSITIVE_INFINITY) continue
    low = Math.min(low, value)
    high = Math.max(high, value)
  }
  const step = Math.log(Math.max(high / low, MIN_RATIO)) / STEPS
  const stepOf = (value: number): number => Math.max(0, Math.min(STEPS - 1, Math.floor(Math.log(value / low) / step)))
  const edge = (at: number): string => show(Number((low * Math.exp(at * step)).toPrecision(2)))
  const last = high === 0 ? -1 : stepOf(high)
  const legend = Array.from({ length: last + 1 }, (_, at) => ({
    color: `tone-${at}`,
    text: range(at === 0 ? show(low) : edge(at), at === last ? show(high) : edge(at + 1)),
  }))
  return {
    classOf: (value) => (Number.isNaN(value) ? 'heat-none' : value > 0 ? `tone-${stepOf(value)}` : 'tone-zero'),
    legend: [...legend, ...others(values, true)],
  }
}

/** A scale of shares from 0 to 1. */
export function shareScale(values: readonly number[], show: Show): Scale {
  return {
    classOf: (value) =>
      Number.isNaN(value) ? 'heat-none' : `tone-${Math.max(0, Math.min(STEPS - 1, Math.floor(value * STEPS)))}`,
    legend: [
      ...Array.from({ length: STEPS }, (_, at) => ({
        ...{ color: `tone-${at}`, text: range(show(at / STEPS), show((at + 1) / STEPS)) },
      })),
      ...others(values, false),
    ],
  }
}

const SCORES = ['< 4', '4', '8', '16', '32', '64', '128', '256 +']

/** The scale of outlier scores: 4, 8, 16 … standard deviations. */
export const scoreScale = (values: readonly number[]): Scale => ({
  classOf: (score) =>
    Number.isNaN(score)
      ? 'heat-none'
      : `heat-${Math.max(0, Math.min(STEPS - 1, Math.floor(Math.log2(Math.max(1, score)) - 1)))}`,
  legend: [...SCORES.map((text, at) => ({ color: `heat-${at}`, text: `${text} σ` })), ...others(values, false)],
})
