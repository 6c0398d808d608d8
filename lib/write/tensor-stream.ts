// The stream for the elements of one tensor.
import type { Readable, Writable } from 'node:stream'
import { streams } from '#host'
import { isOurs, publicError, ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { bytesOf } from '../values/dtype.js'

/** The writer's side of a stream. */
interface Sink {
  /** Queues and begins the tensor. `ended` resolves with undefined when it is complete, or with the error. */
  readonly begin: (ended: Promise<unknown>) => Promise<void>
  readonly push: (bytes: Uint8Array) => Promise<void>
  readonly end: () => void
  /** Called at the end, with the error if any, and whether the caller listens to it. */
  readonly closed: (error: unknown, isHeard: boolean) => void
  readonly path: string | undefined
  readonly signal: AbortSignal | undefined
}

const HIGH_WATER = 4 * 2 ** 20

/** Creates a Writable that passes its chunks to the writer. */
export function tensorStream(sink: Sink): Writable {
  return new TensorStream(sink).writable
}

class TensorStream {
  readonly writable: Writable
  readonly #sink: Sink
  readonly #begun: Promise<void>
  #settle: (failure: unknown) => void = () => {}
  #complete = false
  /** The piped sources, with functions that stop watching them. */
  readonly #sources = new Map<Readable, () => void>()

  constructor(sink: Sink) {
    this.#sink = sink
    this.writable = new (streams().Writable)({
      highWaterMark: HIGH_WATER,
      decodeStrings: true,
      write: (chunk: Uint8Array, _encoding, callback) => this.#write(chunk, callback),
      final: (callback) => this.#final(callback),
      destroy: (error, callback) => this.#destroy(error, callback),
    })
    const ended = new Promise<unknown>((resolve) => {
      this.#settle = resolve
    })
    this.#begun = sink.begin(ended)
    // Destroyed immediately, even if nothing is written.
    this.#begun.catch((error) => this.writable.destroy(this.#error(error)))
    // finish() reports the error. Without a listener it would be an uncaught exception.
    this.writable.on('error', () => {})
    this.writable.on('pipe', (source: Readable) => this.#watch(source))
    this.writable.on('unpipe', (source: Readable) => this.#sources.get(source)?.())
  }

  /** Watches a piped source: `pipe` does not end its target if the source is destroyed. */
  #watch(source: Readable): void {
    const forget = streams().finished(source, { writable: false }, (cause) => {
      this.#sources.delete(source)
      if (!cause || this.writable.writableFinished) return
      const message = `the source of the stream ended before all bytes were written: ${cause.message}`
      this.writable.destroy(new ZTensorError('ZT_IO', message, { cause }))
    })
    this.#sources.set(source, () => {
      this.#sources.delete(source)
      forget()
    })
  }

  #error(thrown: unknown): Error {
    const { path, signal } = this.#sink
    return (signal?.aborted && thrown === signal.reason ? thrown : publicError(thrown, path)) as Error
  }

  /** Converts the error that the stream was destroyed with: an error of the writer, or of the source. */
  #failureOf(cause: Error | null): unknown {
    if (cause === null) return new ZTensorError('ZT_CLOSED', 'the stream was destroyed before all bytes were written')
    if (isOurs(cause) || cause === this.#sink.signal?.reason) return cause
    return new ZTensorError('ZT_IO', `the source of the stream failed: ${messageOf(cause)}`, { cause })
  }

  #done(work: Promise<unknown>, callback: (error?: Error | null) => void): void {
    work.then(
      () => callback(),
      (thrown) => callback(this.#error(thrown)),
    )
  }

  #write(chunk: Uint8Array, callback: (error?: Error | null) => void): void {
    this.#done(
      this.#begun.then(() => this.#sink.push(bytesOf(chunk))),
      callback,
    )
  }

  #final(callback: (error?: Error | null) => void): void {
    const end = () => {
      this.#sink.end()
      this.#complete = true
      this.#sink.closed(undefined, true)
    }
    this.#done(this.#begun.then(end), callback)
  }

  #destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const failure = this.#complete ? undefined : this.#failureOf(error)
    // Not counting the listeners of this class and of each pipe().
    this.#sink.closed(failure, this.writable.listenerCount('error') > 1 + this.#sources.size)
    this.#settle(failure)
    callback(error)
  }
}
