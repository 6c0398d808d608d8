// The command keeps its compiled code in a folder of the user's, and never runs damaged code or another user's.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { ended, fixture, main, run, start } from '../command.mjs'

/** An environment whose home is a folder of the test, and the files that are kept in it. */
function home(t, more = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-home-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const env = {
    HOME: folder,
    USERPROFILE: folder,
    LOCALAPPDATA: join(folder, 'caches'),
    XDG_CACHE_HOME: join(folder, 'caches'),
    NODE_COMPILE_CACHE: '',
    NODE_DISABLE_COMPILE_CACHE: '',
    ...more,
  }
  return { folder, env, kept: () => kept(folder) }
}

/** The files below `folder`, with when each was written. */
function kept(folder) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => ({
      path: join(parentPath, name),
      name,
      written: statSync(join(parentPath, name), { bigint: true }).mtimeNs,
    }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
}

const LIST = ['ls', fixture('btf-dense.btf'), '--format', 'btf']

test('code is kept where nobody else can write, and taken from there', async (t) => {
  const { env, kept } = home(t)
  const first = await run(LIST, { env })
  t.deepEqual([first.code, first.stderr], [0, ''])
  const files = kept()
  t.deepEqual(
    files.map(({ name }) => name),
    ['command.js', 'index.js', 'shared.js'],
  )
  if (process.platform !== 'win32') {
    t.deepEqual(
      files.map(({ path }) => statSync(path).mode & 0o077),
      [0, 0, 0],
    )
    t.is(statSync(join(files[0].path, '..')).mode & 0o077, 0)
  }
  t.deepEqual(await run(LIST, { env }), first)
  t.deepEqual(kept(), files)
})

test('each command has its own; one that fails or is not there has none', async (t) => {
  const { env, kept } = home(t)
  await run(LIST, { env })
  const files = kept()
  await run(['lz'], { env })
  await run(['info', fixture('not-there.zt')], { env })
  t.deepEqual(kept(), files)
  await run(['../../lz'], { env })
  await run(['info', fixture('btf-dense.btf'), '--format', 'btf'], { env })
  await run(['--version'], { env })
  t.true(kept().length > files.length)
  t.deepEqual([...new Set(kept().map(({ path }) => path.split(/[\\/]/).at(-2)))].toSorted(), ['help', 'info', 'ls'])
})

const flip = (bytes, at) => {
  bytes[at] ^= 0xff
  return bytes
}
const DAMAGE = {
  'cut off': (path, { length }) => truncateSync(path, length - 2),
  empty: (path) => truncateSync(path, 0),
  longer: (path, bytes) => writeFileSync(path, Buffer.concat([bytes, Buffer.alloc(2)])),
  'zeros behind the source': (path, bytes, source) => writeFileSync(path, bytes.fill(0, source)),
  'code of another source': (path, bytes, source) => writeFileSync(path, flip(bytes, source - 2)),
  'a byte of the code': (path, bytes, source) => writeFileSync(path, flip(bytes, source + 5000)),
  'a byte of its copy': (path, bytes) => writeFileSync(path, flip(bytes, bytes.length - 5000)),
  'what V8 does not know as code': (path, bytes, source) => {
    const half = (bytes.length - source) / 2
    flip(bytes, source)
    writeFileSync(path, flip(bytes, source + half))
  },
}

for (const [what, damage] of Object.entries(DAMAGE)) {
  test(`damage: ${what}`, async (t) => {
    const { env, kept } = home(t)
    const first = await run(LIST, { env })
    const files = kept()
    for (const { path, name } of files) damage(path, readFileSync(path), statSync(join(main, '..', name)).size)
    t.deepEqual(await run(LIST, { env }), first)
    // Each was compiled anew, and is kept again.
    const again = kept()
    for (const [at, { path, written }] of again.entries()) {
      t.is(path, files[at].path)
      t.true(written > files[at].written)
    }
    t.deepEqual(await run(LIST, { env }), first)
    t.deepEqual(kept(), again)
  })
}

test('many at once', async (t) => {
  const { env, kept } = home(t)
  const all = await Promise.all(Array.from({ length: 6 }, () => run(LIST, { env })))
  t.is(new Set(all.map((one) => JSON.stringify(one))).size, 1)
  // Whatever they left is taken, or made anew once.
  t.deepEqual(await run(LIST, { env }), all[0])
  const files = kept()
  t.is(files.length, 3)
  t.deepEqual(await run(LIST, { env }), all[0])
  t.deepEqual(kept(), files)
})

test('what is loaded later is loaded by kept code, too', async (t) => {
  const { env, kept } = home(t)
  const bytes = readFileSync(fixture('btf-dense.btf'))
  const piped = async () => {
    const child = start(['ls', '-', '--format', 'btf'], { env, stdio: ['pipe', 'pipe', 'pipe'] })
    child.stdin.end(bytes)
    return ended(child)
  }
  const first = await piped()
  t.deepEqual([first.code, first.stderr], [0, ''])
  t.deepEqual(await piped(), first)
  // A progress bar, which needs a terminal, loads cli-progress: cached code cannot import() it.
  for (const { name } of kept()) t.notRegex(readFileSync(join(main, '..', name), 'utf8'), /\bimport\(/)
})

/** Replaces the kept code of command.js by code that prints `planted`. V8 checks only the length of its source. */
function plant(place) {
  const planting = `
    const [, source, place] = process.argv, { readFileSync, writeFileSync } = require('node:fs')
    const [bytes, head] = [readFileSync(source), '(function (exports, require, module, __filename, __dirname) {']
    const long = head.length + bytes.toString().length
    const code = new (require('node:vm').Script)((head + 'console.log("planted")').padEnd(long) + '\\n})').createCachedData()
    writeFileSync(place, Buffer.concat([bytes, code, code]))`
  execFileSync(process.execPath, ['-e', planting, join(main, '../command.js'), place])
}

if (process.platform !== 'win32') {
  test('where others can write, nothing is run and nothing kept', async (t) => {
    const { folder, env, kept } = home(t)
    const first = await run(LIST, { env })
    const [{ path }] = kept()
    plant(path)
    const files = kept()
    // This is why.
    t.is((await run(LIST, { env })).stdout, 'planted\n')
    for (const [open, mode] of [
      [join(folder, 'caches'), 0o777],
      [join(folder, 'caches'), 0o1777],
      [join(folder, 'caches/ztensor'), 0o770],
      [join(folder, 'caches/ztensor'), 0o702],
    ]) {
      chmodSync(open, mode)
      t.deepEqual(await run(LIST, { env }), first)
      chmodSync(open, 0o755)
    }
    // Without that variable it is in the home.
    mkdirSync(join(folder, '.cache'))
    for (const open of [folder, join(folder, '.cache')]) {
      chmodSync(open, 0o777)
      t.deepEqual(await run(LIST, { env: { ...env, XDG_CACHE_HOME: '' } }), first)
      chmodSync(open, 0o755)
    }
    t.deepEqual(kept(), files)
  })

  test('a folder that is not absolute is not taken', async (t) => {
    const { folder, env } = home(t)
    const { code } = await run(LIST, { env: { ...env, XDG_CACHE_HOME: 'caches' }, cwd: folder })
    t.is(code, 0)
    t.deepEqual(kept(join(folder, 'caches')), [])
    t.is(kept(join(folder, '.cache/ztensor')).length, process.platform === 'linux' ? 3 : 0)
  })
}

test('with flags nothing is kept', async (t) => {
  const { env, kept } = home(t, { NODE_OPTIONS: '--max-old-space-size=500' })
  const { code } = await run(LIST, { env })
  t.deepEqual([code, kept()], [0, []])
})

test('NODE_DISABLE_COMPILE_CACHE forbids it', async (t) => {
  const { env, kept } = home(t, { NODE_DISABLE_COMPILE_CACHE: '1' })
  const { code } = await run(LIST, { env })
  t.deepEqual([code, kept()], [0, []])
})

test('where NODE_COMPILE_CACHE names a folder, it is left to Node', async (t) => {
  const { folder, env } = home(t)
  const { code } = await run(LIST, { env: { ...env, NODE_COMPILE_CACHE: join(folder, 'nodes') } })
  t.deepEqual([code, kept(join(folder, 'caches'))], [0, []])
})

test('without a place for it the command works all the same', async (t) => {
  const { folder, env } = home(t)
  const file = process.execPath
  const { code, stderr } = await run(LIST, { env: { ...env, XDG_CACHE_HOME: file, LOCALAPPDATA: file } })
  t.deepEqual([code, stderr], [0, ''])
  const gone = join(folder, 'gone')
  const nobody = await run(LIST, { env: { ...env, HOME: gone, USERPROFILE: gone } })
  t.deepEqual([nobody.code, nobody.stderr], [0, ''])
  // A folder stands where the file is to be.
  await run(LIST, { env })
  const [{ path }] = kept(join(folder, 'caches'))
  rmSync(path)
  mkdirSync(path)
  const blocked = await run(LIST, { env })
  t.deepEqual([blocked.code, blocked.stderr], [0, ''])
})

test('where the home belongs to somebody else nothing is kept', async (t) => {
  if (process.getuid?.() !== 0) return t.pass('only root can give a folder away')
  const { folder, env, kept } = home(t)
  chmodSync(folder, 0o777)
  chownSync(folder, 65_534, 65_534)
  const { code } = await run(LIST, { env })
  t.deepEqual([code, kept()], [0, []])
})
