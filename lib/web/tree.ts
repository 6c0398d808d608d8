// Files by name, whose bytes JavaScript reads.

/** A file whose bytes can be read. */
export interface FileSource {
  readonly byteLength: number
  /** Returns exactly `length` bytes. Rejects with an error of the binding. */
  read(offset: number, length: number, signal: AbortSignal): Promise<Uint8Array>
  /** A part of the file as a Blob, if it has one. */
  blob?(offset: number, length: number): Blob
}

/** The files that can be opened. */
export interface Tree {
  /** The names of the files to open. */
  readonly roots: readonly string[]
  /** Returns the file with a name, or undefined if there is none. Rejects with an error of the binding. */
  find(name: string, signal: AbortSignal): Promise<FileSource | undefined>
}

/** A range of a file. */
export interface Span {
  readonly offset: number
  readonly length: number
}

/** Bytes of a file. */
export interface Piece {
  readonly offset: number
  readonly bytes: Uint8Array
}

/** Ranges that are closer to each other are read at once: a request costs as much as these bytes. */
const GAP = 64 * 2 ** 10
/** Maximum bytes of a read. */
export const PIECE = 8 * 2 ** 20
/** Maximum number of concurrent reads of a file. Browsers have 6 connections to a server. */
const AT_ONCE = 6

/** Joins ranges that are close to each other, and divides long ones. */
export function reads(spans: readonly Span[]): Span[] {
  const sorted = [...spans].sort((a, b) => a.offset - b.offset)
  const joined: { offset: number; length: number }[] = []
  for (const { offset, length } of sorted) {
    const last = joined.at(-1)
    if (last !== undefined && offset <= last.offset + last.length + GAP)
      last.length = Math.max(last.length, offset + length - last.offset)
    else joined.push({ offset, length })
  }
  return joined.flatMap(({ offset, length }) =>
    Array.from({ length: Math.ceil(length / PIECE) }, (_, at) => ({
      offset: offset + at * PIECE,
      length: Math.min(PIECE, length - at * PIECE),
    })),
  )
}

/** Reads ranges, several at once, and passes each on as soon as it is there. */
export async function fetchEach(
  file: FileSource,
  spans: readonly Span[],
  signal: AbortSignal,
  each: (piece: Piece) => void,
): Promise<void> {
  const queue = spans.values()
  const stop = new AbortController()
  const abort = () => stop.abort(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  const work = async () => {
    for (const { offset, length } of queue) {
      signal.throwIfAborted()
      each({ offset, bytes: await file.read(offset, length, stop.signal) })
    }
  }
  try {
    signal.throwIfAborted()
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, spans.length) }, work))
  } catch (error) {
    stop.abort(error)
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** How to request files. */
export interface HttpOptions {
  /** Headers of each request, such as `authorization`. They are not sent to other servers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** A URL without query and credentials, which may be secret. */
export function shown(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}
