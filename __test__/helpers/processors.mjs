// Compares the output of a program on one processor and on all of them: the bytes must be equal.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { scratchPath } from './scratch.mjs'

/** Runs `source`, which writes a file at `process.argv[1]`, both ways and returns the two files. Linux only. */
export function writtenOnProcessors(source) {
  const run = (path, ...command) => {
    const [program, ...args] = [...command, process.execPath, '--input-type=module', '-e', source, path]
    execFileSync(program, args, { cwd: new URL('.', import.meta.url) })
    return readFileSync(path)
  }
  const processor = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]
  return { one: run(scratchPath('one.zt'), 'taskset', '-c', processor), all: run(scratchPath('all.zt')) }
}
