// The command keeps what is compiled of it in a folder of the user's, and never runs what is not sound there.
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
import { fixture, main, run } from '../command.mjs'

/** The environment of somebody who lives in a folder of the test's, and where that somebody's caches are. */
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

/** The files below `folder`, with which file each is: one that is written anew is another. */
function kept(folder) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => ({
      path: join(parentPath, name),
      name,
      which: statSync(join(parentPath, name)).ino,
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
    for (const [at, { path, which }] of again.entries()) {
      t.is(path, files[at].path)
      t.not(which, files[at].which)
    }
    t.deepEqual(await run(LIST, { env }), first)
    t.deepEqual(kept(), again)
  })
}

test('many at once keep it whole', async (t) => {
  const { env, kept } = home(t)
  const all = await Promise.all(Array.from({ length: 6 }, () => run(LIST, { env })))
  t.is(new Set(all.map((one) => JSON.stringify(one))).size, 1)
  const files = kept()
  t.is(files.length, 3)
  t.deepEqual(await run(LIST, { env }), all[0])
  t.deepEqual(kept(), files)
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
  t.deepEqual(
    readdirSync(join(path, '..')).filter((name) => !name.endsWith('.js')),
    [],
  )
})

test('where the home belongs to somebody else nothing is kept', async (t) => {
  if (process.getuid?.() !== 0) return t.pass('only root can give a folder away')
  const { folder, env, kept } = home(t)
  chmodSync(folder, 0o777)
  chownSync(folder, 65_534, 65_534)
  const { code } = await run(LIST, { env })
  t.deepEqual([code, kept()], [0, []])
})
