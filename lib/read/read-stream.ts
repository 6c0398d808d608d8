// A tensor's bytes, little-endian, as a Node Readable, read on demand in pieces, off the event loop.

import { type Readable, readable } from '#host'
import { onAbort } from '../native/abort.js'
import { publicError, rethrowNative } from '../native/errors.js'
import { toBufferSync } from '../native/memory.js'
import { binding } from '../native/native.js'
import { fileBytes } from '../values/byte-order.js'
import type { TypedArray } from '../values/dtype.js'
import type { Calls, Trace } from './calls.js'
import type { TensorRef } from './store.js'

/** How to read a tensor as a stream. */
export interface ReadStreamOptions {
  /** Size of a chunk and of the read-ahead buffer in bytes: 1 MiB by default. */
  highWaterMark?: number | undefined
  /** Destroys the stream, with `signal.reason`. */
  signal?: AbortSignal | undefined
}

/** Half-open ranges, one for each dimension. */
type Box = [start: number, stop: number][]

/** Divides a shape into boxes of at most `limit` elements. Their concatenation is the whole tensor in row-major order. */
export function* boxes(shape: readonly number[], limit: number): Generator<Box> {
  if (shape.includes(0)) return
  /** The dimensions from here on fit into a box; the one before is divided. */
  let whole = shape.length
  let inner = 1
  while (whole > 0 && inner * (shape[whole - 1] as number) <= limit) inner *= shape[--whole] as number
  if (whole === 0) {
    yield shape.map((size) => [0, size])
    return
  }
  const divided = whole - 1
  const step = Math.max(1, Math.floor(limit / inner))
  const index: number[] = shape.slice(0, divided).map(() => 0)
  for (;;) {
    for (let start = 0; start < (shape[divided] as number); start += step) {
      const stop = Math.min(start + step, shape[divided] as number)
      yield shape.map((size, dim) => {
        if (dim < divided) return [index[dim] as number, (index[dim] as number) + 1]
        return dim === divided ? [start, stop] : [0, size]
      })
    }
    let dim = divided - 1
    for (; dim >= 0; dim--) {
      index[dim] = (index[dim] as number) + 1
      if ((index[dim] as number) < (shape[dim] as number)) break
      index[dim] = 0
    }
    if (dim < 0) return
  }
}

/** Loads the parts one after the other and yields their bytes in chunks. */
export async function* loaded(
  parts: Iterable<Box | undefined>,
  size: number,
  load: (part: Box | undefined) => Promise<TypedArray>,
): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield* chunks(fileBytes(await load(part)), size)
}

/** Decodes all elements of a component in order and yields their bytes in chunks. Decoding waits for the consumer. */
export async function* decoded(
  { store, ordinal, component }: Required<TensorRef>,
  size: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const blocks = new binding.Outflow()
  const control = new binding.Control()
  const cancel = () => {
    control.cancel()
    blocks.abandon()
  }
  const stage = await store.stage(ordinal, component, signal)
  store.check(signal)
  store.jobs.add(cancel)
  try {
    rethrowNative(() => store.native.passPieces(ordinal, component as number, blocks, control, stage), store.path)
    for (;;) {
      const block = await blocks.next().catch((error) => {
        store.check(signal)
        throw publicError(error, store.path)
      })
      store.check(signal)
      if (block === null) return
      yield* chunks(new Uint8Array(toBufferSync(block)), size)
    }
  } finally {
    store.jobs.delete(cancel)
    cancel()
  }
}

/** Counts the bytes that a consumer has taken. */
async function* counting(chunks: AsyncGenerator<Uint8Array>, trace: Trace): AsyncGenerator<Uint8Array> {
  trace.bytes = 0
  for await (const chunk of chunks) {
    trace.bytes += chunk.byteLength
    yield chunk
  }
}

function* chunks(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
}

/** Begins a stream. If that fails, its call has ended. */
function begun(calls: Calls, stream: () => Readable): Readable {
  try {
    return stream()
  } catch (error) {
    calls.end()
    throw error
  }
}

/** Returns a Readable over these chunks. It is a call in flight until it closes. */
export function readStream(
  chunks: AsyncGenerator<Uint8Array>,
  highWaterMark: number,
  signal: AbortSignal | undefined,
  calls: Calls,
  trace: Trace | undefined,
): Readable {
  const counted = trace === undefined ? chunks : counting(chunks, trace)
  const stream = begun(calls, () => readable(counted, highWaterMark))
  stream.once('close', () => {
    if (trace !== undefined) calls.publish('stream', trace, trace.bytes ?? 0, stream.errored ?? undefined)
    calls.end()
  })
  if (signal === undefined) return stream
  const abort = () => stream.destroy(signal.reason)
  stream.once('close', onAbort(signal, abort))
  if (signal.aborted) abort()
  return stream
}
