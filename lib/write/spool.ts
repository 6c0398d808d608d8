// A temporary file for a stream: what cannot be written in order is written to the file first, and to the stream when it is complete.
import { createReadStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { builtins } from '../native/builtins.js'
import { ZTensorError } from '../native/errors.js'
import type { FinishedFile } from '../native/native.js'
import { messageOf } from '../native/realm.js'
import type { Spool, Stream } from './stream.js'

/** Bytes that are read at once. */
const PIECE = 2 ** 20

/** A file in a folder of its own, which only this user can read. */
export class FileSpool implements Spool {
  readonly path: string
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
    this.path = join(folder, 'file')
  }

  /** @throws ZTensorError ZT_IO if the folder for temporary files cannot be written */
  static async create(): Promise<FileSpool> {
    const folder = builtins.os.tmpdir()
    try {
      return new FileSpool(await mkdtemp(join(folder, 'ztensor-stream-')))
    } catch (cause) {
      const message = `a stream of this format needs a temporary file, and '${folder}' cannot be written: ${messageOf(cause)}`
      throw new ZTensorError('ZT_IO', message, { cause })
    }
  }

  /** Native code writes the file. */
  async write(): Promise<void> {}

  async copyTo(stream: Stream, _finished: FinishedFile, signal: AbortSignal | undefined): Promise<void> {
    for await (const piece of createReadStream(this.path, { highWaterMark: PIECE, signal }))
      await stream.write(piece as Uint8Array)
  }

  async remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}
