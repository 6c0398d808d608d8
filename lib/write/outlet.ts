// A stream of the caller's that a file is written into.
import type { Writable } from 'node:stream'
import { builtins } from '../native/builtins.js'
import { invalid, ZTensorError } from '../native/errors.js'
import { toBufferSync } from '../native/memory.js'
import { binding, type NativeOutflow } from '../native/native.js'
import { messageOf } from '../native/realm.js'

/** How often a stream is looked at that says nothing when it is destroyed. */
const LOOK_MS = 50

/** Writes into a stream, one call after the other, each done when the stream wants more. */
export class Outlet {
  readonly #stream: Writable
  readonly #own: boolean
  #failure: ZTensorError | undefined
  #done = false
  /** Settles the call that waits. */
  #wake: (() => void) | undefined

  /** A stream that is our `own` is destroyed where it would be left to its owner. */
  constructor(stream: Writable, own = false) {
    if (stream.writable === false || stream.destroyed) {
      throw invalid(TypeError, 'the stream must be writable: it has ended or was destroyed')
    }
    this.#stream = stream
    this.#own = own
    stream.on('error', this.#onError).on('close', this.#onClose)
  }

  readonly #onError = (cause: unknown): void => {
    this.#fail(`the stream failed: ${messageOf(cause)}`, cause)
  }

  readonly #onClose = (): void => this.#fail('the stream was closed before the file was complete')

  /** Ends the call that waits. The first reason counts; what follows is its consequence. */
  #fail(message: string, cause?: unknown): void {
    this.#failure ??= new ZTensorError('ZT_IO', message, { cause })
    this.#wake?.()
  }

  /** Waits until `listen` is called back, or for the end of the stream. What `listen` gives stops the listening. */
  #until(listen: (ready: () => void) => () => void): Promise<void> {
    let forget = () => {}
    const settled = new Promise<void>((resolve, reject) => {
      this.#wake = (): void => {
        if (this.#failure === undefined) resolve()
        else reject(this.#failure)
      }
      forget = listen(this.#wake)
    })
    const look = setInterval(this.#look, LOOK_MS)
    return settled.finally(() => {
      this.#wake = undefined
      clearInterval(look)
      forget()
    })
  }

  /** A stream without 'close' events (`emitClose: false`) that its owner destroys says nothing, even of a write under way. */
  readonly #look = (): void => {
    const { destroyed, writableFinished, errored } = this.#stream
    if (!destroyed || writableFinished) return
    if (errored) this.#onError(errored)
    else this.#onClose()
  }

  /** @throws ZTensorError ZT_IO where the stream failed or was closed, with its error as the cause */
  async write(bytes: Uint8Array): Promise<void> {
    this.throwIfFailed()
    if (bytes.byteLength === 0) return
    const wantsMore = this.#calling(() => this.#stream.write(bytes))
    this.throwIfFailed()
    if (wantsMore) return
    await this.#until((ready) => {
      this.#stream.on('drain', ready)
      return () => this.#stream.off('drain', ready)
    })
  }

  /** Calls the stream, in which code of its owner's runs: whatever that throws is the stream's failure. */
  #calling<T>(call: () => T): T {
    try {
      return call()
    } catch (cause) {
      this.#onError(cause)
      throw this.#failure
    }
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
    this.#stream.off('close', this.#onClose)
    await this.#until((ready) => {
      const told = (error?: NodeJS.ErrnoException | null): void => {
        if (error && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') this.#onError(error)
        // A stream that is destroyed at its end, which may be under way, is no error there.
        else if (error || this.#stream.writableFinished === false) this.#onClose()
        else ready()
      }
      // Of a stream that closes itself this tells after its 'close': what fails until then concerns the file.
      const forget = builtins.stream.finished(this.#stream, { readable: false }, told)
      this.#calling(() => this.#stream.end())
      return forget
    })
    this.release()
  }

  /** Leaves the stream to its owner. */
  release(): void {
    this.#done = true
    this.#stream.off('error', this.#onError).off('close', this.#onClose)
    if (this.#own) this.#stream.on('error', () => {}).destroy()
  }

  /** Ends the stream in the middle, so that nobody takes what it got for a whole file, and the call that waits for it. */
  destroy(): void {
    if (this.#done) return
    this.#fail('the stream was destroyed before the file was complete')
    this.#stream.destroy()
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
