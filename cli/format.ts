// The option that every command takes about its file.
import { Option } from 'commander'
import type { Format } from '../lib/format-table.js'
import { FORMAT_NAMES } from '../lib/formats.js'

export interface SourceOptions {
  format?: Format
}

/** `--format NAME`: read the file as that, whatever its first bytes look like. */
export function formatOption(): Option {
  return new Option('--format <name>', 'read the file as this format instead of detecting it').choices(FORMAT_NAMES)
}
