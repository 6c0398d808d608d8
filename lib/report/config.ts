// The configuration of a model, from the `config.json` next to its weights.
import { constants } from 'node:fs'
import { open, realpath } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { isPlainObject } from '../native/realm.js'
import { TensorFile } from '../read/file.js'

/** Bytes of a configuration. Those of models have some 5 KB. */
const MAX_BYTES = 2 ** 20

/** The bytes of a regular file, unless there are too many. Never waits for a pipe, and follows no link. */
async function bytesOf(path: string): Promise<Buffer | undefined> {
  const file = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0))
  try {
    const stats = await file.stat()
    return stats.isFile() && stats.size <= MAX_BYTES ? await file.readFile() : undefined
  } finally {
    await file.close()
  }
}

/** Whether `path` is in `folder`. Both are absolute and have no links. */
const isIn = (folder: string, path: string): boolean => path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

/**
 * The configuration next to the weights of a local file: an object of `config.json` that says what model it is. A link counts only
 * within the folder, and in the cache of the Hugging Face hub into its own blobs.
 */
export async function configOf(file: TensorFile): Promise<Readonly<Record<string, unknown>> | undefined> {
  const path = file.files[0]?.path
  if (path === undefined || TensorFile.storeOf(file).isRemote) return undefined
  try {
    const folder = await realpath(dirname(path))
    const real = await realpath(join(folder, 'config.json'))
    // A snapshot is models--owner--name/snapshots/<commit>.
    const blobs = join(folder, '..', '..', 'blobs')
    if (!isIn(folder, real) && dirname(real) !== blobs) return undefined
    const bytes = await bytesOf(real)
    const config: unknown = bytes === undefined ? undefined : JSON.parse(bytes.toString('utf8'))
    const isModel = isPlainObject(config) && ('model_type' in config || 'architectures' in config)
    return isModel ? (config as Readonly<Record<string, unknown>>) : undefined
  } catch {
    // There is none, or it is not JSON: it is not part of the file.
    return undefined
  }
}
