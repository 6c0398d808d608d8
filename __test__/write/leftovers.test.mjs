// Leftovers of killed writers: none if a file needs no name, otherwise files that the next writer in the folder removes.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { symlinkSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { append, compact, convert } from 'ztensor'
import { scratchFolder, written } from '../helpers/sample-files.mjs'
import { traceTest } from '../helpers/strace.mjs'

const LEFT = ['.ztensor-4000000-0.part', '.ztensor-4000000-1.part', '.ztensor-4000000-1.part-0']
const NOT_OURS = ['.ztensor-x-0.part', '.ztensor-1-0.part.txt', 'ztensor-1-0.part', '.ztensor-4000000-2']
const oldFile = (path) =>
  written(
    {},
    (writer) => Promise.all([writer.add('a', new Float32Array(2000)), writer.add('b', Int8Array.of(1))]),
    path,
  )

/** The next writes in a folder. */
const WRITERS = {
  create: (path) => written({}, (writer) => writer.add('0', Int8Array.of(1)), path('new')),
  'create, safetensors': (path) =>
    written({ format: 'safetensors' }, (writer) => writer.add('0', Int8Array.of(1)), path('new')),
  append: async (path) => {
    const editor = await append(path('old'))
    await editor.remove('a')
    await editor.finish()
  },
  compact: async (path) => {
    await WRITERS.append(path)
    for (const name of LEFT) writeFileSync(path(name), 'left')
    await compact(path('old'))
  },
  convert: (path) => convert(path('old'), path('new'), { format: 'zt' }),
  'convert in parts': (path) =>
    convert(path('old'), path('new.safetensors'), { format: 'safetensors', maxShardBytes: 100 }),
}

for (const [name, write] of Object.entries(WRITERS)) {
  test(`${name} removes only leftovers of killed writers`, async (t) => {
    const { names, path } = scratchFolder()
    await oldFile(path('old'))
    for (const name of [...LEFT, ...NOT_OURS]) writeFileSync(path(name), 'left')
    if (process.platform !== 'win32') symlinkSync('old', path('.ztensor-4000000-7.part'))
    await write(path)
    t.deepEqual(
      names().filter((name) => LEFT.includes(name)),
      [],
    )
    for (const name of NOT_OURS) t.true(names().includes(name), name)
    t.is(names().includes('.ztensor-4000000-7.part'), process.platform !== 'win32')
  })
}

const waiting = `
  import { create } from 'ztensor'
  const [path, options] = process.argv.slice(1)
  const writer = await create(path, JSON.parse(options))
  for (let at = 0; at < 4; at++) await writer.add(String(at), new Float32Array(2 ** 20))
  console.log('waits')
  setInterval(() => {}, 1000)`

async function started(command, path, options = {}) {
  const [program, ...args] = command
  const child = spawn(program, [...args, '--input-type=module', '-e', waiting, path, JSON.stringify(options)], {
    cwd: new URL('../', import.meta.url),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  await once(child.stdout, 'data')
  return async () => {
    process.kill(-child.pid, 'SIGKILL')
    await once(child, 'close')
  }
}

if (process.platform === 'linux') {
  for (const options of [
    {},
    { format: 'safetensors' },
    { format: 'safetensors', maxShardBytes: 2 ** 22 },
    { version: '2', maxShardBytes: 2 ** 22 },
  ]) {
    test(`while it writes ${JSON.stringify(options)}, no file has a name, so a kill leaves nothing`, async (t) => {
      const { names, path } = scratchFolder()
      const kill = await started([process.execPath], path('m.zt'), options)
      t.deepEqual(names(), [])
      await kill()
      t.deepEqual(names(), [])
    })
  }
}

// On this processor, only a file without a name is created by open(2), all others by openat(2).
if (process.arch === 'x64') {
  traceTest(
    'if a file must have a name, the next writer removes it after its writer is gone, and not before',
    async (t) => {
      const { names, path } = scratchFolder()
      const strace = [
        'strace',
        '-f',
        '-qq',
        '--seccomp-bpf',
        '-o',
        '/dev/null',
        '-e',
        'trace=open',
        '-e',
        'inject=open:error=EOPNOTSUPP',
      ]
      const kill = await started([...strace, process.execPath], path('m.safetensors'), { format: 'safetensors' })
      const [part, ...others] = names()
      t.regex(part, /^\.ztensor-\d+-\d+\.part$/)
      t.deepEqual(others, [])
      await oldFile(path('n.zt'))
      t.deepEqual(names(), [part, 'n.zt'])
      await kill()
      t.deepEqual(names(), [part, 'n.zt'])
      await oldFile(path('o.zt'))
      t.deepEqual(names(), ['n.zt', 'o.zt'])
    },
  )
}
