// Tensor parallelism: the part of each tensor that one rank of a group holds, and the byte ranges that it reads.
import { type InspectOptions, inspect } from '#host'
import { invalid, rethrowNative } from '../native/errors.js'
import type { DivisionRequest, NativePlan } from '../native/native.js'
import { readOptions, validateInteger, validateObject, wrongType } from '../values/arguments.js'
import { IDENTITY, shown } from '../values/inspect.js'
import { type Catalog, type Entries, walk } from './catalog.js'
import type { Store } from './store.js'

/**
 * How a tensor is divided among the ranks. `'column'` divides the second-to-last dimension: the outputs of a weight of shape
 * `[out, in]`, or the only dimension of a vector such as its bias. `'row'` divides the last dimension, the inputs; vectors are
 * replicated. `{ dim }` divides that dimension. `'replicate'` gives every rank the whole tensor.
 */
export type Placement = 'column' | 'row' | 'replicate' | { readonly dim: number }

/** The rank, and how tensors are divided. */
export interface PlanOptions {
  /** From 0 to `worldSize - 1`. */
  readonly rank: number
  readonly worldSize: number
  /**
   * Placements by name pattern: `*` matches any characters, `?` a single character. The first match applies. Every tensor must match
   * a pattern; a final `'*'` matches the rest, if there is any. Any other pattern that is used for no tensor is an error.
   */
  readonly rules: Readonly<Record<string, Placement>> | readonly (readonly [pattern: string, placement: Placement])[]
}

/** One rank's part of a tensor. */
export interface PlannedTensor {
  readonly name: string
  /** The divided dimension; undefined for a replicated tensor. */
  readonly dim: number | undefined
  /** `[start, stop]` of each dimension. */
  readonly ranges: readonly (readonly [start: number, stop: number])[]
  /** The shape of the rank's part. */
  readonly shape: readonly number[]
  /** Decoded size of the rank's part in bytes. */
  readonly byteLength: number
}

/** A contiguous range of bytes of a file. */
export interface ByteRange {
  /** Index of the file in `file.files`. */
  readonly file: number
  /** The path of the file; undefined for a file in memory. */
  readonly path: string | undefined
  readonly offset: number
  readonly length: number
}

/** The parts of a file that one rank of a tensor-parallel group needs. */
export class Plan {
  readonly rank: number
  readonly worldSize: number
  /** The rank's part of every tensor, in the order of the file. */
  readonly tensors: ReadonlyMap<string, PlannedTensor>
  /** Total length of all ranges: the bytes to read. */
  readonly byteLength: number
  /** Number of ranges. */
  readonly rangeCount: number
  /** @internal The file, and the divided dimension of each tensor. */
  readonly [IDENTITY]: readonly [number, Int32Array]
  readonly #flat: Float64Array
  readonly #store: Store
  readonly #parts: Parts

  private constructor(catalog: Catalog, rank: number, worldSize: number, { dims, spans }: NativePlan) {
    this.rank = rank
    this.worldSize = worldSize
    this.#parts = new Parts(catalog, dims, rank, worldSize)
    this.tensors = this.#parts
    this[IDENTITY] = [catalog.store.number, dims]
    this.#flat = spans
    this.#store = catalog.store
    this.rangeCount = spans.length / 3
    let byteLength = 0
    for (let at = 2; at < spans.length; at += 3) byteLength += spans[at] as number
    this.byteLength = byteLength
  }

  /**
   * Yields the byte ranges that the rank needs, sorted by file and offset. Adjacent ranges are merged. An encoded tensor is always
   * read as a whole.
   */
  *ranges(): Generator<ByteRange> {
    const { files } = this.#store
    for (let at = 0; at < this.#flat.length; at += 3) {
      const [file, offset, length] = this.#flat.subarray(at, at + 3) as unknown as [number, number, number]
      yield { file, path: files[file]?.path, offset, length }
    }
  }

  get [Symbol.toStringTag](): string {
    return 'Plan'
  }

  toJSON(): object {
    const { rank, worldSize, tensors, byteLength, rangeCount } = this
    return { rank, worldSize, tensors: tensors.size, byteLength, rangeCount }
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('Plan', this.toJSON(), options)
  }

  /** @internal */
  static make(catalog: Catalog, options: PlanOptions): Plan {
    const { rank, worldSize, rules } = readOptions(options, ['rank', 'worldSize', 'rules'])
    const size = validateInteger('worldSize', worldSize, 1)
    const own = validateInteger('rank', rank)
    if (own >= size) throw invalid(RangeError, `rank must be below worldSize ${size}, got ${own}`)
    const { patterns, placements } = readRules(rules)
    const { native, path } = catalog.store
    return new Plan(
      catalog,
      own,
      size,
      rethrowNative(() => native.plan(patterns, placements, own, size), path),
    )
  }

  /** @internal The parts by tensor ordinal. */
  static parts(plan: Plan): Parts {
    return plan.#parts
  }

  /** @internal How these tensors are divided, in the binding's form. */
  static divisionOf({ rank, worldSize, [IDENTITY]: [, dims] }: Plan, ordinals: Uint32Array): DivisionRequest {
    return { dims: Int32Array.from(ordinals, (ordinal) => dims[ordinal] as number), rank, worldSize }
  }

  /** @internal Whether the plan was made for this file. */
  static isOf(plan: unknown, store: Store): plan is Plan {
    return typeof plan === 'object' && plan !== null && #store in plan && plan.#store === store
  }
}

/** The binding's codes for named placements. */
const CODES = { replicate: -1, column: -2, row: -3 } as const

/** Validates the rules and converts them to the binding's form. */
function readRules(rules: unknown): { patterns: string[]; placements: number[] } {
  const given = validateObject('rules', rules)
  const pairs: unknown[] = Array.isArray(given) ? given : Object.entries(given)
  const [patterns, placements]: [string[], number[]] = [[], []]
  for (const [at, pair] of Array.from(pairs).entries()) {
    if (!Array.isArray(pair) || typeof pair[0] !== 'string')
      throw wrongType(`rules[${at}]`, '[pattern, placement]', pair)
    const placement = validatePlacement(`rules for ${JSON.stringify(pair[0])}`, pair[1])
    // No tensor name contains a lone surrogate, and the binding would replace it.
    if (/\p{Surrogate}/u.test(pair[0]))
      throw invalid(RangeError, `rules: ${JSON.stringify(pair[0])} matches no tensor`, { option: 'rules' })
    patterns.push(pair[0])
    placements.push(typeof placement === 'object' ? placement.dim : CODES[placement])
  }
  return { patterns, placements }
}

function validatePlacement(name: string, value: unknown): Placement {
  if (value === 'column' || value === 'row' || value === 'replicate') return value
  if (typeof value !== 'object' || value === null)
    throw wrongType(name, "'column', 'row', 'replicate' or { dim }", value)
  return { dim: validateInteger(`${name}: dim`, (value as { dim: unknown }).dim) }
}

/** One rank's parts of the tensors, created lazily: a file may have a million. */
class Parts implements ReadonlyMap<string, PlannedTensor> {
  readonly #catalog: Catalog
  readonly #dims: Int32Array
  readonly #rank: number
  readonly #worldSize: number
  readonly #made: (PlannedTensor | undefined)[] = []
  /** The shapes of parts, cached by the shape of the tensor: most tensors share a few shapes. */
  readonly #shapes = new Map<readonly number[], readonly (readonly number[])[]>()
  /** Ordinals by name, for lookups after the file was closed. */
  #names: Map<string, number> | undefined

  constructor(catalog: Catalog, dims: Int32Array, rank: number, worldSize: number) {
    this.#catalog = catalog
    this.#dims = dims
    this.#rank = rank
    this.#worldSize = worldSize
  }

  get size(): number {
    return this.#catalog.size
  }

  /** Whether a tensor is divided. */
  divides(ordinal: number): boolean {
    return (this.#dims[ordinal] as number) >= 0
  }

  /** Decoded size of a part in bytes. */
  byteLength(ordinal: number): number {
    const whole = this.#catalog.byteLength(ordinal)
    return this.divides(ordinal) ? whole / this.#worldSize : whole
  }

  /** The shape of a part. */
  shape(ordinal: number): readonly number[] {
    const whole = this.#catalog.shape(ordinal)
    if (!this.divides(ordinal)) return whole
    const dim = this.#dims[ordinal] as number
    let shapes = this.#shapes.get(whole)
    if (shapes === undefined) {
      const divided = (dim: number) => whole.map((size, at) => (at === dim ? size / this.#worldSize : size))
      shapes = whole.map((_, dim) => Object.freeze(divided(dim)))
      this.#shapes.set(whole, shapes)
    }
    return shapes[dim] as readonly number[]
  }

  /** The part of the tensor with this ordinal. */
  at(ordinal: number): PlannedTensor {
    this.#made[ordinal] ??= this.#make(ordinal)
    return this.#made[ordinal]
  }

  #make(ordinal: number): PlannedTensor {
    const whole = this.#catalog.shape(ordinal)
    const dim = this.divides(ordinal) ? (this.#dims[ordinal] as number) : undefined
    const share = dim === undefined ? 0 : (whole[dim] as number) / this.#worldSize
    const range = (size: number, at: number) =>
      at === dim ? ([this.#rank * share, (this.#rank + 1) * share] as const) : ([0, size] as const)
    const [shape, byteLength] = [this.shape(ordinal), this.byteLength(ordinal)]
    return { name: this.#catalog.name(ordinal), dim, ranges: whole.map(range), shape, byteLength }
  }

  #find(name: string): number {
    if (typeof name !== 'string') return -1
    const { store, size } = this.#catalog
    if (!store.closed) return rethrowNative(() => store.native.find(name))
    if (this.#names === undefined) {
      this.#names = new Map()
      for (let ordinal = 0; ordinal < size; ordinal++) this.#names.set(this.#catalog.name(ordinal), ordinal)
    }
    return this.#names.get(name) ?? -1
  }

  get(name: string): PlannedTensor | undefined {
    const ordinal = this.#find(name)
    return ordinal < 0 ? undefined : this.at(ordinal)
  }

  has(name: string): boolean {
    return this.#find(name) >= 0
  }

  keys(): Entries<string> {
    return walk(this.size, (ordinal) => this.#catalog.name(ordinal))
  }

  values(): Entries<PlannedTensor> {
    return walk(this.size, (ordinal) => this.at(ordinal))
  }

  entries(): Entries<[string, PlannedTensor]> {
    return walk(this.size, (ordinal) => [this.#catalog.name(ordinal), this.at(ordinal)])
  }

  [Symbol.iterator](): Entries<[string, PlannedTensor]> {
    return this.entries()
  }

  forEach(
    callback: (part: PlannedTensor, name: string, parts: ReadonlyMap<string, PlannedTensor>) => void,
    self?: unknown,
  ): void {
    for (const [name, part] of this) callback.call(self, part, name, this)
  }

  get [Symbol.toStringTag](): string {
    return 'PlannedTensors'
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('PlannedTensors', { size: this.size }, options)
  }
}
