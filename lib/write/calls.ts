// The queue of a writer's calls, and the handling of errors that the caller does not await.

import { warn } from '#host'

const DONE = Promise.resolve()

/** A promise that records whether its result is awaited. */
class Call<T> extends Promise<T> {
  isHeard = false

  static override get [Symbol.species]() {
    return Promise
  }

  static of<T>(working: Promise<T>): Call<T> {
    const call = new Call<T>((resolve, reject) => working.then(resolve, reject))
    // Avoids an unhandled rejection: finish() reports the error.
    Promise.prototype.then.call(call, undefined, () => {})
    return call
  }

  // biome-ignore lint/suspicious/noThenProperty: it is a promise
  override then<A = T, B = never>(
    onValue?: ((value: T) => A | PromiseLike<A>) | null,
    onError?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isHeard = true
    return super.then(onValue, onError)
  }
}

/** The calls of one writer. */
export class Calls {
  #queue: Promise<unknown> = Promise.resolve()
  /** Number of queued and running calls. */
  #waiting = 0
  /** Whether `finish()` was called. */
  #finishing = false
  /** Resolves when the errors of all calls so far are recorded. */
  #recorded: Promise<unknown> = DONE
  /** Errors of calls and streams, and whether the caller handles each of them. */
  readonly #errors: { readonly error: unknown; readonly isHeard: () => boolean }[] = []

  /** Whether no call is queued or running. */
  get isIdle(): boolean {
    return this.#waiting === 0
  }

  /** Queues work, so that calls run one after the other even if the caller does not await them. */
  async turn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work)
    this.#waiting += 1
    const done = () => {
      this.#waiting -= 1
    }
    this.#queue = turn.then(done, done)
    return turn
  }

  /** Makes a call whose error `finish()` reports, unless the caller awaits it. */
  make<T>(work: () => Promise<T> | undefined): Promise<T> {
    try {
      const working = work()
      return working === undefined ? (DONE as Promise<T>) : this.#heard(working)
    } catch (thrown) {
      return this.#heard(Promise.reject(thrown))
    }
  }

  #heard<T>(working: Promise<T>): Promise<T> {
    const call = Call.of(working)
    const before = this.#recorded
    const recorded = working.catch((error) => this.failed(error, () => call.isHeard))
    // Without a value, so that nothing is kept of many calls.
    this.#recorded = recorded.then(() => before).then(() => undefined)
    return call
  }

  /** Records an error. One that occurs after `finish()` was called is always reported by it. */
  failed(error: unknown, isHeard: () => boolean): void {
    const late = this.#finishing
    this.#errors.push({ error, isHeard: () => !late && isHeard() })
  }

  /** Records that `finish()` was called. The promise resolves when the errors of all earlier calls are recorded. */
  finishing(): Promise<unknown> {
    this.#finishing = true
    return this.#recorded
  }

  /** The first error that the caller has not handled. */
  unheard(): { readonly error: unknown } | undefined {
    return this.#errors.find(({ isHeard }) => !isHeard())
  }
}

// Warns about writers that are garbage-collected without finish() or abort(): what they have written is lost.
const registry = new FinalizationRegistry<string | undefined>((path) => {
  const what = path === undefined ? 'A file written to a stream' : `'${path}'`
  warn(
    `${what} was never finished: its writer was garbage-collected without finish() or abort(), and the written data is lost`,
    'ZT_WARN_UNFINISHED',
  )
})

/** Warns if the writer of `path` is garbage-collected. Returns a token for `forgetUnfinished`. */
export function watchUnfinished(writer: object, path: string | undefined): object {
  const token = {}
  registry.register(writer, path, token)
  return token
}

export function forgetUnfinished(token: object): void {
  registry.unregister(token)
}
