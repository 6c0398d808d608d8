// The tree of tensors: names are split at dots and slashes. Identical blocks whose names are numbers can be folded.
import type { Model } from './model.js'

/** A module, or a tensor. */
export interface Node {
  readonly name: string
  /** The common prefix of all names below. */
  readonly path: string
  readonly parent: Node | undefined
  children: readonly Node[]
  /** The ordinal of the tensor with exactly this name; -1 if there is none. */
  tensor: number
  bytes: number
  /** Number of elements. */
  elements: number
  count: number
  /** The kind of the node: equal for nodes with the same names, dtypes and shapes below them. */
  kind: number
}

/** Identical blocks that are folded, or a single node. */
export interface Folded {
  readonly node: Node
  /** The folded nodes; one if nothing was folded. */
  readonly nodes: readonly Node[]
  /** The name of the node, or a range such as `0 … 31`. */
  readonly title: string
}

/** The maximum depth: a hostile name may be all dots. Deeper parts are not split. */
const MAX_LEVELS = 24

/** Splits a name into pieces, each with its separator. Their concatenation is the name. */
function pieces(name: string): string[] {
  const found: string[] = []
  let from = 0
  for (let at = 0; at < name.length && found.length < MAX_LEVELS; at++) {
    const character = name[at]
    if (character !== '.' && character !== '/') continue
    found.push(name.slice(from, at + 1))
    from = at + 1
  }
  found.push(name.slice(from))
  return found
}

/** The shared empty children of leaves: separate arrays would take a third of the time. */
const NONE: readonly Node[] = Object.freeze([])

function make(name: string, path: string, parent: Node | undefined): Node {
  return { name, path, parent, children: NONE, tensor: -1, bytes: 0, elements: 0, count: 0, kind: 0 }
}

/** Child nodes by piece of the path. */
type Below = Map<string, Branch>

interface Branch {
  readonly node: Node
  readonly piece: string
  below: Below | undefined
}

/** The branch below another; created if it does not exist. */
function stepInto(branch: Branch, piece: string): Branch {
  branch.below ??= new Map()
  let next = branch.below.get(piece)
  if (next === undefined) {
    // The path of a module ends with its separator: tensor `a` and module `a.` are different nodes.
    const node = make(piece.replace(/[./]$/, '') || piece, branch.node.path + piece, branch.node)
    if (branch.node.children === NONE) branch.node.children = [node]
    else (branch.node.children as Node[]).push(node)
    next = { node, piece, below: undefined }
    branch.below.set(piece, next)
  }
  return next
}

/** The kinds of nodes, by their contents: a number for tensors, a string for modules. */
type Kinds = Map<number | string, number>

/** Sums up the sizes below each node, and numbers the kinds of nodes. */
function sumUp(node: Node, model: Model, kinds: Kinds): void {
  const { children, tensor } = node
  const own = tensor < 0 ? -1 : model.kind(tensor)
  if (tensor >= 0) {
    node.bytes = model.bytes[tensor] as number
    node.elements = model.elements(tensor)
    node.count = 1
  }
  let key: number | string = own
  if (children.length > 0) {
    key = `${own}`
    for (const child of children) {
      sumUp(child, model, kinds)
      node.bytes += child.bytes
      node.elements += child.elements
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

/** Builds the tree of the tensors in `rows`, or of all tensors. The path of its root is empty. */
function makeTree(model: Model, rows: Uint32Array | undefined): Node {
  const root = make('', '', undefined)
  // Consecutive names share most of their path.
  const line: Branch[] = [{ node: root, piece: '', below: undefined }]
  for (const tensor of model.ordinals(rows)) {
    const path = pieces(model.name(tensor))
    let level = 0
    while (level < path.length && line[level + 1]?.piece === path[level]) level++
    line.length = level + 1
    for (; level < path.length; level++) line.push(stepInto(line[level] as Branch, path[level] as string))
    ;(line.at(-1) as Branch).node.tensor = tensor
  }
  sumUp(root, model, new Map())
  return root
}

function nodeAt(root: Node, path: string): Node | undefined {
  let node: Node | undefined = root
  while (node !== undefined && node.path !== path) {
    node = node.children.find(
      (child) => child.path === path || (child.children.length > 0 && path.startsWith(child.path)),
    )
  }
  return node
}

/** The tree of some tensors, built at the first use. */
export class Tree {
  readonly #model: Model
  readonly #rows: Uint32Array | undefined
  #root: Node | undefined

  constructor(model: Model, rows: Uint32Array | undefined) {
    this.#model = model
    this.#rows = rows
  }

  get root(): Node {
    this.#root ??= makeTree(this.#model, this.#rows)
    return this.#root
  }

  /** The module at a path; an empty one if no tensor is there. */
  node(path: string): Node {
    return nodeAt(this.root, path) ?? make('', path, undefined)
  }
}

export const isNumber = (name: string): boolean => /^\d+$/.test(name)

/** Formats block numbers: `0 … 31` if consecutive, `0, 2, 5` if few, otherwise the first and the last. */
function titleOf(nodes: readonly Node[]): string {
  const numbers = nodes.map(({ name }) => Number(name)).sort((a, b) => a - b)
  const [first, last] = [numbers[0] as number, numbers.at(-1) as number]
  const consecutive = last - first === nodes.length - 1
  return consecutive || nodes.length > 3 ? `${first} … ${last}` : numbers.join(', ')
}

/** The children of a node, with identical blocks folded if `fold`. */
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
  return order.map((nodes) => ({
    node: nodes[0] as Node,
    nodes,
    title: nodes.length === 1 ? (nodes[0] as Node).name : titleOf(nodes),
  }))
}

/** The ordinals of all tensors below a node. */
export function* tensorsBelow(node: Node): Generator<number> {
  const left = [node]
  while (left.length > 0) {
    const next = left.pop() as Node
    if (next.tensor >= 0) yield next.tensor
    for (const child of next.children) left.push(child)
  }
}

export function* tensorsOf(nodes: readonly Node[]): Generator<number> {
  for (const node of nodes) yield* tensorsBelow(node)
}

/** The node and its ancestors, from the root down. */
export function lineage(node: Node): Node[] {
  const line: Node[] = []
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) line.unshift(at)
  return line
}
