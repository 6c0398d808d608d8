// Writes a file to the caller's stream.

import type { Writable } from 'node:stream'
import { onAbort } from '../native/abort.js'
import { builtins } from '../native/builtins.js'
import { invalid, ZTensorError } from '../native/errors.js'
import { toBufferSync } from '../native/memory.js'
import { binding, type NativeOutflow } from '../native/native.js'
import { messageOf } from '../native/realm.js'
import { SpecialFile } from './special-file.js'
import { FileSpool } from './spool.js'
import type { Spool, Stream } from './stream.js'

/** Polling interval for streams that emit no event when they are destroyed. */
const LOOK_MS = 50

/** Writes to a stream with backpressure: each call resolves when the stream accepts more. */
export class Outlet implements Stream {
  /** Undefined until a pipe or device is opened. */
  #stream: Writable | undefined
  readonly #special: SpecialFile | undefined
  #failure: ZTensorError | undefined
  #done = false
  /** Settles the waiting call. */
  #wake: (() => void) | undefined

  /** Writes to a stream of the caller, or to a pipe or device after `open()`. */
  constructor(target: Writable | SpecialFile) {
    if (target instanceof SpecialFile) {
      this.#special = target
      return
    }
    if (target.writable === false || target.destroyed) {
      throw invalid(TypeError, 'the stream must be writable, but it has ended or was destroyed')
    }
    this.#take(target)
  }

  /**
   * Opens a pipe or device. Resolves when the pipe has a reader.
   *
   * @throws ZTensorError ZT_IO if it cannot be opened; the signal's reason
   */
  async open(signal: AbortSignal | undefined): Promise<void> {
    if (this.#special !== undefined && this.#stream === undefined) this.#take(await this.#special.open(signal))
  }

  #take(stream: Writable): void {
    this.#stream = stream
    stream.on('error', this.#onError).on('close', this.#onClose)
  }

  get #opened(): Writable {
    if (this.#stream === undefined) throw new ZTensorError('ZT_INTERNAL', 'the pipe was not opened')
    return this.#stream
  }

  readonly #onError = (cause: unknown): void => {
    this.#fail(`the stream failed: ${messageOf(cause)}`, cause)
  }

  readonly #onClose = (): void => this.#fail('the stream was closed before the file was complete')

  /** Fails the waiting call. The first failure is kept: later ones are its consequences. */
  #fail(message: string, cause?: unknown): void {
    this.#failure ??= new ZTensorError('ZT_IO', message, { cause })
    this.#wake?.()
  }

  /** Waits until `listen` calls back, or the stream ends. `listen` returns a function that removes its listener. */
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

  /** A stream without 'close' events (`emitClose: false`) emits nothing when it is destroyed, not even during a write. */
  readonly #look = (): void => {
    const { destroyed, writableFinished, errored } = this.#opened
    if (!destroyed || writableFinished) return
    if (errored) this.#onError(errored)
    else this.#onClose()
  }

  /** @throws ZTensorError ZT_IO if the stream failed or was closed, with its error as the cause */
  async write(bytes: Uint8Array): Promise<void> {
    this.throwIfFailed()
    if (bytes.byteLength === 0) return
    const stream = this.#opened
    const wantsMore = this.#calling(() => stream.write(bytes))
    this.throwIfFailed()
    if (wantsMore) return
    await this.#until((ready) => {
      stream.on('drain', ready)
      return () => stream.off('drain', ready)
    })
  }

  /** Calls a method of the stream. Anything that its code throws counts as a failure of the stream. */
  #calling<T>(call: () => T): T {
    try {
      return call()
    } catch (cause) {
      this.#onError(cause)
      throw this.#failure
    }
  }

  /**
   * Writes the blocks that `make` produces. If the stream fails, `make` is stopped.
   *
   * @throws what `make` rejects with, or the failure of the stream
   */
  async pass(make: (blocks: NativeOutflow, stop: AbortSignal) => Promise<void>, signal?: AbortSignal): Promise<void> {
    const blocks = new binding.Outflow()
    const failing = new AbortController()
    // Otherwise an abort would wait forever for a stream without a reader.
    const destroy = () => this.destroy()
    const forget = signal && onAbort(signal, destroy)
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
      forget?.()
    }
  }

  /** Ends the stream. Resolves when it has finished. */
  async end(): Promise<void> {
    this.throwIfFailed()
    const stream = this.#opened
    stream.off('close', this.#onClose)
    await this.#until((ready) => {
      const onFinished = (error?: NodeJS.ErrnoException | null): void => {
        if (error && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') this.#onError(error)
        // finished() reports no error for a stream that is destroyed while it ends.
        else if (error || stream.writableFinished === false) this.#onClose()
        else ready()
      }
      // finished() calls back after 'close', so that failures until then are still reported.
      const forget = builtins.stream.finished(stream, { readable: false }, onFinished)
      this.#calling(() => stream.end())
      return forget
    })
    this.release()
  }

  /** Removes all listeners. Closes a pipe or device. */
  release(): void {
    this.#done = true
    this.#stream?.off('error', this.#onError).off('close', this.#onClose)
    if (this.#special === undefined) return
    if (this.#stream === undefined) this.#special.dismiss()
    else this.#stream.on('error', () => {}).destroy()
  }

  /** Destroys the stream and fails the waiting call, so that no reader mistakes a partial file for a complete one. */
  destroy(): void {
    if (this.#done) return
    this.#fail('the stream was destroyed before the file was complete')
    if (this.#stream === undefined) this.#special?.dismiss()
    else this.#stream.destroy()
  }

  createSpool(): Promise<Spool> {
    return FileSpool.create()
  }

  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure
  }
}

/** Whether a value is a Node Writable, or has the same methods. */
export function isWritable(value: unknown): value is Writable {
  const methods = ['write', 'end', 'on', 'off', 'destroy'] as const
  return (
    typeof value === 'object' &&
    value !== null &&
    methods.every((name) => typeof (value as Partial<Record<string, unknown>>)[name] === 'function')
  )
}
