// The `ztensor` command: parses the arguments and reports errors.
import { CommanderError } from 'commander'
import { program } from './commands.js'
import { exitCodes, fail, UsageError } from './failure.js'
import { exitQuietlyOnBrokenPipe } from './stdout.js'

function onParseError(error: CommanderError, command: string): void {
  if (error.exitCode === 0) return
  // Without a command, commander has already printed the help.
  if (error.code === 'commander.help') process.exitCode = exitCodes.unusable
  else {
    // An option with optional or several values may have consumed the files after it.
    const took = ['--rename', '--cast', '--compress', '--skip'].find((flag) => process.argv.includes(flag))
    const moved = took !== undefined && error.code === 'commander.missingArgument'
    const hint = moved ? `Put ${took} after the files.` : `Run \`${command} --help\` for usage.`
    fail(new UsageError(error.message.replace(/^error: /, ''), hint))
  }
}

/** Runs the command that `process.argv` names. */
export async function main(): Promise<void> {
  exitQuietlyOnBrokenPipe()
  // Node would print a stack trace.
  process.on('uncaughtException', (error) => {
    fail(error)
    process.exit()
  })
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
