// Standard output in blocks: 100,000 rows are some thirty writes, and a reader that stops (`| head`) stops the work too.
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { builtins } from '../lib/native/builtins.js'
import { exitCodes, fail } from './failure.js'

const blockLength = 1 << 18

/** Writes `lines`, each with its newline, and resolves when the stream has taken them. */
export async function printLines(lines: Iterable<string>): Promise<void> {
  let block = ''
  for (const line of lines) {
    block += `${line}\n`
    if (block.length >= blockLength) {
      await print(block)
      block = ''
    }
  }
  if (block !== '') await print(block)
}

/** Writes `text` as it is, and waits where the reader is slower. */
export async function print(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}

/** At most so much at once: writing to a pipe waits for its reader, and Ctrl-C is heard between two writes. */
const pieceLength = 1 << 18

/** Standard output for data, which is left open at its end. */
export function dataOutput(): Writable {
  const piecewise = async (bytes: Uint8Array): Promise<void> => {
    for (let at = 0; at < bytes.byteLength; at += pieceLength) {
      const piece = bytes.subarray(at, at + pieceLength)
      await new Promise<void>((resolve, reject) => {
        process.stdout.write(piece, (error) => (error ? reject(error) : setImmediate(resolve)))
      })
    }
  }
  return new builtins.stream.Writable({
    write: (chunk: Uint8Array, _encoding, callback) => {
      piecewise(chunk).then(() => callback(), callback)
    },
  })
}

/** Ends the process without a word when the reader of standard output has gone; whatever it had found out keeps its exit code. */
export function exitQuietlyOnBrokenPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // EOF is what libuv has for it on Windows.
    if (error.code !== 'EPIPE' && error.code !== 'EOF') {
      fail(Object.assign(new Error(`standard output: ${error.message}`), { code: 'ZT_IO' }))
      process.exit(exitCodes.unusable)
    }
    process.exit()
  })
}
