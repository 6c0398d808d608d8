// Pipes and devices: they are written to, never replaced.
import { closeSync, constants, createWriteStream, fstatSync, openSync, promises, type Stats } from 'node:fs'
import type { Writable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'

/** Milliseconds between two attempts to open a pipe that has no reader yet. */
const LOOK = 20

/** A pipe or character device. It is opened when the first bytes are written, so that nothing waits for its reader before. */
export class SpecialFile {
  readonly #path: string
  readonly #isPipe: boolean

  constructor(path: string, isPipe: boolean) {
    this.#path = path
    this.#isPipe = isPipe
  }

  /**
   * Opens it as a stream. Resolves when the pipe has a reader.
   *
   * @throws ZTensorError ZT_IO if it cannot be opened; the signal's reason
   */
  async open(signal: AbortSignal | undefined): Promise<Writable> {
    const path = this.#path
    try {
      const fd = await opened(path, signal)
      // Other runtimes cannot open pipes by file descriptor.
      const node = !('bun' in process.versions) && !('Deno' in globalThis)
      if (node && this.#isPipe) return new builtins.net.Socket({ fd, readable: false, writable: true })
      return createWriteStream(path, { fd: blocking(path, fd) })
    } catch (cause) {
      signal?.throwIfAborted()
      if (cause instanceof ZTensorError) throw cause
      throw new ZTensorError('ZT_IO', (cause as Error).message, { cause })
    }
  }

  /** Ends a reader that waits for a pipe to which nothing will be written. */
  dismiss(): void {
    if (!this.#isPipe) return
    try {
      closeSync(checked(this.#path, openSync(this.#path, constants.O_WRONLY | constants.O_NONBLOCK)))
    } catch {
      // There is no reader.
    }
  }
}

/**
 * The pipe or character device at a path; undefined for a regular file, or if the path does not exist.
 *
 * @throws ZTensorError ZT_IO for a block device or socket
 */
export async function specialFile(path: string): Promise<SpecialFile | undefined> {
  let found: Stats
  try {
    found = await promises.stat(path)
  } catch {
    // Writing the file reports the error.
    return undefined
  }
  if (found.isFile() || found.isDirectory()) return undefined
  if (!found.isFIFO() && !found.isCharacterDevice()) {
    const kind = found.isSocket() ? 'a socket' : 'a block device'
    throw new ZTensorError('ZT_IO', `'${path}' is ${kind}; only files, pipes and character devices can be written`)
  }
  return new SpecialFile(path, found.isFIFO())
}

/**
 * Opens a device, or a pipe once it has a reader. Without O_NONBLOCK, a thread of Node's pool would block, and the process could not
 * exit.
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

/** Reopens a pipe or device in blocking mode. A pipe has a reader by now, so this does not block. */
function blocking(path: string, fd: number): number {
  try {
    return checked(path, openSync(path, constants.O_WRONLY))
  } finally {
    closeSync(fd)
  }
}

/** Checks that the path was not replaced by a regular file, which must not be overwritten. */
function checked(path: string, fd: number): number {
  const found = fstatSync(fd)
  if (found.isFIFO() || found.isCharacterDevice()) return fd
  closeSync(fd)
  throw new ZTensorError('ZT_IO', `'${path}' was replaced by a file while it was opened: try again`)
}
