// `ztensor rename`, `remove` and `compact`, run as processes.
import { copyFileSync, readFileSync } from 'node:fs'
import test from 'ava'
import { openSync } from 'ztensor'
import { ended, fixture, json, run, start } from '../helpers/command.mjs'
import { edited } from '../helpers/editing.mjs'
import { noise } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

/** A copy of a vector, to be changed. */
function copied(name) {
  const path = scratchPath('copy.zt')
  copyFileSync(fixture(name), path)
  return path
}
const namesIn = (path) => {
  const file = openSync(path, { verify: true })
  const names = [...file.keys()]
  file.close()
  return names
}

for (const inPlace of [[], ['--in-place']]) {
  test(`renames and removes, ${inPlace}`, async (t) => {
    const path = copied('zt12-dtypes.zt')
    const before = namesIn(path)
    const renamed = await run(['rename', path, 't_bool', 'flag', ...inPlace])
    t.is(renamed.code, 0, renamed.stderr)
    t.regex(renamed.stdout, /^renamed {2}.*: t_bool is now flag\n$/)
    t.deepEqual(
      namesIn(path),
      before.map((name) => (name === 't_bool' ? 'flag' : name)),
    )
    const removed = await run(['remove', path, 'flag', 't_int8', ...inPlace])
    t.is(removed.code, 0, removed.stderr)
    t.regex(removed.stdout, /^removed {2}.*: flag, t_int8; /)
    t.deepEqual(
      namesIn(path),
      before.filter((name) => !['t_bool', 't_int8'].includes(name)),
    )
    const { byteLength, reclaimed } = await json(t, ['compact', path])
    t.is(byteLength, readFileSync(path).length)
    t.true(reclaimed > 0)
    const again = await run(['compact', path])
    t.regex(again.stdout, /^compact {2}.*, nothing to reclaim\n$/)
    t.deepEqual(await json(t, ['rename', path, 't_int16', 'x']), { path, from: 't_int16', to: 'x' })
    t.deepEqual(await json(t, ['remove', path, 'x']), { path, removed: ['x'] })
  })
}

test('prints one line for an invalid edit, and keeps the file', async (t) => {
  const path = copied('zt100-dtypes.zt')
  const bytes = readFileSync(path)
  const [first, second] = namesIn(path)
  for (const [args, code, hint] of [
    [['rename', path, 'nobody', 'x'], 'ZT_NOT_FOUND', 'ztensor ls'],
    [['rename', path, first, second], 'ZT_BAD_INDEX', 'name already'],
    [['remove', path, first, 'nobody'], 'ZT_NOT_FOUND', 'ztensor ls'],
    [['remove', path], 'ZT_INVALID_ARG', '--help'],
    [['rename', path, first], 'ZT_INVALID_ARG', '--help'],
    [['compact', scratchPath('none')], 'ZT_IO', 'ENOENT'],
    [['rename', fixture('zt01-dtypes.zt'), 'a', 'b'], 'ZT_UNSUPPORTED_VERSION', 'convert'],
    [['compact', fixture('st-dtypes.safetensors')], 'ZT_INVALID_ARG', 'convert'],
  ]) {
    const { code: status, stderr, stdout } = await run(args)
    t.is(status, 2, args.join(' '))
    t.is(stdout, '')
    t.true(stderr.startsWith('ztensor: '), stderr)
    t.true(stderr.includes(`(${code})`), stderr)
    t.true(stderr.includes(hint), stderr)
  }
  t.true(readFileSync(path).equals(bytes))
})

test('writes no control characters of names to the terminal', async (t) => {
  const path = copied('zt12-dtypes.zt')
  const { code, stdout } = await run(['rename', path, 't_bool', '\x1b[31mred'])
  t.is(code, 0)
  t.false(stdout.includes('\x1b'))
  t.true(namesIn(path).includes('\x1b[31mred'))
})

if (process.platform !== 'win32') {
  test('Ctrl-C leaves the file unchanged', async (t) => {
    const path = copied('zt12-dtypes.zt')
    await edited(path, (editor) => editor.add('large', noise(64 * 2 ** 20, 1)))
    const names = namesIn(path)
    const child = start(['remove', path, 'large'])
    child.kill('SIGINT')
    const { code, signal } = await ended(child)
    // Before the command listens, the signal kills it; after its end, the work is done.
    if (code === 0) t.false(namesIn(path).includes('large'))
    else {
      t.true(code === 130 || signal === 'SIGINT')
      t.deepEqual(namesIn(path), names)
    }
  })
}
