// Paths where no file is: a pipe or a device is written to, never replaced.
import { closeSync, constants, createWriteStream, fstatSync, openSync, promises, type Stats } from 'node:fs'
import type { Writable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'

/** Milliseconds between two looks whether somebody reads a pipe. */
const LOOK = 20

/**
 * A stream into the pipe or character device at a path; undefined where a file is, or nothing. Resolves when somebody reads the
 * pipe.
 *
 * @throws ZTensorError ZT_IO for a block device or socket, and where it cannot be opened; the signal's reason
 */
export async function specialFile(path: string, signal: AbortSignal | undefined): Promise<Writable | undefined> {
  let found: Stats
  try {
    found = await promises.stat(path)
  } catch {
    // Whoever writes the file finds out what is wrong.
    return undefined
  }
  if (found.isFile() || found.isDirectory()) return undefined
  if (!found.isFIFO() && !found.isCharacterDevice()) {
    const kind = found.isSocket() ? 'a socket' : 'a block device'
    throw new ZTensorError('ZT_IO', `'${path}' is ${kind}; only files, pipes and character devices can be written`)
  }
  try {
    const fd = await opened(path, signal)
    // Other runtimes know no pipes by their descriptors.
    const node = !('bun' in process.versions) && !('Deno' in globalThis)
    if (node && found.isFIFO()) return new builtins.net.Socket({ fd, readable: false, writable: true })
    return createWriteStream(path, { fd: blocking(path, fd) })
  } catch (cause) {
    signal?.throwIfAborted()
    if (cause instanceof ZTensorError) throw cause
    throw new ZTensorError('ZT_IO', (cause as Error).message, { cause })
  }
}

/**
 * Opens a pipe once somebody reads it, or a device. Without O_NONBLOCK a thread of Node's own would wait for the reader, and
 * the process could not end before.
 */
async function opened(path: string, signal: AbortSignal | undefined): Promise<number> {
  for (;;) {
    signal?.throwIfAborted()
    try {
      return checked(path, openSync(path, constants.O_WRONLY | constants.O_NONBLOCK))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error
    }
    await setTimeout(LOOK, undefined, signal === undefined ? {} : { signal })
  }
}

/** Opens what is open already so that writes wait. Somebody reads a pipe by then: that does not take long. */
function blocking(path: string, fd: number): number {
  try {
    return checked(path, openSync(path, constants.O_WRONLY))
  } finally {
    closeSync(fd)
  }
}

/** A file may have taken the path meanwhile, and must not be written over. */
function checked(path: string, fd: number): number {
  const found = fstatSync(fd)
  if (found.isFIFO() || found.isCharacterDevice()) return fd
  closeSync(fd)
  throw new ZTensorError('ZT_IO', `'${path}' was replaced while it was opened`)
}
