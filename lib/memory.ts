// Memory on its way from native code to JavaScript, and the other way for sources in memory.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { calling, ZTensorError } from './errors.js'
import { binding, type NativeMemory, type NativeStage } from './native.js'

/** Bytes copied on the JavaScript thread before the event loop gets a turn: some 3 ms. */
const PIECE = 16 * 2 ** 20

/** A buffer, or ZT_LIMIT where the runtime cannot make one of this size. */
export function allocate(byteLength: number): ArrayBuffer {
  try {
    return new ArrayBuffer(byteLength)
  } catch (cause) {
    throw tooLarge(`${byteLength} bytes`, cause)
  }
}

/** The error for data that no array of this runtime can hold. */
export function tooLarge(what: string, cause: unknown): ZTensorError {
  const message = `${what} are more than one array of this runtime can hold; take parts with slice()`
  return new ZTensorError('ZT_LIMIT', message, { cause })
}

/** Takes the memory over, or copies it where the runtime refuses to share it. */
export function toBufferSync(memory: NativeMemory): ArrayBuffer {
  const taken = memory.take()
  if (taken !== null) return taken
  const buffer = allocate(memory.byteLength)
  calling(() => memory.copyTo(0, new Uint8Array(buffer)))
  return buffer
}

/** The same, without holding the event loop up. */
export async function toBuffer(memory: NativeMemory): Promise<ArrayBuffer> {
  const taken = memory.take()
  if (taken !== null) return taken
  const buffer = allocate(memory.byteLength)
  await copyInto(memory, new Uint8Array(buffer))
  return buffer
}

/** Copies the memory into `target`, which has exactly its length. */
export async function copyInto(memory: NativeMemory, target: Uint8Array): Promise<void> {
  const { byteLength } = memory
  for (let at = 0; at < byteLength; at += PIECE) {
    if (at > 0) await nextTurn()
    const end = Math.min(at + PIECE, byteLength)
    if (target.byteLength !== byteLength) {
      throw new ZTensorError('ZT_CLOSED', 'the array to load into was detached or resized meanwhile')
    }
    calling(() => memory.copyTo(at, target.subarray(at, end)))
  }
}

interface Range {
  readonly offset: number
  readonly length: number
}

/** Copies a range of the caller's memory to where other threads may read it. */
export function stageSync(bytes: Uint8Array, total: number, { offset, length }: Range): NativeStage {
  return calling(() => {
    const builder = new binding.StageBuilder(offset, length)
    builder.fill(0, piece(bytes, offset, offset + length))
    return builder.finish(total)
  })
}

/** The same, without holding the event loop up. */
export async function stage(bytes: Uint8Array, total: number, { offset, length }: Range): Promise<NativeStage> {
  const builder = calling(() => new binding.StageBuilder(offset, length))
  for (let at = 0; at < length; at += PIECE) {
    if (at > 0) await nextTurn()
    const end = Math.min(at + PIECE, length)
    calling(() => builder.fill(at, piece(bytes, offset + at, offset + end)))
  }
  return calling(() => builder.finish(total))
}

function piece(bytes: Uint8Array, start: number, end: number): Uint8Array {
  if (end > bytes.byteLength) {
    throw new ZTensorError('ZT_CLOSED', 'the buffer that the file was opened from was detached or made smaller')
  }
  return bytes.subarray(start, end)
}
