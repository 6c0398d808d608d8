// A Blob as a target, and what a target is.

/** Bytes in a Blob are collected in pieces, which the browser may keep on disk. */
const PART = 32 * 2 ** 20

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
  #waiting: Uint8Array<ArrayBuffer>[] = []
  #length = 0

  async open(): Promise<void> {}

  async write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#waiting.push(bytes)
    this.#length += bytes.byteLength
    if (this.#length >= PART) this.#keep()
  }

  #keep(): void {
    this.#parts.push(new Blob(this.#waiting))
    this.#waiting = []
    this.#length = 0
  }

  async close(): Promise<void> {
    this.#keep()
  }

  async abort(): Promise<void> {
    this.#parts.length = 0
    this.#waiting = []
  }

  release(): void {}

  get blob(): Blob {
    return new Blob(this.#parts, { type: 'application/octet-stream' })
  }
}
