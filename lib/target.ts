import { wrongType } from './arguments.js'
import { invalid } from './errors.js'
import { isWritable, Outlet } from './outlet.js'
import { urlText } from './realm.js'
import { specialFile } from './special-file.js'
import { targetPath } from './write-options.js'

/** Where to write to. */
export interface Target {
  /** Undefined for a stream. */
  readonly path: string | undefined
  /** Gives the target once it is wanted, since a stream is listened to from then on. */
  readonly begin: (signal?: AbortSignal) => Promise<string | Outlet>
}

/** Checks where to write to. */
export function aTarget(name: string, target: unknown, overwrite: boolean | undefined): Target {
  if (typeof target === 'string' || urlText(target) !== undefined) {
    const path = targetPath(target as string | URL)
    const begin = async (signal?: AbortSignal) => {
      const stream = await specialFile(path, signal)
      return stream === undefined ? path : new Outlet(stream, true)
    }
    return { path, begin }
  }
  if (!isWritable(target)) throw wrongType(name, 'a string, a file URL or a Node Writable', target)
  if (overwrite) throw invalid(TypeError, 'overwrite is for paths: a stream replaces nothing')
  return { path: undefined, begin: async () => new Outlet(target) }
}
