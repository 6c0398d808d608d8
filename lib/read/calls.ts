// The calls in flight on an open file: a drain waits for them, and the channels `ztensor:read` and `ztensor:remote` describe them.
import { channels, publish, type ReadMessage, timed } from '../native/channels.js'
import type { Store } from './store.js'

/** How the running function was called: by the caller's code, by a call in flight, or as a part of one that is published as a whole. */
let caller: 'user' | 'call' | 'part' = 'user'

function as<T>(kind: typeof caller, work: () => T): T {
  const before = caller
  caller = kind
  try {
    return work()
  } finally {
    caller = before
  }
}

/** Calls public functions for a call in flight: a file that drains admits them. Effective until the first `await` of `work`. */
export function withinCall<T>(work: () => T): T {
  return as('call', work)
}

/** Like `withinCall`, for a part of a call that is published as a whole. */
export function asPart<T>(work: () => T): T {
  return as('part', work)
}

/** A call that is measured. */
export interface Trace {
  readonly began: number
  /** Stored bytes of its tensors. Without them, the bytes of its result are published. */
  bytes: number | undefined
  /** Whether all of its data was local when it began. */
  cached: boolean
}

/** The calls in flight on a file. */
export class Calls {
  readonly #store: Store
  #count = 0
  #isClosed = false
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined

  constructor(store: Store) {
    this.#store = store
  }

  /** Number of calls in flight. */
  get count(): number {
    return this.#count
  }

  /** Whether the file closes as soon as its calls have ended. */
  get draining(): boolean {
    return this.#drained !== undefined
  }

  /** Whether a new call is refused. */
  get refuses(): boolean {
    return this.#drained !== undefined && caller === 'user'
  }

  /** Begins a call that reads these tensors; see `touches`. Returns its trace if a channel has a subscriber. */
  begin(ordinal?: number, stored = false): Trace | undefined {
    this.#store.admit()
    const began = caller === 'part' ? undefined : timed(channels.read, channels.remote)
    const trace = began === undefined ? undefined : { began, bytes: undefined, cached: false }
    if (trace !== undefined && ordinal !== undefined) this.touches(trace, Uint32Array.of(ordinal), stored)
    this.#count += 1
    return trace
  }

  /** Ends a call. The last one closes a file that drains. */
  end(): void {
    this.#count -= 1
    if (this.#count === 0 && this.#drained !== undefined) this.#store.close()
  }

  /** Adds the tensors that a call reads to its trace. `stored` publishes their stored bytes in place of those of the result. */
  touches(trace: Trace | undefined, ordinals: Uint32Array, stored = false): void {
    if (trace === undefined) return
    const { native, isRemote } = this.#store
    if (stored) trace.bytes = native.storedBytes(ordinals)
    trace.cached = isRemote && ordinals.every((ordinal) => this.#isNear(ordinal))
  }

  #isNear(ordinal: number): boolean {
    const { native } = this.#store
    return native.components(ordinal).every((_, component) => native.isNear(ordinal, component))
  }

  /** Ends a call with its work, and publishes it. */
  async during<T>(call: ReadMessage['call'], trace: Trace | undefined, work: Promise<T>): Promise<T> {
    try {
      const result = await work
      if (trace !== undefined) this.publish(call, trace, trace.bytes ?? arrayBytes(result), undefined)
      return result
    } catch (error) {
      if (trace !== undefined) this.publish(call, trace, 0, error)
      throw error
    } finally {
      this.end()
    }
  }

  /** Begins a call without a message. */
  enter(): void {
    this.#store.admit()
    this.#count += 1
  }

  /** Counts other work as a call, without a message. */
  async hold<T>(work: () => Promise<T>): Promise<T> {
    this.enter()
    try {
      return await work()
    } finally {
      this.end()
    }
  }

  publish(call: ReadMessage['call'], { began, cached }: Trace, bytes: number, error: unknown): void {
    const { path: source, format, isRemote } = this.#store
    const message = { call, source, format, bytes, milliseconds: performance.now() - began, error }
    if (channels.read.hasSubscribers) publish('read', message)
    if (isRemote && channels.remote.hasSubscribers) publish('remote', { ...message, cached })
  }

  /** Refuses new calls. Resolves when the calls in flight have ended and the file is closed. */
  drain(): Promise<void> {
    if (this.#isClosed) return Promise.resolve()
    if (this.#drained !== undefined) return this.#drained.promise
    let resolve = () => {}
    const promise = new Promise<void>((done) => {
      resolve = done
    })
    this.#drained = { promise, resolve }
    if (this.#count === 0) this.#store.close()
    return promise
  }

  /** Called when the file was closed. */
  closed(): void {
    this.#isClosed = true
    this.#drained?.resolve()
  }
}

/** Size in bytes of the arrays in a result. */
function arrayBytes(result: unknown): number {
  if (ArrayBuffer.isView(result)) return result.byteLength
  if (typeof result !== 'object' || result === null) return 0
  const parts = result instanceof Map ? result.values() : Object.values(result)
  let bytes = 0
  for (const part of parts) bytes += arrayBytes(part)
  return bytes
}
