import { invalid } from '../native/errors.js'
import type { RemoteRequest } from '../native/native.js'
import { urlText } from '../native/realm.js'
import { remoteRequest } from '../read/remote.js'
import { wrongType } from '../values/arguments.js'
import { type CreateOptions, storeTarget, targetPath } from './options.js'
import { isWritable, Outlet } from './outlet.js'
import { specialFile } from './special-file.js'

/** Where to write to. */
export interface Target {
  /** Undefined for a stream. */
  readonly path: string | undefined
  /** How to reach the store, where the path is a URL of one. */
  readonly remote: RemoteRequest | undefined
  /** Gives the target once it is wanted, since a stream is listened to from then on. */
  readonly begin: (signal?: AbortSignal) => Promise<string | Outlet>
}

/** Checks where to write to. */
export function validateTarget(
  name: string,
  target: unknown,
  { format, overwrite, remote: given }: CreateOptions,
): Target {
  const remote = given === undefined ? undefined : remoteRequest(given)
  const url = storeTarget(target, format)
  if (url !== undefined) return { path: url, remote: remote ?? remoteRequest(undefined), begin: async () => url }
  if (remote !== undefined)
    throw invalid(
      TypeError,
      'remote is for s3:, gs: and az: URLs to write to; of a source, it is in source: { remote }',
    )
  if (typeof target === 'string' || urlText(target) !== undefined) {
    const path = targetPath(target as string | URL)
    const begin = async (signal?: AbortSignal) => {
      const stream = await specialFile(path, signal)
      return stream === undefined ? path : new Outlet(stream, true)
    }
    return { path, remote, begin }
  }
  if (!isWritable(target)) throw wrongType(name, 'a string, a URL or a Node Writable', target)
  if (overwrite) throw invalid(TypeError, 'overwrite is for paths: a stream replaces nothing')
  return { path: undefined, remote, begin: async () => new Outlet(target) }
}
