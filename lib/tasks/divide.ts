// How work on many tensors is divided.

import { nextTurn } from '../native/event-loop.js'
import { TURN } from '../read/batches.js'

/** Some tensors of a file. */
export interface Part {
  /** Ranges of ordinals, in rising order. */
  readonly ordinals: readonly (readonly [from: number, end: number])[]
  /** Bytes of them all. */
  readonly byteLength: number
}

/** The ranges of ordinals, whatever their order. */
export function rangesOf(ordinals: readonly number[]): [number, number][] {
  const ranges: [number, number][] = []
  for (const ordinal of Uint32Array.from(ordinals).sort()) {
    const last = ranges[ranges.length - 1]
    if (last?.[1] === ordinal) last[1]++
    else ranges.push([ordinal, ordinal + 1])
  }
  return ranges
}

/** The ordinals of ranges. */
export function ordinalsOf(ranges: Part['ordinals']): Uint32Array {
  const ordinals = new Uint32Array(ranges.reduce((sum, [from, end]) => sum + end - from, 0))
  let at = 0
  for (const [from, end] of ranges) for (let ordinal = from; ordinal < end; ordinal++) ordinals[at++] = ordinal
  return ordinals
}

/** Counts what a part holds, and says when it is full. */
export interface Measure {
  /** Adds a tensor of so many bytes if it fits; the first one of a part always does. */
  add(bytes: number, name: string): boolean
  /** Begins another part. */
  next(): void
}

/** Counts bytes alone. */
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

/** Divides tensors, which stay in their order, into parts. One at least. */
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
  // A part without tensors is the whole of an empty file.
  return parts.length > 1 ? parts.filter(({ ordinals }) => ordinals.length > 0) : parts
}
