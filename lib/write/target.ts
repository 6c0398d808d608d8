import { invalid } from '../native/errors.js'
import type { RemoteRequest } from '../native/native.js'
import { urlText } from '../native/realm.js'
import { wrongType } from '../values/arguments.js'
import { remoteRequest } from '../values/remote.js'
import type { CreateOptions } from './options.js'
import { isWritable, Outlet } from './outlet.js'
import { storeTarget, targetPath } from './path.js'
import { specialFile } from './special-file.js'

/** The target of a writer. */
export interface Target {
  /** The path or URL; undefined for a stream. */
  readonly path: string | undefined
  /** How to access the object store of a URL. */
  readonly remote: RemoteRequest | undefined
  /** Returns the target, lazily: it adds listeners to a stream. */
  readonly begin: () => Promise<string | Outlet>
}

/** Validates the target of a writer. */
export function validateTarget(
  name: string,
  target: unknown,
  { format, overwrite, remote: given }: Pick<CreateOptions, 'format' | 'overwrite' | 'remote'>,
): Target {
  const remote = given === undefined ? undefined : remoteRequest(given)
  const url = storeTarget(target, format)
  if (url !== undefined) return { path: url, remote: remote ?? remoteRequest(undefined), begin: async () => url }
  if (remote !== undefined)
    throw invalid(TypeError, 'remote applies to s3:, gs: and az: targets; for the source, set source: { remote }', {
      option: 'remote',
    })
  if (typeof target === 'string' || urlText(target) !== undefined) {
    const path = targetPath(target as string | URL)
    const begin = async () => {
      const special = await specialFile(path)
      return special === undefined ? path : new Outlet(special)
    }
    return { path, remote, begin }
  }
  if (!isWritable(target)) throw wrongType(name, 'a string, a URL or a Node Writable', target)
  if (overwrite)
    throw invalid(TypeError, 'overwrite is only supported for paths, not for streams', { option: 'overwrite' })
  return { path: undefined, remote, begin: async () => new Outlet(target) }
}
