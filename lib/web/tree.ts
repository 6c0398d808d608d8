// Files by name, whose bytes JavaScript reads.

/** A file whose bytes can be read. */
export interface FileSource {
  readonly byteLength: number
  /** Returns exactly `length` bytes. Rejects with an error of the binding. */
  read(offset: number, length: number, signal: AbortSignal): Promise<Uint8Array>
  /** Maximum bytes that one read may have, if each read returns memory that nothing else uses. */
  readonly maxOwnRead?: number
  /** A part of the file as a Blob, if it has one. */
  blob?(offset: number, length: number): Blob
  /** What a worker can read the file from. Without it, the worker asks for its bytes. */
  readonly posted?: Posted
}

/** A file that can be posted to a worker. */
export type Posted = { readonly kind: 'blob'; readonly blob: Blob } | ({ readonly kind: 'url' } & UrlFile)

/** One version of a file on a server. */
export interface UrlFile {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeout?: number | undefined
  readonly byteLength: number
  readonly version: string | null
  /** The first bytes. */
  readonly head: Uint8Array
}

/** A folder that can be listed. */
export interface FolderSource {
  /** The names of its files and folders. */
  readonly names: readonly string[]
}

/** The files that can be opened. */
export interface Tree {
  /** The names of the files to open, or that of a folder. */
  readonly roots: readonly string[]
  /** Returns the file or folder with a name, or undefined if there is none. Rejects with an error of the binding. */
  find(name: string, signal: AbortSignal): Promise<FileSource | FolderSource | undefined>
}

/** Receives the bytes of a file, in order. */
export interface Sink {
  /** Resolves when it accepts more. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>
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
export function reads(spans: readonly Span[], piece: number = PIECE): Span[] {
  const sorted = [...spans].sort((a, b) => a.offset - b.offset)
  const joined: { offset: number; length: number }[] = []
  for (const { offset, length } of sorted) {
    const last = joined.at(-1)
    if (last !== undefined && offset <= last.offset + last.length + GAP)
      last.length = Math.max(last.length, offset + length - last.offset)
    else joined.push({ offset, length })
  }
  return joined.flatMap(({ offset, length }) =>
    Array.from({ length: Math.ceil(length / piece) }, (_, at) => ({
      offset: offset + at * piece,
      length: Math.min(piece, length - at * piece),
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

/** What helps if a Blob cannot be read. */
export const changed = (error: unknown): string =>
  error instanceof DOMException && error.name === 'NotReadableError'
    ? ' If the file has changed or moved since it was opened, choose it again.'
    : ''

/** Reads a Blob. `failed` makes the error for what the browser throws. */
export function blobSource(blob: Blob, failed: (error: unknown) => Error): FileSource {
  return {
    byteLength: blob.size,
    async read(offset, length) {
      try {
        return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer())
      } catch (error) {
        throw failed(error)
      }
    },
    // Twice as fast as pieces.
    maxOwnRead: 2 ** 30,
    blob: (offset, length) => blob.slice(offset, offset + length),
    posted: { kind: 'blob', blob },
  }
}

/** How to request files. */
export interface HttpOptions {
  /** Headers of each request, such as `authorization`. They are not sent to other servers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Milliseconds after which a request is retried if the server has sent nothing, or less than 1 KiB: 30,000 by default. */
  readonly timeout?: number | undefined
}

/** A URL without query and credentials, which may be secret. */
export function shown(url: string): string {
  const { protocol, host, pathname } = new URL(url)
  return `${protocol}//${host}${pathname}`
}
