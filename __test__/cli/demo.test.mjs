// `ztensor demo`, run as a process: the files that the guides use.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import test from 'ava'
import { openSync } from 'ztensor'
import { run } from '../helpers/command.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'

const { path: at } = scratchFolder()
const FILES = [
  'llama/model-00001-of-00002.safetensors',
  'llama/model-00002-of-00002.safetensors',
  'llama/model.safetensors.index.json',
  'model.safetensors',
  'model.zt',
  'quantized.zt',
  'sparse.zt',
  'tiny-llama.gguf',
]

/** The files in a folder: the digest of the content by path. */
function digests(folder) {
  const names = readdirSync(folder, { recursive: true }).map((name) => name.replaceAll('\\', '/'))
  const files = names.filter((name) => statSync(join(folder, name)).isFile()).sort()
  return new Map(
    files.map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex'),
    ]),
  )
}

/** Writes the files into a new folder of this name. */
async function written(t, name) {
  const folder = at(name)
  const { code, stdout, stderr } = await run(['demo', folder])
  t.is(code, 0, stderr)
  return { folder, stdout }
}

test('demo writes into the current folder, and prints its files and commands to try', async (t) => {
  const cwd = at('current')
  mkdirSync(cwd)
  const { code, stdout } = await run(['demo'], { cwd })
  t.is(code, 0)
  t.deepEqual([...digests(cwd).keys()], FILES)
  // On Windows, paths are printed with backslashes.
  for (const name of FILES) t.regex(stdout.replaceAll(sep, '/'), new RegExp(`^wrote +${name} \\(.+\\)$`, 'm'))
  const commands = [...stdout.matchAll(/^ {2}npx ztensor (.+)$/gm)].map(([, text]) => text.split(' '))
  t.is(commands.length, 3)
  for (const args of commands) {
    const tried = await run(
      args.filter((word) => word !== '--open'),
      { cwd },
    )
    t.is(tried.code, 0, tried.stderr)
  }
})

test('demo writes the same bytes each time, and creates folders', async (t) => {
  const one = await written(t, 'new/one')
  const two = await written(t, 'new/two')
  t.deepEqual(digests(one.folder), digests(two.folder))
})

test('the files of demo are valid, and have the tensors that the guides name', async (t) => {
  const { folder } = await written(t, 'valid')
  const files = FILES.filter((name) => !name.startsWith('llama/')).map((name) => join(folder, name))
  const { code, stdout, stderr } = await run(['verify', ...files, join(folder, 'llama')])
  t.is(code, 0, stdout + stderr)

  const example = openSync(new URL('../../examples/model.safetensors', import.meta.url))
  for (const name of ['model.safetensors', 'model.zt', 'llama']) {
    const file = openSync(join(folder, name))
    const shapes = (of) => [...of.values()].map(({ name, dtype, shape }) => `${name} ${dtype} ${shape}`).sort()
    t.deepEqual(shapes(file), shapes(example), name)
    file.close()
  }
  example.close()

  const sparse = openSync(join(folder, 'sparse.zt'))
  t.is(sparse.tensor('graph').layout, 'sparse_csr')
  t.is(sparse.tensor('graph').csr().nnz, 32)
  sparse.close()
  const quantized = openSync(join(folder, 'quantized.zt'))
  t.is(quantized.version, '2')
  const blocks = quantized.tensor('blk.0.ffn_down.weight')
  t.is(blocks.storageType, 'q8_0')
  const { min, max, zeros, count } = await blocks.stats()
  t.true(min < 0 && max > 0 && zeros < count / 10)
  quantized.close()
  const llama = openSync(join(folder, 'tiny-llama.gguf'))
  const { model } = llama.summary()
  t.like(model, {
    name: 'Tiny llama',
    architecture: 'llama',
    mixture: 'F16',
    vocabularySize: 259,
    tiedEmbeddings: true,
  })
  llama.close()
  const q4 = join(folder, 'q4.gguf')
  const quantize = await run(['quantize', join(folder, 'tiny-llama.gguf'), q4, 'q4_k_m'])
  t.regex(quantize.stdout, /^read by: llama\.cpp, /m)
  t.is(quantize.code, 0, quantize.stderr)
})

test('demo keeps its existing files, and writes missing ones', async (t) => {
  const { folder } = await written(t, 'again')
  const before = digests(folder)
  const again = await run(['demo', folder])
  t.is(again.code, 0)
  t.notRegex(again.stdout, /^wrote/m)
  t.is(again.stdout.match(/^unchanged /gm).length, FILES.length)
  t.deepEqual(digests(folder), before)
})

test('demo replaces a file with other content only with --overwrite', async (t) => {
  const folder = at('occupied')
  mkdirSync(folder)
  writeFileSync(join(folder, 'model.zt'), 'mine')
  const refused = await run(['demo', folder])
  t.is(refused.code, 2)
  t.regex(refused.stderr, /model\.zt.*--overwrite.*\(ZT_EXISTS\)/)
  t.deepEqual(readdirSync(folder), ['model.zt'])
  t.is(readFileSync(join(folder, 'model.zt'), 'utf8'), 'mine')

  const replaced = await run(['demo', folder, '--overwrite'])
  t.is(replaced.code, 0, replaced.stderr)
  t.deepEqual([...digests(folder).keys()], FILES)
  openSync(join(folder, 'model.zt'), { verify: true }).close()
})

test('demo names the path that it cannot write', async (t) => {
  const file = at('a-file')
  writeFileSync(file, 'mine')
  const { code, stderr } = await run(['demo', file])
  t.is(code, 2)
  t.regex(stderr, /^ztensor: .*a-file.*\(ZT_IO\)\n$/)
  t.is(readFileSync(file, 'utf8'), 'mine')
})

test('demo quotes paths for a shell', async (t) => {
  const { stdout } = await written(t, "a 'b")
  t.regex(stdout, /npx ztensor ls '.*a '\\''b.model\.safetensors'\n/)
})
