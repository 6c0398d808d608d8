// Tensors by the path of their names, split at dots and slashes. Equal blocks with numbers for names fold into one.
import type { Model } from './model.js'

/** A module, or a tensor. */
export interface Node {
  readonly name: string
  /** The name of everything below begins with it. */
  readonly path: string
  readonly parent: Node | undefined
  children: readonly Node[]
  /** The number of the tensor that is called exactly so; -1 where there is none. */
  tensor: number
  bytes: number
  count: number
  /** The same for nodes with the same names, dtypes and shapes below them. */
  kind: number
}

/** Blocks that are all alike, or a node by itself. */
export interface Folded {
  readonly node: Node
  /** All of them; one where nothing was folded. */
  readonly nodes: readonly Node[]
  /** The name of one, or `0 … 31`. */
  readonly title: string
}

/** A hostile name may be all dots: what is deeper stays in one piece. */
const MOST_LEVELS = 24

/** The path of a name in pieces that joined are the name, each with the separator behind it. */
function pieces(name: string): string[] {
  const found: string[] = []
  let from = 0
  for (let at = 0; at < name.length && found.length < MOST_LEVELS; at++) {
    const character = name[at]
    if (character !== '.' && character !== '/') continue
    found.push(name.slice(from, at + 1))
    from = at + 1
  }
  found.push(name.slice(from))
  return found
}

/** What most nodes have for children: an array of its own for each tensor would be a third of the time. */
const NONE: readonly Node[] = Object.freeze([])

function make(name: string, path: string, parent: Node | undefined): Node {
  return { name, path, parent, children: NONE, tensor: -1, bytes: 0, count: 0, kind: 0 }
}

/** Nodes below a node by the piece of the path that leads there. */
type Below = Map<string, Place>

interface Place {
  readonly node: Node
  readonly piece: string
  below: Below | undefined
}

/** The place below another, made where there is none. */
function stepInto(place: Place, piece: string): Place {
  place.below ??= new Map()
  let next = place.below.get(piece)
  if (next === undefined) {
    // A path of a module ends with its separator: tensor `a` and module `a.` are two nodes.
    const node = make(piece.replace(/[./]$/, '') || piece, place.node.path + piece, place.node)
    if (place.node.children === NONE) place.node.children = [node]
    else (place.node.children as Node[]).push(node)
    next = { node, piece, below: undefined }
    place.below.set(piece, next)
  }
  return next
}

/** The kinds of nodes, by what they are made of: tensors by a number, modules by a text. */
type Kinds = Map<number | string, number>

/** Sums up what is below, and numbers the kinds of nodes. */
function sumUp(node: Node, model: Model, kinds: Kinds): void {
  const { children, tensor } = node
  const own = tensor < 0 ? -1 : model.kind(tensor)
  if (tensor >= 0) {
    node.bytes = model.bytes[tensor] as number
    node.count = 1
  }
  let key: number | string = own
  if (children.length > 0) {
    key = `${own}`
    for (const child of children) {
      sumUp(child, model, kinds)
      node.bytes += child.bytes
      node.count += child.count
      key += `;${child.name.length}:${child.name}${child.kind}`
    }
  }
  let kind = kinds.get(key)
  if (kind === undefined) {
    kind = kinds.size
    kinds.set(key, kind)
  }
  node.kind = kind
}

/** The tree of all tensors: its root, whose path is empty. */
export function makeTree(model: Model): Node {
  const root = make('', '', undefined)
  // Names that follow each other have most of their path in common.
  const line: Place[] = [{ node: root, piece: '', below: undefined }]
  for (let tensor = 0; tensor < model.size; tensor++) {
    const path = pieces(model.name(tensor))
    let level = 0
    while (level < path.length && line[level + 1]?.piece === path[level]) level++
    line.length = level + 1
    for (; level < path.length; level++) line.push(stepInto(line[level] as Place, path[level] as string))
    ;(line.at(-1) as Place).node.tensor = tensor
  }
  sumUp(root, model, new Map())
  return root
}

/** The node of a path; the root where there is none. */
export function nodeAt(root: Node, path: string): Node {
  let node: Node | undefined = root
  while (node !== undefined && node.path !== path) {
    node = node.children.find(
      (child) => child.path === path || (child.children.length > 0 && path.startsWith(child.path)),
    )
  }
  return node ?? root
}

const isNumber = (name: string): boolean => /^\d+$/.test(name)

/** `0 … 31` of neighbours, `0, 2, 5` of few, otherwise the first and the last. */
function titleOf(nodes: readonly Node[]): string {
  const numbers = nodes.map(({ name }) => Number(name)).sort((a, b) => a - b)
  const [first, last] = [numbers[0] as number, numbers.at(-1) as number]
  const neighbours = last - first === nodes.length - 1
  return neighbours || nodes.length > 3 ? `${first} … ${last}` : numbers.join(', ')
}

/** The children of a node, alike blocks folded where `fold` says so. */
export function folded(node: Node, fold: boolean): Folded[] {
  const groups = new Map<number, Node[]>()
  const order: Node[][] = []
  for (const child of node.children) {
    const group = fold && isNumber(child.name) ? groups.get(child.kind) : undefined
    if (group !== undefined) {
      group.push(child)
      continue
    }
    const made = [child]
    order.push(made)
    if (fold && isNumber(child.name)) groups.set(child.kind, made)
  }
  // Formats sort names as texts: layer 10 before layer 2.
  if (order.every(([first]) => isNumber((first as Node).name))) {
    order.sort(([a], [b]) => Number((a as Node).name) - Number((b as Node).name))
  }
  return order.map((nodes) => ({
    node: nodes[0] as Node,
    nodes,
    title: nodes.length === 1 ? (nodes[0] as Node).name : titleOf(nodes),
  }))
}

/** The node and all above it, from the root down. */
export function lineage(node: Node): Node[] {
  const line: Node[] = []
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) line.unshift(at)
  return line
}
