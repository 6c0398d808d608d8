// How the scripts start other programs: from the root of the repository, and with an exit status that nobody can overlook.
import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * The names that the command line gives, or all of them where it gives none; those that are `heavy` too with `--heavy`. Ends the
 * process at one that is not there.
 */
export function only(names, heavy = []) {
  const all = [...names, ...heavy]
  const chosen = process.argv.slice(2).filter((name) => name !== '--heavy' || heavy.length === 0)
  const unknown = chosen.filter((name) => !all.includes(name))
  if (unknown.length > 0) {
    console.error(`there is no ${unknown.join(', ')}: choose of ${all.join(', ')}`)
    process.exit(1)
  }
  if (chosen.length > 0) return chosen
  return process.argv.includes('--heavy') ? all : names
}

/** Whether `program` can be started at all. */
export function isInstalled(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0
}

/** Runs a program with our own terminal and ends this process with its status when it fails. */
export function runOrExit(program, args) {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: 'inherit' })
  if (error !== undefined) console.error(`${program}: ${error.message}`)
  if (status !== 0) process.exit(status ?? 1)
}

/**
 * Runs a program and keeps what it says. Resolves `{ status, stdout, stderr, output }`, whatever the status: `output` is
 * both streams in the order in which they came, and 127 is the status of a program that is not there, as in a shell.
 * With `echo` the output is passed on as it comes.
 */
export function capture(program, args, { cwd = root, env = process.env, echo = false } = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    const result = { status: 1, stdout: '', stderr: '', output: '' }
    for (const stream of ['stdout', 'stderr']) {
      child[stream].setEncoding('utf8').on('data', (text) => {
        result[stream] += text
        result.output += text
        if (echo) process[stream].write(text)
      })
    }
    child.on('error', ({ message }) => resolve({ ...result, status: 127, output: `${message}\n` }))
    child.on('close', (status) => resolve({ ...result, status: status ?? 1 }))
  })
}

/** The command line of npm itself: `npm run` names it, and Windows cannot start `npm` without a shell. */
export function npm(args) {
  const script = process.env.npm_execpath
  return script === undefined ? ['npm', args] : [process.execPath, [script, ...args]]
}
