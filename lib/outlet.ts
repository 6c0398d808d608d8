// A stream of the caller's that a file is written into.
import type { Writable } from 'node:stream'
import { invalid, ZTensorError } from './errors.js'
import { toBufferSync } from './memory.js'
import { binding, type NativeOutflow } from './native.js'

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

  /**
   * Writes the blocks that `make` passes on meanwhile. Where the stream fails, `make` is stopped.
   *
   * @throws what `make` rejects with; where the stream failed, that error
   */
  async pass(make: (blocks: NativeOutflow, stop: AbortSignal) => Promise<void>, signal?: AbortSignal): Promise<void> {
    const blocks = new binding.Outflow()
    const failing = new AbortController()
    // A stream that nobody reads would be waited for without end.
    const destroy = () => this.destroy()
    signal?.addEventListener('abort', destroy, { once: true })
    const stop = signal === undefined ? failing.signal : AbortSignal.any([signal, failing.signal])
    const making = make(blocks, stop).finally(() => blocks.close())
    making.catch(() => {})
    try {
      for (let block = await blocks.next(); block !== null; block = await blocks.next()) {
        if (failing.signal.aborted) continue
        await this.write(new Uint8Array(toBufferSync(block))).catch((error) => failing.abort(error))
      }
      await making
    } finally {
      signal?.removeEventListener('abort', destroy)
    }
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
