// The calls of a writer: one after the other, and what becomes of errors that nobody waits for.

const DONE = Promise.resolve()

/** A promise that knows whether anybody listens to its errors. */
class Call<T> extends Promise<T> {
  isHeard = false

  static override get [Symbol.species]() {
    return Promise
  }

  static of<T>(working: Promise<T>): Call<T> {
    const call = new Call<T>((resolve, reject) => working.then(resolve, reject))
    // No process ends for it: finish() tells.
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
  /** Calls that have not had their turn yet, or are having it. */
  #waiting = 0
  /** Whether the last call was made. */
  #finishing = false
  /** Errors of calls and streams, and whether anybody hears of each from there. */
  readonly #errors: { readonly error: unknown; readonly isHeard: () => boolean }[] = []

  /** Whether nothing is under way. */
  get isIdle(): boolean {
    return this.#waiting === 0
  }

  /** Does one thing after the other, whatever the caller waits for. */
  async turn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#queue.then(work)
    this.#waiting += 1
    const done = () => {
      this.#waiting -= 1
    }
    this.#queue = turn.then(done, done)
    return turn
  }

  /** A call whose error, where nobody waits for it, is that of the last one. */
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
    working.catch((error) => this.failed(error, () => call.isHeard))
    return call
  }

  /** Something failed. What fails once the last call was made could not be known when it was. */
  failed(error: unknown, isHeard: () => boolean): void {
    const late = this.#finishing
    this.#errors.push({ error, isHeard: () => !late && isHeard() })
  }

  /** From now on the last call is waited for. */
  finishing(): void {
    this.#finishing = true
  }

  /** The first error that nobody has heard of. */
  unheard(): { readonly error: unknown } | undefined {
    return this.#errors.find(({ isHeard }) => !isHeard())
  }
}

// Writers that nobody has finished or given up, and nobody can any more: what they have written is lost, which a warning says.
const registry = new FinalizationRegistry<string | undefined>((path) => {
  const what = path === undefined ? 'A file that was written into a stream' : `'${path}'`
  process.emitWarning(
    `${what} was never finished: its writer was collected without finish() or abort(), and what was written is lost`,
    { type: 'ZTensorWarning', code: 'ZT_WARN_UNFINISHED' },
  )
})

/** Warns when the writer of `path` is collected. Gives what `forgetUnfinished` takes. */
export function watchUnfinished(writer: object, path: string | undefined): object {
  const token = {}
  registry.register(writer, path, token)
  return token
}

export function forgetUnfinished(token: object): void {
  registry.unregister(token)
}
