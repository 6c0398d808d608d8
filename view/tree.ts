// Tensors by the path of their names, split at dots and slashes. Equal blocks with numbers for names fold into one.
import type { Model } from './model.js'

/** A module, or a tensor. */
export interface Node {
  readonly name: string
  /** The name of everything below begins with it. */
  readonly path: string
  readonly parent: Node | undefined
  readonly children: Node[]
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

const make = (name: string, path: string, parent: Node | undefined): Node => ({
  ...{ name, path, parent, children: [], tensor: -1 },
  ...{ bytes: 0, count: 0, kind: 0 },
})

/** The tree of all tensors, by the paths of its nodes; that of the root is empty. */
export function makeTree(model: Model): ReadonlyMap<string, Node> {
  const root = make('', '', undefined)
  const byPath = new Map<string, Node>([['', root]])
  for (let tensor = 0; tensor < model.size; tensor++) {
    let node = root
    let path = ''
    for (const piece of pieces(model.name(tensor))) {
      path += piece
      // A path of a module ends with its separator: tensor `a` and module `a.` are two nodes.
      let next = byPath.get(path)
      if (next === undefined) {
        next = make(piece.replace(/[./]$/, '') || piece, path, node)
        byPath.set(path, next)
        node.children.push(next)
      }
      node = next
    }
    node.tensor = tensor
    for (let above: Node | undefined = node; above !== undefined; above = above.parent) {
      above.bytes += model.bytes[tensor] as number
      above.count += 1
    }
  }
  const kinds = new Map<string, number>()
  const number = (node: Node): number => {
    const own = node.tensor < 0 ? '' : model.kind(node.tensor)
    const key = `${own};${node.children.map((child) => `${child.name.length}:${child.name}${number(child)}`).join(';')}`
    const known = kinds.get(key)
    node.kind = known ?? kinds.size
    if (known === undefined) kinds.set(key, node.kind)
    return node.kind
  }
  number(root)
  return byPath
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
