#!/usr/bin/env node
// The `ztensor` command. Each command is loaded when it is called: `ztensor --help` needs no native binding.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command, CommanderError, Option } from 'commander'
import { exitCodes, fail, UsageError } from './failure.js'
import { formatOption } from './format.js'
import { exitQuietlyOnBrokenPipe } from './stdout.js'

function version(): string {
  // From dist/cli/ up to the package.
  const manifest = readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')
  return (JSON.parse(manifest) as { version: string }).version
}

/** Examples under a command's help, one a line: what to type, then what it is for. */
function examples(...pairs: readonly (readonly [command: string, meaning: string])[]): string {
  const widest = Math.max(...pairs.map(([command]) => command.length))
  return `\nExamples:\n${pairs.map(([command, meaning]) => `  $ ${command.padEnd(widest)}  # ${meaning}`).join('\n')}`
}

function program(): Command {
  const ztensor = new Command('ztensor')
    .description('Looks into tensor files (zTensor, safetensors, BTF) without reading their data, and checks them.')
    .version(version(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .configureOutput({ outputError: () => {} })
    .addHelpText(
      'after',
      examples(
        ['ztensor ls model.safetensors', 'what is in it'],
        ['ztensor info model.zt', 'what it is'],
        ['ztensor verify *.zt', 'is it sound'],
        ['ztensor cat model.zt wte', 'the values of a tensor'],
      ),
    )

  ztensor
    .command('ls')
    .description('list the tensors of a file: dtype, shape, layout, size, encoding and digest')
    .argument('<file>', 'the tensor file')
    .addOption(
      new Option('--sort <key>', 'sort rows (default: order of the file)').choices(['name', 'size', 'offset', 'dtype']),
    )
    .option('--filter <glob>', 'only names that match: * is any run of characters, ? any single one')
    .option('--json', 'one JSON array, an object for each tensor')
    .addOption(formatOption())
    .addHelpText(
      'after',
      examples(
        ['ztensor ls model.safetensors', 'every tensor, in the order of the file'],
        ['ztensor ls model.zt --sort size', 'the largest first'],
        ["ztensor ls model.zt --filter '*.attn.*'", 'some by name'],
        ['ztensor ls model.zt --json | jq .[].name', 'for a program'],
      ),
    )
    .action(async (file, options) => (await import('./ls.js')).ls(file, options))

  ztensor
    .command('info')
    .description('describe a file: format, version, size, totals by dtype, attributes, warnings')
    .argument('<file>', 'the tensor file')
    .option('--json', 'one JSON object')
    .addOption(formatOption())
    .addHelpText(
      'after',
      examples(
        ['ztensor info model.zt', 'on one screen'],
        ['ztensor info model.zt --json | jq .attributes', 'attributes in full'],
      ),
    )
    .action(async (file, options) => (await import('./info.js')).info(file, options))

  ztensor
    .command('verify')
    .description('check every digest and every rule about data; exit code 1 where something is wrong')
    .argument('<files...>', 'the tensor files')
    .option('--json', 'one JSON array, an object for each file')
    .addOption(formatOption())
    .addHelpText(
      'after',
      examples(['ztensor verify model.zt', 'one file'], ['ztensor verify *.zt && echo sound', 'several, in a script']),
    )
    .action(async (files, options) => (await import('./verify.js')).verify(files, options))

  ztensor
    .command('cat')
    .description('print the values of a tensor, the middle of a large one left out')
    .argument('<file>', 'the tensor file')
    .argument('<name>', 'the name of the tensor, as `ztensor ls` shows it')
    .option('--slice <text>', 'a part, as in numpy: "0:2,:,5"; an index keeps its dimension (dense tensors)')
    .option('--all', 'leave nothing out')
    .option('--json', 'one JSON object with nested arrays; NaN, infinities and integers past 2^53 as text')
    .addOption(formatOption())
    .addHelpText(
      'after',
      examples(
        ['ztensor cat model.zt wte', 'a summary'],
        ['ztensor cat model.zt wte --slice "0:2,:4"', 'the start of two rows'],
        ['ztensor cat model.zt wte --slice "-1" --all', 'the last row in full'],
        ['ztensor cat model.zt bias --json | jq .data', 'for a program'],
      ),
    )
    .action(async (file, name, options) => (await import('./cat.js')).cat(file, name, options))

  return ztensor
}

function onParseError(error: CommanderError, command: string): void {
  if (error.exitCode === 0) return
  // Without a command the help has been printed already.
  if (error.code === 'commander.help') process.exitCode = exitCodes.unusable
  else fail(new UsageError(error.message.replace(/^error: /, ''), `Run \`${command} --help\` for what there is.`))
}

async function main(): Promise<void> {
  exitQuietlyOnBrokenPipe()
  const ztensor = program()
  try {
    await ztensor.parseAsync()
  } catch (error) {
    const known = ztensor.commands.find((command) => command.name() === process.argv[2])
    if (error instanceof CommanderError)
      onParseError(error, known === undefined ? 'ztensor' : `ztensor ${known.name()}`)
    else fail(error)
  }
}

void main()
