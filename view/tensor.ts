// The panel of a tensor: its properties, location, statistics and differences.
import { useEffect, useState } from 'preact/hooks'
import type { SliceFound } from '../lib/report/data.js'
import { Bars, Histogram } from './charts.js'
import { html, type VNode } from './html.js'
import { isNumbers, relativeChange } from './model.js'
import { Choice, FlawBadge, Name } from './pieces.js'
import { useReport } from './state.js'
import {
  counted,
  showBits,
  showBytes,
  showCosine,
  showCount,
  showNumber,
  showPercent,
  showShape,
  visible,
} from './words.js'

type Scale = 'linear' | 'log'

function Pairs({ pairs }: { pairs: readonly (readonly [string, unknown])[] }): VNode {
  return html`<dl class="pairs">
    ${pairs.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}
  </dl>`
}

/** Reads missing statistics, if the page is live. */
function useStats(tensor: number): string | undefined {
  const { model, learn } = useReport()
  const [failure, setFailure] = useState<string | undefined>(undefined)
  useEffect(() => {
    setFailure(undefined)
    const found = model.found[tensor]
    if (
      !model.data.live ||
      (found !== undefined && !(isNumbers(found) && found.histogram === undefined && found.count > 0))
    )
      return
    const stop = new AbortController()
    model.values.stats(tensor, stop.signal).then(
      (found) => learn(tensor, found),
      (error: Error) => {
        if (!stop.signal.aborted) setFailure(error.message)
      },
    )
    return () => stop.abort()
  }, [tensor])
  return failure
}

function Values({ tensor }: { tensor: number }): VNode {
  const { model } = useReport()
  const [scale, setScale] = useState<Scale>('linear')
  const failure = useStats(tensor)
  const found = model.found[tensor]
  if (failure !== undefined) return html`<p class="note" role="alert">${visible(failure)}</p>`
  if (found === undefined) {
    return html`<p class="note">${model.data.live ? 'Reading the values …' : 'The values were not read. Run ztensor view with --stats, or ztensor serve.'}</p>`
  }
  if (!isNumbers(found)) return html`<p class="note"><bdi>${visible(found.message)}</bdi> (${visible(found.code)})</p>`
  const score = model.scores[tensor] as number
  const bad = (count: number): unknown =>
    count > 0 ? html`<b class="alarm">${showCount(count)}</b>` : showCount(count)
  return html`<div>
    ${
      found.histogram === undefined
        ? html`<p class="note">${model.data.live ? 'Computing the histogram …' : 'A report of so many tensors has no histograms. Run ztensor serve to compute them on demand.'}</p>`
        : html`<div class="tools end">
              <${Choice}
                label="Scale of the counts"
                value=${scale}
                options=${[['linear', 'linear'], ['log', 'log']]}
                onChange=${setScale}
              />
            </div>
            <${Histogram} found=${found} logarithmic=${scale === 'log'} />`
    }
    <${Pairs}
      pairs=${[
        ['min', showNumber(found.min)],
        ['max', showNumber(found.max)],
        ['mean', showNumber(found.mean)],
        ['std', showNumber(found.std)],
        ['zeros', showCount(found.zeros)],
        ['NaN', bad(found.nan)],
        ['+∞', bad(found.positiveInfinite)],
        ['−∞', bad(found.negativeInfinite)],
        ['values', showCount(found.count)],
        ['largest deviation', Number.isNaN(score) ? '–' : `${showNumber(score)} σ`],
      ]}
    />
  </div>`
}

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹'

/** Formats an integer as an exponent. */
const raised = (value: number): string =>
  String(value)
    .replace('-', '⁻')
    .replace(/\d/g, (digit) => SUPERSCRIPTS[Number(digit)] as string)

function Change({ tensor }: { tensor: number }): VNode | null {
  const { model } = useReport()
  const change = model.changes.get(tensor)
  if (change === undefined) {
    if (model.data.diff === undefined) return null
    return html`<section><h3>Difference</h3><p class="note">${model.added.has(tensor) ? 'The other file does not have this tensor.' : 'Equal in both files.'}</p></section>`
  }
  const { values, sums, shape, dtype, layout } = change
  const moved = relativeChange(change)
  const pairs: [string, unknown][] = []
  if (dtype !== undefined) pairs.push(['dtype before', visible(dtype)])
  if (layout !== undefined) pairs.push(['layout before', visible(layout)])
  if (shape !== undefined) pairs.push(['shape before', showShape(shape)])
  if (sums !== undefined) pairs.push(['cosine', showCosine(sums.cosine)], ['‖Δ‖ / ‖before‖', showPercent(moved)])
  if (values !== undefined) {
    pairs.push(['differing', `${showCount(values.differing)} of ${showCount(values.elements)}`])
    pairs.push(['largest |Δ|', showNumber(values.maxAbsolute)], ['largest relative', showNumber(values.maxRelative)])
    if (values.unmatchedNaN > 0) pairs.push(['NaN on one side', showCount(values.unmatchedNaN)])
  }
  const { first, counts } = sums?.exponents ?? { first: 0, counts: [] }
  const power = (at: number): string => `2${raised(first + at)}`
  return html`<section>
    <h3>Difference</h3>
    ${
      counts.length === 0
        ? null
        : html`<${Bars}
            counts=${counts}
            labels=${counts.map((_, at) => `|Δ| from ${power(at)} to ${power(at + 1)}`)}
            title=${`Histogram of differences from ${power(0)} to ${power(counts.length)}, by powers of two`}
            logarithmic=${false}
            ends=${[`|Δ| = ${power(0)}`, power(counts.length)]}
          />`
    }
    <${Pairs} pairs=${pairs} />
  </section>`
}

function unpackedFloats(text: string): Float32Array {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  return new Float32Array(bytes.buffer)
}

/** The color of a value between -1 and 1: blue below zero, red above. */
function paint(pixels: Uint8ClampedArray, at: number, value: number, dark: boolean): void {
  const size = Math.sqrt(Math.min(1, Math.abs(value)))
  const [from, to] = dark
    ? [[28, 30, 34], value < 0 ? [94, 160, 255] : [255, 138, 101]]
    : [[250, 250, 249], value < 0 ? [24, 78, 180] : [178, 42, 20]]
  for (let channel = 0; channel < 3; channel++) {
    const [low, high] = [from[channel] as number, to[channel] as number]
    pixels[at * 4 + channel] = Number.isNaN(value) ? (channel === 1 ? 0 : 200) : low + (high - low) * size
  }
  pixels[at * 4 + 3] = 255
}

function Slice({ tensor }: { tensor: number }): VNode | null {
  const { model } = useReport()
  const shape = model.shape(tensor)
  const outer = shape.slice(0, Math.max(0, shape.length - 2))
  const [index, setIndex] = useState<number[]>(outer.map(() => 0))
  const [found, setFound] = useState<SliceFound | string | undefined>(undefined)
  const [canvas, setCanvas] = useState<HTMLCanvasElement | null>(null)
  const [max, setMax] = useState(0)
  const key = index.join(',')
  useEffect(() => {
    const stop = new AbortController()
    model.values.slice(tensor, index, stop.signal).then(setFound, (error: Error) => {
      if (!stop.signal.aborted) setFound(error.message)
    })
    return () => stop.abort()
  }, [tensor, key])
  useEffect(() => {
    if (canvas === null || found === undefined || typeof found === 'string') return
    const { rows, columns } = found
    const values = unpackedFloats(found.values)
    canvas.width = columns
    canvas.height = rows
    const context = canvas.getContext('2d')
    if (context === null || rows * columns === 0) return
    const image = context.createImageData(columns, rows)
    const sizes = values.map(Math.abs).filter(Number.isFinite).sort()
    // A single outlier would make all other cells white.
    const max = (sizes[Math.floor(sizes.length * 0.995)] ?? 0) || (sizes.at(-1) ?? 0) || 1
    setMax(max)
    const dark = getComputedStyle(canvas).colorScheme === 'dark'
    for (const [at, value] of values.entries()) paint(image.data, at, value / max, dark)
    context.putImageData(image, 0, 0)
  }, [canvas, found])
  if (typeof found === 'string') return html`<p class="note" role="alert">${visible(found)}</p>`
  const every =
    found === undefined || Math.max(...found.steps) === 1
      ? ''
      : `, every ${found.steps[0]}th row and ${found.steps[1]}th column`
  return html`<section>
    <h3>Heat map</h3>
    ${outer.map(
      (size, dim) => html`<label class="select" key=${dim}>index of dimension ${dim}
        <input type="number" min="0" max=${size - 1} value=${index[dim]} onChange=${(event: Event) => {
          const value = Math.trunc(Number((event.currentTarget as HTMLInputElement).value))
          setIndex(index.map((one, at) => (at === dim ? Math.max(0, Math.min(size - 1, value)) : one)))
        }} /></label>`,
    )}
    <canvas class="slice" ref=${setCanvas} role="img" aria-label="Heat map of a slice: blue is negative, red positive"></canvas>
    <p class="note">${found === undefined ? 'Reading …' : `${found.of[0]} × ${found.of[1]}${every}. From −${showNumber(max)} (blue) over 0 to ${showNumber(max)} (red).`}</p>
  </section>`
}

/** The side panel. */
export function TensorPanel({ tensor }: { tensor: number }): VNode {
  const { model, choose } = useReport()
  const [panel, setPanel] = useState<HTMLElement | null>(null)
  useEffect(() => panel?.focus({ preventScroll: true }), [panel, tensor])
  const parts = model.partsOf(tensor)
  const close = () => choose(undefined)
  return html`<aside
    class="panel"
    ref=${setPanel}
    tabindex="-1"
    aria-label=${`Tensor ${visible(model.name(tensor))}`}
    onKeyDown=${(event: KeyboardEvent) => {
      if (event.key === 'Escape') close()
    }}
  >
    <header>
      <h2><${Name} text=${model.name(tensor)} /></h2>
      <button type="button" class="close" aria-label="Close" onClick=${close}>×</button>
    </header>
    <p class="kind">
      <${FlawBadge} flaw=${model.flaw(tensor)} /><b>${visible(model.dtype(tensor))}</b> ${showShape(model.shape(tensor))} · ${showBytes(model.bytes[tensor] as number)}
      ${model.layout(tensor) === 'dense' ? null : html` · layout ${visible(model.layout(tensor))}`}
      ${model.quantized(tensor) ? html` · ${showBits(model.bytes[tensor] as number, model.elements(tensor))} bits per weight` : null}
    </p>
    <section><h3>Values</h3><${Values} tensor=${tensor} /></section>
    <${Change} tensor=${tensor} />
    ${model.data.live ? html`<${Slice} key=${tensor} tensor=${tensor} />` : null}
    <section>
      <h3>${counted(parts.length, 'component')}</h3>
      ${parts.map(
        (part, at) => html`<${Pairs}
          key=${at}
          pairs=${[
            ['role', visible(part.role)],
            ['offset', part.offset < 0 ? 'none' : showCount(part.offset)],
            ['stored', showBytes(part.stored)],
            ['encoding', visible(part.encoding)],
            ['digest', part.digest === '' ? 'none' : visible(part.digest)],
            ['data', part.reason === '' ? 'aliased' : `copied: ${visible(part.reason)}`],
          ]}
        />`,
      )}
    </section>
  </aside>`
}
