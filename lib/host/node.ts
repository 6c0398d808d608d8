// The host in Node, Bun and Deno.
import { constants } from 'node:buffer'
import { channel as channelOf } from 'node:diagnostics_channel'
import { defaultMaxListeners, getMaxListeners, setMaxListeners } from 'node:events'
// Imported instead of the global: fake timers of tests replace the global, and some hosts have none.
import { setImmediate as inNextTurn } from 'node:timers'
import type { Channel, Host, Readable } from './host.js'

export { existsSync } from 'node:fs'
export { basename, dirname, extname, resolve } from 'node:path'
export { fileURLToPath } from 'node:url'
export { inspect, types } from 'node:util'
export type { InspectOptions, Readable } from './host.js'
export { systemError } from './system-errors.js'

const { bun, deno } = process.versions as { bun?: string; deno?: string }

export const runtime: Host['runtime'] = bun !== undefined ? 'bun' : deno !== undefined ? 'deno' : 'node'

export const platform: string = process.platform

export const reasons: Host['reasons'] = {
  notLocal:
    'the file is remote, and synchronous access does not use the network: await load(), or open the URL with remote: { cache: folder } and await prefetch() first',
  noFolder: (isList) =>
    isList
      ? 'the source is a list of files; to convert a checkpoint, name its folder or its index instead'
      : 'the source has no path; to convert a checkpoint, name its folder or the file of its weights',
}

export const MAX_BUFFER: number = constants.MAX_LENGTH

export function setImmediate(callback: () => void): void {
  inNextTurn(callback)
}

/** Node would warn of a leak: each call in flight has a listener, and a server may pass one signal to many calls. */
export function allowListeners(signal: AbortSignal): void {
  try {
    if (getMaxListeners(signal) === defaultMaxListeners) setMaxListeners(0, signal)
  } catch {
    // A signal of another implementation has no limit.
  }
}

export function channel(name: string): Channel {
  return channelOf(name)
}

export function swapBytes({ buffer, byteOffset, byteLength }: Uint8Array, bits: number): void {
  const numbers = Buffer.from(buffer, byteOffset, byteLength)
  if (bits === 16) numbers.swap16()
  else if (bits === 32) numbers.swap32()
  else if (bits === 64) numbers.swap64()
}

export function readable(chunks: AsyncIterable<Uint8Array>, highWaterMark: number): Readable {
  return streams().Readable.from(chunks, { objectMode: false, highWaterMark })
}

export function streams(): typeof import('node:stream') {
  // Takes a millisecond or more to load, and most programs never need it.
  return require('node:stream')
}

export function warn(message: string, code: string): void {
  process.emitWarning(message, { type: 'ZTensorWarning', code })
}

export function onExit(report: (fail: (error: unknown) => never) => void): void {
  process.on('exit', () =>
    report((error) => {
      process.exitCode = 1
      throw error
    }),
  )
}

export function onHandlersChanged(signal: string, listener: () => void): void {
  const changed = (event: string | symbol) => {
    if (event === signal) listener()
  }
  process.on('newListener', changed)
  process.on('removeListener', changed)
}
