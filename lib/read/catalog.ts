import { rethrowNative } from '../native/errors.js'
import { type DTypeInfo, dtypes } from '../values/dtype.js'
import type { Store } from './store.js'

const RECORD = 4
/** The bits of a dtype's code; all are set if there is no dtype. */
const NO_DTYPE = 0xff
const PLAIN = 0x100

/** Number of tensors in all catalogs so far. */
let tensors = 0

/** The index of a file as the binding returns it: flat arrays, from which tensor properties are read lazily. */
export class Catalog {
  readonly store: Store
  readonly size: number
  /** The number of this file's first tensor among the tensors of all files. */
  readonly first: number
  readonly #names: string
  readonly #records: Uint32Array
  readonly #numbers: Float64Array
  readonly #files: Uint32Array | undefined
  readonly #labels: readonly string[]
  readonly #shapes: (readonly number[])[] = []
  /** The number of elements of each shape. */
  readonly #elements: number[] = []

  constructor(store: Store) {
    const flat = rethrowNative(() => store.native.index())
    this.store = store
    this.#names = flat.names
    this.#records = flat.records
    this.#numbers = flat.numbers
    this.#files = flat.files ?? undefined
    this.#labels = flat.labels
    this.size = flat.records.length / RECORD
    this.first = tensors
    tensors += this.size
    let start = 0
    for (const end of flat.shapeEnds) {
      const shape = Object.freeze(Array.from(flat.shapeDims.subarray(start, end)))
      this.#shapes.push(shape)
      this.#elements.push(elements(shape))
      start = end
    }
  }

  // The first tensors are listed before V8 has compiled these methods, so each nested call would add to the cost.

  name(ordinal: number): string {
    const end = ordinal * RECORD
    const start = end === 0 ? 0 : (this.#records[end - RECORD] as number)
    return this.#names.substring(start, this.#records[end])
  }

  /** Undefined for an unknown type, and for a composite tensor without a dtype. */
  dtype(ordinal: number): DTypeInfo | undefined {
    return dtypes[(this.#records[ordinal * RECORD + 1] as number) & NO_DTYPE]
  }

  shape(ordinal: number): readonly number[] {
    return this.#shapes[this.#records[ordinal * RECORD + 2] as number] as readonly number[]
  }

  /** The product of the shape. */
  elements(ordinal: number): number {
    return this.#elements[this.#records[ordinal * RECORD + 2] as number] as number
  }

  layout(ordinal: number): string {
    return this.#labels[this.#records[ordinal * RECORD + 3] as number] as string
  }

  /** The offset in the file of a dense tensor's elements, if they are stored as in memory; otherwise undefined. */
  plainOffset(ordinal: number): number | undefined {
    const plain = (this.#records[ordinal * RECORD + 1] as number) & PLAIN
    return plain ? this.#numbers[ordinal * 2] : undefined
  }

  /** The key of a tensor's decoding among the running jobs; undefined if its data needs no decoding. */
  decoding(ordinal: number): string | undefined {
    return this.plainOffset(ordinal) === undefined ? `${ordinal} ${this.dtype(ordinal)?.name}` : undefined
  }

  /** The number of the file that holds a dense tensor's elements. */
  file(ordinal: number): number {
    return this.#files?.[ordinal] ?? 0
  }

  byteLength(ordinal: number): number {
    return this.#numbers[ordinal * 2 + 1] as number
  }
}

/** The product of the sizes. A size of 0 makes it 0, however large the others are. */
function elements(shape: readonly number[]): number {
  let size = 1
  for (const dim of shape) size = dim === 0 || size === 0 ? 0 : size * dim
  return size
}

/** The type of a Map's iterators: MapIterator since TypeScript 5.6, IterableIterator before. */
export type Entries<T> = ReturnType<ReadonlyMap<T, unknown>['keys']>

/** A hand-written iterator: a generator takes twice as long for 100,000 tensors. */
export function walk<T>(size: number, at: (ordinal: number) => T): Entries<T> {
  let next = 0
  const iterator = {
    next(): IteratorResult<T, undefined> {
      return next < size ? { done: false, value: at(next++) } : { done: true, value: undefined }
    },
    [Symbol.iterator]() {
      return iterator
    },
  }
  return iterator as unknown as Entries<T>
}
