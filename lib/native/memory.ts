// Transfers memory from native code to JavaScript, and for sources in memory the other way.

import { rethrowNative, tooLarge, ZTensorError } from './errors.js'
import { nextTurn, ownTurn } from './event-loop.js'
import { MAX_BUFFER, made, type NativeMemory, type NativeStage, type NativeStageBuilder } from './native.js'

/** Bytes that the JavaScript thread copies before it yields to the event loop: about 3 ms. */
export const PIECE = 16 * 2 ** 20

/** Allocates a buffer. Throws ZT_LIMIT if the runtime cannot allocate one of this size. */
export function allocate(byteLength: number): ArrayBuffer {
  try {
    return new ArrayBuffer(byteLength)
  } catch (cause) {
    throw tooLarge(`${byteLength} bytes`, cause)
  }
}

/** Allocates a buffer and lets native code fill it. */
export function filled(byteLength: number, fill: (output: Uint8Array) => void): ArrayBuffer {
  const buffer = allocate(byteLength)
  rethrowNative(() => fill(new Uint8Array(buffer)))
  return buffer
}

/** Divides a buffer into pieces that are small enough for a Uint8Array in every runtime. */
export function* pieces(
  buffer: ArrayBufferLike,
  byteOffset: number,
  byteLength: number,
): Generator<[at: number, piece: Uint8Array]> {
  for (let at = 0; at < byteLength; at += PIECE) {
    yield [at, new Uint8Array(buffer, byteOffset + at, Math.min(PIECE, byteLength - at))]
  }
}

function take(memory: NativeMemory): ArrayBuffer | null {
  return memory.byteLength > MAX_BUFFER ? null : made(memory.take())
}

/**
 * Moves native memory into a buffer of the runtime. The result of a synchronous call is never an external buffer: runtimes run the
 * finalizers of external buffers in a later turn of the event loop, so a loop without turns would free nothing.
 */
export function toBufferSync(memory: NativeMemory): ArrayBuffer {
  try {
    const buffer = allocate(memory.byteLength)
    for (const [at, piece] of pieces(buffer, 0, memory.byteLength)) rethrowNative(() => memory.moveTo(at, piece))
    return buffer
  } finally {
    memory.free()
  }
}

/**
 * Turns native memory into an ArrayBuffer without blocking the event loop; calls `check` between pieces. Memory that is shared with other
 * callers (not `sole`) is copied.
 */
export async function toBuffer(memory: NativeMemory, check: () => void, sole = true): Promise<ArrayBuffer> {
  const taken = sole ? take(memory) : null
  if (taken !== null) return taken
  try {
    const buffer = allocate(memory.byteLength)
    for (const [at, piece] of pieces(buffer, 0, memory.byteLength)) {
      if (at > 0) await nextTurn()
      check()
      rethrowNative(() => memory.copyTo(at, piece))
    }
    return buffer
  } finally {
    if (sole) memory.free()
  }
}

/** Copies a range of native memory into a new buffer of the runtime, one piece for each turn of the event loop. */
export async function copied(
  memory: NativeMemory | undefined,
  offset: number,
  byteLength: number,
  check: () => void,
): Promise<ArrayBuffer> {
  const buffer = allocate(byteLength)
  if (memory === undefined) return buffer
  for (const [at, piece] of pieces(buffer, 0, byteLength)) {
    if (at > 0) await nextTurn()
    check()
    rethrowNative(() => memory.copyTo(offset + at, piece))
  }
  return buffer
}

/** Throws if the caller's array has changed its length since the call. */
export function checkTarget(target: ArrayBufferView, byteLength: number): void {
  if (target.byteLength === byteLength) return
  throw new ZTensorError(
    'ZT_CLOSED',
    'the array passed as into was detached or resized during load(): keep it until load() resolves',
  )
}

/** Copies native memory into `target`, which has its exact length, one piece for each turn of the event loop. Frees `sole` memory. */
export async function copyInto(
  memory: NativeMemory,
  target: ArrayBufferView,
  check: () => void,
  sole: boolean,
): Promise<void> {
  const { byteLength, step } = memory
  try {
    // Empty memory still takes one turn, so that it can be canceled.
    for (let at = 0; at === 0 || at < byteLength; at += step) {
      await ownTurn()
      check()
      checkTarget(target, byteLength)
      const piece = new Uint8Array(target.buffer, target.byteOffset + at, Math.min(step, byteLength - at))
      rethrowNative(() => memory.copyTo(at, piece))
    }
  } finally {
    if (sole) memory.free()
  }
}

/** Copies native memory into `target`, synchronously. */
export function copyIntoSync(memory: NativeMemory, target: ArrayBufferView): void {
  for (const [at, piece] of pieces(target.buffer, target.byteOffset, target.byteLength)) {
    rethrowNative(() => memory.copyTo(at, piece))
  }
}

/** The error for a source in memory that was detached or resized. */
export function sourceGone(): ZTensorError {
  return new ZTensorError(
    'ZT_CLOSED',
    'the buffer that the file was opened from was detached or shrunk: keep it until the file is closed',
  )
}

/** Copies the next piece of the caller's memory. Returns whether there are more. */
function fill(bytes: Uint8Array, builder: NativeStageBuilder): boolean {
  const more = rethrowNative(() => builder.fill(bytes))
  if (more === null) throw sourceGone()
  return more
}

/** Copies ranges of the caller's memory into native memory, which other threads may read. */
export function stageSync(bytes: Uint8Array, builder: NativeStageBuilder): NativeStage {
  while (fill(bytes, builder)) {}
  return rethrowNative(() => builder.finish())
}

/** Like `stageSync`, without blocking the event loop; calls `check` between pieces. */
export async function stage(bytes: Uint8Array, builder: NativeStageBuilder, check: () => void): Promise<NativeStage> {
  check()
  while (fill(bytes, builder)) {
    await nextTurn()
    check()
  }
  return rethrowNative(() => builder.finish())
}
