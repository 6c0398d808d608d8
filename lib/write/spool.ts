// A temporary file for a stream: what cannot be written in order is written to the file first, and to the stream when it is complete.
import { createReadStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import type { Outlet } from './outlet.js'

/** Bytes that are read at once. */
const PIECE = 2 ** 20

/** A file in a folder of its own, which only this user can read. */
export class Spool {
  readonly path: string
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
    this.path = join(folder, 'file')
  }

  /** @throws ZTensorError ZT_IO if the folder for temporary files cannot be written */
  static async create(): Promise<Spool> {
    const folder = builtins.os.tmpdir()
    try {
      return new Spool(await mkdtemp(join(folder, 'ztensor-stream-')))
    } catch (cause) {
      const message = `a stream of this format needs a temporary file, and '${folder}' cannot be written: ${messageOf(cause)}`
      throw new ZTensorError('ZT_IO', message, { cause })
    }
  }

  /** Writes the file to a stream, piece by piece. */
  async copyTo(outlet: Outlet, signal: AbortSignal | undefined): Promise<void> {
    for await (const piece of createReadStream(this.path, { highWaterMark: PIECE, signal }))
      await outlet.write(piece as Uint8Array)
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}
