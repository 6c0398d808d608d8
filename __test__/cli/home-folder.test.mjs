// The command leaves nothing in the user's folders, and runs no code from them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { fixture, run } from '../helpers/command.mjs'

const LIST = ['ls', fixture('btf-dense.btf'), '--format', 'btf']

/** An environment whose home and caches are `home`. */
const at = (home) => ({
  HOME: home,
  USERPROFILE: home,
  LOCALAPPDATA: join(home, 'caches'),
  XDG_CACHE_HOME: join(home, 'caches'),
  NODE_COMPILE_CACHE: '',
})

test('writes nothing to the home folder and runs nothing from it', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'ztensor-home-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const first = await run(LIST, { env: at(home) })
  t.deepEqual([first.code, first.stderr], [0, ''])
  t.deepEqual(readdirSync(home, { recursive: true }), [])
  // Earlier versions stored code here and ran it.
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url)))
  const { node, v8 } = process.versions
  const old = join(home, 'caches', 'ztensor', `${version}-node-${node}-v8-${v8}-${process.arch}`, 'ls')
  mkdirSync(old, { recursive: true, mode: 0o700 })
  for (const name of ['command.js', 'index.js', 'shared.js'])
    writeFileSync(join(old, name), 'process.exit(7)'.repeat(1000), { mode: 0o600 })
  t.deepEqual(await run(LIST, { env: at(home) }), first)
})

for (const home of ['/proc', '/proc/self', '/dev/null', '/no/such/home', 'relative', '']) {
  test(`works with HOME ${home || 'not set'}`, async (t) => {
    const { code, stderr } = await run(LIST, { env: at(home) })
    t.deepEqual([code, stderr], [0, ''])
  })
}
