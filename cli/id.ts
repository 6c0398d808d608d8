// `ztensor id`: prints the content digest of a zTensor 2 file.
import type { TensorFile } from '../index.js'
import { hasContentDigest } from '../lib/values/formats.js'
import { UsageError } from './failure.js'
import type { SourceOptions } from './format.js'
import { withFile } from './source.js'
import { print } from './stdout.js'
import { printable } from './text.js'

export interface IdOptions extends SourceOptions {
  algorithm?: 'sha256' | 'xxh3'
}

/** Prints the content digest of each file, with its path if there are several. */
export async function id(paths: readonly string[], options: IdOptions): Promise<void> {
  for (const path of paths) {
    const printId = async (file: TensorFile): Promise<void> => {
      if (!hasContentDigest(file)) {
        throw new UsageError(
          `${printable(path)} is not a zTensor 2 file, and only those have a content digest`,
          'Convert it with `ztensor convert --version 2` to get one.',
        )
      }
      const digest = await file.contentDigest(options.algorithm ?? 'sha256')
      await print(paths.length === 1 ? `${digest}\n` : `${digest}  ${printable(path)}\n`)
    }
    await withFile(path, options, printId, paths.length > 1 ? path : undefined)
  }
}
