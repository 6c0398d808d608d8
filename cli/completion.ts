// `ztensor completion`: generates shell completion scripts from the commands.
import type { Command, Option } from 'commander'
import { MIXTURES } from '../lib/values/formats.js'
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

interface KnownOption extends Pick<Option, 'description' | 'required' | 'optional'> {
  readonly long: string
  /** The values to choose from. */
  readonly values: readonly string[] | undefined
}

interface Known {
  readonly name: string
  readonly description: string
  readonly options: readonly KnownOption[]
}

/** Commands whose arguments after the file are names of its tensors. */
const TAKES_NAMES = ['cat', 'stats', 'rename', 'remove']
/** What `ztensor cache` can do. */
export const CACHE_ACTIONS = ['ls', 'rm', 'verify']
/** The command whose last argument is a mixture, and options that take one. */
const TAKES_MIXTURE = { command: 'quantize', options: ['--quantize', '--type'] }

function known(program: Command): Known[] {
  return program.commands.map((command) => ({
    name: command.name(),
    description: command.description(),
    options: command.options.flatMap(({ long, description, required, optional, argChoices }) => {
      if (long == null) return []
      return [
        { long, description, required, optional, values: TAKES_MIXTURE.options.includes(long) ? MIXTURES : argChoices },
      ]
    }),
  }))
}

const flags = (options: readonly KnownOption[]) => options.map(({ long }) => long)

function* bash(commands: readonly Known[]): Generator<string> {
  yield '_ztensor() {'
  yield '  local word=$2 before=$3 command=$' + '{COMP_WORDS[1]} words='
  yield '  if ((COMP_CWORD == 1)); then'
  yield `    words='${[...commands.map(({ name }) => name), '--help', '--version'].join(' ')}'`
  yield '  else'
  yield '    case "$command $before" in'
  for (const { name, options } of commands) {
    for (const { long, values } of options)
      if (values !== undefined) yield `      '${name} ${long}') words='${values.join(' ')}' ;;`
  }
  yield "      'completion completion') words='bash zsh fish' ;;"
  yield `      'cache cache') words='${CACHE_ACTIONS.join(' ')}' ;;`
  yield '      *)'
  yield '        if [[ $word == -* ]]; then'
  yield '          case $command in'
  for (const { name, options } of commands) yield `            ${name}) words='${flags(options).join(' ')} --help' ;;`
  yield '          esac'
  yield `        elif [[ $command == ${TAKES_MIXTURE.command} ]] && ((COMP_CWORD == 4)); then`
  yield `          words='${MIXTURES.join(' ')}'`
  yield `        elif [[ ' ${TAKES_NAMES.join(' ')} ' == *" $command "* ]] && ((COMP_CWORD > 2)); then`
  // compgen would expand a name, so that a file could run commands.
  yield '          local name'
  yield '          COMPREPLY=()'
  yield '          while IFS= read -r name; do'
  yield '            [[ $name == "$word"* && $name =~ ^[A-Za-z0-9._/-]+$ ]] && COMPREPLY+=("$name")'
  yield '          done < <(ztensor ls --names -- "$' + '{COMP_WORDS[2]}" 2>/dev/null)'
  yield '          return'
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
  yield '_ztensor_names() {'
  yield '  local -a names=("$' + '{(@f)$(ztensor ls --names -- $words[2] 2>/dev/null)}")'
  yield '  compadd -- $names'
  yield '}'
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
    const specs = options.map(({ long, description, values, required, optional }) => {
      const value = values !== undefined ? `:value:(${values.join(' ')})` : required ? ':value: ' : ''
      return quoted(`${long}${optional ? '=-' : ''}[${plain(description)}]${optional ? '::value: ' : value}`)
    })
    yield `    ${name}) _arguments ${[...specs, ...zshArguments(name)].join(' ')} ;;`
  }
  yield '  esac'
  yield '}'
  yield '_ztensor "$@"'
}

/** The arguments of a command for zsh. */
function zshArguments(name: string): string[] {
  if (name === 'completion') return ["'1:shell:(bash zsh fish)'"]
  if (name === 'cache') return [`'1:action:(${CACHE_ACTIONS.join(' ')})'`]
  if (name === TAKES_MIXTURE.command)
    return ["'1:file:_files'", "'2:file:_files'", `'3:mixture:(${MIXTURES.join(' ')})'`]
  if (TAKES_NAMES.includes(name)) return ["'1:file:_files'", "'*:tensor:_ztensor_names'"]
  return ["'*:file:_files'"]
}

function* fish(commands: readonly Known[]): Generator<string> {
  for (const { name, description } of commands) {
    yield `complete -c ztensor -n __fish_use_subcommand -f -a ${name} -d ${quoted(description)}`
  }
  for (const { name, options } of commands) {
    const here = `complete -c ztensor -n '__fish_seen_subcommand_from ${name}'`
    for (const { long, description, values, required } of options) {
      const choices = values !== undefined ? ` -x -a ${quoted(values.join(' '))}` : required ? ' -x' : ''
      yield `${here} -l ${long.slice(2)}${choices} -d ${quoted(description)}`
    }
    if (TAKES_NAMES.includes(name))
      yield `${here} -a '(ztensor ls --names -- (commandline -opc)[3] 2>/dev/null)' -d tensor`
    if (name === TAKES_MIXTURE.command) yield `${here} -a '${MIXTURES.join(' ')}' -d mixture`
  }
  yield `complete -c ztensor -n '__fish_seen_subcommand_from cache' -f -a '${CACHE_ACTIONS.join(' ')}'`
  yield "complete -c ztensor -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'"
}

/** Prints the completion script of a shell. */
export async function completion(program: Command, shell: string): Promise<void> {
  const scripts = { bash, zsh, fish }
  const script = Object.hasOwn(scripts, shell) ? scripts[shell as Shell] : undefined
  if (script === undefined) throw new UsageError(`the shell must be one of ${SHELLS.join(', ')}, got ${shell}`)
  await print(`${[...script(known(program))].join('\n')}\n`)
}
