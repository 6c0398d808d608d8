// The command on sharded checkpoints: folders, indexes, lists, and `ztensor merge`.
import { existsSync } from 'node:fs'
import test from 'ava'
import { openSync } from 'ztensor'
import { ended, start } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, TWO } from '../helpers/sharded.mjs'

const run = (...args) => ended(start(args))

test('ls, info, verify and cat take a folder, an index, a list', async (t) => {
  const { folder, index, path } = checkpoint(TWO)
  for (const source of [[folder], [index], Object.keys(TWO).map(path)]) {
    const ls = await run('ls', '--json', '--join', ...source)
    t.deepEqual(
      JSON.parse(ls.stdout).map(({ name }) => name),
      ['z.first', 'a.second', 'b.third'],
    )
    const info = await run('info', '--json', '--join', ...source)
    t.like(JSON.parse(info.stdout), { tensors: 3, attributes: { format: 'pt' }, files: { length: 2 } })
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

test('merge compresses and hashes as convert does', async (t) => {
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

test('merge refuses a name that appears twice, listing all', async (t) => {
  const { path } = checkpoint({ 'a.safetensors': { x: [1], y: [2] }, 'b.safetensors': { y: [3], x: [4] } })
  const target = scratchPath('clash.zt')
  const { code, stderr } = await run('merge', target, path('a.safetensors'), path('b.safetensors'))
  t.is(code, 2)
  for (const part of ['2 problems', 'tensor "x"', 'tensor "y"', 'a.safetensors', 'b.safetensors', 'ZT_BAD_INDEX']) {
    t.true(stderr.includes(part), `${part}: ${stderr}`)
  }
  t.false(existsSync(target))
})
