// Standard output in blocks: 100,000 rows are some thirty writes, and a reader that stops (`| head`) stops the work too.
import { once } from 'node:events'

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

/** Ends the process without a word when the reader of standard output has gone; whatever it had found out keeps its exit code. */
export function exitQuietlyOnBrokenPipe(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
