// Concurrent requests for the same decoded data share one job. Each caller can cancel independently; the job is canceled when all
// callers have canceled.
import { onAbort } from './abort.js'
import { type Owner, run } from './job.js'
import type { NativeControl } from './native.js'

/** The result of a job, and whether only one caller has it. */
export interface Outcome<T> {
  readonly value: T
  readonly sole: boolean
}

interface Running<T> {
  readonly work: () => Promise<T>
  readonly stop: AbortController
  /** Whether the job belongs to another call, which may fail for reasons that do not concern those who joined. */
  readonly lent: boolean
  /** Number of callers that joined. */
  joined: number
  /** Number of callers that still wait. */
  waiting: number
}

/** The running jobs of one file, by the key of their result. */
export class SharedWork {
  readonly #running = new Map<string, Running<unknown>>()

  /** Joins the job called `key`, or starts it. Rejects like `run`. */
  async join<T>(
    key: string,
    owner: Owner,
    signal: AbortSignal | undefined,
    start: (control: NativeControl) => Promise<T>,
  ): Promise<Outcome<T>> {
    signal?.throwIfAborted()
    const running = (this.#running.get(key) as Running<T> | undefined) ?? this.#start(key, owner, start)
    running.joined += 1
    running.waiting += 1
    let abort = () => {}
    const aborted = new Promise<never>((_resolve, reject) => {
      abort = () => reject(signal?.reason)
    })
    const forget = signal && onAbort(signal, abort)
    try {
      const value = await Promise.race([running.work(), aborted])
      owner.throwIfClosed()
      return { value, sole: running.joined === 1 }
    } catch (error) {
      if (!running.lent || signal?.aborted) throw error
    } finally {
      forget?.()
      running.waiting -= 1
      if (running.waiting === 0) {
        this.#forget(key, running)
        running.stop.abort()
      }
    }
    return this.join(key, owner, signal, start)
  }

  has(key: string): boolean {
    return this.#running.has(key)
  }

  /**
   * Lets others join a part of the caller's work: `work` returns that part, lazily. The returned function ends this and returns whether
   * anyone joined. If the caller fails, those who joined start their own job.
   */
  lend<T>(key: string, work: () => Promise<T>): () => boolean {
    const running: Running<T> = { work, stop: new AbortController(), lent: true, joined: 1, waiting: 1 }
    this.#running.set(key, running)
    return () => {
      this.#forget(key, running)
      return running.joined > 1
    }
  }

  #start<T>(key: string, owner: Owner, start: (control: NativeControl) => Promise<T>): Running<T> {
    const stop = new AbortController()
    const work = run(owner, { signal: stop.signal }, start)
    const running: Running<T> = { work: () => work, stop, lent: false, joined: 0, waiting: 0 }
    this.#running.set(key, running)
    // Later callers start a new job. The rejection handler avoids an unhandled rejection if all callers have canceled.
    const forget = () => this.#forget(key, running)
    work.then(forget, forget)
    return running
  }

  #forget(key: string, running: Running<unknown>): void {
    if (this.#running.get(key) === running) this.#running.delete(key)
  }
}
