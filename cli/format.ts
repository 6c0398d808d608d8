// The options for opening a file that every command has.
import { type Command, Option } from 'commander'
import { FORMAT_NAMES } from '../lib/values/format-names.js'
import type { Format } from '../lib/values/format-table.js'
import { UsageError } from './failure.js'
import { parseBytes } from './quantity.js'

/** How to access remote files. */
export interface RemoteCommandOptions {
  endpoint?: string
  region?: string
  anonymous?: boolean
  header?: string[]
}

export interface SourceOptions extends RemoteCommandOptions {
  format?: Format
  maxDecodedBytes?: number
  followLinks?: boolean
  cache?: string
}

/** `--max-decoded-bytes SIZE`: raises the library's limit, for a trusted file. */
function decodedOption(): Option {
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

/** Appends a value of an option that may be repeated. */
export const repeated = (value: string, earlier: string[] = []): string[] => [...earlier, value]

/** Adds the options for remote files. */
export function remoteOptions(command: Command): Command {
  return command
    .option('--endpoint <url>', 'the server of s3:, gs: and az: URLs, such as MinIO (default: AWS_ENDPOINT_URL, …)')
    .option('--region <name>', 'the region of an s3: bucket (default: AWS_REGION)')
    .option('--anonymous', 'sign no requests: for public buckets')
    .addOption(
      new Option('--header <name: value>', 'a header for the server of an https: URL; may be repeated').argParser(
        repeated,
      ),
    )
}

/** Adds the options for files that may have any format: limits, links and remote access. */
export function openingOptions(command: Command): Command {
  return remoteOptions(
    command
      .addOption(decodedOption())
      .option(
        '--cache <folder>',
        "keep copies of remote files in this folder; 'hub': download files of hf: URLs to the cache of the hub",
      )
      .option(
        '--follow-links',
        "also read external data, and the configuration, tokenizer and templates of a checkpoint, through links out of the model's folder",
      ),
  )
}

/** Adds the options for a source: `--format`, and those of `openingOptions`. */
export function sourceOptions(command: Command): Command {
  const format = new Option('--format <name>', 'read the file as this format instead of detecting it')
  return openingOptions(command.addOption(format.choices(FORMAT_NAMES)))
}
