// Lists of models: by the names of files.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'ava'
import { list } from 'ztensor/hub'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

/** A folder with files of these names, of as many bytes as their position. */
function folderOf(names) {
  const folder = scratchPath('folder')
  for (const [at, name] of names.entries()) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), Buffer.alloc(at + 1))
  }
  return folder
}

const listed = async (names) => {
  const folder = folderOf(names)
  const found = await list(folder)
  for (const { name, source } of found) if (source !== join(folder, name)) throw new Error(source)
  return found.map(({ name, format, byteLength, files, mixture }) => [name, format, byteLength, files, mixture])
}

test('a set is one model, by its index or its first file', async (t) => {
  const names = [
    'a-00001-of-00002.safetensors',
    'a-00002-of-00002.safetensors',
    'a.safetensors.index.json',
    'b-00001-of-00002.gguf',
    'b-00002-of-00002.gguf',
    'c-00001-of-00003.safetensors',
  ]
  t.deepEqual(await listed(names), [
    ['a.safetensors.index.json', 'safetensors', 3, 2, undefined],
    ['b-00001-of-00002.gguf', 'gguf', 9, 2, undefined],
    ['c-00001-of-00003.safetensors', 'safetensors', 6, 1, undefined],
  ])
})

test('mixtures are in the names of GGUF files, as a word', async (t) => {
  const names = [
    'm.Q4_K_M.gguf',
    'm-q8_0.gguf',
    'UD/m-IQ4_XS-00001-of-00001.gguf',
    'm-f16.gguf',
    'mq8_0x.gguf',
    'm-q8_0.safetensors',
    'Q5_K_S.gguf',
  ]
  t.deepEqual(Object.fromEntries((await listed(names)).map(([name, , , , mixture]) => [name, mixture])), {
    'm.Q4_K_M.gguf': 'Q4_K_M',
    'm-q8_0.gguf': 'Q8_0',
    'UD/m-IQ4_XS-00001-of-00001.gguf': 'IQ4_XS',
    'm-f16.gguf': 'F16',
    'mq8_0x.gguf': undefined,
    'm-q8_0.safetensors': undefined,
    'Q5_K_S.gguf': 'Q5_K_S',
  })
})

test('other files are left out: data of OpenVINO, hidden ones, texts', async (t) => {
  const names = ['ov.xml', 'ov.bin', 'pytorch_model.bin', '.cache/x.safetensors', '.y.gguf', 'config.json', 'README.md']
  t.deepEqual(
    (await listed(names)).map(([name, format]) => [name, format]),
    [
      ['ov.xml', 'openvino'],
      ['pytorch_model.bin', 'pytorch'],
    ],
  )
  t.deepEqual(await listed(['config.json']), [])
})

test('arguments', async (t) => {
  const folder = folderOf(['a.zt'])
  t.is((await list(pathToFileURL(folder)))[0].name, 'a.zt')
  const [model] = await list(folder, { headers: true })
  t.is(model.error.code, 'ZT_TRUNCATED')
  for (const [source, options] of [
    [7],
    [join(folder, 'a.zt')],
    ['s3://bucket/folder/'],
    [folder, { headers: 1 }],
    [folder, { header: true }],
    [folder, { signal: 1 }],
  ])
    t.is((await rejectionOf(() => list(source, options))).code, 'ZT_INVALID_ARG', String(source))
  t.is((await rejectionOf(() => list(join(folder, 'none')))).code, 'ZT_IO')
  const signal = AbortSignal.abort(new Error('stopped'))
  t.is((await rejectionOf(() => list(folder, { signal }))).message, 'stopped')
})
