// Decoding that several callers ask for at the same time is done once. Each has its own end: one that gives up leaves the others
// alone, and with the last one the work stops.
import { type Owner, run } from './job.js'
import type { NativeControl } from './native.js'

/** What came of work, and whether nobody else has it. */
export interface Outcome<T> {
  readonly value: T
  readonly sole: boolean
}

interface Running<T> {
  readonly work: () => Promise<T>
  readonly stop: AbortController
  /** Whether it is another call's own, which may end it for reasons that are nobody else's. */
  readonly lent: boolean
  /** Callers that joined, and those of them that still wait. */
  joined: number
  waiting: number
}

/** The work under way on one file, by what it makes. */
export class SharedWork {
  readonly #running = new Map<string, Running<unknown>>()

  /** Joins the work called `key`, or starts it. Rejects as `run` does. */
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
    let giveUp = () => {}
    const givenUp = new Promise<never>((_resolve, reject) => {
      giveUp = () => reject(signal?.reason)
    })
    signal?.addEventListener('abort', giveUp, { once: true })
    try {
      const value = await Promise.race([running.work(), givenUp])
      owner.throwIfClosed()
      return { value, sole: running.joined === 1 }
    } catch (error) {
      if (!running.lent || signal?.aborted) throw error
    } finally {
      signal?.removeEventListener('abort', giveUp)
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
   * Lets others join what a call makes by the way: `work` gives their share of it, once it is asked for. What is returned ends that
   * and says whether anybody joined. Where the call fails, they begin their own.
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
    // Whoever comes later finds nothing to join; and nobody may be left to hear of a failure.
    const forget = () => this.#forget(key, running)
    work.then(forget, forget)
    return running
  }

  #forget(key: string, running: Running<unknown>): void {
    if (this.#running.get(key) === running) this.#running.delete(key)
  }
}
