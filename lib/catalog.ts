import { type DTypeInfo, dtypes } from './dtype.js'
import { calling } from './errors.js'
import type { FlatIndex, NativeFile } from './native.js'

const RECORD = 4
const NO_DTYPE = 0xff
const PLAIN = 0x100

/** The index of a file as it crossed the binding: flat arrays, from which a tensor is read on demand. */
export class Catalog {
  readonly size: number
  readonly #flat: FlatIndex
  readonly #shapes: (readonly number[])[] = []

  constructor(native: NativeFile) {
    this.#flat = calling(() => native.index())
    this.size = this.#flat.records.length / RECORD
    let start = 0
    for (const end of this.#flat.shapeEnds) {
      this.#shapes.push(Object.freeze(Array.from(this.#flat.shapeDims.subarray(start, end))))
      start = end
    }
  }

  #record(ordinal: number, field: number): number {
    return this.#flat.records[ordinal * RECORD + field] as number
  }

  name(ordinal: number): string {
    const start = ordinal === 0 ? 0 : this.#record(ordinal - 1, 0)
    return this.#flat.names.substring(start, this.#record(ordinal, 0))
  }

  /** Undefined for a composite that does not say, and for a type that is not known. */
  dtype(ordinal: number): DTypeInfo | undefined {
    const code = this.#record(ordinal, 1) & NO_DTYPE
    return code === NO_DTYPE ? undefined : dtypes[code]
  }

  shape(ordinal: number): readonly number[] {
    return this.#shapes[this.#record(ordinal, 2)] as readonly number[]
  }

  layout(ordinal: number): string {
    return this.#flat.labels[this.#record(ordinal, 3)] as string
  }

  /** Where a dense tensor's elements stand in the file as they are in memory; undefined if they do not. */
  plainOffset(ordinal: number): number | undefined {
    return this.#record(ordinal, 1) & PLAIN ? this.#flat.numbers[ordinal * 2] : undefined
  }

  /** The number of the file that holds a dense tensor's elements. */
  file(ordinal: number): number {
    return this.#flat.files?.[ordinal] ?? 0
  }

  byteLength(ordinal: number): number {
    return this.#flat.numbers[ordinal * 2 + 1] as number
  }
}
