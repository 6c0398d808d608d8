// A heat map of layers × modules, one color for each tensor.
import { useMemo, useState } from 'preact/hooks'
import { html, type VNode } from './html.js'
import { layerGrid } from './layers.js'
import { type Model, relativeChange } from './model.js'
import { Choice, Empty, Legend, Section } from './pieces.js'
import { ratioScale, type Scale, scoreScale, shareScale } from './scale.js'
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

/** The color scale of a metric. Only outlier scores have the colors of a warning. */
function scaleOf(metric: Metric, values: readonly number[]): Scale {
  if (metric === 'score') return scoreScale(values)
  return (metric === 'zeros' ? shareScale : ratioScale)(values, (value) => show(metric, value))
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
  const scale = useMemo(() => {
    // Layers without a module have no cell.
    const cells = values.flatMap((row, of) => row.filter((_, column) => modules[of]?.tensors[column] !== undefined))
    return scaleOf(metric, cells)
  }, [values])
  const flawed = modules.some(({ tensors }) => tensors.some((one) => one !== undefined && model.flaw(one) !== ''))
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
                      const flaw = model.flaw(tensor)
                      const text = `${visible(model.name(tensor))}: ${show(metric, value)}${flaw === '' ? '' : `, has ${flaw}`}`
                      return html`<td key=${column}>
                        <button
                          type="button"
                          data-cell=${`${row},${column}`}
                          class=${`${scale.classOf(value)} ${flaw === '' ? '' : 'flawed'} ${tensor === chosen ? 'chosen' : ''}`}
                          tabindex=${at[0] === row && at[1] === column ? 0 : -1}
                          aria-label=${text}
                          title=${text}
                          onFocus=${() => setAt([row, column])}
                          onClick=${() => choose(tensor)}
                        >${flaw === '' ? null : html`<span aria-hidden="true">!</span>`}</button>
                      </td>`
                    })}
                  </tr>`,
                )}
              </tbody>
            </table>
          </div>`
    }
    ${modules.length === 0 ? null : html`<${Legend} title=${`${TITLES[metric]}:`} items=${flawed ? [...scale.legend, { color: 'flawed', text: 'NaN or ∞' }] : scale.legend} />`}
    ${more > 0 ? html`<p class="note">and ${showCount(more)} more modules: search or choose a module to see them</p>` : null}
  <//>`
}
