// Divides a file into segments: the index, tensors, and gaps.
import type { Model, Part } from './model.js'

export type SegmentKind = 'tensor' | 'padding' | 'hole' | 'before' | 'behind' | 'shared' | 'other'

export interface Segment {
  readonly kind: SegmentKind
  readonly offset: number
  readonly length: number
  readonly part: Part | undefined
}

/** The largest gap that counts as alignment: pages are 4 KiB, and 64 KiB on some machines. */
const MAX_PADDING = 65_536

export const MEANING: Readonly<Record<SegmentKind, string>> = {
  tensor: 'tensor',
  shared: 'tensor that shares bytes with another',
  padding: 'padding or headers between tensors',
  hole: 'unused space',
  before: 'header and index',
  behind: 'index and footer',
  other: 'not in this report: other tensors, index, padding',
}

/** The segments of a file, by offset. */
export function segmentsOf(model: Model, file: number): Segment[] {
  const parts: Part[] = []
  for (let at = 0; at < model.partCount; at++) {
    const part = model.part(at)
    if (part.file === file && part.offset >= 0) parts.push(part)
  }
  parts.sort((a, b) => a.offset - b.offset || b.stored - a.stored)
  const { byteLength } = model.data.file.files[file] ?? model.data.file
  // With a filter, other tensors are in the gaps.
  const isPart = model.data.file.filter !== undefined
  const found: Segment[] = []
  let end = 0
  for (const part of parts) {
    const gap = part.offset - end
    if (gap > 0) {
      const kind = isPart ? 'other' : end === 0 ? 'before' : gap < MAX_PADDING ? 'padding' : 'hole'
      found.push({ kind, offset: end, length: gap, part: undefined })
    }
    const kind = part.offset < end && part.stored > 0 ? 'shared' : 'tensor'
    found.push({ kind, offset: part.offset, length: part.stored, part })
    end = Math.max(end, part.offset + part.stored)
  }
  if (byteLength > end) {
    found.push({
      kind: isPart ? 'other' : end === 0 ? 'before' : 'behind',
      offset: end,
      length: byteLength - end,
      part: undefined,
    })
  }
  return found
}
