// A heat map of layers × modules, one color for each tensor.
import { useMemo, useState } from 'preact/hooks'
import { html, type VNode } from './html.js'
import { layerGrid } from './layers.js'
import { type Model, relativeChange } from './model.js'
import { Choice, Empty, Section } from './pieces.js'
import { useReport } from './state.js'
import { showBytes, showCount, showNumber, showPercent, visible } from './words.js'

type Metric = 'std' | 'largest' | 'score' | 'zeros' | 'bytes' | 'change'

const TITLES: Readonly<Record<Metric, string>> = {
  std: 'std',
  largest: 'largest |value|',
  score: 'largest σ',
  zeros: 'zeros',
  bytes: 'bytes',
  change: 'change',
}

const STEPS = 8

function metricOf(model: Model, metric: Metric, at: number): number {
  if (metric === 'bytes') return model.bytes[at] as number
  if (metric === 'score') return model.scores[at] as number
  if (metric === 'change') {
    const change = model.changes.get(at)
    return change === undefined ? (model.added.has(at) ? Number.NaN : 0) : relativeChange(change)
  }
  const found = model.numbers(at)
  if (found === undefined) return Number.NaN
  if (metric === 'zeros') return found.count === 0 ? Number.NaN : found.zeros / found.count
  if (metric === 'std') return found.std ?? Number.NaN
  return found.min === null || found.max === null ? Number.NaN : Math.max(Math.abs(found.min), Math.abs(found.max))
}

const show = (metric: Metric, value: number): string =>
  metric === 'bytes'
    ? showBytes(value)
    : metric === 'zeros' || metric === 'change'
      ? showPercent(value)
      : showNumber(value)

/** The color step of a value, of eight, on a logarithmic scale if the values span more than a factor of 30. */
function stepper(values: readonly number[]): (value: number) => string {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value))
  const [low, high] = [Math.min(...positive), Math.max(...positive)]
  const logarithmic = high / low > 30
  const size = (value: number): number =>
    logarithmic ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low || 1)
  return (value) => {
    if (Number.isNaN(value)) return 'heat-none'
    if (value <= 0 || positive.length === 0) return 'heat-0'
    return `heat-${Math.min(STEPS - 1, Math.floor(size(value) * STEPS))}`
  }
}

export function HeatMap({ first }: { first?: Metric }): VNode {
  const { model, rows, choose, chosen, learned } = useReport()
  const metrics: Metric[] = [
    ...(model.data.diff === undefined ? [] : (['change'] as const)),
    'std',
    'largest',
    'score',
    'zeros',
    'bytes',
  ]
  const [metric, setMetric] = useState<Metric>(first ?? 'std')
  const { layers, modules, more } = useMemo(() => layerGrid(model, rows), [model, rows])
  const [at, setAt] = useState<readonly [row: number, column: number]>([0, 0])
  const values = useMemo(
    () =>
      modules.map(({ tensors }) =>
        tensors.map((tensor) => (tensor === undefined ? Number.NaN : metricOf(model, metric, tensor))),
      ),
    [modules, metric, learned],
  )
  const step = useMemo(() => stepper(values.flat()), [values])
  const move = (event: KeyboardEvent) => {
    const steps: Record<string, readonly [number, number]> = {
      ...{ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] },
    }
    const by = steps[event.key]
    if (by === undefined) return
    event.preventDefault()
    const row = Math.max(0, Math.min(modules.length - 1, at[0] + by[0]))
    const column = Math.max(0, Math.min(layers.length - 1, at[1] + by[1]))
    setAt([row, column])
    const table = (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-cell="${row},${column}"]`)
    table?.focus()
  }
  return html`<${Section} title="Layers × modules" class="wide">
    <${Choice} label="What the color shows" value=${metric} options=${metrics.map((one) => [one, TITLES[one]] as const)} onChange=${setMetric} />
    ${
      modules.length === 0
        ? html`<${Empty}>No module here is in more than one layer.<//>`
        : html`<div class="heat" tabindex="0" role="region" aria-label="Heat map; arrow keys move between its cells">
            <table onKeyDown=${move}>
              <thead>
                <tr>
                  <th scope="col"><span class="hidden">module</span></th>
                  ${layers.map((layer, column) => html`<th scope="col" key=${layer}><span class=${layers.length > 40 && column % 8 !== 0 ? 'hidden' : ''}>${layer}</span></th>`)}
                </tr>
              </thead>
              <tbody>
                ${modules.map(
                  ({ name, tensors }, row) => html`<tr key=${name}>
                    <th scope="row"><bdi title=${visible(name)}>${visible(name)}</bdi></th>
                    ${tensors.map((tensor, column) => {
                      if (tensor === undefined) return html`<td key=${column}></td>`
                      const value = (values[row] as number[])[column] as number
                      const text = `${visible(model.name(tensor))}: ${show(metric, value)}`
                      return html`<td key=${column}>
                        <button
                          type="button"
                          data-cell=${`${row},${column}`}
                          class=${`${step(value)} ${tensor === chosen ? 'chosen' : ''}`}
                          tabindex=${at[0] === row && at[1] === column ? 0 : -1}
                          aria-label=${text}
                          title=${text}
                          onFocus=${() => setAt([row, column])}
                          onClick=${() => choose(tensor)}
                        ></button>
                      </td>`
                    })}
                  </tr>`,
                )}
              </tbody>
            </table>
          </div>`
    }
    <p class="legend"><span>low</span>${Array.from({ length: STEPS }, (_, one) => html`<i key=${one} class=${`swatch heat-${one}`}></i>`)}<span>high</span><span><i class="swatch heat-none"></i>none</span></p>
    ${more > 0 ? html`<p class="note">and ${showCount(more)} more modules: search or choose a module to see them</p>` : null}
  <//>`
}
