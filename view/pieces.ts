// Small components of the views.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ComponentChildren, html, type VNode } from './html.js'
import { type State, useReport } from './state.js'
import type { Node } from './tree.js'
import { visible } from './words.js'

/** The label of an empty name, so that it is visible and clickable. */
const EMPTY = '""'

/** A name from a file. `bdi` prevents right-to-left text from reordering adjacent text. */
export function Name({ text, short }: { text: string; short?: string | undefined }): VNode {
  const shown = visible(text)
  return html`<bdi class="name" title=${shown}>${visible(short ?? text) || EMPTY}</bdi>`
}

/** A tensor name that opens the tensor's panel. */
export function TensorLink({ tensor }: { tensor: number }): VNode {
  const { model, choose, chosen } = useReport()
  return html`<button type="button" class="link" aria-pressed=${chosen === tensor} onClick=${() => choose(tensor)}>
    <${Name} text=${model.name(tensor)} />
  </button>`
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

/** The CSS class for the color of a dtype: the ten most frequent dtypes of a file have distinct colors. */
export const hueOf = (number: number): string => `hue-${number < 0 ? 'mixed' : number % 10}`

export function DtypeLegend({ dtypes }: { dtypes: readonly number[] }): VNode {
  const { model } = useReport()
  return html`<ul class="legend">
    ${dtypes.map(
      (one) =>
        html`<li key=${one}><i class=${`swatch ${hueOf(one)}`}></i>${visible(model.data.dtypes[one] as string)}</li>`,
    )}
  </ul>`
}

/** The dtype of all tensors below a node; -1 if there are several. */
export function dtypeBelow(model: State['model'], node: Node): number {
  let [found, at]: [number | undefined, Node[]] = [undefined, [node]]
  while (at.length > 0) {
    const next = at.pop() as Node
    if (next.tensor >= 0) {
      const own = model.dtypeNumber(next.tensor)
      if (found !== undefined && found !== own) return -1
      found = own
    }
    for (const child of next.children) at.push(child)
  }
  return found ?? -1
}

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
