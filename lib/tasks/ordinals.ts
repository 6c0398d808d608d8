// The tensors of a task of a conversion, in its source.
import { invalid } from '../native/errors.js'
import type { Catalog } from '../read/catalog.js'
import type { ConvertTask } from './convert-tasks.js'
import { ordinalsOf } from './divide.js'

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
