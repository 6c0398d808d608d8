// Runs programs under strace: checks their system calls, the order of these, and the result if a call fails.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import test from 'ava'
import { needing, unsupported } from './emulator.mjs'
import { scratchPath } from './scratch.mjs'

const works = process.platform === 'linux' && spawnSync('strace', ['-o', '/dev/null', 'true']).status === 0

/** A test that needs strace. Without strace, the title says that it is not run. */
export const traceTest =
  works || unsupported('ptrace()')
    ? needing(test, 'ptrace()')
    : (title) => test(`not run, since strace does not work on this machine: ${title}`, (t) => t.pass())

/**
 * Runs a module that imports `ztensor` and finds `args` in `process.argv.slice(1)`, with strace's own options. Resolves with its
 * exit status, its output, and strace's lines.
 */
export async function traced(options, source, args = []) {
  const log = scratchPath('strace.log')
  const node = [process.execPath, '--input-type=module', '-e', source, ...args]
  // With --seccomp-bpf, strace 6.1 injects a signal at the first call only.
  const quick = options.some((option) => option.includes('signal=')) ? [] : ['--seccomp-bpf']
  const child = spawn('strace', ['-f', '-qq', ...quick, '-o', log, ...options, ...node], {
    cwd: new URL('.', import.meta.url),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = Promise.all([child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray()))
  const [status, signal] = await once(child, 'close')
  const [stdout, stderr] = (await output).map((texts) => texts.join(''))
  return { status, signal, stdout, stderr, lines: readFileSync(log, 'utf8').trimEnd().split('\n') }
}

/** Calls with the lines where they begin and end: lines of other threads may be between. */
export function callsOf(lines) {
  const calls = []
  const open = new Map()
  for (const [at, line] of lines.entries()) {
    const resumed = /^(\d+) +<\.\.\. (\w+) resumed>(.*)$/.exec(line)
    const begun = resumed ?? /^(\d+) +(\w+)\((.*)$/.exec(line)
    if (begun === null) continue
    const [, thread, name, rest] = begun
    const call = resumed === null ? { name, begins: at, text: '' } : open.get(thread)
    call.text += rest
    if (rest.endsWith('<unfinished ...>')) {
      call.text = call.text.slice(0, -'<unfinished ...>'.length)
      open.set(thread, call)
    } else {
      call.ends = at
      call.failed = / = -1 /.test(call.text)
    }
    if (resumed === null) calls.push(call)
  }
  return calls
}

/**
 * The operations on files, in order: `{ did: 'write' | 'sync' | 'put' | 'remove', file, to?, begins, ends }`. A file without a
 * name is identified by its inode, one that is linked or renamed keeps its first name.
 */
export function operationsOf(lines) {
  const deeds = []
  const first = new Map()
  const known = (path) => first.get(path) ?? path
  const handle = (text) => known(/^\d+<([^>]*)>/.exec(text)?.[1])
  const handles = new Map()
  for (const { name, text, begins, ends, failed } of callsOf(lines)) {
    const strings = [...text.matchAll(/"([^"]*)"/g)].map(([, string]) => string)
    const did = (what, file, to) => deeds.push({ did: what, file, begins, ends, ...(to === undefined ? {} : { to }) })
    if (failed) continue
    if (name === 'open' || name === 'openat') {
      const [, number, path] = / = (\d+)<([^>]*)>/.exec(text) ?? []
      handles.set(number, path)
    } else if (/^p?write(v|64)?$|^ftruncate$|^fch(own|mod)|^fsetxattr$/.test(name)) did('write', handle(text))
    else if (name === 'copy_file_range') did('write', known(/, (\d+<[^>]*>)/.exec(text)[1].replace(/^\d+<|>$/g, '')))
    else if (/^fsync$/.test(name)) did('sync', handle(text))
    else if (/^(linkat|rename|renameat|renameat2)$/.test(name)) {
      const [from, to] = strings
      const file = known(from.startsWith('/proc/self/fd/') ? handles.get(from.split('/').pop()) : from)
      first.set(to, file)
      did('put', file, to)
    } else if (/^unlink/.test(name)) did('remove', known(strings[0]), strings[0])
  }
  return deeds
}

export const FILE_CALLS =
  'trace=open,openat,write,pwrite64,writev,copy_file_range,ftruncate,fchown,fchmod,fsetxattr,fsync,/^link,/^rename,/^unlink'
