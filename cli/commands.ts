// The commands with their arguments and options. Their code is loaded when they run: `ztensor --help` needs no native binding.
import { Argument, Command, Option } from 'commander'
import { FORMAT_NAMES } from '../lib/values/format-names.js'
import { FORMATS } from '../lib/values/format-table.js'
import { DIGESTS, WRITABLE_FORMATS, WRITABLE_VERSIONS, writingOf } from '../lib/values/formats.js'
import { CACHE_ACTIONS, completion, INSTALL } from './completion.js'
import { openingOptions, remoteOptions, repeated, sourceOptions } from './format.js'
import { version } from './version.js'

/** Formats examples for the help: a command and its purpose on each line. */
function examples(...pairs: readonly (readonly [command: string, meaning: string])[]): string {
  const widest = Math.max(...pairs.map(([command]) => command.length))
  return `\nExamples:\n${pairs.map(([command, meaning]) => `  $ ${command.padEnd(widest)}  # ${meaning}`).join('\n')}`
}

const FILES = 'tensor files, or the index or folder of a sharded checkpoint; - is standard input'

function targetFormat(): Option {
  return new Option('--format <name>', 'the format to write').choices(WRITABLE_FORMATS)
}

function targetVersion(): Option {
  const version = writingOf('zt')?.version
  return new Option('--version <version>', `the zTensor version to write (default: ${version})`).choices(
    WRITABLE_VERSIONS,
  )
}

function targetDigest(): Option {
  const digests = [...DIGESTS, 'none']
  return new Option('--digest <name>', 'what to hash with (default: crc32c, in version 2 xxh3)').choices(digests)
}

/** `--no-checkpoint` of the commands that write GGUF. */
function withoutCheckpoint(): Option {
  return new Option('--no-checkpoint', 'GGUF: copy the tensors under their own names, also if they are no model')
}

/** `--dry-run` of the commands that convert. */
function dryRun(): Option {
  const text = 'write nothing: print the tensors that would be written, and their sizes'
  return new Option('--dry-run', text).conflicts('plan')
}

/** The options of every command that writes new files. */
function writing(command: Command): Command {
  return command
    .option('--overwrite', 'replace an existing target')
    .option(
      '--skip [glob...]',
      'skip tensors that the target format cannot represent; without a glob the exit code is then 1',
    )
    .option('--json', 'progress and result as JSON, one event per line')
}

/** `--filter`, which may be repeated. */
function filtering(command: Command): Command {
  const text = 'only names that match: * matches any characters, ? a single one, !glob excludes; may be repeated'
  return command.addOption(new Option('--filter <glob>', text).argParser(repeated))
}

/** `--quiet` of the commands that show their progress. */
function quiet(command: Command): Command {
  return command.option('-q, --quiet', 'show no progress')
}

/** The options of the commands that make a report. */
function reporting(command: Command): Command {
  return command
    .option('--against <file>', 'compare with this file, such as the base of a fine-tune')
    .option('--stats', 'read all values first, also of a remote file')
    .option('--no-stats', 'do not read the values')
    .option('--title <text>', 'the title of the page (default: the name of the file)')
    .option('--open', 'show it in the browser')
}

type Describe = (command: Command) => Command

/** The commands in groups, as the help lists them. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Look:': ['ls', 'info', 'verify', 'id', 'cat', 'stats', 'view', 'serve', 'diff'],
  'Hugging Face Hub:': ['download', 'cache'],
  'Convert:': ['convert', 'merge', 'quantize', 'split'],
  'Edit:': ['metadata', 'rename', 'remove', 'compact'],
  'Many machines:': ['task', 'finish'],
  'Help:': ['demo', 'completion'],
}

/** The options that commands have in common, in the order of the help. */
const SHARED: Readonly<Record<string, readonly Describe[]>> = {
  ls: [filtering, sourceOptions],
  info: [filtering, sourceOptions],
  verify: [filtering, quiet, sourceOptions],
  id: [sourceOptions],
  cat: [sourceOptions],
  stats: [filtering, quiet, sourceOptions],
  view: [filtering, quiet, sourceOptions],
  serve: [filtering, quiet, sourceOptions],
  diff: [filtering, openingOptions],
  download: [quiet],
  cache: [quiet],
  convert: [filtering, quiet, openingOptions],
  merge: [filtering, quiet, openingOptions],
  quantize: [filtering, quiet, openingOptions],
  split: [filtering, quiet, openingOptions],
  metadata: [quiet],
  compact: [quiet],
  task: [quiet, remoteOptions],
  finish: [quiet, remoteOptions],
}

/** All commands by name, in the order of the help. */
const COMMANDS: Readonly<Record<string, Describe>> = {
  ls: (command) =>
    command
      .description(
        'list the tensors of a file: dtype, shape, layout, size, encoding and digest; or the models of a folder or repository that has several',
      )
      .argument('<files...>', FILES)
      .addOption(new Option('--models', 'list the models of a folder or of a repository of the hub').conflicts('names'))
      .addOption(
        new Option('--headers', 'list the models, and open each of them for its parameters and architecture').conflicts(
          'names',
        ),
      )
      .addOption(
        new Option(
          '--sort <key>',
          'sort rows; file is the order of the file (default: name, with --json: file)',
        ).choices(['name', 'file', 'size', 'offset', 'dtype']),
      )
      .option('-l, --long', 'all columns, digests in full, and the names of files in full')
      .option('--short-dtypes', 'short names of dtypes: f32, bf16, i64')
      .addOption(new Option('--names', 'only the names, one per line').conflicts(['json', 'long']))
      .option('--join', 'open several files as one')
      .option('--json', 'one JSON array with an object per tensor; for several files, an object per file')
      .addHelpText(
        'after',
        examples(
          ['ztensor ls model.safetensors', 'every tensor, by name'],
          ['ztensor ls model.zt --long', 'with digests and all other columns'],
          ['ztensor ls model.zt --sort size', 'the largest first'],
          ["ztensor ls model.zt --filter '*.attn.*'", 'some by name'],
          ['ztensor ls llama/', 'a sharded checkpoint: its folder or its index'],
          ['ztensor ls --join base.zt extra.zt', 'several files as one'],
          ['ztensor ls hf://owner/repo --headers', 'the models of a repository'],
          ['curl -L URL | ztensor ls -', 'a file from another program'],
          ["ztensor ls model.zt --json | jq '.[].name'", 'as JSON, for a program'],
        ),
      )
      .action(async (files, options) => (await import('./ls.js')).ls(files, options)),

  info: (command) =>
    command
      .description('describe a file: format, version, size, totals by dtype, metadata, warnings')
      .argument('<files...>', FILES)
      .option('--join', 'open several files as one')
      .option('--short-dtypes', 'short names of dtypes: f32, bf16, i64')
      .option('--json', 'one JSON object; for several files, an array of objects')
      .addHelpText(
        'after',
        examples(
          ['ztensor info model.zt', 'on one screen'],
          ['ztensor info model.zt --json | jq .metadata', 'metadata in full'],
        ),
      )
      .action(async (files, options) => (await import('./info.js')).info(files, options)),

  verify: (command) =>
    command
      .description('check all digests and data rules; exit code 1 if anything is wrong')
      .argument('<files...>', 'the tensor files')
      .option('--plan', 'only print the job as JSON, for `ztensor task` on many machines')
      .option('--max-task-size <size>', 'with --plan: maximum size of the tensors of a task (default: 5GB)')
      .addOption(
        new Option(
          '--canonical',
          'also check the canonical form of zTensor 2, and list the rules that the file breaks',
        ).conflicts('filter'),
      )
      .option('--json', 'one JSON array, an object for each file')
      .addHelpText(
        'after',
        examples(
          ['ztensor verify model.zt', 'one file'],
          ['ztensor verify *.zt && echo valid', 'several, in a script'],
        ),
      )
      .action(async (files, options) => {
        if (options.plan) await (await import('./tasks.js')).planVerification(files, options)
        else await (await import('./verify.js')).verify(files, options)
      }),

  id: (command) =>
    command
      .description('print the content digest of a zTensor 2 file, which depends on its tensors alone')
      .argument('<files...>', 'the tensor files')
      .addOption(new Option('--algorithm <name>', 'what to hash with (default: sha256)').choices(['sha256', 'xxh3']))
      .addHelpText(
        'after',
        examples(['ztensor id model.zt', 'one file'], ['ztensor id a.zt b.zt', 'are they the same model?']),
      )
      .action(async (files, options) => (await import('./id.js')).id(files, options)),

  cat: (command) =>
    command
      .description('print the values of a tensor; a large one is abbreviated')
      .argument('<file>', 'the tensor file; - is standard input')
      .argument('[name]', 'the name of the tensor, as `ztensor ls` shows it (default: the only one)')
      .option('--slice <text>', 'a part of a tensor, as Python slices: "0:100:2", "-3:", "5", "...,0"')
      .option('--all', 'print all values')
      .option('--json', 'one JSON object with nested arrays; NaN, infinities and integers beyond 2^53 as strings')
      .addHelpText(
        'after',
        examples(
          ['ztensor cat model.zt wte', 'a summary'],
          ['ztensor cat model.zt wte --slice "0:2,:4"', 'the start of two rows'],
          ['ztensor cat model.zt wte --slice "-1" --all', 'the last row in full'],
          ['ztensor cat model.zt wte --slice "::100,0"', 'the first column of every hundredth row'],
          ['ztensor cat array.npy', 'the only tensor of a file'],
          ['ztensor cat model.gguf blk.0.ffn_up.weight', 'a quantized tensor, dequantized'],
          ['ztensor cat model.zt bias --json | jq .data', 'as JSON, for a program'],
        ),
      )
      .action(async (file, name, options) => (await import('./cat.js')).cat(file, name, options)),

  stats: (command) =>
    command
      .description(
        'print counts, minimum, maximum, mean and standard deviation of tensors, optionally with a histogram',
      )
      .argument('<file>', 'the tensor file')
      .argument('[names...]', 'the names of tensors (default: all)')
      .option('--plan', 'only print the job as JSON, for `ztensor task` on many machines')
      .option('--max-task-size <size>', 'with --plan: maximum size of the tensors of a task (default: 5GB)')
      .option('--bins <count>', 'a histogram with this many bins, from the smallest element to the largest')
      .option('--short-dtypes', 'short names of dtypes: f32, bf16, i64')
      .option('--json', 'one JSON array, an object for each tensor')
      .addOption(new Option('--csv', 'a table for a spreadsheet, with a header').conflicts(['json', 'plan']))
      .addHelpText(
        'after',
        examples(
          ['ztensor stats model.zt', 'every tensor: find NaNs and zeros'],
          ['ztensor stats model.zt --csv > stats.csv', 'for a spreadsheet'],
          ['ztensor stats model.zt wte --bins 16', 'a histogram of one tensor'],
        ),
      )
      .action(async (file, names, options) => {
        if (options.plan) await (await import('./tasks.js')).planStatistics(file, options)
        else await (await import('./stats.js')).stats(file, names, options)
      }),

  view: (command) =>
    reporting(
      command
        .description(
          'write a report as one HTML file: file map, statistics of the values, differences from another file',
        )
        .argument('<file>', 'the tensor file; - is standard input')
        .option('-o, --output <path>', 'the file to write; - is standard output', 'report.html')
        .option('--overwrite', 'replace an existing file, even if it is not a report'),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor view model.safetensors --open', 'in the browser'],
          ['ztensor view tuned.zt --against base.zt -o tuned.html', 'what training changed'],
          ['ztensor view model.gguf --no-stats', 'without reading the values'],
          ["ztensor view model.gguf --filter 'blk.0.*'", 'some tensors by name'],
        ),
      )
      .action(async (file, options) => (await import('./view.js')).view(file, options)),

  serve: (command) =>
    reporting(
      command
        .description('serve the report on this machine: values and slices are read on demand')
        .argument('<file>', 'the tensor file')
        .option('--port <number>', 'the port to listen on (default: any that is free)')
        .option(
          '--host <address>',
          'the address to listen on (default: 127.0.0.1); on any other, everyone who has the URL can read the file',
        ),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor serve model.safetensors', 'prints its URL; Ctrl-C stops it'],
          ['ztensor serve llama/ --open', 'a sharded checkpoint, in the browser'],
        ),
      )
      .action(async (file, options) => (await import('./serve.js')).serve(file, options)),

  diff: (command) =>
    command
      .description('compare the tensors of two files of any formats; exit code 1 if they differ')
      .argument('<a>', 'a tensor file')
      .argument('<b>', 'another')
      .option('--atol <distance>', 'absolute tolerance: elements that differ by at most this are equal (default: 0)')
      .option('--rtol <ratio>', 'relative tolerance, relative to the larger element (default: 0)')
      .option('--values', 'compare only names, shapes and values: dtypes and layouts may differ')
      .option('--metadata', 'also compare attributes of tensors; metadata that differs counts')
      .option(
        '--rename <old=new...>',
        "new names of the first file's tensors in the second; each * stands for what it matched",
      )
      .addOption(new Option('--sort <key>', 'order of changed tensors (default: name)').choices(['name', 'change']))
      .addOption(new Option('--quiet', 'print nothing, only set the exit code').conflicts('json'))
      .option('--json', 'one JSON object')
      .addHelpText(
        'after',
        examples(
          ['ztensor diff a.safetensors b.zt', 'what a conversion changed'],
          ['ztensor diff a.zt b.zt --quiet && echo same', 'in a script'],
          ['ztensor diff f32.zt bf16.zt --values --rtol 0.01', 'up to the rounding of a cast'],
          ['ztensor diff base.zt tuned.zt --sort change', 'what training changed most'],
          ["ztensor diff a.zt b.zt --rename 'model.*=m.*'", 'files with other names'],
        ),
      )
      .action(async (a, b, options) => (await import('./diff.js')).diff(a, b, options)),

  download: (command) =>
    command
      .description('download files of the Hugging Face Hub to its cache, where Python and this command find them')
      .argument('<url>', 'hf://owner/repository[@revision], or a folder or file of it')
      .addOption(
        new Option(
          '--filter <glob>',
          'only files whose paths match: * matches any characters, ? a single one, !glob excludes; may be repeated',
        ).argParser(repeated),
      )
      .option('--to <folder>', 'download to this folder instead of the cache')
      .option('--json', 'one JSON object')
      .addHelpText(
        'after',
        examples(
          ['ztensor download hf://openai-community/gpt2', 'all files; prints the folder'],
          ["ztensor download hf://openai-community/gpt2 --filter '*.safetensors' --filter '*.json'", 'some of them'],
          ['ztensor download hf://owner/repo@v1.0/model.gguf', 'one file of a tag'],
          ['ztensor download hf://owner/repo --to models/repo', 'to a folder'],
        ),
      )
      .action(async (url, options) => (await import('./download.js')).download(url, options)),

  cache: (command) =>
    command
      .description('list, remove or verify what the cache of the Hugging Face Hub has')
      .addArgument(
        new Argument('<action>', 'ls lists it, rm removes repositories, verify checks digests').choices(CACHE_ACTIONS),
      )
      .argument('[urls...]', 'hf://owner/repository; for rm also with @ and a branch, tag or commit')
      .option('--remove', 'verify: remove damaged files, so that the next download fetches them again')
      .option('--json', 'one JSON array; for verify, one JSON object')
      .addHelpText(
        'after',
        examples(
          ['ztensor cache ls', 'what it has'],
          ['ztensor cache rm hf://openai-community/gpt2', 'all of a repository'],
          ['ztensor cache rm hf://owner/repo@v1.0', 'what only this tag uses'],
          ['ztensor cache verify', 'reads all files; exit code 1 if one is damaged'],
        ),
      )
      .action(async (action, urls, options) => (await import('./cache.js')).cache(action, urls, options)),

  convert: (command) =>
    writing(
      command
        .description('write the tensors of a file to a new file of any writable format')
        .argument('<source>', 'the tensor file')
        .argument('<target>', 'the new file; its extension sets the format, unless --format does; - is standard output')
        .addOption(targetFormat())
        .addOption(targetVersion())
        .option('--no-canonical', 'version 2: keep the order of the tensors, and allow compression')
        .addOption(new Option('--from <name>', 'read the source as this format').choices(FORMAT_NAMES))
        .addOption(targetDigest())
        .option('--compress [level]', 'compress data if that saves space: with zstd in zTensor, deflate in npz')
        .option('--rename <old=new...>', "new names for tensors; each * stands for what it matched: 'model.*=m.*'")
        .option('--dtype <dtype>', 'cast all floats to this dtype, such as bf16')
        .option(
          '--cast <from=to...>',
          "cast a dtype (f32=bf16), a group (float*, int*, uint*) or names ('*.norm.*=f32'); the first match wins; may be repeated",
        )
        .option('--dequantize [dtype]', 'store quantized tensors as floats: bfloat16 (the default), float16 or float32')
        .addOption(
          new Option(
            '--quantize <type...>',
            "quantize to a mixture of llama.cpp (q4_k_m, q8_0, …), or to block types by new names: '*.ffn_down.*=q6_k' '*=q5_k'",
          ),
        )
        .option('--imatrix <file>', 'the importance matrix for --quantize, by llama-imatrix')
        .option('--requantize', 'with --quantize: also quantize tensors that are quantized already')
        .option(
          '--metadata <key=value...>',
          'set metadata of the new file; a value that is JSON has its type, key=@FILE takes the text of a file, @FILE all keys of a JSON object',
        )
        .option('--no-copy-metadata', 'write no metadata of the source')
        .option('--no-copy-attributes', 'write no attributes of tensors')
        .option('--strict-metadata', 'fail if the target cannot store metadata of the source')
        .addOption(withoutCheckpoint())
        .option(
          '--max-shard-size <size>',
          'version 2, safetensors and GGUF: write shards of at most this size, such as 5GB',
        )
        .addOption(dryRun())
        .option('--plan', 'only print the job as JSON, for `ztensor task` on many machines'),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor convert model.safetensors model.zt', 'for Python ztensor 1.0.0 and 1.0.1, and for ztensor'],
          ['ztensor convert model.zt model.safetensors', 'for all other programs'],
          ['ztensor convert a.zt b.zt --version 1.2 --compress=9', 'another version, compressed'],
          ['ztensor convert a.zt b.npz --compress', 'for NumPy, like savez_compressed'],
          ['ztensor convert a.zt b.zt --version 2', 'the canonical file of these tensors'],
          ["ztensor convert a.zt b.zt --filter 'encoder.*'", 'a part of it'],
          ["ztensor convert a.zt b.zt --rename 'encoder.*=*'", 'without the prefix'],
          ["ztensor convert a.zt b.zt --dtype bf16 --cast '*.norm.*=f32'", 'all floats but some'],
          ['ztensor convert model.safetensors - | ssh host "cat > model.zt"', 'to a pipe'],
          ['ztensor convert a.zt out/model.safetensors --max-shard-size 5GB', 'shards with an index'],
          ['ztensor convert a.zt out/model.zt --plan > job.json', 'on many machines: see `ztensor task --help`'],
          ['ztensor convert f16.gguf q4.gguf --quantize q4_k_m', 'quantized as llama-quantize does'],
          ['ztensor convert a.zt s3://bucket/model.zt', 'to a bucket'],
        ),
      )
      .action(async (source, target, options) => {
        if (options.plan) await (await import('./tasks.js')).planConversion(source, target, options)
        else await (await import('./convert.js')).convert(source, target, options)
      }),

  merge: (command) =>
    writing(
      command
        .description('write the tensors of several files to one; fails if two files have a tensor of the same name')
        .argument('<target>', 'the new file; its extension sets the format, unless --format does; - is standard output')
        .argument('<sources...>', 'tensor files, or one index or folder of a sharded checkpoint')
        .addOption(targetFormat())
        .addOption(targetVersion())
        .addOption(withoutCheckpoint())
        .option('--no-canonical', 'version 2: keep the order of the tensors, and allow compression')
        .addOption(targetDigest())
        .option('--compress [level]', 'compress data if that saves space: with zstd in zTensor, deflate in npz'),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor merge model.safetensors llama/', 'the shards of a checkpoint, by its folder'],
          ['ztensor merge all.zt base.safetensors extra.zt', 'any files'],
        ),
      )
      .action(async (target, sources, options) => (await import('./convert.js')).convert(sources, target, options)),

  quantize: (command) =>
    writing(
      command
        .description('quantize a model as llama-quantize does: the result is the same, byte for byte')
        .argument('<source>', 'the tensor file')
        .argument('<target>', 'the new file: .gguf, or .zt')
        .argument('[type]', 'a mixture, as llama-quantize has it; the same as --type')
        .option(
          '--type <type...>',
          "a mixture (q4_k_m, q8_0, …), or block types by names: '*.ffn_down.*=q6_k' '*=q5_k'; the first match wins",
        )
        .option('--imatrix <file>', 'the importance matrix, by llama-imatrix')
        .option('--requantize', 'also quantize tensors that are quantized already')
        .option(
          '--metadata <key=value...>',
          'set keys of the metadata; a value that is JSON has its type, key=@FILE takes the text of a file, @FILE all keys of a JSON object',
        )
        .addOption(withoutCheckpoint())
        .option('--max-shard-size <size>', 'write files of at most this size, such as 5GB')
        .addOption(dryRun()),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor quantize f16.gguf q4_k_m.gguf q4_k_m', 'a mixture'],
          ['ztensor quantize f16.gguf q4_k_m.gguf q4_k_m --dry-run', 'the type and the size of each tensor'],
          ["ztensor quantize f16.gguf q5.gguf --type '*.ffn_down.*=q6_k' '*=q5_k'", 'types by names'],
          ['ztensor quantize f16.gguf iq4.gguf --type iq4_xs --imatrix imatrix.gguf', 'with an importance matrix'],
        ),
      )
      .action(async (source, target, type, options) =>
        (await import('./convert.js')).quantize(source, target, type, options),
      ),

  split: (command) =>
    writing(
      command
        .description('write the tensors of a file to shards: safetensors or GGUF, or zTensor 2 for a .zt')
        .argument('<source>', 'the tensor file')
        .argument('<target>', 'the name of the model, such as out/model.safetensors or out/model.zt')
        .addOption(withoutCheckpoint())
        .requiredOption('--max-shard-size <size>', 'the maximum size of a file, such as 2GB or 512MiB'),
    )
      .addHelpText(
        'after',
        examples(
          ['ztensor split big.safetensors out/model.safetensors --max-shard-size 2GB', 'as on the Hugging Face hub'],
          ['ztensor split big.zt out/model.zt --max-shard-size 2GB', 'zTensor 2: a root and its shards'],
        ),
      )
      .action(async (source, target, options) => (await import('./convert.js')).split(source, target, options)),

  metadata: (command) =>
    command
      .description('print the metadata of a file, or edit it in a safetensors, GGUF or zTensor 1.0 to 2 file')
      .argument('<file>', 'the tensor file')
      .argument('[key]', 'print only the value of this key: a text as it is, any other value as JSON')
      .addOption(
        new Option(
          '--set <key=value>',
          'set a key: a value that is JSON has its type, unless the old value is text; key=@FILE takes the text of a file, @FILE all keys of a JSON object; may be repeated',
        ).argParser(repeated),
      )
      .addOption(new Option('--remove <key>', 'remove a key; may be repeated').argParser(repeated))
      .option('--rename <old=new...>', "new names for tensors; each * stands for what it matched: 'model.*=m.*'")
      .option('--drop <glob...>', 'drop tensors by name')
      .option('--in-place', 'write to the file itself if possible; if the command is killed, the file may be damaged')
      .option('--json', 'one JSON object: the metadata in full, or the result of the edit')
      .addHelpText(
        'after',
        examples(
          ['ztensor metadata model.gguf', 'print it'],
          ['ztensor metadata model.gguf --set general.name=Llama', 'set one key'],
          ['ztensor metadata model.gguf tokenizer.chat_template > t.jinja', 'one value'],
          ['ztensor metadata model.gguf --set tokenizer.chat_template=@t.jinja', 'from a file'],
          ['ztensor metadata model.gguf --json > m.json', 'all of it, as --set @m.json reads it'],
          ['ztensor metadata model.gguf --remove general.url --in-place', 'without a copy'],
          [`ztensor metadata model.gguf --set 'llama.vocab_size={"type":"uint32","value":5}'`, 'with a type of GGUF'],
        ),
      )
      .action(async (file, key, options) => (await import('./metadata.js')).metadata(file, key, options)),

  rename: (command) =>
    command
      .description('rename a tensor of a zTensor 1.0 to 2 file')
      .argument('<file>', 'the tensor file')
      .argument('<old>', 'the name of the tensor')
      .argument('<new>', 'its new name')
      .option('--in-place', 'write to the file itself instead of a copy; if the command is killed, the file is damaged')
      .option('--json', 'one JSON object')
      .addHelpText('after', examples(['ztensor rename model.zt wte embedding', 'moves no data']))
      .action(async (file, from, to, options) => (await import('./edit.js')).rename(file, from, to, options)),

  remove: (command) =>
    command
      .description('remove tensors from a zTensor 1.0 to 2 file; `ztensor compact` reclaims their space')
      .argument('<file>', 'the tensor file')
      .argument('<names...>', 'the names of the tensors: all of them are removed, or none')
      .option('--in-place', 'write to the file itself instead of a copy; if the command is killed, the file is damaged')
      .option('--json', 'one JSON object')
      .addHelpText('after', examples(['ztensor remove model.zt lora.a lora.b', 'two at once']))
      .action(async (file, names, options) => (await import('./edit.js')).remove(file, names, options)),

  compact: (command) =>
    command
      .description('rewrite a zTensor 1.0 to 2 file without removed tensors and old indexes')
      .argument('<file>', 'the tensor file')
      .option('--json', 'one JSON object')
      .addHelpText('after', examples(['ztensor compact model.zt', 'does not change a file without unused space']))
      .action(async (file, options) => (await import('./compact.js')).compact(file, options)),

  task: (command) =>
    command
      .description('run one task of a job that --plan printed, on any machine; prints its result, and can be repeated')
      .argument('<job>', 'the file of the job, or of one task; - is standard input')
      .argument('[number]', 'the index of the task, from 0')
      .addHelpText(
        'after',
        examples(
          ['ztensor convert a.zt out/model.zt --plan > job.json', 'once'],
          ['ztensor task job.json 17 > 17.json', 'for each task, on any machine'],
          ['ztensor finish job.json *.json', 'once, when all are done'],
        ),
      )
      .action(async (job, number, options) => (await import('./tasks.js')).task(job, number, options)),

  finish: (command) =>
    command
      .description(
        'finish a job: check that every task has a result, and write the root or index, or print the results',
      )
      .argument('<job>', 'the file of the job')
      .argument('<results...>', 'the files of the results; the file of the job is ignored')
      .option('--verify', 'conversions: read every file again and check its digest')
      .option('--json', 'the result as JSON')
      .addHelpText('after', examples(['ztensor finish job.json *.json', 'fails and lists the tasks without a result']))
      .action(async (job, results, options) => (await import('./tasks.js')).finish(job, results, options)),

  demo: (command) =>
    command
      .description(
        'write small example files, for the programs of the guides: models, shards, sparse and quantized tensors',
      )
      .argument('[folder]', 'the folder to write to (default: the current folder)', '.')
      .option('--overwrite', 'replace files of these names that have other content')
      .addHelpText(
        'after',
        examples(['ztensor demo', 'in the current folder'], ['ztensor demo examples', 'in another folder']),
      )
      .action(async (folder, options) => (await import('./demo.js')).demo(folder, options)),

  completion: (command) =>
    command
      .description('print a script for shell completion of commands, options and their values')
      .argument('<shell>', 'bash, zsh or fish')
      .addHelpText(
        'after',
        examples(
          ['source <(ztensor completion bash)', 'bash, for this session; or:'],
          ...Object.entries(INSTALL).map(([shell, command]) => [command, `${shell}, permanently`] as const),
        ),
      )
      .action(async (shell) => completion(program(), shell)),
}

/** The program with all commands, or only with `called`: describing all of them takes longer than listing a file. */
export function program(called?: string): Command {
  const ztensor = new Command('ztensor')
    .description(`Inspects, verifies and converts tensor files (${FORMATS.map(({ title }) => title).join(', ')}).`)
    .version(version, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .enablePositionalOptions() // --version behind `convert` is convert's
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .addHelpText(
      'after',
      examples(
        ['ztensor ls model.safetensors', 'list the tensors'],
        ['ztensor info model.zt', 'describe the file'],
        ['ztensor verify *.zt', 'check the digests'],
        ['ztensor cat model.zt wte', 'print the values of a tensor'],
        ['ztensor diff a.zt b.safetensors', 'compare two files'],
        ['ztensor view model.zt --open', 'show a report in the browser'],
        ['ztensor convert model.safetensors model.zt', 'convert to another format'],
      ),
    )

  ztensor.addHelpCommand(
    new Command('help').argument('[command]').description('show the help of a command').helpGroup('Help:'),
  )
  const names = called !== undefined && Object.hasOwn(COMMANDS, called) ? [called] : Object.keys(COMMANDS)
  for (const name of names) {
    const command = (COMMANDS[name] as Describe)(ztensor.command(name))
    for (const share of SHARED[name] ?? []) share(command)
    command.helpGroup(Object.keys(GROUPS).find((group) => GROUPS[group]?.includes(name)) as string)
    // Files come first, since an option with several values would consume them.
    const files = command.registeredArguments.map((one) => {
      const shown = `${one.name()}${one.variadic ? '...' : ''}`
      return one.required ? `<${shown}>` : `[${shown}]`
    })
    command.usage([...files, '[options]'].join(' '))
  }
  return ztensor
}
