// Divides the tensors of a source into parts of limited size, and finds those of a part.
import { invalid } from '../native/errors.js'
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
export function rangesOf(ordinals: ArrayLike<number>): [number, number][] {
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

/** Expands the ranges of a task to ordinals, which the file must have. */
export function checkOrdinals(ranges: Part['ordinals'], size: number): Uint32Array {
  const beyond = ranges.find(([, end]) => end > size)
  if (beyond !== undefined)
    throw invalid(
      RangeError,
      `task.ordinals must not exceed ${size}, the number of tensors in the source, got ${beyond[1]}`,
    )
  return ordinalsOf(ranges)
}

/** Divides tensors into consecutive parts of at most `max` bytes; a larger one is a part of its own. Returns at least one part. */
export async function divide(count: number, max: number, sizeOf: (ordinal: number) => number): Promise<Part[]> {
  const parts: Part[] = []
  let [from, byteLength] = [0, 0]
  const close = (end: number): void => {
    parts.push({ ordinals: end > from ? [[from, end]] : [], byteLength })
    from = end
    byteLength = 0
  }
  for (let ordinal = 0; ordinal < count; ordinal++) {
    if (ordinal % TURN === TURN - 1) await nextTurn()
    const size = sizeOf(ordinal)
    if (byteLength > 0 && byteLength + size > max) close(ordinal)
    byteLength += size
  }
  close(count)
  return parts
}
