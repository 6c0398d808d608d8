// The data of a file whose index comes first, kept until the index is there.
import { ZTensorError } from '../native/errors.js'
import { messageOf } from '../native/realm.js'
import { BlobTarget } from './blob-target.js'
import type { Reply } from './message.js'
import type { Sink } from './tree.js'

/** Bytes that are read of the kept data at once. */
const PIECE = 4 * 2 ** 20

/** How a file is put together whose data was kept: bytes, and of each blob the end of the bytes before it, its offset and its length. */
export interface Assembly {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly blobs: readonly (readonly [end: number, offset: number, length: number])[]
}

export const readAssembly = (reply: Reply): Assembly | undefined =>
  reply.maybe(() => ({
    bytes: reply.bytes().slice(),
    blobs: reply.list(() => [reply.number(), reply.number(), reply.number()] as const),
  }))

function unreadable(cause: unknown): never {
  const message = `the data that the browser keeps until the file is complete cannot be read: ${messageOf(cause)}. Free disk space, and write it again`
  throw new ZTensorError('ZT_IO', message, { cause })
}

/** Data in Blobs, which the browser may keep on disk. */
export class KeptData implements Sink {
  readonly #kept = new BlobTarget()

  write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    return this.#kept.write(bytes)
  }

  /** Writes the file. */
  async assemble({ bytes, blobs }: Assembly, sink: Sink, signal: AbortSignal | undefined): Promise<void> {
    await this.#kept.close()
    const { blob } = this.#kept
    let written = 0
    const frame = async (end: number) => {
      if (end > written) await sink.write(bytes.slice(written, end))
      written = end
    }
    for (const [end, offset, length] of blobs) {
      await frame(end)
      for (let at = 0; at < length; at += PIECE) {
        signal?.throwIfAborted()
        const piece = blob.slice(offset + at, offset + Math.min(at + PIECE, length))
        await sink.write(new Uint8Array(await piece.arrayBuffer().catch(unreadable)))
      }
    }
    await frame(bytes.byteLength)
  }

  async remove(): Promise<void> {
    await this.#kept.abort()
  }
}
