// The file that a command works on, and the option that every command takes about it.
import { Option } from 'commander'
import { open, type TensorFile } from '../index.js'

const formats = ['zt', 'safetensors', 'btf'] as const
export interface SourceOptions {
  format?: (typeof formats)[number]
}

/** `--format NAME`: read the file as that, whatever its first bytes look like. */
export function formatOption(): Option {
  return new Option('--format <name>', 'read the file as this format instead of detecting it').choices(formats)
}

/** Options for `open` and `verify` of the library. */
export function openOptions(options: SourceOptions): SourceOptions {
  return options.format === undefined ? {} : { format: options.format }
}

/** Opens `path`, gives the file to `work` and closes it whatever happens. */
export async function withFile(
  path: string,
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
