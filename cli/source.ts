// The file that a command works on.
import { open, type TensorFile } from '../index.js'
import type { SourceOptions } from './format.js'

/** What of a command's options goes to the library. */
export function openOptions(options: SourceOptions): SourceOptions {
  return options.format === undefined ? {} : { format: options.format }
}

/** Opens a file, or several as one, gives the file to `work` and closes it whatever happens. */
export async function withFile(
  path: string | readonly string[],
  options: SourceOptions,
  work: (file: TensorFile) => Promise<void>,
): Promise<void> {
  const file = await open(path, openOptions(options))
  try {
    await work(file)
  } finally {
    file.close()
  }
}
