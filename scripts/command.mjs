// Starts other programs for the scripts: in the root of the repository, with an exit status that is always checked.
import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Returns the names on the command line, or all of `names` if it has none; with `--heavy`, those that are `heavy` too. Leaves out
 * `flags`. Ends the process at an unknown name.
 */
export function only(names, heavy = [], flags = []) {
  const all = [...names, ...heavy]
  const ignored = heavy.length > 0 ? ['--heavy', ...flags] : flags
  const chosen = process.argv.slice(2).filter((name) => !ignored.includes(name))
  const unknown = chosen.filter((name) => !all.includes(name))
  if (unknown.length > 0) {
    console.error(`there is no ${unknown.join(', ')}: choose from ${all.join(', ')}`)
    process.exit(1)
  }
  if (chosen.length > 0) return chosen
  return process.argv.includes('--heavy') ? all : names
}

/** Whether `program` can be started. */
export function isInstalled(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0
}

/** Runs a program on the terminal of this process. If the program fails, ends this process with its status. */
export function runOrExit(program, args, { env = process.env } = {}) {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: 'inherit', env })
  if (error !== undefined) console.error(`${program}: ${error.message}`)
  if (status !== 0) process.exit(status ?? 1)
}

/**
 * Runs a program and collects its output. Resolves `{ status, stdout, stderr, output }` for any status: `output` is both
 * streams in order of arrival, and the status of a missing program is 127, as in a shell. With `echo`, the output is also
 * printed as it arrives.
 */
export function capture(program, args, { cwd = root, env = process.env, echo = false, timeout = 0 } = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd, env, timeout, stdio: ['ignore', 'pipe', 'pipe'] })
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

/** The command line of npm. `npm run` names its script, because Windows cannot start `npm` without a shell. */
export function npm(args) {
  const script = process.env.npm_execpath
  return script === undefined ? ['npm', args] : [process.execPath, [script, ...args]]
}
