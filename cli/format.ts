// The options for opening a file that every command has.
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

/** `--format NAME`: the format of the file, instead of detecting it. */
export function formatOption(): Option {
  return new Option('--format <name>', 'read the file as this format instead of detecting it').choices(FORMAT_NAMES)
}

/** `--max-decoded-bytes SIZE`: raises the library's limit, for a trusted file. */
export function decodedOption(): Option {
  const size = (text: string): number => {
    const bytes = parseBytes(text)
    if (bytes === undefined)
      throw new UsageError(`--max-decoded-bytes must be a number of bytes, such as 64GiB, got ${text}`)
    return bytes
  }
  return new Option(
    '--max-decoded-bytes <size>',
    'maximum decoded size of one tensor, including repeated elements (default: 16GiB)',
  ).argParser(size)
}

/** `--follow-links`: external data of ONNX, OpenVINO, TensorFlow and Paddle may be a link to a file outside of the model's folder. */
export function linksOption(): Option {
  return new Option('--follow-links', "also read external data that is a link to a file outside of the model's folder")
}
