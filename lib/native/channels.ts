// What the package publishes on node:diagnostics_channel. Without a subscriber nothing is measured, and no message is made.
import { channel } from '#host'

/** What all messages have. */
interface Message {
  /** The path or URL, without query and credentials. Undefined for a list of files, memory and a ByteSource. */
  readonly source: string | undefined
  /** The format; undefined if the file could not be opened. */
  readonly format: string | undefined
  /** Duration of the call. */
  readonly milliseconds: number
}

/** The message of `ztensor:open`: a file was opened, or could not be opened. */
export interface OpenMessage extends Message {
  /** Size of the file, or of all files together; 0 if it could not be opened. */
  readonly bytes: number
  /** Number of tensors; 0 if it could not be opened. */
  readonly tensors: number
  /** The error that the call threw. */
  readonly error: unknown
}

/** The message of `ztensor:read`: a call that reads tensors has ended. */
export interface ReadMessage extends Message {
  /** The call. `stream` is `createReadStream`, from its creation until it closes. */
  readonly call: 'load' | 'take' | 'stream' | 'prefetch' | 'verify' | 'nearest' | 'stats' | 'compare'
  /** Bytes of the result for `load`, `take` and `stream`; otherwise stored bytes of the tensors, of `compare` those of the first one. 0 if the call failed. */
  readonly bytes: number
  /** The error that the call threw. */
  readonly error: unknown
}

/** The message of `ztensor:remote`: a call on a remote file has ended. */
export interface RemoteMessage extends Message {
  readonly call: 'open' | ReadMessage['call']
  /** Bytes as in `ztensor:read`; 0 for `open`. */
  readonly bytes: number
  /** Whether all data was in the cache when the call began. False for `open`. */
  readonly cached: boolean
  /** The error that the call threw. */
  readonly error: unknown
}

/** The message of `ztensor:close`: a file was closed. */
export interface CloseMessage extends Message {
  /** Size of the file, or of all files together. */
  readonly bytes: number
  /** Number of calls that were stopped. 0 after a drain. */
  readonly stopped: number
}

export const channels = {
  open: channel('ztensor:open'),
  read: channel('ztensor:read'),
  remote: channel('ztensor:remote'),
  close: channel('ztensor:close'),
}

/** The time, if one of the channels has a subscriber; otherwise undefined. */
export function timed(first: { readonly hasSubscribers: boolean }, second = first): number | undefined {
  return first.hasSubscribers || second.hasSubscribers ? performance.now() : undefined
}

/** Publishes a message of the channel's own type. */
export function publish(name: 'open', message: OpenMessage): void
export function publish(name: 'read', message: ReadMessage): void
export function publish(name: 'remote', message: RemoteMessage): void
export function publish(name: 'close', message: CloseMessage): void
export function publish(name: keyof typeof channels, message: Message): void {
  channels[name].publish(message)
}
