// Memory on its way from native code to JavaScript, and the other way for sources in memory.

import { rethrowNative, tooLarge, ZTensorError } from './errors.js'
import { nextTurn, ownTurn } from './event-loop.js'
import { MAX_BUFFER, made, type NativeMemory, type NativeStage, type NativeStageBuilder } from './native.js'

/** Bytes copied on the JavaScript thread before the event loop gets a turn: some 3 ms. */
export const PIECE = 16 * 2 ** 20

/** A buffer, or ZT_LIMIT where the runtime cannot make one of this size. */
export function allocate(byteLength: number): ArrayBuffer {
  try {
    return new ArrayBuffer(byteLength)
  } catch (cause) {
    throw tooLarge(`${byteLength} bytes`, cause)
  }
}

/** From here on native code makes the memory: in huge pages, which cost a third to fill for the first time. */
const BLOCK = 2 ** 20

/** A buffer of exactly so many bytes, which native code fills: `into` one of the runtime's, or as a `block` of its own. */
export function filled(
  byteLength: number,
  fill: { into: (output: Uint8Array) => void; block: () => NativeMemory },
): ArrayBuffer {
  if (byteLength >= BLOCK) return toBufferSync(rethrowNative(fill.block))
  const buffer = allocate(byteLength)
  rethrowNative(() => fill.into(new Uint8Array(buffer)))
  return buffer
}

/** The pieces of a buffer, each small enough for a Uint8Array of any runtime. */
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

/** Takes the memory over, or copies it where the runtime refuses to share it. */
export function toBufferSync(memory: NativeMemory): ArrayBuffer {
  const taken = take(memory)
  if (taken !== null) return taken
  const buffer = allocate(memory.byteLength)
  for (const [at, piece] of pieces(buffer, 0, memory.byteLength)) rethrowNative(() => memory.copyTo(at, piece))
  return buffer
}

/**
 * The same, without holding the event loop up; `check` is asked between two pieces. Memory that is not the `sole` caller's is
 * copied.
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

/** A buffer of the runtime's own with some bytes of the memory, if there are any: a piece a turn. */
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

/** Copies the memory, which goes then if it is the `sole` caller's, into `target`, which has exactly its length: a piece a turn. */
export async function copyInto(
  memory: NativeMemory,
  target: ArrayBufferView,
  check: () => void,
  sole: boolean,
): Promise<void> {
  const { byteLength, step } = memory
  try {
    // Of no bytes it is one piece as well, which may be given up.
    for (let at = 0; at === 0 || at < byteLength; at += step) {
      await ownTurn()
      check()
      if (target.byteLength !== byteLength) {
        throw new ZTensorError('ZT_CLOSED', 'the array to load into was detached or resized while it was filled')
      }
      const piece = new Uint8Array(target.buffer, target.byteOffset + at, Math.min(step, byteLength - at))
      rethrowNative(() => memory.copyTo(at, piece))
    }
  } finally {
    if (sole) memory.free()
  }
}

/** The same, on this thread at once. */
export function copyIntoSync(memory: NativeMemory, target: ArrayBufferView): void {
  for (const [at, piece] of pieces(target.buffer, target.byteOffset, target.byteLength)) {
    rethrowNative(() => memory.copyTo(at, piece))
  }
}

/** The error of a source in memory that is not what it was. */
export function sourceGone(): ZTensorError {
  return new ZTensorError('ZT_CLOSED', 'the buffer that the file was opened from was detached or made smaller')
}

/** Copies the next piece of the caller's memory; whether more are to come. */
function fill(bytes: Uint8Array, builder: NativeStageBuilder): boolean {
  const more = rethrowNative(() => builder.fill(bytes))
  if (more === null) throw sourceGone()
  return more
}

/** Copies ranges of the caller's memory to where other threads may read them. */
export function stageSync(bytes: Uint8Array, builder: NativeStageBuilder): NativeStage {
  while (fill(bytes, builder)) {}
  return rethrowNative(() => builder.finish())
}

/** The same, without holding the event loop up; `check` is asked between two pieces. */
export async function stage(bytes: Uint8Array, builder: NativeStageBuilder, check: () => void): Promise<NativeStage> {
  check()
  while (fill(bytes, builder)) {
    await nextTurn()
    check()
  }
  return rethrowNative(() => builder.finish())
}
