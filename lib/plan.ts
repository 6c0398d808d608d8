// Tensor parallelism: which tensors one rank of a group holds, and which bytes of the files they need.
import { anObject, aWholeNumber, options, wrongType } from './arguments.js'
import { shardRanges } from './cut.js'
import { calling, invalid } from './errors.js'
import { globMatcher } from './glob.js'
import type { Store } from './store.js'
import type { AnyTensor } from './tensor.js'

/**
 * How a tensor is divided among the ranks. `'column'`: its last dimension but one, the outputs of a weight of shape
 * `[out, in]`; the only dimension of a vector, such as its bias. `'row'`: its last dimension, the inputs; a vector
 * is replicated, as frameworks have it. `{ dim }`: that dimension. `'replicate'`: not at all, every rank has it whole.
 */
export type Placement = 'column' | 'row' | 'replicate' | { readonly dim: number }

/** Who asks, and how tensors are divided. */
export interface PlanOptions {
  /** From 0 to `worldSize - 1`. */
  readonly rank: number
  readonly worldSize: number
  /**
   * The placement of the tensors whose names match a pattern, where `*` is any run of characters and `?` any single one.
   * The first pattern that matches counts, and each tensor must be matched by one: end with `'*'` to say what happens to
   * the rest.
   */
  readonly rules: Readonly<Record<string, Placement>> | readonly (readonly [pattern: string, placement: Placement])[]
}

/** A tensor as one rank has it. */
export interface PlannedTensor {
  readonly name: string
  /** The dimension that is divided; undefined for a tensor that every rank has whole. */
  readonly dim: number | undefined
  /** `[start, stop]` of each dimension. */
  readonly ranges: readonly (readonly [start: number, stop: number])[]
  /** Of the rank's part. */
  readonly shape: readonly number[]
  /** Bytes of the rank's part, decoded. */
  readonly byteLength: number
}

/** A run of bytes of a file. */
export interface ByteRange {
  /** The number of the file in `file.files`. */
  readonly file: number
  /** Undefined for a file in memory. */
  readonly path: string | undefined
  readonly offset: number
  readonly length: number
}

/** What one rank of a tensor-parallel group needs of a file. */
export class Plan {
  readonly rank: number
  readonly worldSize: number
  /** The rank's part of every tensor, in the order of the file. */
  readonly tensors: ReadonlyMap<string, PlannedTensor>
  /** Bytes of all ranges: what is read. */
  readonly byteLength: number
  /** How many ranges there are. */
  readonly rangeCount: number
  readonly #flat: Float64Array
  readonly #store: Store

  private constructor(store: Store, rank: number, worldSize: number, tensors: PlannedTensor[], flat: Float64Array) {
    this.rank = rank
    this.worldSize = worldSize
    this.tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]))
    this.#flat = flat
    this.#store = store
    this.rangeCount = flat.length / 3
    let byteLength = 0
    for (let at = 2; at < flat.length; at += 3) byteLength += flat[at] as number
    this.byteLength = byteLength
  }

  /**
   * The bytes that the rank needs, in the order of the files and of their bytes, joined where they touch. Of a tensor that
   * is stored encoded that is all of it, whatever part the rank has.
   */
  *ranges(): Generator<ByteRange> {
    const { files } = this.#store
    for (let at = 0; at < this.#flat.length; at += 3) {
      const [file, offset, length] = this.#flat.subarray(at, at + 3) as unknown as [number, number, number]
      yield { file, path: files[file]?.path, offset, length }
    }
  }

  /** @internal */
  static make(store: Store, tensors: Iterable<AnyTensor>, given: PlanOptions): Plan {
    const { rank, worldSize, rules } = options(given, ['rank', 'worldSize', 'rules'])
    const size = aWholeNumber('worldSize', worldSize, 1)
    const own = aWholeNumber('rank', rank)
    if (own >= size) throw invalid(RangeError, `rank must be below worldSize ${size}, got ${own}`)
    const placed = placements(rules)
    const planned: PlannedTensor[] = []
    const unmatched: string[] = []
    for (const tensor of tensors) {
      const placement = placed(tensor.name)
      if (placement === undefined) unmatched.push(tensor.name)
      else planned.push(part(tensor, dimension(tensor, placement), own, size))
    }
    if (unmatched.length > 0) throw noRule(unmatched)
    const ordinals = Uint32Array.from(planned, (_, ordinal) => ordinal)
    const dims = Int32Array.from(planned, ({ dim }) => dim ?? -1)
    const flat = calling(() => store.native.plan(ordinals, dims, own, size), store.path)
    return new Plan(store, own, size, planned, flat)
  }

  /** @internal Whether the plan was made for this file. */
  static isOf(plan: unknown, store: Store): plan is Plan {
    return typeof plan === 'object' && plan !== null && #store in plan && plan.#store === store
  }
}

/** What the rules say of a name. */
function placements(rules: unknown): (name: string) => Placement | undefined {
  const given = anObject('rules', rules)
  const pairs: unknown[] = Array.isArray(given) ? given : Object.entries(given)
  const read = Array.from(pairs, (pair, at) => {
    if (!Array.isArray(pair) || typeof pair[0] !== 'string')
      throw wrongType(`rules[${at}]`, '[pattern, placement]', pair)
    return [globMatcher(pair[0]), aPlacement(`rules for ${JSON.stringify(pair[0])}`, pair[1])] as const
  })
  return (name) => read.find(([matches]) => matches(name))?.[1]
}

function aPlacement(name: string, value: unknown): Placement {
  if (value === 'column' || value === 'row' || value === 'replicate') return value
  if (typeof value !== 'object' || value === null)
    throw wrongType(name, "'column', 'row', 'replicate' or { dim }", value)
  return { dim: aWholeNumber(`${name}: dim`, (value as { dim: unknown }).dim) }
}

/** The dimension that a placement divides; undefined for none. */
function dimension({ name, shape }: AnyTensor, placement: Placement): number | undefined {
  if (placement === 'replicate') return undefined
  if (typeof placement === 'object') return placement.dim
  if (shape.length === 0) throw invalid(RangeError, `tensor ${JSON.stringify(name)} is a scalar: replicate it`)
  if (shape.length === 1) return placement === 'column' ? 0 : undefined
  return shape.length - (placement === 'column' ? 2 : 1)
}

function part(tensor: AnyTensor, dim: number | undefined, rank: number, worldSize: number): PlannedTensor {
  const { name, shape, byteLength } = tensor
  const whole = shape.map((size) => [0, size] as const)
  if (dim === undefined) return { name, dim, ranges: whole, shape, byteLength }
  const flat = named(name, () => shardRanges(shape, { dim, rank, worldSize }))
  const ranges = shape.map((_, at) => [flat[at * 2] as number, flat[at * 2 + 1] as number] as const)
  return {
    name,
    dim,
    ranges,
    shape: ranges.map(([start, stop]) => stop - start),
    byteLength: byteLength / worldSize,
  }
}

/** Says which tensor cannot be divided so. */
function named<T>(name: string, call: () => T): T {
  try {
    return call()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw invalid(RangeError, `tensor ${JSON.stringify(name)}: ${error.message}`)
  }
}

function noRule(names: string[]): Error {
  const shown = names.slice(0, 20).map((name) => JSON.stringify(name))
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
  const message = `rules name no placement for ${shown.join(', ')}${more}: add a rule, such as ['*', 'replicate'] at the end`
  return invalid(RangeError, message)
}
