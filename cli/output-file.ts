// Small files that a command writes, and their folders.
import { constants, mkdirSync, statSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Opens a regular file for reading; undefined if the path does not exist. A named pipe would block without O_NONBLOCK. */
export async function openRegular(path: string): Promise<FileHandle | undefined> {
  let handle: FileHandle
  try {
    handle = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code === 'ENXIO') throw notRegular(path)
    throw error
  }
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  throw notRegular(path)
}

function notRegular(path: string): Error {
  return Object.assign(new Error(`${path} is not a regular file, and is not replaced: name another one`), {
    code: 'ZT_IO',
  })
}

/** Writes a file with the package's own atomic writer. Without `overwrite`, the path must not exist with other content. */
export async function writeFile(path: string, content: Uint8Array, overwrite: boolean): Promise<void> {
  const { writeWhole } = await import('../lib/deferred.js')
  await writeWhole(path, content, { overwrite })
}

/**
 * Makes a folder and those above it. Returns the first that was made. Unlike `mkdir` with `recursive`, which repeats its attempts in /proc
 * for ever, each folder is tried once.
 */
export function makeFolders(path: string): string | undefined {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined
  const above = dirname(path)
  const first = above === path ? undefined : makeFolders(above)
  try {
    mkdirSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(path).isDirectory()) throw error
    return first
  }
  return first ?? path
}
