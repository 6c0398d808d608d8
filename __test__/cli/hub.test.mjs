// `ztensor download`, `ztensor cache`, `--cache` and lists of models, with a hub of this machine.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { create, saveFile } from 'ztensor'
import { run } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { startHub } from '../remote/hub.mjs'

/** Files of several models. */
async function models() {
  const folder = scratchPath('models')
  mkdirSync(folder)
  await saveFile(join(folder, 'base.safetensors'), { a: new Float32Array(3000), b: new Float32Array(100) })
  await saveFile(join(folder, 'other.safetensors'), { c: new Float32Array(10) })
  for (const name of ['small.Q4_K_M.gguf', 'small-q8_0.gguf']) {
    const metadata = { 'general.architecture': 'llama', 'general.file_type': 15 }
    const writer = await create(join(folder, name), { metadata })
    await writer.add('w', new Float32Array(64).fill(name.length))
    await writer.finish()
  }
  writeFileSync(join(folder, 'broken.npy'), 'none')
  writeFileSync(join(folder, 'config.json'), '{}')
  const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]))
  return { folder, files }
}

async function setup(t, options) {
  const { folder, files } = await models()
  const single = { 'config.json': files['config.json'], 'model.safetensors': files['base.safetensors'] }
  const hub = await startHub({ 'o/several': { main: files }, 'o/single': { main: single } }, options)
  t.teardown(hub.close)
  const cache = scratchPath('cache')
  const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: cache, HF_TOKEN: '', HF_HUB_OFFLINE: '' }
  return { hub, cache, folder, files, ztensor: (...args) => run(args, { env }) }
}

test('download prints the path, and the next one fetches nothing', async (t) => {
  const { hub, cache, ztensor } = await setup(t)
  const snapshot = join(cache, 'models--o--single/snapshots', hub.commitOf('o/single', 'main'))
  const first = await ztensor('download', 'hf://o/single')
  t.deepEqual([first.code, first.stdout], [0, `${snapshot}\n`], first.stderr)
  t.regex(first.stderr, /^downloaded 2 files, [\d.]+ KiB\n$/)
  const again = await ztensor('download', 'hf://o/single', '--json', '--filter', '*.json')
  const { path, commit, files } = JSON.parse(again.stdout)
  t.deepEqual([path, commit], [snapshot, hub.commitOf('o/single', 'main')])
  t.like(files, [{ name: 'config.json', path: join(snapshot, 'config.json'), byteLength: 2, isNew: false }])
  t.is(again.stderr, '')
  const third = await ztensor('download', 'hf://o/single/config.json')
  t.deepEqual(
    [third.stdout, third.stderr],
    [`${join(snapshot, 'config.json')}\n`, 'downloaded 0 files, 0 B; 1 file was there\n'],
  )
  const to = scratchPath('to')
  t.is((await ztensor('download', 'hf://o/single', '--to', to, '--quiet')).stdout, `${to}\n`)
  t.deepEqual(readdirSync(to).sort(), ['.cache', 'config.json', 'model.safetensors'])
})

test('download names what is wrong', async (t) => {
  const { ztensor } = await setup(t)
  for (const [args, says] of [
    [['hf://o/none'], /HTTP|404/],
    [['hf://o/single/none.bin'], /the commit has no such file or folder \(ZT_NOT_FOUND\)\n$/],
    [['hf://o/single', '--filter', '*.gguf'], /--filter: '\*\.gguf' matches no file \(ZT_INVALID_ARG\)/],
    [['https://host/x'], /url must be an hf: URL/],
  ]) {
    const { code, stderr, stdout } = await ztensor('download', ...args)
    t.deepEqual([code, stdout], [2, ''])
    t.regex(stderr, says)
  }
})

test('cache ls, verify and rm', async (t) => {
  const { hub, cache, ztensor } = await setup(t)
  t.is((await ztensor('cache', 'ls')).stdout, '0 repositories, 0 B\n')
  await ztensor('download', 'hf://o/single')
  await ztensor('download', 'hf://o/several', '--filter', '*.gguf')
  const listed = await ztensor('cache', 'ls')
  t.regex(
    listed.stdout,
    /^REPOSITORY .*COMMITS\nhf:\/\/o\/several .* 2 .*main\nhf:\/\/o\/single .* 2 .*main\n2 repositories, /,
  )
  const [several] = JSON.parse((await ztensor('cache', 'ls', '--json')).stdout)
  t.like(several, { url: 'hf://o/several', incompleteBytes: 0 })
  t.like(several.revisions[0], { commit: hub.commitOf('o/several', 'main'), refs: ['main'], files: 2 })
  const good = await ztensor('cache', 'verify')
  t.deepEqual([good.code, good.stdout], [0, 'ok  4 files checked\n'])
  const folder = join(cache, 'models--o--single/blobs')
  const blob = readdirSync(folder).find((name) => name.length === 64)
  writeFileSync(join(folder, blob), 'damaged')
  const bad = await ztensor('cache', 'verify', 'hf://o/single')
  t.is(bad.code, 1)
  t.regex(
    bad.stdout,
    /^FAILED .*\(model\.safetensors\): its bytes do not have the digest.*\n1 failure {2}1 file checked\n$/,
  )
  t.regex(bad.stderr, /--remove/)
  const json = await ztensor('cache', 'verify', '--json', '--remove')
  t.like(JSON.parse(json.stdout), {
    ok: false,
    checked: 3,
    failures: [{ reason: 'digest', names: ['model.safetensors'] }],
  })
  t.is((await ztensor('cache', 'verify', 'hf://o/single')).code, 0)
  const removed = await ztensor('cache', 'rm', 'hf://o/several', '--json')
  t.like(JSON.parse(removed.stdout), [{ url: 'hf://o/several', commits: [hub.commitOf('o/several', 'main')] }])
  t.false(readdirSync(cache).includes('models--o--several'))
  for (const [args, says] of [
    [['rm', 'hf://o/several'], /is not in the cache/],
    [['rm', 'hf://o/single@v2'], /is not in the cache/],
    [['rm'], /needs the URL/],
    [['rm', 'hf://o/single/config.json'], /must name a repository/],
    [['ls', 'hf://o/single'], /takes no URL/],
    [['ls', '--remove'], /--remove is an option of/],
    [['verify', 'hf://o/none'], /is not in the cache/],
    [['clear'], /Allowed choices are ls, rm, verify/],
  ]) {
    const { code, stderr } = await ztensor('cache', ...args)
    t.is(code, 2, args.join(' '))
    t.regex(stderr, says)
  }
})

test('ls lists the models of a repository or folder that has several', async (t) => {
  const { folder, ztensor, files } = await setup(t)
  const table =
    /^MODEL .*FORMAT .*SIZE.*MIXTURE\nbase\.safetensors .*safetensors.*-\nbroken\.npy .*npy .*\nother\.safetensors .*-\nsmall-q8_0\.gguf .*gguf .*Q8_0\nsmall\.Q4_K_M\.gguf .*Q4_K_M\n5 models, /
  rmSync(join(folder, 'config.json'))
  for (const [source, ...more] of [['hf://o/several'], ['hf://o/several', '--models'], [folder]]) {
    const { stdout, code, stderr } = await ztensor('ls', source, ...more)
    t.is(code, 0, stderr)
    t.regex(stdout, table, source)
    const headers = await ztensor('ls', source, '--headers', '--json')
    const listed = Object.fromEntries(JSON.parse(headers.stdout).map((model) => [model.name, model]))
    t.like(listed['base.safetensors'], { format: 'safetensors', tensors: 2, parameters: 3100, files: 1 })
    t.like(listed['small-q8_0.gguf'], { mixture: 'Q4_K_M', architecture: 'llama', parameters: 64 })
    t.is(listed['small-q8_0.gguf'].byteLength, files['small-q8_0.gguf'].length)
    t.is(typeof listed['broken.npy'].error, 'string')
  }
  const one = await ztensor('ls', 'hf://o/single')
  t.regex(one.stdout, /^NAME .*SHAPE .*SIZE\na /, 'a single model: its tensors')
  t.regex((await ztensor('ls', 'hf://o/single', '--models')).stdout, /^MODEL .*\nmodel\.safetensors .*\n1 model, /)
  t.regex((await ztensor('ls', 'hf://o/several/none', '--models')).stderr, /no such file or folder/)
  t.regex((await ztensor('ls', 'https://host/x', '--models')).stderr, /hf: URL or a local folder/)
  t.regex((await ztensor('ls', join(folder, 'base.safetensors'), '--models')).stderr, /must be a folder/)
})

test('--cache hub downloads the model, and --cache keeps copies', async (t) => {
  const { hub, cache, ztensor } = await setup(t)
  const target = scratchPath('out.zt')
  const first = await ztensor('convert', 'hf://o/single', target, '--cache', 'hub')
  t.is(first.code, 0, first.stderr)
  t.deepEqual(readdirSync(join(cache, 'models--o--single')).sort(), ['blobs', 'refs', 'snapshots'])
  hub.asked.length = 0
  await ztensor('verify', 'hf://o/single', '--cache', 'hub')
  t.false(hub.asked.some(({ path }) => path.includes('/resolve/')))
  const copies = scratchPath('copies')
  await ztensor(
    'convert',
    `${hub.url}/o/several/resolve/main/base.safetensors`,
    scratchPath('far.zt'),
    '--cache',
    copies,
  )
  t.is(readdirSync(copies).filter((name) => name.endsWith('.data')).length, 1)
})
