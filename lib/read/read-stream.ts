// A tensor's bytes as a Node Readable: read in pieces as they are wanted, off the event loop.
import type { Readable } from 'node:stream'
import { builtins } from '../native/builtins.js'
import { bytesOf, type TypedArray } from '../values/dtype.js'

/** How to read a tensor as a stream. */
export interface ReadStreamOptions {
  /** Bytes of a piece, and of what is read ahead of the consumer: 1 MiB by default. */
  highWaterMark?: number | undefined
  /** Destroys the stream, with `signal.reason`. */
  signal?: AbortSignal | undefined
}

/** Half-open ranges, one a dimension. */
type Box = [start: number, stop: number][]

/** A shape in consecutive boxes of at most `limit` elements: one after the other they are all of it, in row-major order. */
export function* boxes(shape: readonly number[], limit: number): Generator<Box> {
  if (shape.includes(0)) return
  /** The dimensions from here on fit whole, the one before is divided. */
  let whole = shape.length
  let inner = 1
  while (whole > 0 && inner * (shape[whole - 1] as number) <= limit) inner *= shape[--whole] as number
  if (whole === 0) {
    yield shape.map((size) => [0, size])
    return
  }
  const divided = whole - 1
  const step = Math.max(1, Math.floor(limit / inner))
  const place: number[] = shape.slice(0, divided).map(() => 0)
  for (;;) {
    for (let start = 0; start < (shape[divided] as number); start += step) {
      const stop = Math.min(start + step, shape[divided] as number)
      yield shape.map((size, dim) => {
        if (dim < divided) return [place[dim] as number, (place[dim] as number) + 1]
        return dim === divided ? [start, stop] : [0, size]
      })
    }
    let dim = divided - 1
    for (; dim >= 0; dim--) {
      place[dim] = (place[dim] as number) + 1
      if ((place[dim] as number) < (shape[dim] as number)) break
      place[dim] = 0
    }
    if (dim < 0) return
  }
}

/** What `load` gives of each of the parts (undefined: of the whole), one piece after the other. */
async function* pieces(
  parts: Iterable<Box | undefined>,
  size: number,
  load: (part: Box | undefined) => Promise<TypedArray>,
): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    const bytes = bytesOf(await load(part))
    for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
  }
}

/** The stream of these parts. */
export function readStream(
  parts: Iterable<Box | undefined>,
  load: (part: Box | undefined) => Promise<TypedArray>,
  highWaterMark: number,
  signal: AbortSignal | undefined,
): Readable {
  const stream = builtins.stream.Readable.from(pieces(parts, highWaterMark, load), { objectMode: false, highWaterMark })
  if (signal === undefined) return stream
  const abort = () => stream.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  stream.once('close', () => signal.removeEventListener('abort', abort))
  if (signal.aborted) abort()
  return stream
}
