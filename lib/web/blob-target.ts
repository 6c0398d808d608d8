// A Blob as a target, and what a target is.
import { ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'

/** Bytes in a Blob are collected in pieces, which the browser may keep on disk. */
const PART = 32 * 2 ** 20
/** Milliseconds between attempts to keep a piece: a browser may first have to move others to disk. */
const PAUSES = [0, 50, 100, 200, 400, 800, 1600]

/** A target that is being written. */
export interface Target {
  open(): Promise<void>
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>
  close(): Promise<void>
  abort(reason: unknown): Promise<void>
  release(): void
}

/** Collects a Blob. */
export class BlobTarget implements Target {
  readonly #parts: Blob[] = []
  readonly #waiting: Uint8Array<ArrayBuffer>[] = []
  #length = 0

  async open(): Promise<void> {}

  async write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#waiting.push(bytes)
    this.#length += bytes.byteLength
    if (this.#length >= PART) await this.#keep()
  }

  async #keep(): Promise<void> {
    const bytes = this.#waiting.splice(0)
    this.#length = 0
    if (bytes.length > 0) this.#parts.push(await kept(bytes))
  }

  async close(): Promise<void> {
    await this.#keep()
  }

  async abort(): Promise<void> {
    this.#parts.length = 0
    this.#waiting.length = 0
  }

  release(): void {}

  get blob(): Blob {
    return new Blob(this.#parts, { type: 'application/octet-stream' })
  }
}

/** Makes a Blob of bytes. One that the browser has no space for exists, too, but cannot be read. */
async function kept(bytes: Uint8Array<ArrayBuffer>[]): Promise<Blob> {
  let cause: unknown
  for (const pause of PAUSES) {
    if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause))
    const blob = new Blob(bytes)
    try {
      await blob.slice(blob.size - 1).arrayBuffer()
      return blob
    } catch (error) {
      cause = error
    }
  }
  const message =
    `the browser has no space to keep this file (${messageOf(cause)}): free disk space, or write zTensor to a stream or to the handle of a ` +
    'file, which keeps nothing'
  throw new ZTensorError('ZT_IO', message, { cause })
}
