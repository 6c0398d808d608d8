// A treemap of bytes: modules as nested areas.
import { hierarchy, treemap, treemapSquarify } from 'd3-hierarchy'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { groupsOf } from './groups.js'
import { html, type VNode } from './html.js'
import type { Model } from './model.js'
import {
  Bar,
  Choice,
  dtypeLegend,
  Empty,
  FlawBadge,
  hueOf,
  Legend,
  type LegendItem,
  Name,
  Section,
  useWidth,
} from './pieces.js'
import { scoreScale } from './scale.js'
import { useReport } from './state.js'
import { type Folded, folded, lineage, type Node, tensorsBelow, tensorsOf } from './tree.js'
import { counted, showBits, showBytes, showCount, showLarge, showShare, visible } from './words.js'

const LEVELS = 8
/** The minimum share of an area that is divided: parts of smaller ones would be a few pixels wide. */
const MIN_SHARE = 0.006
/** The maximum number of areas in a module: the smallest ones are merged. */
const MAX_AREAS = 160
const LABEL = 20
/** The share of one dtype from which areas are colored by module. */
const MAX_OF_ONE = 0.95

/** An area: a module, folded identical modules, or the rest of many small ones. */
interface Area {
  /** What a click opens; undefined for the rest. */
  readonly node: Node | undefined
  /** All nodes of the area: several if it is folded, or in a folded module. */
  readonly nodes: readonly Node[]
  readonly title: string
  readonly bytes: number
  /** Number of elements. */
  readonly elements: number
  readonly children: readonly Area[] | undefined
}

type Sized = Omit<Area, 'children'>

function sized(node: Node | undefined, nodes: readonly Node[], title: string): Sized {
  let [bytes, elements] = [0, 0]
  for (const one of nodes) {
    bytes += one.bytes
    elements += one.elements
  }
  return { node, nodes, title, bytes, elements }
}

/** The area of a child of folded modules, which have the same children in the same order. */
function childArea(parents: readonly Node[], { node: child, nodes: siblings, title }: Folded): Sized {
  const children = (parents[0] as Node).children
  let nodes = siblings.flatMap((one) => {
    const at = children.indexOf(one)
    return parents.map((parent) => parent.children[at] as Node)
  })
  if (siblings.length > 1) return sized(child, nodes, `${title} × ${siblings.length}`)
  // A module with only one child is merged with it: `q_proj.weight` is one area.
  let [node, name] = [child, title]
  while (node.children.length === 1 && node.tensor < 0) {
    node = node.children[0] as Node
    name = `${name}.${node.name}`
    nodes = nodes.map((one) => one.children[0] as Node)
  }
  return sized(node, nodes, name)
}

interface Division {
  readonly fold: boolean
  /** The minimum size of an area that is divided, in bytes. */
  readonly min: number
}

function areas(parents: readonly Node[], levels: number, how: Division): Area[] {
  const all = folded(parents[0] as Node, how.fold)
    .map((item) => childArea(parents, item))
    .sort((a, b) => b.bytes - a.bytes)
  const shown = all.slice(0, MAX_AREAS).map((area): Area => {
    const below = levels > 1 && (area.node as Node).children.length > 0 && area.bytes >= how.min
    return { ...area, children: below ? areas(area.nodes, levels - 1, how) : undefined }
  })
  const rest = all.slice(MAX_AREAS)
  if (rest.length === 0) return shown
  const nodes = rest.flatMap((one) => one.nodes)
  return [...shown, { ...sized(undefined, nodes, `${showCount(rest.length)} smaller ones`), children: undefined }]
}

/** The largest outlier score of an area. */
function scoreOf(model: Model, nodes: readonly Node[]): number {
  let max = Number.NaN
  for (const tensor of tensorsOf(nodes)) {
    const score = model.scores[tensor] as number
    if (score > max || Number.isNaN(max)) max = score
  }
  return max
}

/** The color of all tensors in an area; -1 if there are several. */
function commonHue(nodes: readonly Node[], hueOfTensor: (tensor: number) => number): number {
  let found: number | undefined
  for (const tensor of tensorsOf(nodes)) {
    const own = hueOfTensor(tensor)
    if (found !== undefined && found !== own) return -1
    found = own
  }
  return found ?? -1
}

const COLORS = [
  ['dtype', 'type'],
  ['module', 'module'],
  ['outliers', 'outliers'],
] as const
type Color = (typeof COLORS)[number][0]

/** How areas are colored, and the legend. */
interface Coloring {
  classOf(nodes: readonly Node[]): string
  readonly title?: string
  readonly items: readonly LegendItem[]
}

function coloringOf(model: Model, color: Color, top: Node): Coloring {
  if (color === 'outliers') {
    const { classOf, legend } = scoreScale(Array.from(tensorsBelow(top), (tensor) => model.scores[tensor] as number))
    return {
      classOf: (nodes) => classOf(scoreOf(model, nodes)),
      title: 'largest deviation from the mean, in standard deviations:',
      items: legend,
    }
  }
  if (color === 'dtype') {
    const hue = (tensor: number): number => model.dtypeHue(model.dtypeNumber(tensor))
    const items = dtypeLegend(model, Uint32Array.from(tensorsBelow(top)))
    return { classOf: (nodes) => hueOf(commonHue(nodes, hue)), items }
  }
  const { groups, hue } = groupsOf(top)
  return {
    classOf: (nodes) => hueOf(commonHue(nodes, hue)),
    items: groups.map(({ title, bytes, hue }) => ({ color: hueOf(hue), text: title, number: showBytes(bytes) })),
  }
}

const countOf = ({ nodes }: Area): number => nodes.reduce((sum, { count }) => sum + count, 0)

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
  let [best, min] = [-1, Number.POSITIVE_INFINITY]
  for (const [at, one] of all.entries()) {
    const [x, y] = center(one)
    const [along, across] = horizontal ? [(x - fromX) * sign, y - fromY] : [(y - fromY) * sign, x - fromX]
    if (one === from || along <= 0.5) continue
    const distance = along + 3 * Math.abs(across)
    if (distance < min) [best, min] = [at, distance]
  }
  return best
}

function Map_({ root, coloring }: { root: Area; coloring: Coloring }): VNode {
  const state = useReport()
  const [box, width] = useWidth()
  const height = width < 600 ? 440 : 560
  const [active, setActive] = useState(0)
  const refs = useRef<(HTMLButtonElement | null)[]>([])
  const all = useMemo(() => (width === 0 ? [] : tilesOf(root, width, height)), [root, width, height])
  useEffect(() => setActive(0), [root])
  const looks = useMemo(
    () =>
      all.map(({ area: { nodes, children } }) => ({
        color: children === undefined ? coloring.classOf(nodes) : 'inner',
        flaw: state.model.flawOf(tensorsOf(nodes)),
      })),
    [all, coloring, state.learned],
  )
  const enter = ({ node }: Area) => {
    if (node === undefined) return
    if (node.children.length > 0) state.setScope(node.path)
    else if (node.tensor >= 0) state.choose(node.tensor)
  }
  const press = (event: KeyboardEvent, one: Tile) => {
    if (event.key === 'Escape' || event.key === 'Backspace') {
      const above = state.model.tree.node(state.scope).parent
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
      const what = counted(countOf(area), 'tensor')
      const { color, flaw } = looks[at] as (typeof looks)[number]
      const size = showBytes(area.bytes)
      const text = `${visible(area.title)}, ${size}, ${share}, ${counted(area.elements, 'parameter')}, ${what}${flaw === '' ? '' : `, has ${flaw}`}`
      const wide = one.width > 44 && one.height > 16
      // A size that does not fit is left out: half of it would be another number.
      const fits = one.width > 60 + 8 * size.length
      return html`<button
        type="button"
        key=${`${area.node?.path ?? ''}/${level}/${area.title}`}
        ref=${(element: HTMLButtonElement | null) => {
          refs.current[at] = element
        }}
        class=${`area ${color} ${flaw === '' ? '' : 'flawed'} ${
          state.chosen !== undefined && area.node?.tensor === state.chosen ? 'chosen' : ''
        }`}
        style=${{ left: `${x}px`, top: `${y}px`, width: `${one.width}px`, height: `${one.height}px` }}
        tabindex=${at === Math.min(active, all.length - 1) ? 0 : -1}
        aria-label=${text}
        title=${text}
        onFocus=${() => setActive(at)}
        onKeyDown=${(event: KeyboardEvent) => press(event, one)}
        onClick=${() => enter(area)}
      >
        ${wide ? html`${flaw === '' ? null : html`<b class="flaw" aria-hidden="true">${flaw}</b>`}<bdi>${visible(area.title)}</bdi>${fits ? html`<small>${size}</small>` : null}` : null}
      </button>`
    })}
  </div>`
}

function Crumbs(): VNode {
  const { model, scope, setScope } = useReport()
  const line = lineage(model.tree.node(scope))
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

function List({ root, top }: { root: Area; top: Node }): VNode {
  const { model, setScope, choose, learned } = useReport()
  const shown = root.children ?? []
  const quantized = useMemo(() => Array.from(tensorsBelow(top)).some((tensor) => model.quantized(tensor)), [model, top])
  const flaws = useMemo(() => shown.map(({ nodes }) => model.flawOf(tensorsOf(nodes))), [root, learned])
  return html`<table class="plain">
    <thead>
      <tr>
        <th scope="col">name</th>
        <th scope="col" class="number extra">tensors</th>
        <th scope="col" class="number">parameters</th>
        ${quantized ? html`<th scope="col" class="number">bits per weight</th>` : null}
        <th scope="col" class="number">bytes</th>
        <th scope="col" class="number">share</th>
        <th scope="col" class="bars"><span class="hidden">share as a bar</span></th>
      </tr>
    </thead>
    <tbody>
      ${shown.map((area, at) => {
        const { node, title, bytes, elements } = area
        const open = () => {
          if (node === undefined) return
          if (node.children.length > 0) setScope(node.path)
          else choose(node.tensor)
        }
        return html`<tr key=${node?.path ?? title}>
          <td>
            ${node === undefined ? title : html`<${FlawBadge} flaw=${flaws[at]} /> <button type="button" class="link" onClick=${open}><${Name} text=${title} /></button>`}
          </td>
          <td class="number extra">${showCount(countOf(area))}</td>
          <td class="number" title=${showCount(elements)}>${showLarge(elements)}</td>
          ${quantized ? html`<td class="number">${showBits(bytes, elements)}</td>` : null}
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
  const { model, scope, fold, setFold, tree, learned } = state
  const [picked, setColor] = useState<Color | undefined>(undefined)
  const top = useMemo(() => tree.node(scope), [tree, scope])
  const defaultColor = useMemo((): Color => {
    // All areas would have nearly the same color.
    const [largest] = model.shares(Uint32Array.from(tensorsBelow(top)))
    return largest !== undefined && largest.bytes > MAX_OF_ONE * top.bytes ? 'module' : 'dtype'
  }, [model, top])
  const color = picked ?? defaultColor
  const coloring = useMemo(() => coloringOf(model, color, top), [model, color, top, learned])
  const root = useMemo((): Area => {
    const children = areas([top], LEVELS, { fold, min: top.bytes * MIN_SHARE })
    return { ...sized(undefined, [top], ''), children }
  }, [top, fold])
  return html`<${Section} title="Bytes by module">
    <div class="tools">
      <${Crumbs} />
      <label class="check"><input type="checkbox" checked=${fold} onChange=${() => setFold(!fold)} /> Fold identical blocks</label>
      <${Choice}
        label="Color"
        value=${color}
        options=${COLORS.filter(([key]) => model.hasValues || key !== 'outliers')}
        onChange=${setColor}
      />
    </div>
    ${
      root.bytes === 0
        ? html`<${Empty}>${model.size === 0 ? 'The file has no tensors.' : 'No bytes here match the search.'}<//>`
        : html`<${Map_} root=${root} coloring=${coloring} />
            <${Legend} items=${coloring.items} ...${coloring.title === undefined ? {} : { title: coloring.title }} />
            <${List} root=${root} top=${top} />`
    }
  <//>`
}
