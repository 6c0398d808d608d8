// Divides tensors into parts of limited size.

import { nextTurn } from '../native/event-loop.js'
import { TURN } from '../read/batches.js'

/** Some tensors of a file. */
export interface Part {
  /** Ranges of ordinals, in ascending order. */
  readonly ordinals: readonly (readonly [from: number, end: number])[]
  /** Total size in bytes. */
  readonly byteLength: number
}

/** Merges ordinals, in any order, into ranges. */
export function rangesOf(ordinals: readonly number[]): [number, number][] {
  const ranges: [number, number][] = []
  for (const ordinal of Uint32Array.from(ordinals).sort()) {
    const last = ranges[ranges.length - 1]
    if (last?.[1] === ordinal) last[1]++
    else ranges.push([ordinal, ordinal + 1])
  }
  return ranges
}

/** Expands ranges to ordinals. */
export function ordinalsOf(ranges: Part['ordinals']): Uint32Array {
  const ordinals = new Uint32Array(ranges.reduce((sum, [from, end]) => sum + end - from, 0))
  let at = 0
  for (const [from, end] of ranges) for (let ordinal = from; ordinal < end; ordinal++) ordinals[at++] = ordinal
  return ordinals
}

/** Measures the size of a part. */
export interface Measure {
  /** Adds a tensor if it fits, and returns whether it does. The first tensor of a part always fits. */
  add(bytes: number, name: string): boolean
  /** Starts the next part. */
  next(): void
}

/** Measures by tensor bytes only. */
export function plainMeasure(most: number): Measure {
  let total = 0
  return {
    add: (bytes) => {
      if (total > 0 && total + bytes > most) return false
      total += bytes
      return true
    },
    next: () => {
      total = 0
    },
  }
}

/** Divides tensors into consecutive parts. Returns at least one part. */
export async function divide(
  order: ArrayLike<number>,
  measure: Measure,
  sizeOf: (ordinal: number) => number,
  nameOf: (ordinal: number) => string,
): Promise<Part[]> {
  const parts: Part[] = []
  let [held, byteLength]: [number[], number] = [[], 0]
  const close = (): void => {
    parts.push({ ordinals: rangesOf(held), byteLength })
    held = []
    byteLength = 0
    measure.next()
  }
  for (let at = 0; at < order.length; at++) {
    if (at % TURN === TURN - 1) await nextTurn()
    const ordinal = order[at] as number
    const size = sizeOf(ordinal)
    if (!measure.add(size, nameOf(ordinal))) {
      close()
      measure.add(size, nameOf(ordinal))
    }
    held.push(ordinal)
    byteLength += size
  }
  close()
  // Only an empty file has a part without tensors.
  return parts.length > 1 ? parts.filter(({ ordinals }) => ordinals.length > 0) : parts
}
