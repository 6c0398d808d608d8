// SVG charts: histograms, and lines over layers.
import type { TensorNumbers } from '../lib/report/data.js'
import { html, type VNode } from './html.js'
import { showCount, showNumber } from './words.js'

/** Unpacks the counts of a histogram. */
export function unpackedCounts({ bins, maxCount }: { bins: string; maxCount: number }): number[] {
  const scale = Math.log1p(maxCount)
  return Array.from(atob(bins), (character) => {
    const byte = character.charCodeAt(0)
    return byte === 0 ? 0 : Math.max(1, Math.round(Math.expm1((byte / 255) * scale)))
  })
}

/** Bars of counts over evenly spaced bins. */
export function Bars(props: {
  counts: readonly number[]
  labels: readonly string[]
  title: string
  logarithmic: boolean
  ends: readonly [string, string]
}): VNode {
  const { counts, labels, logarithmic } = props
  const [width, height] = [340, 110]
  const size = (count: number): number => (logarithmic ? Math.log1p(count) : count)
  const maxCount = Math.max(1e-9, ...counts.map(size))
  const step = width / Math.max(1, counts.length)
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${width} ${height + 18}`} role="img" aria-label=${props.title}>
      <line class="axis" x1="0" x2=${width} y1=${height + 0.5} y2=${height + 0.5} />
      ${counts.map((count, at) => {
        const tall = count === 0 ? 0 : Math.max(1.5, (size(count) / maxCount) * (height - 6))
        return html`<g key=${at}>
          <rect class="bar-fill" x=${at * step + 0.5} width=${Math.max(1, step - 1)} y=${height - tall} height=${tall} />
          <rect class="bar-catch" x=${at * step} width=${step} y="0" height=${height}>
            <title>${labels[at]}: ${showCount(count)}</title>
          </rect>
        </g>`
      })}
      <text x="0" y=${height + 14}>${props.ends[0]}</text>
      <text x=${width} y=${height + 14} text-anchor="end">${props.ends[1]}</text>
    </svg>
  </figure>`
}

/** The histogram of a tensor. */
export function Histogram({ found, logarithmic }: { found: TensorNumbers; logarithmic: boolean }): VNode | null {
  const { histogram, min, max } = found
  if (histogram === undefined || min === null || max === null) return null
  const counts = unpackedCounts(histogram)
  const edge = (at: number): string => showNumber(min + ((max - min) * at) / counts.length)
  return html`<${Bars}
    counts=${counts}
    labels=${counts.map((_, at) => `${edge(at)} to ${edge(at + 1)}, about`)}
    title=${`Histogram of ${showCount(found.count)} values from ${showNumber(min)} to ${showNumber(max)}`}
    logarithmic=${logarithmic}
    ends=${[showNumber(min), showNumber(max)]}
  />`
}

export interface Line {
  readonly name: string
  readonly hue: string
  /** One value for each tick of the axis; NaN for missing values. */
  readonly values: readonly number[]
}

/** Lines on one common scale, logarithmic or linear. */
export function Lines(props: { lines: readonly Line[]; ticks: readonly number[]; title: string }): VNode {
  const { lines, ticks } = props
  const [width, height, left] = [316, 110, 62]
  const all = lines.flatMap(({ values }) => values).filter(Number.isFinite)
  const positive = all.filter((value) => value > 0)
  const logarithmic = positive.length > 0 && Math.max(...positive) / Math.min(...positive) > 30
  const [low, high] = logarithmic
    ? [Math.log10(Math.min(...positive)), Math.log10(Math.max(...positive))]
    : [Math.min(0, ...all), Math.max(1e-30, ...all)]
  const span = high - low || 1
  const x = (at: number): number => left + ((width - left - 6) * at) / Math.max(1, ticks.length - 1)
  const y = (value: number): number => {
    const scaled = logarithmic ? Math.log10(Math.max(value, 10 ** low)) : value
    return 6 + (height - 12) * (1 - (scaled - low) / span)
  }
  const path = (values: readonly number[]): string => {
    let pen = 'M'
    let text = ''
    for (const [at, value] of values.entries()) {
      if (!Number.isFinite(value)) pen = 'M'
      else {
        text += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`
        pen = 'L'
      }
    }
    return text
  }
  const label = (value: number): string => showNumber(Number((logarithmic ? 10 ** value : value).toPrecision(3)))
  return html`<svg class="lines" viewBox=${`0 0 ${width} ${height + 16}`} role="img" aria-label=${props.title}>
    <line class="axis" x1=${left} x2=${width - 6} y1=${height - 6} y2=${height - 6} />
    <line class="axis faint" x1=${left} x2=${width - 6} y1="6" y2="6" />
    <text x=${left - 6} y="10" text-anchor="end">${label(high)}</text>
    <text x=${left - 6} y=${height - 3} text-anchor="end">${label(low)}</text>
    <text x=${left} y=${height + 10}>${ticks[0]}</text>
    <text x=${width - 6} y=${height + 10} text-anchor="end">${ticks.at(-1)}</text>
    ${lines.map(({ name, hue, values }) => html`<path key=${name} class=${`line ${hue}`} d=${path(values)}><title>${name}</title></path>`)}
    ${
      ticks.length <= 64
        ? lines.map(({ name, hue, values }) =>
            values.map((value, at) =>
              Number.isFinite(value)
                ? html`<circle key=${`${name}${at}`} class=${`dot ${hue}`} cx=${x(at)} cy=${y(value)} r="2">
                    <title>layer ${ticks[at]}, ${name}: ${showNumber(value)}</title>
                  </circle>`
                : null,
            ),
          )
        : null
    }
  </svg>`
}
