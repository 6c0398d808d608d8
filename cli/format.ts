// The option that every command takes about its file.
import { Option } from 'commander'

const formats = ['zt', 'safetensors', 'btf'] as const

export interface SourceOptions {
  format?: (typeof formats)[number]
}

/** `--format NAME`: read the file as that, whatever its first bytes look like. */
export function formatOption(): Option {
  return new Option('--format <name>', 'read the file as this format instead of detecting it').choices(formats)
}
