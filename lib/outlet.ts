// A stream of the caller's that a file is written into.
import type { Writable } from 'node:stream'
import { invalid, ZTensorError } from './errors.js'

/** Writes into a stream, one call after the other, each done when the stream wants more. */
export class Outlet {
  readonly #stream: Writable
  #failure: ZTensorError | undefined
  #done = false
  /** Settles the call that waits. */
  #wake: (() => void) | undefined

  constructor(stream: Writable) {
    if (stream.writable === false || stream.destroyed) {
      throw invalid(TypeError, 'the stream must be writable: it has ended or was destroyed')
    }
    this.#stream = stream
    stream.on('error', this.#onError).on('close', this.#onClose)
  }

  readonly #onError = (cause: Error): void => {
    // The first one is the reason; what follows is its consequence.
    this.#failure ??= new ZTensorError('ZT_IO', `the stream failed: ${cause?.message ?? String(cause)}`, { cause })
    this.#wake?.()
  }

  readonly #onClose = (): void => {
    this.#failure ??= new ZTensorError('ZT_IO', 'the stream was closed before the file was complete')
    this.#wake?.()
  }

  /** Waits for an event, or for the end of the stream. */
  #until(event: 'drain' | 'finish'): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#wake = undefined
        this.#stream.off(event, settle)
        if (this.#failure === undefined) resolve()
        else reject(this.#failure)
      }
      this.#wake = settle
      this.#stream.on(event, settle)
    })
  }

  /** @throws ZTensorError ZT_IO where the stream failed or was closed, with its error as the cause */
  async write(bytes: Uint8Array): Promise<void> {
    this.throwIfFailed()
    if (bytes.byteLength === 0) return
    const wantsMore = this.#stream.write(bytes)
    this.throwIfFailed()
    if (!wantsMore) await this.#until('drain')
  }

  /** Ends the stream, and resolves when it has taken everything. */
  async end(): Promise<void> {
    this.throwIfFailed()
    const ended = this.#until('finish')
    this.#stream.end()
    await ended
    this.release()
  }

  /** Leaves the stream to its owner. */
  release(): void {
    this.#done = true
    this.#stream.off('error', this.#onError).off('close', this.#onClose)
  }

  /** Ends the stream in the middle, so that nobody takes what it got for a whole file. */
  destroy(): void {
    if (!this.#done) this.#stream.destroy()
  }

  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure
  }
}

/** Whether it is a stream to write into: Node's own class, or one that does as it does. */
export function isWritable(value: unknown): value is Writable {
  const methods = ['write', 'end', 'on', 'off', 'destroy'] as const
  return (
    typeof value === 'object' &&
    value !== null &&
    methods.every((name) => typeof (value as Partial<Record<string, unknown>>)[name] === 'function')
  )
}
