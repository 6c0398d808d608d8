// Groups tensors by module, at most one group for each color.
import { HUES } from './model.js'
import { isNumber, type Node, tensorsBelow } from './tree.js'

export interface Group {
  /** The path of the module below the top, with `*` for numbers. */
  readonly title: string
  readonly bytes: number
  /** The color; -1 for the rest. */
  readonly hue: number
}

export interface Groups {
  readonly groups: readonly Group[]
  /** The color of a tensor. */
  hue(tensor: number): number
}

/** Modules with the same path except for numbers. */
interface Part {
  readonly title: string
  readonly nodes: readonly Node[]
  readonly bytes: number
}

/** The minimum share of a group in the bytes: smaller ones would take the colors of larger ones. */
const MIN_SHARE = 0.005
/** The maximum share of a module that division may leave without a color. */
const MAX_REST = 0.25

const partOf = (title: string, nodes: readonly Node[]): Part => ({
  ...{ title, nodes, bytes: nodes.reduce((sum, node) => sum + node.bytes, 0) },
})

const isDivisible = ({ nodes }: Part): boolean =>
  nodes.every(({ tensor }) => tensor < 0) && nodes.some(({ children }) => children.length > 0)

/** The modules one level below a part, the largest first. With `merge`, modules that are numbers become one. */
function divided({ title, nodes }: Part, merge: boolean): Part[] {
  const by = new Map<string, Node[]>()
  for (const { children } of nodes) {
    for (const child of children) {
      const key = merge && isNumber(child.name) ? '*' : child.name
      const of = by.get(key)
      if (of === undefined) by.set(key, [child])
      else of.push(child)
    }
  }
  const parts = Array.from(by, ([key, of]) => partOf(title === '' ? key : `${title}.${key}`, of))
  return parts.sort((a, b) => b.bytes - a.bytes)
}

/** Divides the largest module again and again, until there are as many as colors. Returns the modules and the rest. */
function parted(top: Node, merge: boolean): { parts: Part[]; rest: Node[] } {
  const min = top.bytes * MIN_SHARE
  const rest: Node[] = []
  let parts: Part[] = [partOf('', [top])]
  const whole = new Set<Part>()
  for (;;) {
    const next = parts.find((part) => !whole.has(part) && isDivisible(part))
    const free = HUES - parts.length + 1
    if (next === undefined || free < 2) return { parts, rest }
    const all = divided(next, merge)
    const large = all.filter(({ bytes }) => bytes >= min)
    const shown = (large.length > 0 ? large : all).slice(0, free)
    const small = all.filter((part) => !shown.includes(part))
    if (parts.length > 1 && small.reduce((sum, { bytes }) => sum + bytes, 0) > next.bytes * MAX_REST) {
      whole.add(next)
      continue
    }
    rest.push(...small.flatMap(({ nodes }) => nodes))
    parts = [...parts.filter((part) => part !== next), ...shown].sort((a, b) => b.bytes - a.bytes)
  }
}

/** The groups of the tensors below a module: by submodule, or by number if there is only one submodule without numbers. */
export function groupsOf(top: Node): Groups {
  let found = parted(top, true)
  if (found.parts.length === 1 && top.count > 1) found = parted(top, false)
  const { parts, rest } = found
  const hues = new Map<number, number>()
  for (const [hue, { nodes }] of parts.entries()) {
    for (const node of nodes) for (const tensor of tensorsBelow(node)) hues.set(tensor, hue)
  }
  const groups = parts.map(({ title, bytes }, hue): Group => ({ title, bytes, hue }))
  if (rest.length > 0) groups.push({ ...partOf('other', rest), hue: -1 })
  return { groups, hue: (tensor) => hues.get(tensor) ?? -1 }
}
