// ZT_IO: for every system error, `cause` is Node's own error, with its code, syscall and path.
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import test from 'ava'
import { append, compact, convert, loadFile, open, openSync, saveFile, verify, ZTensorError } from 'ztensor'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const run = promisify(execFile)
const posix = process.platform === 'win32' ? test.skip : test
const root = fileURLToPath(new URL('../..', import.meta.url))
const ONE = { a: Float32Array.of(1) }

/** A new folder for failures. */
function folder() {
  const path = scratchPath('trouble')
  mkdirSync(path, { recursive: true })
  return path
}

/** Asserts that the error is ZT_IO and its cause is like an error of Node's fs. */
function isSystemError(t, error, code, path, what) {
  t.true(error instanceof ZTensorError, `${what}: ${error?.stack ?? 'nothing thrown'}`)
  const { cause } = error
  t.deepEqual([error.code, cause?.code], ['ZT_IO', code], `${what}: ${error.message}`)
  t.true(cause instanceof Error, what)
  t.is(typeof cause.syscall, 'string', what)
  t.true(cause.errno < 0, what)
  t.is(cause.path, path, what)
  t.true(error.message.includes(path) && error.message.includes(code), `${what}: ${error.message}`)
}

const TO_READ = {
  open: (path) => rejectionOf(() => open(path)),
  openSync: async (path) => thrownBy(() => openSync(path)),
  // Several errors are listed in `cause`, each with its own.
  'open a list': async (path) => (await rejectionOf(() => open([path, path])))?.cause[1],
  verify: (path) => rejectionOf(() => verify(path)),
  loadFile: (path) => rejectionOf(() => loadFile(path)),
  'convert from': (path) => rejectionOf(() => convert(path, scratchPath('never.zt'))),
  append: (path) => rejectionOf(() => append(path)),
  compact: (path) => rejectionOf(() => compact(path)),
}

const TO_WRITE = {
  create: (path) => rejectionOf(() => written({}, (w) => w.add('a', ONE.a), path)),
  saveFile: (path) => rejectionOf(() => saveFile(path, ONE)),
  'convert to': async (path) => rejectionOf(async () => convert(await written({}, (w) => w.add('a', ONE.a)), path)),
}

for (const [what, call] of Object.entries({ ...TO_READ, ...TO_WRITE })) {
  posix(`${what}: a missing file or folder is ENOENT`, async (t) => {
    const path = join(folder(), 'no folder', 'x.zt')
    isSystemError(t, await call(path), 'ENOENT', path, what)
  })

  posix(`${what}: a path through a file is ENOTDIR`, async (t) => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const path = join(file, 'x.zt')
    isSystemError(t, await call(path), 'ENOTDIR', path, what)
  })

  posix(`${what}: a link to itself is ELOOP`, async (t) => {
    const at = folder()
    const path = what in TO_READ ? join(at, 'loop') : join(at, 'loop', 'x.zt')
    symlinkSync('loop', join(at, 'loop'))
    isSystemError(t, await call(path), 'ELOOP', path, what)
  })

  posix(`${what}: a name that is too long is ENAMETOOLONG`, async (t) => {
    const path = join(folder(), `${'x'.repeat(300)}.zt`)
    isSystemError(t, await call(path), 'ENAMETOOLONG', path, what)
  })
}

// Failures in a separate process: `begin` causes the failure, and the fields of the error are returned.
const CHILD = `
import { openSync as openFile } from 'node:fs'
import * as ztensor from 'ztensor'
const [call, path, trouble] = process.argv.slice(1)
await ztensor.open(path).catch(() => {})
if (trouble === 'EACCES' && process.getuid() === 0) process.setuid(65534)
if (trouble === 'EMFILE') try { for (;;) openFile('/dev/null') } catch {}
const calls = {
  open: () => ztensor.open(path),
  openSync: () => ztensor.openSync(path),
  verify: () => ztensor.verify(path),
  create: async () => (await ztensor.create(path + '.new.zt')).finish(),
  append: () => ztensor.append(path),
}
try {
  await calls[call]()
  process.stdout.write('null')
} catch ({ code, message, cause }) {
  const { errno, syscall } = cause ?? {}
  process.stdout.write(JSON.stringify({ code, message, isError: cause instanceof Error, cause: { code: cause?.code, errno, syscall, path: cause?.path } }))
}
process.exit()
`

for (const trouble of ['EACCES', 'EMFILE']) {
  for (const call of ['open', 'openSync', 'verify', 'create', 'append']) {
    posix(`${call}: ${trouble}`, async (t) => {
      const at = folder()
      const path = join(at, 'x.zt')
      await written({}, (w) => w.add('a', ONE.a), path)
      if (trouble === 'EACCES') {
        chmodSync(path, 0)
        chmodSync(at, 0o555)
      }
      const inside = ['--input-type=module', '-e', CHILD, call, path, trouble]
      const script = trouble === 'EMFILE' ? 'ulimit -n 64; exec "$@"' : 'exec "$@"'
      const { stdout } = await run('sh', ['-c', script, 'sh', process.execPath, ...inside], { cwd: root })
      chmodSync(at, 0o755)
      const error = JSON.parse(stdout)
      t.deepEqual([error?.code, error?.cause.code, error?.isError], ['ZT_IO', trouble, true], stdout)
      t.is(typeof error.cause.syscall, 'string')
      t.true(error.cause.errno < 0)
      t.true(error.cause.path.startsWith(at), stdout)
    })
  }
}
