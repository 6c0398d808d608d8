import { create } from './create.js'
import { type SaveFileOptions, saveTensors, type Tensors } from './save-tensors.js'

/**
 * Writes tensors to a file in one call. The file appears atomically, and replaces an existing file unless `overwrite` is false.
 *
 * @example
 * await saveFile('model.safetensors', { bias: new Float32Array(64), weight: { shape: [64, 2], data } })
 *
 * @throws ZTensorError ZT_EXISTS with `overwrite: false`, ZT_BAD_SHAPE, ZT_BAD_DTYPE, ZT_BAD_LAYOUT, ZT_BAD_SPARSE, ZT_BAD_INDEX for what the
 * format cannot represent, ZT_LIMIT, ZT_IO, and for tensors of an open file the errors of its `load`; TypeError and RangeError
 * ZT_INVALID_ARG; the signal's reason
 */
export async function saveFile(path: string | URL, tensors: Tensors, options?: SaveFileOptions): Promise<void> {
  const replacing: typeof create = (path, read) => create(path, { ...read, overwrite: read?.overwrite ?? true })
  await saveTensors(replacing, path, tensors, options)
}
