// Shards that are links into other folders, like those of DVC, git-annex and Bazel: links to files with a detectable format are
// followed, in all ways of opening. Links to raw data are followed only with followLinks.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, create, open, openSync, verify } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { external, model as onnx, tensor as onnxTensor } from '../helpers/onnx-writer.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { indexText, shard } from '../helpers/sharded.mjs'

const posixTest = process.platform === 'win32' ? test.skip : test

/** A folder of links, each to a file in a separate folder. */
function links(files) {
  const root = scratchPath('linked')
  const repository = join(root, 'repository')
  mkdirSync(repository, { recursive: true })
  for (const [at, [name, bytes]] of Object.entries(files).entries()) {
    const folder = join(root, 'store', `${at}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'data'), bytes)
    symlinkSync(join(folder, 'data'), join(repository, name))
  }
  return { folder: repository, path: (name) => join(repository, name) }
}

const FLOATS = littleEndian(Float32Array.of(1, 2))
const part = (no, name) =>
  gguf({
    metadata: [
      ['split.no', 'u16', no],
      ['split.count', 'u16', 2],
    ],
    tensors: [{ name, shape: [2], data: FLOATS }],
  })

async function zt2() {
  const folder = scratchFolder()
  const root = folder.path('m.zt')
  const writer = await create(root, { version: '2', canonical: false, maxShardBytes: 900 })
  for (const name of ['a', 'b']) await writer.add(name, new Float32Array(200).fill(1))
  await writer.finish()
  const { readFileSync } = await import('node:fs')
  return Object.fromEntries(folder.names().map((name) => [name, readFileSync(folder.path(name))]))
}

const SETS = {
  'split GGUF': async () => [
    { 'm-00001-of-00002.gguf': part(0, 'a'), 'm-00002-of-00002.gguf': part(1, 'b') },
    'm-00001-of-00002.gguf',
  ],
  'a safetensors checkpoint': async () => [
    {
      'm-00001-of-00002.safetensors': shard({ a: [1] }),
      'm-00002-of-00002.safetensors': shard({ b: [2] }),
      'm.safetensors.index.json': indexText({ a: 'm-00001-of-00002.safetensors', b: 'm-00002-of-00002.safetensors' }),
    },
    'm.safetensors.index.json',
  ],
  'zTensor 2': async () => [await zt2(), 'm.zt'],
}
for (const [what, make] of Object.entries(SETS)) {
  posixTest(`parts that are links into several folders, ${what}: equal by file, folder and list`, async (t) => {
    const [files, first] = await make()
    const { folder, path } = links(files)
    const parts = Object.keys(files).filter((name) => /00[12]-of-|-\d{5}\.zt$/.test(name) && what !== 'zTensor 2')
    for (const source of [path(first), folder, ...(parts.length > 0 ? [parts.map(path)] : [])]) {
      for (const file of [await open(source), openSync(source)]) {
        t.deepEqual([...file.keys()].sort(), ['a', 'b'], `${source}`)
        for (const tensor of file.values()) t.true((await tensor.load()).every((value) => value > 0))
        file.close()
      }
      t.true((await verify(source)).ok)
      const { tensors } = await convert(source, scratchPath('out.zt'))
      t.is(tensors, 2)
    }
  })
}

posixTest('rejects raw data that is a link out of its folder, and reads it with followLinks', async (t) => {
  const raw = littleEndian(Float32Array.of(1, 2))
  const bytes = onnx({
    tensors: [onnxTensor({ name: 'w', more: [...external({ location: 'w.data', offset: '0', length: '8' })] })],
  })
  const { path } = links({ 'm.onnx': bytes, 'w.data': raw })
  const file = await open(path('m.onnx'))
  t.is(file.warnings[0]?.code, 'ZT_WARN_INCOMPLETE_SET')
  const error = await rejectionOf(() => file.tensor('w').load())
  t.is(error.code, 'ZT_OUT_OF_BOUNDS')
  t.regex(error.message, /followLinks/)
  file.close()
  for (const followed of [
    await open(path('m.onnx'), { followLinks: true }),
    openSync(path('m.onnx'), { followLinks: true }),
  ]) {
    t.deepEqual(followed.warnings, [])
    t.deepEqual([...(await followed.tensor('w').load())], [1, 2])
    followed.close()
  }
  const { tensors } = await convert(path('m.onnx'), scratchPath('out.zt'), { source: { followLinks: true } })
  t.is(tensors, 1)
  t.true((await verify(path('m.onnx'), { followLinks: true })).ok)
  const wrong = await rejectionOf(() => open(path('m.onnx'), { followLinks: 1 }))
  t.is(wrong.code, 'ZT_INVALID_ARG')

  const { code, stderr, stdout } = await run(['cat', path('m.onnx'), 'w', '--json'])
  t.not(code, 0)
  t.regex(stderr, /--follow-links/)
  t.is(stdout, '')
  const result = await run(['cat', path('m.onnx'), 'w', '--json', '--follow-links'])
  t.is(result.code, 0, result.stderr)
  t.deepEqual(JSON.parse(result.stdout).data, [1, 2])
})

posixTest('reads raw data in a store of blobs that the model also links into', async (t) => {
  const root = scratchPath('cache')
  const [snapshot, blobs] = [join(root, 'snapshots/1'), join(root, 'blobs')]
  for (const folder of [snapshot, blobs]) mkdirSync(folder, { recursive: true })
  const bytes = onnx({
    tensors: [onnxTensor({ name: 'w', more: [...external({ location: 'w.data', offset: '0', length: '8' })] })],
  })
  for (const [name, blob, data] of [
    ['m.onnx', 'aa', bytes],
    ['w.data', 'bb', littleEndian(Float32Array.of(1, 2))],
  ]) {
    writeFileSync(join(blobs, blob), data)
    symlinkSync(join('../../blobs', blob), join(snapshot, name))
  }
  const file = await open(join(snapshot, 'm.onnx'))
  t.deepEqual([...file.tensor('w').data], [1, 2])
  t.is(dirname(file.path), snapshot)
  file.close()
})
