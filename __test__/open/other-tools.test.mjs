// Checkpoints of other tools, and invalid sources: one line that names them and what to do.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { open, saveFile } from 'ztensor'
import { fixture, run } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const archive = readFileSync(fixture('pytorch/tied.pt'))
const json = (format) =>
  JSON.stringify({ format, modelTopology: {}, weightsManifest: [{ paths: ['group1-shard1of1.bin'] }] })

for (const [what, files, name, pattern] of [
  [
    'a distributed checkpoint of PyTorch',
    { '.metadata': '', '__0_0.distcp': archive, 'common.pt': archive },
    '',
    /distributed checkpoint of PyTorch\. .*format_utils dcp_to_torch FOLDER model\.pt/,
  ],
  [
    'one file of it',
    { '__0_0.distcp': Buffer.concat([archive, archive]) },
    '__0_0.distcp',
    /one file of .*dcp_to_torch/,
  ],
  ['a layers model of TensorFlow.js', { 'model.json': json('layers-model') }, 'model.json', /tensorflowjs_converter/],
  ['a graph model of TensorFlow.js', { 'model.json': json('graph-model') }, 'model.json', /tfjs_graph_converter/],
  [
    'weights of TensorFlow.js',
    { 'group1-shard1of1.bin': Buffer.alloc(64, 7) },
    'group1-shard1of1.bin',
    /by its model\.json/,
  ],
  ['an .ort', { 'm.ort': Buffer.from('\x18\0\0\0ORTM\0\0\0\0', 'latin1') }, 'm.ort', /the \.onnx file/],
  ['a Core ML model', { 'm.mlmodel': Buffer.from('\x08\x04\x12\x02ab', 'latin1') }, 'm.mlmodel', /Core ML model/],
  ['a Core ML package', { 'Manifest.json': '{}', 'Data/model': '' }, '', /Core ML package/],
  ['Orbax', { _METADATA: '{}', 'manifest.ocdbt': '', 'd/1': '' }, '', /orbax\.checkpoint\..*safetensors\.flax/],
  ['DeepSpeed', { 'zero_to_fp32.py': '', latest: 'global_step1' }, '', /python zero_to_fp32\.py/],
]) {
  test(`names ${what}, with advice`, async (t) => {
    const { path } = scratchFolder()
    for (const [file, bytes] of Object.entries(files)) {
      if (file.includes('/')) mkdirSync(path(file.split('/')[0]))
      writeFileSync(path(file), bytes)
    }
    const { code, stderr } = await run(['ls', path(name)])
    t.is(code, 2)
    t.regex(stderr, pattern)
    t.is(stderr.trim().split('\n').length, 1, stderr)
  })
}

test('a folder with several tensor files reports their number', async (t) => {
  const { path } = scratchFolder()
  for (const name of ['a.safetensors', 'b.safetensors', 'c.bin', 'd.pt', 'e.index']) writeFileSync(path(name), '')
  await t.throwsAsync(() => open(path('')), { message: /holds 5 tensor files and no index.*"c\.bin".*"e\.index"/ })
})

test('the error for a model name of the hub contains its URL', async (t) => {
  await t.throwsAsync(() => open('no-such-owner/some-model'), {
    message: /hub, name 'hf:\/\/no-such-owner\/some-model'$/,
  })
  for (const path of ['no-such-folder/model.zt', './a/b', 'a/b/c', 'model'])
    await t.throwsAsync(() => open(path), { message: /^(?!.*hf:).*ENOENT/s })
})

test('the error for a source of the wrong type lists the types', async (t) => {
  for (const source of [3, null, {}])
    await t.throwsAsync(() => open(source), {
      message: /source must be a path, a URL, .* or a ByteSource \(\{ byteLength, read \}\), got/,
    })
  await t.throwsAsync(() => saveFile({ a: Float32Array.of(1) }, 'x.zt'), { message: /as in saveFile\(path, tensors\)/ })
})
