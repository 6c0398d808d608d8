// The options that every command takes about its file.
import { Option } from 'commander'
import type { Format } from '../lib/values/format-table.js'
import { FORMAT_NAMES } from '../lib/values/formats.js'
import { UsageError } from './failure.js'
import { parseBytes } from './quantity.js'

export interface SourceOptions {
  format?: Format
  maxDecodedBytes?: number
  followLinks?: boolean
}

/** `--format NAME`: read the file as that, whatever its first bytes look like. */
export function formatOption(): Option {
  return new Option('--format <name>', 'read the file as this format instead of detecting it').choices(FORMAT_NAMES)
}

/** `--max-decoded-bytes SIZE`: the bound of the library, for a file that the user trusts. */
export function decodedOption(): Option {
  const size = (text: string): number => {
    const bytes = parseBytes(text)
    if (bytes === undefined)
      throw new UsageError(`--max-decoded-bytes takes a number of bytes, such as 64GiB, got ${text}`)
    return bytes
  }
  return new Option(
    '--max-decoded-bytes <size>',
    'most bytes of one tensor, repeated elements included (default: 16GiB)',
  ).argParser(size)
}

/** `--follow-links`: raw data of ONNX, OpenVINO and TensorFlow may be a link out of the folder of the model. */
export function linksOption(): Option {
  return new Option('--follow-links', 'read raw data beside a model also where it is a link out of its folder')
}
