// The command keeps what the runtime compiles of it, where the runtime can, in a folder of the user's.
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import * as module from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { run } from '../command.mjs'

const keeps = module.enableCompileCache !== undefined

function home(t) {
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-home-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The environment of somebody who lives there. */
const of = (folder, more = {}) => ({
  HOME: folder,
  USERPROFILE: folder,
  LOCALAPPDATA: join(folder, 'local'),
  XDG_CACHE_HOME: join(folder, 'caches'),
  NODE_COMPILE_CACHE: '',
  ...more,
})

const files = (folder) => (existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [])
const kept = (folder) => files(folder).filter((entry) => entry.isFile()).length

test('it is kept in a folder that nobody else can write to', async (t) => {
  const folder = home(t)
  const first = await run(['--version'], { env: of(folder) })
  const again = await run(['--version'], { env: of(folder) })
  t.deepEqual(again, first)
  t.is(first.code, 0)
  t.is(kept(folder) > 0, keeps)
  if (keeps && process.platform === 'linux') t.is(statSync(join(folder, 'caches', 'ztensor')).mode & 0o077, 0)
})

test('NODE_DISABLE_COMPILE_CACHE forbids it', async (t) => {
  const folder = home(t)
  const { code } = await run(['--version'], { env: of(folder, { NODE_DISABLE_COMPILE_CACHE: '1' }) })
  t.deepEqual([code, kept(folder)], [0, 0])
})

test('without a place for it the command works all the same', async (t) => {
  const folder = home(t)
  const cache = process.platform === 'win32' ? { LOCALAPPDATA: process.execPath } : { XDG_CACHE_HOME: process.execPath }
  const { code, stderr } = await run(['--version'], { env: of(folder, cache) })
  t.deepEqual([code, stderr], [0, ''])
  const nobody = await run(['--version'], { env: of(join(folder, 'gone')) })
  t.deepEqual([nobody.code, nobody.stderr], [0, ''])
})

test('where the home belongs to somebody else nothing is kept', async (t) => {
  if (process.getuid?.() !== 0) return t.pass('only root can give a folder away')
  const folder = home(t)
  const { chownSync } = await import('node:fs')
  chmodSync(folder, 0o777)
  chownSync(folder, 65_534, 65_534)
  const { code } = await run(['--version'], { env: of(folder) })
  t.deepEqual([code, kept(folder)], [0, 0])
})
