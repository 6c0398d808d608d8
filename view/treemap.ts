// A treemap of bytes: modules as nested areas.
import { hierarchy, treemap, treemapSquarify } from 'd3-hierarchy'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { html, type VNode } from './html.js'
import { Bar, Choice, DtypeLegend, dtypeBelow, Empty, hueOf, Name, Section, useWidth } from './pieces.js'
import { type State, useReport } from './state.js'
import { type Folded, folded, lineage, type Node } from './tree.js'
import { counted, showBytes, showCount, showShare, visible } from './words.js'

const LEVELS = 8
/** The minimum share of an area that is divided: parts of smaller ones would be a few pixels wide. */
const LEAST_SHARE = 0.006
/** The maximum number of areas in a module: the smallest ones are merged. */
const MOST_AREAS = 160
const LABEL = 20

/** An area: a module, folded identical modules, or the rest of many small ones. */
interface Area {
  readonly item: Folded | undefined
  readonly title: string
  readonly bytes: number
  readonly children: readonly Area[] | undefined
}

const bytesOf = ({ nodes }: Folded): number => nodes.reduce((sum, node) => sum + node.bytes, 0)

interface Division {
  readonly fold: boolean
  readonly keep: Keep
  /** The minimum size of an area that is divided, in bytes. */
  readonly least: number
}

/** Merges a module with its only child: `q_proj.weight` is one area. */
function only(item: Folded, fold: boolean): Folded {
  let [{ node }, { title }] = [item, item]
  if (item.nodes.length > 1) return item
  while (node.children.length === 1 && node.tensor < 0) {
    const [inner] = folded(node, fold) as [Folded]
    title = `${title}.${inner.title}`
    node = inner.node
  }
  return { node, nodes: [node], title }
}

function areas(node: Node, times: number, levels: number, how: Division): Area[] {
  const items = folded(node, how.fold).filter(({ nodes }) => nodes.some(how.keep))
  const sized = items
    .map((item) => ({ item: only(item, how.fold), bytes: bytesOf(item) * times }))
    .sort((a, b) => b.bytes - a.bytes)
  const shown = sized.slice(0, MOST_AREAS).map(({ item, bytes }): Area => {
    const below = levels > 1 && item.node.children.length > 0 && bytes >= how.least
    return {
      item,
      bytes,
      title: item.nodes.length > 1 ? `${item.title} × ${item.nodes.length}` : item.title,
      children: below ? areas(item.node, times * item.nodes.length, levels - 1, how) : undefined,
    }
  })
  const rest = sized.slice(MOST_AREAS)
  if (rest.length === 0) return shown
  const bytes = rest.reduce((sum, one) => sum + one.bytes, 0)
  return [...shown, { item: undefined, title: `${showCount(rest.length)} smaller ones`, bytes, children: undefined }]
}

type Keep = (node: Node) => boolean

/** Whether a search result is below a node. */
function useKeep(): Keep {
  const { model, rows, query } = useReport()
  return useMemo(() => {
    if (rows === undefined || query.trim() === '') return () => true
    const selected = new Set(rows)
    const known = new Map<Node, boolean>()
    const keep = (node: Node): boolean => {
      let found = known.get(node)
      if (found === undefined) {
        found = (node.tensor >= 0 && selected.has(node.tensor)) || node.children.some(keep)
        known.set(node, found)
      }
      return found
    }
    return keep
  }, [model, rows])
}

/** The largest outlier score below a node. */
function scoreBelow(state: State, node: Node): number {
  let [most, at]: [number, Node[]] = [Number.NaN, [node]]
  while (at.length > 0) {
    const next = at.pop() as Node
    const score = next.tensor < 0 ? Number.NaN : (state.model.scores[next.tensor] as number)
    if (score > most || Number.isNaN(most)) most = score
    for (const child of next.children) at.push(child)
  }
  return most
}

/** The color step of a score, of eight: 4, 8, 16 … standard deviations. */
export const heatOf = (score: number): string =>
  Number.isNaN(score) ? 'heat-none' : `heat-${Math.max(0, Math.min(7, Math.floor(Math.log2(Math.max(1, score)) - 1)))}`

type Color = 'dtype' | 'outliers'

function colorOf(state: State, color: Color, area: Area): string {
  if (area.item === undefined) return 'hue-mixed'
  if (color === 'dtype') return hueOf(dtypeBelow(state.model, area.item.node))
  return heatOf(
    Math.max(
      ...area.item.nodes.map((node) => scoreBelow(state, node)).filter((one) => !Number.isNaN(one)),
      Number.NEGATIVE_INFINITY,
    ),
  )
}

interface Tile {
  readonly area: Area
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly level: number
}

function tilesOf(root: Area, width: number, height: number): Tile[] {
  const layout = treemap<Area>()
    .tile(treemapSquarify.ratio(1.4))
    .size([width, height])
    .paddingInner(2)
    .paddingOuter((node) => (node.depth === 0 ? 0 : 3))
    .paddingTop((node) => (node.depth === 0 ? 0 : LABEL))
    .round(true)(
    hierarchy<Area>(root, ({ children }) => children as Area[] | undefined)
      .sum(({ children, bytes }) => (children === undefined ? bytes : 0))
      .sort((a, b) => (b.value ?? 0) - (a.value ?? 0)),
  )
  return layout
    .descendants()
    .slice(1)
    .map(({ data, x0, y0, x1, y1, depth }) => ({
      ...{ area: data, x: x0, y: y0, width: x1 - x0, height: y1 - y0, level: depth },
    }))
    .filter((one) => one.width >= 3 && one.height >= 3)
}

/** The nearest area in the direction of an arrow key. */
function towards(all: readonly Tile[], from: Tile, key: string): number {
  const center = ({ x, y, width, height }: Tile) => [x + width / 2, y + height / 2] as const
  const [fromX, fromY] = center(from)
  const horizontal = key === 'ArrowLeft' || key === 'ArrowRight'
  const sign = key === 'ArrowLeft' || key === 'ArrowUp' ? -1 : 1
  let [best, least] = [-1, Number.POSITIVE_INFINITY]
  for (const [at, one] of all.entries()) {
    const [x, y] = center(one)
    const [along, across] = horizontal ? [(x - fromX) * sign, y - fromY] : [(y - fromY) * sign, x - fromX]
    if (one === from || along <= 0.5) continue
    const distance = along + 3 * Math.abs(across)
    if (distance < least) [best, least] = [at, distance]
  }
  return best
}

function Map_({ root, color }: { root: Area; color: Color }): VNode {
  const state = useReport()
  const [box, width] = useWidth()
  const height = width < 600 ? 440 : 560
  const [active, setActive] = useState(0)
  const refs = useRef<(HTMLButtonElement | null)[]>([])
  const all = useMemo(() => (width === 0 ? [] : tilesOf(root, width, height)), [root, width, height])
  useEffect(() => setActive(0), [root])
  const enter = ({ item }: Area) => {
    if (item === undefined) return
    const { node } = item
    if (node.children.length > 0) state.setScope(node.path)
    else if (node.tensor >= 0) state.choose(node.tensor)
  }
  const press = (event: KeyboardEvent, one: Tile) => {
    if (event.key === 'Escape' || event.key === 'Backspace') {
      const above = state.model.node(state.scope).parent
      if (above !== undefined) state.setScope(above.path)
    } else if (event.key.startsWith('Arrow')) {
      const next = towards(all, one, event.key)
      if (next >= 0) {
        setActive(next)
        refs.current[next]?.focus()
      }
    } else return
    event.preventDefault()
  }
  return html`<div
    class="treemap"
    ref=${box}
    role="group"
    aria-label="Treemap of bytes. Arrow keys move, Enter opens, Escape goes up. The table below has the same."
    style=${{ height: `${height}px` }}
  >
    ${all.map((one, at) => {
      const { area, x, y, level } = one
      const share = showShare(area.bytes, root.bytes)
      const what = area.item?.node.children.length === 0 ? 'tensor' : counted(area.item?.node.count ?? 0, 'tensor')
      const text = `${visible(area.title)}, ${showBytes(area.bytes)}, ${share}, ${what}`
      const wide = one.width > 44 && one.height > 16
      return html`<button
        type="button"
        key=${`${area.item?.node.path ?? ''}/${level}/${area.title}`}
        ref=${(element: HTMLButtonElement | null) => {
          refs.current[at] = element
        }}
        class=${`area ${colorOf(state, color, area)} ${area.children === undefined ? '' : 'inner'} ${
          state.chosen !== undefined && area.item?.node.tensor === state.chosen ? 'chosen' : ''
        }`}
        style=${{ left: `${x}px`, top: `${y}px`, width: `${one.width}px`, height: `${one.height}px` }}
        tabindex=${at === Math.min(active, all.length - 1) ? 0 : -1}
        aria-label=${text}
        title=${text}
        onFocus=${() => setActive(at)}
        onKeyDown=${(event: KeyboardEvent) => press(event, one)}
        onClick=${() => enter(area)}
      >
        ${wide ? html`<span><bdi>${visible(area.title)}</bdi>${one.width > 120 ? html` <small>${showBytes(area.bytes)}</small>` : null}</span>` : null}
      </button>`
    })}
  </div>`
}

function Crumbs(): VNode {
  const { model, scope, setScope } = useReport()
  const line = lineage(model.node(scope))
  return html`<nav class="crumbs" aria-label="Path">
    ${line.map((node, at) => {
      const title = at === 0 ? 'All' : visible(node.name)
      return html`<span key=${node.path}>
        ${at === 0 ? null : html`<span aria-hidden="true"> › </span>`}
        ${
          at === line.length - 1
            ? html`<b aria-current="page"><bdi>${title}</bdi></b>`
            : html`<button type="button" class="link" onClick=${() => setScope(node.path)}><bdi>${title}</bdi></button>`
        }
      </span>`
    })}
  </nav>`
}

function List({ root }: { root: Area }): VNode {
  const { setScope, choose } = useReport()
  const shown = (root.children ?? []).slice(0, 100)
  return html`<table class="plain">
    <thead>
      <tr>
        <th scope="col">name</th>
        <th scope="col" class="number">tensors</th>
        <th scope="col" class="number">bytes</th>
        <th scope="col" class="number">share</th>
        <th scope="col" class="bars"><span class="hidden">share as a bar</span></th>
      </tr>
    </thead>
    <tbody>
      ${shown.map(({ item, title, bytes }) => {
        const open = () => {
          if (item === undefined) return
          if (item.node.children.length > 0) setScope(item.node.path)
          else choose(item.node.tensor)
        }
        return html`<tr key=${item?.node.path ?? title}>
          <td>
            ${item === undefined ? title : html`<button type="button" class="link" onClick=${open}><${Name} text=${title} /></button>`}
          </td>
          <td class="number">${item === undefined ? '' : showCount(item.nodes.reduce((sum, node) => sum + node.count, 0))}</td>
          <td class="number">${showBytes(bytes)}</td>
          <td class="number">${showShare(bytes, root.bytes)}</td>
          <td class="bars"><${Bar} share=${bytes / (root.bytes || 1)} /></td>
        </tr>`
      })}
    </tbody>
  </table>`
}

export function Treemap(): VNode {
  const state = useReport()
  const { model, scope, fold, setFold } = state
  const [color, setColor] = useState<Color>('dtype')
  const keep = useKeep()
  const top = model.node(scope)
  const root = useMemo((): Area => {
    const children = areas(top, 1, LEVELS, { fold, keep, least: top.bytes * LEAST_SHARE })
    const bytes = children.reduce((sum, area) => sum + area.bytes, 0)
    return { item: undefined, title: '', bytes, children }
  }, [top, fold, keep])
  const dtypes = useMemo(() => Array.from(model.data.dtypes.keys()).slice(0, 10), [model])
  return html`<${Section} title="Bytes by module">
    <div class="tools">
      <${Crumbs} />
      <label class="check"><input type="checkbox" checked=${fold} onChange=${() => setFold(!fold)} /> Fold identical blocks</label>
      ${
        model.hasValues
          ? html`<${Choice}
              label="Color"
              value=${color}
              options=${[['dtype', 'dtype'], ['outliers', 'outliers']]}
              onChange=${setColor}
            />`
          : null
      }
    </div>
    ${
      root.bytes === 0
        ? html`<${Empty}>${model.size === 0 ? 'The file has no tensors.' : 'No bytes here match the search.'}<//>`
        : html`<${Map_} root=${root} color=${color} />`
    }
    ${
      color === 'dtype'
        ? html`<${DtypeLegend} dtypes=${dtypes} />`
        : html`<p class="legend">
            <span>largest deviation from the mean, in standard deviations:</span>
            ${['< 4', '4', '8', '16', '32', '64', '128', '256 +'].map((text, at) => html`<span key=${text}><i class=${`swatch heat-${at}`}></i>${text}</span>`)}
          </p>`
    }
    <${List} root=${root} />
  <//>`
}
