// What the wrapper needs of its host. `#host` is lib/host/node.ts under the condition `node`, and lib/host/web.ts otherwise (`imports` of
// package.json).
import type { Readable } from 'node:stream'
import type { InspectOptions, inspect } from 'node:util'

export type { InspectOptions, Readable }

/** A typed array of any class. */
export type AnyArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array

/** A channel of messages, as in `node:diagnostics_channel`. */
export interface Channel {
  readonly hasSubscribers: boolean
  publish(message: unknown): void
}

/** Node's number, code and message for an error of the system. */
export interface SystemReason {
  readonly errno: number
  readonly code: string
  readonly text: string
}

export interface Host {
  readonly runtime: 'node' | 'bun' | 'deno' | 'browser'
  /** `process.platform`. */
  readonly platform: string
  /** Why a call does not work here, and what does. */
  readonly reasons: {
    /** A synchronous call for data that is not on this machine. */
    readonly notLocal: string
    /** A checkpoint whose folder is unknown. */
    noFolder(isList: boolean): string
  }
  /** The maximum length of a buffer. */
  readonly MAX_BUFFER: number
  readonly inspect: {
    (value: unknown, options?: InspectOptions): string
    /** The key of the method that formats an object. */
    readonly custom: typeof inspect.custom
  }
  /** Type checks that work across realms. */
  readonly types: {
    isAnyArrayBuffer(value: unknown): value is ArrayBufferLike
    isMap(value: unknown): boolean
    isNativeError(value: unknown): value is Error
    isSharedArrayBuffer(value: unknown): value is SharedArrayBuffer
    isTypedArray(value: unknown): value is AnyArray
    isUint8Array(value: unknown): value is Uint8Array
  }
  /** Calls a function in the next turn of the event loop. */
  setImmediate(callback: () => void): void
  /** Allows any number of listeners on a signal, unless its owner has set a limit. */
  allowListeners(signal: AbortSignal): void
  channel(name: string): Channel
  /** Describes an error of the system by its number. */
  systemError(number: number): SystemReason | undefined
  existsSync(path: string): boolean
  basename(path: string): string
  dirname(path: string): string
  extname(path: string): string
  /** Makes a path absolute. */
  resolve(path: string): string
  fileURLToPath(url: string): string
  /** Swaps the bytes of each number of 16, 32 or 64 bits, in place. */
  swapBytes(bytes: Uint8Array, bits: number): void
  /** Makes a stream of chunks, which are taken on demand. */
  readable(chunks: AsyncIterable<Uint8Array>, highWaterMark: number): Readable
  /** The module `node:stream`. @throws where there is none */
  streams(): typeof import('node:stream')
  /** Warns the developer. */
  warn(message: string, code: string): void
  /** Calls `report` when the process ends. `fail` then makes it end with an error. */
  onExit(report: (fail: (error: unknown) => never) => void): void
  /** Calls `listener` after a handler of a signal was added or removed. */
  onHandlersChanged(signal: string, listener: () => void): void
}

type Complete<Module extends Host> = Module

/** Does not compile if a host lacks something. */
export type Hosts = [Complete<typeof import('./node.js')>, Complete<typeof import('./web.js')>]
