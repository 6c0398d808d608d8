// Writes to standard output in blocks: 100,000 rows take about thirty writes. If the reader stops (`| head`), the work stops too.
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { builtins } from '../lib/native/builtins.js'
import { exitCodes, fail } from './failure.js'

const blockLength = 1 << 18

/** Writes `lines`, each with a newline, and waits for backpressure. */
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

/** Writes `text` and waits for backpressure. */
export async function print(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}

/** Maximum size of a write: writing to a pipe blocks, and Ctrl-C is only handled between two writes. */
const pieceLength = 1 << 18

/** A stream to standard output for data. Ending it does not close standard output. */
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

/** Exits silently if the reader closes standard output. Keeps the exit code. */
export function exitQuietlyOnBrokenPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // On Windows, libuv reports EOF.
    if (error.code !== 'EPIPE' && error.code !== 'EOF') {
      fail(Object.assign(new Error(`standard output: ${error.message}`), { code: 'ZT_IO' }))
      process.exit(exitCodes.unusable)
    }
    process.exit()
  })
}
