// `ztensor completion`: generates shell completion scripts from the commands.
import type { Command, Option } from 'commander'
import { UsageError } from './failure.js'
import { print } from './stdout.js'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** The command that installs each shell's script. */
export const INSTALL: Readonly<Record<Shell, string>> = {
  bash: 'ztensor completion bash >> ~/.bash_completion',
  zsh: 'ztensor completion zsh > "$fpath[1]/_ztensor"',
  fish: 'ztensor completion fish > ~/.config/fish/completions/ztensor.fish',
}

interface Known {
  readonly name: string
  readonly description: string
  readonly options: readonly Option[]
}

function known(program: Command): Known[] {
  return program.commands.map((command) => ({
    name: command.name(),
    description: command.description(),
    options: command.options,
  }))
}

const flags = (options: readonly Option[]) => options.flatMap(({ long }) => long ?? [])
const chosen = (options: readonly Option[]) => options.filter(({ argChoices }) => argChoices !== undefined)

function* bash(commands: readonly Known[]): Generator<string> {
  yield '_ztensor() {'
  yield '  local word=$2 before=$3 command=$' + '{COMP_WORDS[1]} words='
  yield '  if ((COMP_CWORD == 1)); then'
  yield `    words='${[...commands.map(({ name }) => name), '--help', '--version'].join(' ')}'`
  yield '  else'
  yield '    case "$command $before" in'
  for (const { name, options } of commands) {
    for (const { long, argChoices } of chosen(options))
      yield `      '${name} ${long}') words='${argChoices?.join(' ')}' ;;`
  }
  yield "      'completion completion') words='bash zsh fish' ;;"
  yield '      *)'
  yield '        if [[ $word == -* ]]; then'
  yield '          case $command in'
  for (const { name, options } of commands) yield `            ${name}) words='${flags(options).join(' ')} --help' ;;`
  yield '          esac'
  yield '        fi ;;'
  yield '    esac'
  yield '  fi'
  yield '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
  yield '}'
  yield 'complete -o default -F _ztensor ztensor'
}

/** Quotes a text for the shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function* zsh(commands: readonly Known[]): Generator<string> {
  // Removes characters with a special meaning for _arguments and _describe.
  const plain = (text: string) => text.replaceAll(/[[\]:\\]/g, ' ')
  yield '#compdef ztensor'
  yield '_ztensor() {'
  yield '  if ((CURRENT == 2)); then'
  yield '    local -a commands=('
  for (const { name, description } of commands) yield `      ${quoted(`${name}:${plain(description)}`)}`
  yield '    )'
  yield '    _describe command commands'
  yield '    return'
  yield '  fi'
  yield '  local command=$words[2]'
  yield '  shift words'
  yield '  ((CURRENT--))'
  yield '  case $command in'
  for (const { name, options } of commands) {
    const specs = options.map(({ long, description, argChoices, required, optional }) => {
      const value = argChoices !== undefined ? `:value:(${argChoices.join(' ')})` : required ? ':value: ' : ''
      return quoted(`${long}${optional ? '=-' : ''}[${plain(description)}]${optional ? '::value: ' : value}`)
    })
    const rest = name === 'completion' ? "'1:shell:(bash zsh fish)'" : "'*:file:_files'"
    yield `    ${name}) _arguments ${[...specs, rest].join(' ')} ;;`
  }
  yield '  esac'
  yield '}'
  yield '_ztensor "$@"'
}

function* fish(commands: readonly Known[]): Generator<string> {
  for (const { name, description } of commands) {
    yield `complete -c ztensor -n __fish_use_subcommand -f -a ${name} -d ${quoted(description)}`
  }
  for (const { name, options } of commands) {
    const here = `complete -c ztensor -n '__fish_seen_subcommand_from ${name}'`
    for (const { long, description, argChoices, required } of options) {
      const values = argChoices !== undefined ? ` -x -a ${quoted(argChoices.join(' '))}` : required ? ' -x' : ''
      yield `${here} -l ${long?.slice(2)}${values} -d ${quoted(description)}`
    }
  }
  yield "complete -c ztensor -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'"
}

/** Prints the completion script of a shell. */
export async function completion(program: Command, shell: string): Promise<void> {
  const scripts = { bash, zsh, fish }
  const script = Object.hasOwn(scripts, shell) ? scripts[shell as Shell] : undefined
  if (script === undefined) throw new UsageError(`the shell must be one of ${SHELLS.join(', ')}, got ${shell}`)
  await print(`${[...script(known(program))].join('\n')}\n`)
}
