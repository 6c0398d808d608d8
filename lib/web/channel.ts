// Calls between a page and its worker, in both directions. Buffers in arguments and results are transferred.
import { messageOf } from '../native/realm.js'
import { native, type Thrown, takePanic } from './module.js'

/** The other side. */
interface Port {
  postMessage(message: unknown, transfer: Transferable[]): void
}

type Counts = [bytes: number, totalBytes: number, tensors: number, totalTensors: number]

/** What a call is controlled by: an abort goes to the other side, progress comes back. */
export interface Control {
  readonly signal: AbortSignal
  set?(counts: Counts): void
}

/** Does what the other side asks for. */
export type Answer = (what: string, args: readonly unknown[], control: Required<Control>) => Promise<unknown>

/** An error as it is posted: `cause` is what the browser threw. */
type PostedError = Thrown & { readonly cause?: unknown }

type Message = { readonly id: number } & (
  | { readonly kind: 'ask'; readonly what: string; readonly args: readonly unknown[] }
  | { readonly kind: 'abort' }
  | { readonly kind: 'progress'; readonly counts: Counts }
  | { readonly kind: 'done'; readonly result: unknown }
  | { readonly kind: 'failed'; readonly error: PostedError }
)

interface Waiting {
  done(result: unknown): void
  failed(error: unknown): void
  progress(counts: Counts): void
}

const buffersOf = (value: unknown): ArrayBuffer[] =>
  value instanceof ArrayBuffer ? [value] : Array.isArray(value) ? value.flatMap(buffersOf) : []

/** An error of the binding, or a bug, as it is posted. */
function posted(error: unknown): PostedError {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string' && error.code.startsWith('ZT_'))
    return { ...error, message: error.message } as PostedError
  return { code: 'ZT_INTERNAL', message: `a bug in ztensor, please report it: ${takePanic() ?? messageOf(error)}` }
}

export class Channel {
  readonly #port: Port
  readonly #answer: Answer
  /** Calls of this side. */
  readonly #waiting = new Map<number, Waiting>()
  /** Calls of the other side. */
  readonly #running = new Map<number, AbortController>()
  #last = 0
  #ended: Error | undefined

  constructor(port: Port, answer: Answer) {
    this.#port = port
    this.#answer = answer
  }

  /** Asks the other side for a result. Rejects with the signal's reason, an error of the binding, or that of `end`. */
  ask<T>(what: string, args: readonly unknown[], control: Control): Promise<T> {
    const { signal } = control
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined || signal.aborted) throw this.#ended ?? signal.reason
      this.#last += 1
      const id = this.#last
      const abort = () => {
        this.#post({ id, kind: 'abort' })
        settle(() => reject(signal.reason))
      }
      const settle = (end: () => void) => {
        this.#waiting.delete(id)
        signal.removeEventListener('abort', abort)
        end()
      }
      this.#waiting.set(id, {
        done: (result) => settle(() => resolve(result as T)),
        failed: (error) => settle(() => reject(error)),
        progress: (counts) => control.set?.(counts),
      })
      signal.addEventListener('abort', abort)
      this.#post({ id, kind: 'ask', what, args }, buffersOf(args))
    })
  }

  /** Takes a message of the other side. */
  take(message: Message): void {
    const { id } = message
    switch (message.kind) {
      case 'ask':
        this.#run(id, message.what, message.args)
        break
      case 'abort':
        this.#running.get(id)?.abort(native({ code: 'ZT_ABORTED', message: 'the work was canceled' }))
        break
      case 'progress':
        this.#waiting.get(id)?.progress(message.counts)
        break
      case 'done':
        this.#waiting.get(id)?.done(message.result)
        break
      case 'failed':
        this.#waiting.get(id)?.failed(native(message.error))
    }
  }

  /** Ends all calls with an error. */
  end(error: Error): void {
    this.#ended ??= error
    for (const { failed } of this.#waiting.values()) failed(error)
    for (const stop of this.#running.values()) stop.abort(error)
  }

  #post(message: Message, transfer: ArrayBuffer[] = []): void {
    if (this.#ended === undefined) this.#port.postMessage(message, transfer)
  }

  async #run(id: number, what: string, args: readonly unknown[]): Promise<void> {
    const stop = new AbortController()
    this.#running.set(id, stop)
    try {
      const set = (counts: Counts) => this.#post({ id, kind: 'progress', counts })
      const result = await this.#answer(what, args, { signal: stop.signal, set })
      this.#post({ id, kind: 'done', result }, buffersOf(result))
    } catch (error) {
      this.#post({ id, kind: 'failed', error: posted(error) })
    } finally {
      this.#running.delete(id)
    }
  }
}
