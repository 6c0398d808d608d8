import { invalid, ZTensorError } from './errors.js'
import type { NativeFile, OpenRequest } from './native.js'

/**
 * An open file on its way to another thread: it can be cloned and posted, and `open` and `openSync` take it. In a
 * thread of the same process they give the very file that was shared, its index and its mapping, without reading anything
 * again; elsewhere, or once it is closed everywhere, they open the path and see to it that it is still the same file.
 */
export interface SharedFile {
  readonly kind: 'ztensor.SharedFile'
  /** The path, or the paths of a list. */
  readonly path: string | readonly string[]
  readonly ticket: { readonly process: string; readonly number: number; readonly identity: string }
  /** The options that it was opened with. */
  readonly request: object
}

const KIND = 'ztensor.SharedFile'

/** What to post of an open file. */
export function ticketOf(native: NativeFile, path: string | readonly string[], request: OpenRequest): SharedFile {
  return { kind: KIND, path, ticket: native.share(), request }
}

/** Whether a source is a shared file, whole as it was made. */
export function isShared(source: unknown): source is SharedFile {
  if (typeof source !== 'object' || source === null || (source as SharedFile).kind !== KIND) return false
  const { path, ticket, request } = source as Partial<SharedFile>
  const paths = typeof path === 'string' ? [path] : path
  const known =
    Array.isArray(paths) &&
    paths.length > 0 &&
    paths.every((path) => typeof path === 'string') &&
    typeof ticket?.process === 'string' &&
    Number.isInteger(ticket.number) &&
    typeof ticket.identity === 'string' &&
    typeof request === 'object' &&
    request !== null
  if (!known) throw invalid(TypeError, 'source is a shared file with parts missing')
  return true
}

/** Sees to it that a file that was opened anew is the one that was shared. */
export function checkSame(native: NativeFile, { path, ticket }: SharedFile): void {
  if (native.identity() === ticket.identity) return
  const which = typeof path === 'string' ? `'${path}'` : `one of ${path.length} files`
  throw new ZTensorError('ZT_IO', `${which} was replaced or changed since it was shared; share it again`)
}
