// The streams that a file is written to, in Node and in browsers.
import type { FinishedFile } from '../native/native.js'

/** A stream of the caller. */
export interface Stream {
  /** Opens what is not open yet. @throws ZTensorError ZT_IO; the signal's reason */
  open(signal: AbortSignal | undefined): Promise<void>
  /** Resolves when the stream accepts more. @throws ZTensorError ZT_IO if the stream failed */
  write(bytes: Uint8Array): Promise<void>
  /** Ends the stream. Resolves when it has finished. */
  end(): Promise<void>
  /** Lets go of the stream. */
  release(): void
  /** Makes the stream fail, so that no reader mistakes a partial file for a complete one. */
  destroy(): void
  throwIfFailed(): void
  /** Creates a place for what cannot be written in order. */
  createSpool(): Promise<Spool>
}

/** Where a file is kept that cannot be written to a stream in order, until it is complete. */
export interface Spool {
  /** The path of the file that native code writes; undefined if the wrapper passes its bytes to `write`. */
  readonly path: string | undefined
  write(bytes: Uint8Array): Promise<void>
  /** Writes the complete file to a stream, piece by piece. */
  copyTo(stream: Stream, finished: FinishedFile, signal: AbortSignal | undefined): Promise<void>
  remove(): Promise<void>
}
