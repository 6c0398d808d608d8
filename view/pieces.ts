// Small components of the views.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ComponentChildren, html, type VNode } from './html.js'
import { type State, useReport } from './state.js'
import { showBytes, visible } from './words.js'

/** The label of an empty name, so that it is visible and clickable. */
const EMPTY = '""'

/** A name from a file. `bdi` prevents right-to-left text from reordering adjacent text. */
export function Name({ text, short }: { text: string; short?: string | undefined }): VNode {
  const shown = visible(text)
  return html`<bdi class="name" title=${shown}>${visible(short ?? text) || EMPTY}</bdi>`
}

/** The characters of a text that are shown at first. */
const LONG = 160

/** A text from a file, of which a long one opens on demand. */
export function Value({ text }: { text: string }): VNode {
  const shown = text.split('\n').map(visible).join('\n')
  if (shown.length <= LONG) return html`<bdi class="value">${shown}</bdi>`
  return html`<details>
    <summary><bdi>${shown.slice(0, LONG).replaceAll('\n', ' ')}…</bdi></summary>
    <bdi class="value">${shown}</bdi>
  </details>`
}

/** A tensor name that opens the tensor's panel, marked if the values are not all finite. */
export function TensorLink({ tensor }: { tensor: number }): VNode {
  const { model, choose, chosen } = useReport()
  return html`<span class="tensor"><${FlawBadge} flaw=${model.flaw(tensor)} /> <button type="button" class="link" aria-pressed=${chosen === tensor} onClick=${() => choose(tensor)}>
    <${Name} text=${model.name(tensor)} />
  </button></span>`
}

export function Section(props: { title: string; note?: string; class?: string; children?: ComponentChildren }): VNode {
  return html`<section class=${`card ${props.class ?? ''}`}>
    <h2>${props.title}</h2>
    ${props.note === undefined ? null : html`<p class="note">${props.note}</p>`} ${props.children}
  </section>`
}

/** A choice between several options, as a row of buttons. */
export function Choice<T extends string>(props: {
  label: string
  value: T
  options: readonly (readonly [value: T, label: string])[]
  onChange: (value: T) => void
}): VNode {
  return html`<div class="choice" role="group" aria-label=${props.label}>
    ${props.options.map(
      ([value, label]) => html`<button
        type="button"
        key=${value}
        aria-pressed=${props.value === value}
        onClick=${() => props.onChange(value)}
      >
        ${label}
      </button>`,
    )}
  </div>`
}

/** Tracks the width of an element. */
export function useWidth(): readonly [{ current: HTMLElement | null }, number] {
  const ref = useRef<HTMLElement>(null)
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const element = ref.current
    if (element === null) return
    const observer = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)))
    observer.observe(element)
    setWidth(Math.floor(element.clientWidth))
    return () => observer.disconnect()
  }, [])
  return [ref, width]
}

/** A share of a whole as a bar. */
export const Bar = ({ share }: { share: number }): VNode =>
  html`<span class="bar" aria-hidden="true">
    <i style=${{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }}></i>
  </span>`

/** The CSS class of a color: a dtype, or a module. */
export const hueOf = (hue: number): string => `hue-${hue < 0 ? 'mixed' : hue}`

export interface LegendItem {
  /** The CSS class of the swatch. */
  readonly color: string
  readonly text: string
  readonly number?: string
}

/** Colors and what they mean, with numbers. */
export const Legend = ({ items, title }: { items: readonly LegendItem[]; title?: string }): VNode =>
  html`<ul class="legend">
    ${title === undefined ? null : html`<li key="title">${title}</li>`}
    ${items.map(
      ({ color, text, number }) => html`<li key=${`${color} ${text}`}>
        <i class=${`swatch ${color}`}></i><bdi>${visible(text)}</bdi>${number === undefined ? null : html` <b>${number}</b>`}
      </li>`,
    )}
  </ul>`

/** The legend of the dtypes of some tensors, with their bytes. */
export function dtypeLegend(model: State['model'], rows: Uint32Array | undefined): LegendItem[] {
  const items: LegendItem[] = []
  const others = { names: [] as string[], bytes: 0 }
  for (const { dtype, bytes } of model.shares(rows)) {
    const [hue, text] = [model.dtypeHue(dtype), model.data.dtypes[dtype] as string]
    if (hue >= 0) items.push({ color: hueOf(hue), text, number: showBytes(bytes) })
    else {
      others.names.push(text)
      others.bytes += bytes
    }
  }
  if (others.names.length > 0)
    items.push({ color: hueOf(-1), text: others.names.join(', '), number: showBytes(others.bytes) })
  return items
}

/** Marks a tensor with NaN or infinities. */
export const FlawBadge = ({ flaw }: { flaw: string }): VNode | null =>
  flaw === ''
    ? null
    : html`<span class="badge bad flaw" title=${`The values include ${flaw.replace('∞', 'infinity')}`}>${flaw}</span>`

export const Empty = ({ children }: { children?: ComponentChildren }): VNode => html`<p class="empty">${children}</p>`

/** Runs slow work after everything else was painted. */
export function Later({ make }: { make: () => VNode }): VNode | null {
  const [now, setNow] = useState(false)
  useEffect(() => {
    // A frame is painted after its animation callbacks, so a task that they schedule runs after it.
    const frame = requestAnimationFrame(() => setTimeout(() => setNow(true)))
    return () => cancelAnimationFrame(frame)
  }, [])
  return now ? make() : null
}
