// Work that takes longer than a test: on a sparse file of a TiB that takes some KiB on disk.
import { closeSync, ftruncateSync, openSync as openFile, writeSync } from 'node:fs'
import { encode } from '../corpus/cbor.mjs'
import { MAGIC_10, u64 } from '../corpus/zt.mjs'
import { scratchPath } from './scratch.mjs'

/** Whether files can have holes of any size: Windows would reserve disk space for them. */
export const canBeSparse = process.platform !== 'win32'

const AT = 4096
/** Hashed by one core at a time. */
const DIGEST = `sha256:${'0'.repeat(64)}`

/**
 * The path of a 1.0 file with the tensors `endless` (a TiB of zeros with a digest that one core computes), `flags` (the same as
 * bools), `large` (of 64 MiB) and `small` (of 16 bytes).
 */
export function endlessFile() {
  const path = scratchPath('endless.zt')
  const tensor = (length, offset, digest, dtype = 'uint8') => ({
    dtype,
    shape: [length],
    format: 'dense',
    components: { data: { offset, length, ...(digest === undefined ? {} : { digest }) } },
  })
  const endless = 2 ** 40
  const large = 2 ** 26
  const tensors = {
    small: tensor(16, 64),
    large: tensor(large, AT),
    endless: tensor(endless, AT + large, DIGEST),
    flags: tensor(endless, AT + large, DIGEST, 'bool'),
  }
  const end = AT + large + endless
  const index = encode({ version: '1.0', tensors })
  const descriptor = openFile(path, 'w')
  writeSync(descriptor, MAGIC_10, 0, 8, 0)
  writeSync(
    descriptor,
    Uint8Array.from({ length: 16 }, (_, at) => at),
    0,
    16,
    64,
  )
  ftruncateSync(descriptor, end)
  writeSync(descriptor, index, 0, index.length, end)
  writeSync(descriptor, u64(index.length), 0, 8, end + index.length)
  closeSync(descriptor)
  return path
}
