// The tensors of a job or task of a conversion, in its source.
import { invalid } from '../native/errors.js'
import type { Catalog } from '../read/catalog.js'
import type { ConvertTask } from './convert-tasks.js'
import { ordinalsOf, type Part } from './divide.js'

/** The selected tensors and their new names. */
export class Taken {
  readonly ordinals: number[] = []
  readonly #names = new Map<number, string>()
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  take(ordinals: Uint32Array, names: readonly string[]): void {
    for (const [at, ordinal] of ordinals.entries()) {
      this.ordinals.push(ordinal)
      const name = names[at]
      if (name !== undefined && name !== this.#catalog.name(ordinal)) this.#names.set(ordinal, name)
    }
  }

  name(ordinal: number): string {
    return this.#names.get(ordinal) ?? this.#catalog.name(ordinal)
  }

  /** The new names of a part. */
  renamed({ ordinals }: Pick<Part, 'ordinals'>): [number, string][] {
    const pairs: [number, string][] = []
    for (const [from, end] of ordinals) {
      for (let ordinal = from; ordinal < end; ordinal++) {
        const name = this.#names.get(ordinal)
        if (name !== undefined) pairs.push([ordinal, name])
      }
    }
    return pairs
  }

  /** Sorted by the UTF-8 bytes of the names, the order of canonical zTensor 2 files. */
  byName(): number[] {
    const keyed = this.ordinals.map((ordinal) => ({ ordinal, key: Buffer.from(this.name(ordinal)) }))
    return keyed.sort((a, b) => Buffer.compare(a.key, b.key)).map(({ ordinal }) => ordinal)
  }
}

/** The new names of the task's tensors, by ordinal order; empty if no tensor is renamed. */
export function namesOf({ renamed }: ConvertTask, ordinals: Uint32Array, catalog: Catalog): string[] {
  if (renamed.length === 0) return []
  const names = new Map(renamed)
  return Array.from(ordinals, (ordinal) => names.get(ordinal) ?? catalog.name(ordinal))
}

/** Validates that the file has all ordinals. */
export function checkOrdinals(ordinals: ConvertTask['ordinals'], size: number): Uint32Array {
  const last = ordinals[ordinals.length - 1]
  if (last !== undefined && last[1] > size)
    throw invalid(
      RangeError,
      `task.ordinals must not exceed ${size}, the number of tensors in the source, got ${last[1]}`,
    )
  return ordinalsOf(ordinals)
}
