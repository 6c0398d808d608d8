// A worker of the page: what it is asked for, and what it asks the page for.
import { registerThrown } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import type { Control, Opening } from './binding.js'
import { Channel } from './channel.js'
import { makeRoom, native, type Thrown } from './module.js'
import type { FileSource, Sink, Tree } from './tree.js'
import type { Found, PostedTree } from './worker.js'

/** What a worker is for, as its errors say it. */
interface Purpose {
  readonly what: string
  /** What to do if it has ended. */
  readonly afterwards: string
  /** What works without it. */
  readonly instead: string
}

/** A worker, and what it asks this side for. */
export class Thread {
  readonly #worker: Worker
  readonly #channel: Channel
  readonly #trees = new Map<number, Tree>()
  /** The files that this side reads. */
  readonly #sources: FileSource[] = []
  readonly #purpose: Purpose
  #isStarted = false
  #sink: Sink | undefined

  constructor(purpose: Purpose) {
    this.#purpose = purpose
    this.#worker = startWorker(purpose)
    // biome-ignore lint/suspicious/noExplicitAny: each call has its own arguments
    const answers: Record<string, (args: any, signal: AbortSignal) => Promise<unknown>> = {
      find: ([number, name]: [number, string], signal) => this.#find(number, name, signal),
      read: ([number, offset, length]: [number, number, number], signal) => this.#read(number, offset, length, signal),
      makeRoom: async () => makeRoom(),
      write: ([buffer]: [ArrayBuffer]) => (this.#sink as Sink).write(new Uint8Array(buffer)),
    }
    this.#channel = new Channel(this.#worker, (what, args, { signal }) =>
      (answers[what] as (typeof answers)[string])(args, signal),
    )
    this.#worker.onmessage = ({ data }) => {
      this.#isStarted = true
      this.#channel.take(data)
    }
    this.#worker.onmessageerror = () => this.#fail('a message could not be read')
    this.#worker.onerror = (event) => {
      event.preventDefault()
      this.#fail(event.message ?? '')
    }
  }

  /** Makes a call. */
  async ask<T>(what: string, args: readonly unknown[], control: Control): Promise<T> {
    try {
      return await this.#channel.ask<T>(what, args, control)
    } catch (error) {
      const { cause } = error as { cause?: unknown }
      throw cause === undefined || error === control.signal.reason
        ? error
        : Object.assign(error as Error, { thrown: registerThrown(cause) })
    }
  }

  /** Lets the worker find the files of a tree. */
  post({ tree, request }: Opening): PostedTree {
    const number = nextTree++
    this.#trees.set(number, tree)
    return { number, roots: tree.roots, request }
  }

  /** Lets the worker find the files of trees, while `work` runs. */
  async with<T>(openings: readonly Opening[], work: (trees: PostedTree[]) => Promise<T>): Promise<T> {
    const trees = openings.map((one) => this.post(one))
    try {
      return await work(trees)
    } finally {
      for (const { number } of trees) this.#trees.delete(number)
    }
  }

  /** Lets the worker write to `sink`, while `work` runs. Rejects with what the sink throws. */
  async writing<T>(sink: Sink, work: () => Promise<T>): Promise<T> {
    let failure: { error: unknown } | undefined
    this.#sink = {
      write: (bytes) =>
        sink.write(bytes).catch((error) => {
          failure ??= { error }
          throw error
        }),
    }
    try {
      return await work()
    } catch (error) {
      throw failure === undefined ? error : failure.error
    }
  }

  close(): void {
    this.#end(native({ code: 'ZT_CLOSED', message: `${this.#purpose.what} is closed` }))
  }

  #end(error: Error): void {
    this.#channel.end(error)
    this.#worker.terminate()
  }

  #fail(why: string): void {
    const reason: Thrown = this.#isStarted
      ? {
          code: 'ZT_INTERNAL',
          message: `the worker of ${this.#purpose.what} has ended: ${why}; ${this.#purpose.afterwards}`,
        }
      : {
          code: 'ZT_IO',
          message: `worker.js of @ztensor/web did not start: put it next to the JavaScript of the page, or ${this.#purpose.instead} without worker. ${why}`,
        }
    this.#end(native(reason))
  }

  async #find(number: number, name: string, signal: AbortSignal): Promise<Found | undefined> {
    const found = await this.#trees.get(number)?.find(name, signal)
    if (found === undefined) return undefined
    if ('names' in found) return { kind: 'folder', names: found.names }
    if (found.posted !== undefined) return found.posted
    this.#sources.push(found)
    return { kind: 'page', number: this.#sources.length - 1, byteLength: found.byteLength }
  }

  /** Copies the bytes, which may be the caller's. */
  async #read(number: number, offset: number, length: number, signal: AbortSignal): Promise<ArrayBufferLike> {
    const source = this.#sources[number] as FileSource
    return (await source.read(offset, length, signal)).slice().buffer
  }
}

let nextTree = 0

function startWorker({ instead }: Purpose): Worker {
  try {
    return new Worker(new URL('worker.js', import.meta.url), { type: 'module' })
  } catch (error) {
    const message = `worker.js of @ztensor/web did not start: ${instead} without worker. ${messageOf(error)}`
    throw native({ code: 'ZT_IO', message, thrown: registerThrown(error) })
  }
}
