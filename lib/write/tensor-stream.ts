// The stream that the elements of one tensor are written into.
import { finished, type Readable, Writable } from 'node:stream'
import { isOurs, publicError, ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { bytesOf } from '../values/dtype.js'

/** What a stream does with its writer. */
interface Sink {
  /** Begins the tensor when its turn comes. `ended` resolves with undefined once it is whole, else with what went wrong. */
  readonly begin: (ended: Promise<unknown>) => Promise<void>
  readonly push: (bytes: Uint8Array) => Promise<void>
  readonly end: () => void
  /** Told at the end, with the error if there was one, and whether anybody listens to it. */
  readonly closed: (error: unknown, isHeard: boolean) => void
  readonly path: string | undefined
  readonly signal: AbortSignal | undefined
}

const HIGH_WATER = 4 * 2 ** 20

/** Takes bytes as they come. */
export class TensorStream extends Writable {
  readonly #sink: Sink
  readonly #begun: Promise<void>
  #settle: (failure: unknown) => void = () => {}
  #complete = false
  /** Stops watching the sources that are piped into it. */
  readonly #sources = new Map<Readable, () => void>()

  constructor(sink: Sink) {
    super({ highWaterMark: HIGH_WATER, decodeStrings: true })
    this.#sink = sink
    const ended = new Promise<unknown>((resolve) => {
      this.#settle = resolve
    })
    this.#begun = sink.begin(ended)
    // Told at once: the owner may write nothing before it is.
    this.#begun.catch((error) => this.destroy(this.#error(error)))
    // finish() tells of it; without a listener the process would end.
    this.on('error', () => {})
    this.on('pipe', (source: Readable) => this.#watch(source))
    this.on('unpipe', (source: Readable) => this.#sources.get(source)?.())
  }

  /** `pipe` ends nothing where its source is destroyed. */
  #watch(source: Readable): void {
    const forget = finished(source, { writable: false }, (cause) => {
      this.#sources.delete(source)
      if (!cause || this.writableFinished) return
      const message = `the source of the stream ended before all bytes had come: ${cause.message}`
      this.destroy(new ZTensorError('ZT_IO', message, { cause }))
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

  /** What the stream was destroyed with: the error of its source, unless it is the writer's own. */
  #failureOf(cause: Error | null): unknown {
    if (cause === null) return new ZTensorError('ZT_CLOSED', 'the stream was destroyed before all bytes had come')
    if (isOurs(cause) || cause === this.#sink.signal?.reason) return cause
    return new ZTensorError('ZT_IO', `the source of the stream failed: ${messageOf(cause)}`, { cause })
  }

  #done(work: Promise<unknown>, callback: (error?: Error | null) => void): void {
    work.then(
      () => callback(),
      (thrown) => callback(this.#error(thrown)),
    )
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.#done(
      this.#begun.then(() => this.#sink.push(bytesOf(chunk))),
      callback,
    )
  }

  override _final(callback: (error?: Error | null) => void): void {
    const end = () => {
      this.#sink.end()
      this.#complete = true
      this.#sink.closed(undefined, true)
    }
    this.#done(this.#begun.then(end), callback)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const failure = this.#complete ? undefined : this.#failureOf(error)
    // Beside this class and every pipe(), who listen too.
    this.#sink.closed(failure, this.listenerCount('error') > 1 + this.#sources.size)
    this.#settle(failure)
    callback(error)
  }
}
