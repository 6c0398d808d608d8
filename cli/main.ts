// The `ztensor` command: parses what was typed, and says what is wrong with it.
import { CommanderError } from 'commander'
import { program } from './commands.js'
import { exitCodes, fail, UsageError } from './failure.js'
import { exitQuietlyOnBrokenPipe } from './stdout.js'

function onParseError(error: CommanderError, command: string): void {
  if (error.exitCode === 0) return
  // Without a command the help has been printed already.
  if (error.code === 'commander.help') process.exitCode = exitCodes.unusable
  else {
    // An option whose value may be left out, or be several, has taken what stands behind it.
    const took = ['--include', '--exclude', '--rename', '--cast', '--compress'].find((flag) =>
      process.argv.includes(flag),
    )
    const moved = took !== undefined && error.code === 'commander.missingArgument'
    const hint = moved ? `Put ${took} after the files.` : `Run \`${command} --help\` for usage.`
    fail(new UsageError(error.message.replace(/^error: /, ''), hint))
  }
}

async function main(): Promise<void> {
  exitQuietlyOnBrokenPipe()
  const ztensor = program(process.argv[2])
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
