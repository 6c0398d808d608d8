// The command on sharded checkpoints: folders, indexes, lists, and `ztensor merge`.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import test from 'ava'
import { openSync } from 'ztensor'
import { ended, main, start } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, TWO } from '../helpers/sharded.mjs'

const run = (...args) => ended(start(args))

test('ls, info, verify and cat accept a folder, an index and a list', async (t) => {
  const { folder, index, path } = checkpoint(TWO)
  for (const source of [[folder], [index], Object.keys(TWO).map(path)]) {
    const ls = await run('ls', '--json', '--join', ...source)
    t.deepEqual(
      JSON.parse(ls.stdout).map(({ name }) => name),
      ['z.first', 'a.second', 'b.third'],
    )
    const info = await run('info', '--json', '--join', ...source)
    t.like(JSON.parse(info.stdout), { tensors: 3, metadata: { format: 'pt' }, files: { length: 2 } })
  }
  const cat = await run('cat', folder, 'b.third')
  t.true(cat.stdout.includes('[4, 5, 6]'), cat.stdout)
  const verify = await run('verify', folder, index)
  t.is(verify.code, 0)
})

test('merge writes many files into one', async (t) => {
  const { folder, path } = checkpoint(TWO)
  for (const sources of [[folder], Object.keys(TWO).map(path)]) {
    const target = scratchPath('merged.safetensors')
    const { code, stdout, stderr } = await run('merge', target, ...sources)
    t.is(code, 0, stderr)
    t.regex(stdout, /: 3 tensors\n/)
    const file = openSync(target)
    t.deepEqual([...file.values()].map((tensor) => [tensor.name, ...tensor.data]).sort(), [
      ['a.second', 3],
      ['b.third', 4, 5, 6],
      ['z.first', 1, 2],
    ])
    file.close()
  }
})

test('merge compresses and hashes like convert', async (t) => {
  const { path } = checkpoint({ 'a.safetensors': { x: Array(9000).fill(1) }, 'b.safetensors': { y: [2] } })
  const sources = [path('a.safetensors'), path('b.safetensors')]
  for (const [options, encoding] of [
    [['--version', '1.2'], 'zstd'],
    [['--version', '2', '--no-canonical'], 'zt.zstd-seekable/1'],
  ]) {
    const target = scratchPath('merged.zt')
    const { code, stderr } = await run('merge', target, ...sources, ...options, '--compress=5', '--digest', 'sha256')
    t.is(code, 0, stderr)
    const file = openSync(target, { verify: true })
    const { encoding: found, digest } = file.tensor('x').components.get('data')
    t.is(found, encoding)
    t.regex(digest, /^sha256:/)
    file.close()
  }
  const canonical = scratchPath('canonical.zt')
  t.is((await run('merge', canonical, ...sources, '--version', '2')).code, 0)
  t.is((await run('verify', canonical, '--canonical')).code, 0)
})

test('merge rejects files with the same names in one line, with a way to rename', async (t) => {
  const { path } = checkpoint({ 'a.safetensors': { x: [1], y: [2] }, 'b.safetensors': { y: [3], x: [4] } })
  const target = scratchPath('clash.zt')
  const { code, stderr } = await run('merge', target, path('a.safetensors'), path('b.safetensors'))
  t.is(code, 2)
  for (const part of ['tensor "y"', 'and 1 more', 'a.safetensors', 'b.safetensors', '--rename', 'ZT_BAD_INDEX']) {
    t.true(stderr.includes(part), `${part}: ${stderr}`)
  }
  t.is(stderr.trimEnd().split('\n').length, 1)
  // The suggested command works.
  const renamed = scratchPath('renamed.safetensors')
  t.is((await run('convert', path('b.safetensors'), renamed, '--rename', '*=b.*')).code, 0)
  const whole = scratchPath('whole.zt')
  t.is((await run('merge', whole, path('a.safetensors'), renamed)).code, 0)
  t.deepEqual([...openSync(whole).keys()].sort(), ['b.x', 'b.y', 'x', 'y'])
  t.false(existsSync(target))
})

test('merge of more files than can be one is refused before any is opened', async (t) => {
  const target = scratchPath('many.zt')
  const names = Array.from({ length: 10_001 }, (_, at) => `missing-${at}.safetensors`)
  const refused = await run('merge', target, ...names)
  t.is(refused.code, 2)
  t.regex(refused.stderr, /10001 files, more than 10000.*ZT_LIMIT/)
  t.false(existsSync(target))
  // One less is opened, and the first is missing.
  const { code, stderr } = await run('merge', target, ...names.slice(1))
  t.is(code, 2)
  t.regex(stderr, /10000 files as one: 10000 problems: 'missing-1\.safetensors'/)
})

if (process.platform === 'linux') {
  test('merges more files than the process may open', async (t) => {
    const files = Object.fromEntries(
      Array.from({ length: 150 }, (_, at) => [`p${at}.safetensors`, { [`t${at}`]: [at] }]),
    )
    const { path } = checkpoint(files)
    const target = scratchPath('few.zt')
    const sources = Object.keys(files).map(path)
    const args = ['-c', 'ulimit -n 100; exec "$@"', '-', process.execPath, main, 'merge', target, ...sources]
    const { status, stderr } = spawnSync('bash', args, { encoding: 'utf8' })
    t.is(status, 0, stderr)
    const file = openSync(target)
    t.deepEqual([...file.keys()].sort(), Object.values(files).flatMap(Object.keys).sort())
    t.is(file.tensor('t149').data[0], 149)
    file.close()
  })
}
