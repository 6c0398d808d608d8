// A file that is replaced keeps its owner, group and permissions, if the writer may set them, and no more.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, linkSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import test from 'ava'
import { append, compact, convert, create, openSync } from 'ztensor'
import { scratchFolder, written } from '../helpers/sample-files.mjs'

const unix = process.platform !== 'win32'
const isRoot = unix && process.getuid() === 0
const modeOf = (path) => (statSync(path).mode & 0o7777).toString(8)
const accessOf = (path) => {
  const { uid, gid } = statSync(path)
  return { uid, gid, mode: modeOf(path) }
}

/** A test for root only; for other users the title states that it is not run. */
const rootTest = isRoot ? test : (title) => test(`not run, since only root may: ${title}`, (t) => t.pass())
const unixTest = unix ? test : (title) => test(`not run on Windows: ${title}`, (t) => t.pass())

async function oldFile(path) {
  const data = new Float32Array(2 ** 12).fill(1)
  await written({}, (writer) => Promise.all([writer.add('old', data), writer.add('gone', data)]), path)
  const editor = await append(path)
  await editor.remove('gone')
  await editor.finish()
}

const add = (options) => async (path) => {
  const writer = await create(path, { ...options, overwrite: true })
  await writer.add('0', Int8Array.of(1))
  await writer.finish()
}
/** Ways to replace a file. */
const WAYS = {
  'create, 1.0': add({}),
  'create, 2': add({ version: '2' }),
  'create, safetensors': add({ format: 'safetensors' }),
  'append on a clone': async (path) => {
    const editor = await append(path)
    await editor.rename('old', 'new')
    await editor.finish()
  },
  compact: (path) => compact(path),
  convert: (path) => convert(path, path, { format: 'zt', overwrite: true }),
}

for (const [name, replace] of Object.entries(WAYS)) {
  rootTest(`${name}: keeps owner, group and permissions`, async (t) => {
    for (const mode of [0o600, 0o640, 0o444, 0o666, 0o4755, 0o2755]) {
      const { path, names } = scratchFolder()
      await oldFile(path('a'))
      const { ino } = statSync(path('a'))
      chownSync(path('a'), 1234, 5678)
      chmodSync(path('a'), mode)
      await replace(path('a'))
      t.not(statSync(path('a')).ino, ino)
      t.deepEqual(accessOf(path('a')), { uid: 1234, gid: 5678, mode: mode.toString(8) })
      t.deepEqual(names(), ['a'])
    }
  })

  unixTest(`${name}: keeps permissions`, async (t) => {
    for (const mode of [0o600, 0o640, 0o666]) {
      const { path } = scratchFolder()
      await oldFile(path('a'))
      chmodSync(path('a'), mode)
      await replace(path('a'))
      t.is(modeOf(path('a')), mode.toString(8))
    }
  })
}

unixTest('a new file has default permissions, with and without overwrite', async (t) => {
  const { path } = scratchFolder()
  writeFileSync(path('usual'), '')
  for (const overwrite of [false, true]) {
    await written({ overwrite }, (writer) => writer.add('0', Int8Array.of(1)), path(`a-${overwrite}`))
    t.is(modeOf(path(`a-${overwrite}`)), modeOf(path('usual')))
  }
})

rootTest('each file of a set keeps its permissions', async (t) => {
  const { path, names } = scratchFolder()
  const options = { format: 'safetensors', maxShardBytes: 4000, overwrite: true }
  const write = async () => {
    const writer = await create(path('m.safetensors'), options)
    for (const name of ['a', 'b', 'c']) await writer.add(name, new Float32Array(1000))
    await writer.finish()
  }
  await write()
  const before = names()
  for (const [at, name] of before.entries()) {
    chownSync(path(name), 1000 + at, 2000 + at)
    chmodSync(path(name), 0o600 + at)
  }
  await write()
  t.deepEqual(names(), before)
  for (const [at, name] of before.entries())
    t.deepEqual(accessOf(path(name)), { uid: 1000 + at, gid: 2000 + at, mode: (0o600 + at).toString(8) }, name)
})

/** Runs a module as another user, in a folder that all users may write. */
async function asNobody(source, args) {
  const program = `process.setgroups([]); process.setgid(65534); process.setuid(65534)
    const { append, create } = await import('ztensor')
    ${source}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, ...args], {
    cwd: new URL('../', import.meta.url),
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const [status] = await once(child, 'close')
  return status
}

rootTest('a change of owner gives no other user more rights, and drops setuid and setgid', async (t) => {
  for (const [old, mode] of [
    [0o6755, 0o755],
    [0o664, 0o644],
    [0o604, 0o604],
    [0o644, 0o644],
  ]) {
    const { folder, path } = scratchFolder()
    chmodSync(dirname(folder), 0o711)
    chmodSync(folder, 0o777)
    await oldFile(path('a'))
    chownSync(path('a'), 1234, 5678)
    chmodSync(path('a'), old)
    const source = `const e = await append(process.argv[1]); await e.rename('old', 'new'); await e.finish()`
    t.is(await asNobody(source, [path('a')]), 0)
    t.deepEqual(accessOf(path('a')), { uid: 65534, gid: 65534, mode: mode.toString(8) })
  }
})

unixTest('the written one of several hard links becomes another file', async (t) => {
  const { path } = scratchFolder()
  await oldFile(path('a'))
  linkSync(path('a'), path('b'))
  const before = readFileSync(path('b'))
  await WAYS['append on a clone'](path('a'))
  t.true(readFileSync(path('b')).equals(before))
  t.deepEqual([statSync(path('a')).nlink, statSync(path('b')).nlink], [1, 1])
  linkSync(path('a'), path('c'))
  const editor = await append(path('a'), { inPlace: true })
  await editor.rename('new', 'newer')
  await editor.finish()
  const file = openSync(path('c'))
  t.deepEqual([...file.keys()], ['newer'])
  file.close()
})

unixTest('replaces a private file by way of a private temporary file', async (t) => {
  const { folder, path } = scratchFolder()
  await oldFile(path('a'))
  chmodSync(path('a'), 0o600)
  const writer = await create(path('a'), { overwrite: true })
  await writer.add('0', new Int8Array(2 ** 24))
  // Open files without names are found here, on Linux.
  const found = spawnSync('sh', ['-c', `stat -L -c '%a %n' /proc/${process.pid}/fd/* "$0"/.[!.]* 2>/dev/null`, folder])
  const modes = String(found.stdout)
    .split('\n')
    .filter((line) => /\.part$/.test(line))
  t.true(modes.every((line) => line.startsWith('600 ')))
  await writer.abort()
})
