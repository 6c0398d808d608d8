// Digests of downloaded files, as the hub names blobs by them.
import { createReadStream, promises } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { builtins } from '../native/builtins.js'

/** `git-sha1` is the SHA-1 of the length and the bytes, by which Git names a file. */
export type HubDigest = 'sha256' | 'git-sha1'

/** The digest by which a blob is named; undefined for another entity tag. */
export function digestOf(name: string): HubDigest | undefined {
  if (/^[0-9a-f]{64}$/.test(name)) return 'sha256'
  return /^[0-9a-f]{40}$/.test(name) ? 'git-sha1' : undefined
}

/** Hashes a file. `onBytes` gets the number of bytes of each piece. */
export async function hashFile(
  path: string,
  digest: HubDigest,
  { signal, onBytes }: { signal?: AbortSignal | undefined; onBytes?: (bytes: number) => void } = {},
): Promise<string> {
  const hash = builtins.crypto.createHash(digest === 'sha256' ? 'sha256' : 'sha1')
  if (digest === 'git-sha1') hash.update(`blob ${(await promises.stat(path)).size}\0`)
  const options = { highWaterMark: 2 ** 20, ...(signal === undefined ? {} : { signal }) }
  await pipeline(createReadStream(path, options), async (pieces: AsyncIterable<Buffer>) => {
    for await (const piece of pieces) {
      hash.update(piece)
      onBytes?.(piece.length)
    }
  })
  return hash.digest('hex')
}
