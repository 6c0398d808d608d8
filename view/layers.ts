// The standard deviation and the largest value of each module, by layer.
import { useMemo } from 'preact/hooks'
import { Lines } from './charts.js'
import { html, type VNode } from './html.js'
import type { Model } from './model.js'
import { Empty, Legend, Section } from './pieces.js'
import { useReport } from './state.js'
import { showCount, showNumber, visible } from './words.js'

/** A module that is in several layers. */
export interface Module {
  readonly name: string
  /** The tensor of each layer; undefined if a layer does not have it. */
  readonly tensors: readonly (number | undefined)[]
}

export interface Grid {
  readonly layers: readonly number[]
  readonly modules: readonly Module[]
  /** Number of modules that are not shown. */
  readonly more: number
}

const MAX_MODULES = 48
const MAX_LAYERS = 512

/** Modules that are in two or more layers, by the number in their names. */
export function layerGrid(model: Model, rows: Uint32Array | undefined): Grid {
  const { layer, module } = model.layers
  const by = new Map<string, Map<number, number>>()
  const add = (at: number) => {
    const number = layer[at] as number
    if (number < 0) return
    const name = module[at] as string
    let of = by.get(name)
    if (of === undefined) {
      of = new Map()
      by.set(name, of)
    }
    of.set(number, at)
  }
  for (const at of model.ordinals(rows)) add(at)
  const several = Array.from(by).filter(([, of]) => of.size > 1)
  const numbers = new Set<number>()
  for (const [, of] of several) for (const number of of.keys()) numbers.add(number)
  const layers = Array.from(numbers)
    .sort((a, b) => a - b)
    .slice(0, MAX_LAYERS)
  const modules = several
    .slice(0, MAX_MODULES)
    .map(([name, of]) => ({ name, tensors: layers.map((number) => of.get(number)) }))
  return { layers, modules, more: several.length - modules.length }
}

/** The smallest and the largest of some numbers as text. */
function rangeOf(values: readonly number[]): string {
  const known = values.filter(Number.isFinite)
  if (known.length === 0) return ''
  const [low, high] = [Math.min(...known), Math.max(...known)].map(showNumber)
  return low === high ? `${low}` : `${low} to ${high}`
}

export function Layers(): VNode {
  const { model, rows, learned } = useReport()
  const { layers, modules, more } = useMemo(() => layerGrid(model, rows), [model, rows])
  const charts = useMemo(
    () =>
      modules.map(({ name, tensors }) => {
        const of = tensors.map((at) => (at === undefined ? undefined : model.numbers(at)))
        const std = of.map((found) => found?.std ?? Number.NaN)
        const largest = of.map((found) =>
          found === undefined || found.min === null || found.max === null
            ? Number.NaN
            : Math.max(Math.abs(found.min), Math.abs(found.max)),
        )
        return { name, std, largest }
      }),
    [modules, learned],
  )
  return html`<${Section} title="Over the layers" class="wide">
    <${Legend}
      items=${[
        { color: 'line-std', text: 'standard deviation', number: rangeOf(charts.flatMap(({ std }) => std)) },
        { color: 'line-max', text: 'largest |value|', number: rangeOf(charts.flatMap(({ largest }) => largest)) },
      ]}
    />
    ${
      charts.length === 0
        ? html`<${Empty}>No module here is in more than one layer.<//>`
        : html`<div class="small-multiples">
            ${charts.map(
              ({ name, std, largest }) => html`<figure key=${name}>
                <figcaption><bdi title=${visible(name)}>${visible(name)}</bdi></figcaption>
                <${Lines}
                  ticks=${layers}
                  title=${`Standard deviation and largest value of ${visible(name)} over ${layers.length} layers`}
                  lines=${[
                    { name: 'largest |value|', hue: 'line-max', values: largest },
                    { name: 'std', hue: 'line-std', values: std },
                  ]}
                />
              </figure>`,
            )}
          </div>`
    }
    ${more > 0 ? html`<p class="note">and ${showCount(more)} more modules: search or choose a module to see them</p>` : null}
  <//>`
}
