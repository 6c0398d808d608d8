// Whole files that we quantize, compared with those of llama.cpp's library of node-llama-cpp: every mixture of some models, with and without
// an importance matrix. With `node interop/llama.mjs` it writes the digests of the reference, __test__/fixtures/gguf-quantized.json.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { convert, create } from 'ztensor'
import {
  llamaShapes,
  MIXTURES,
  MODELS,
  WEIGHED_MIXTURES,
  weights,
  writeLlama,
} from '../__test__/helpers/tiny-models.mjs'
import { capture, root } from '../scripts/command.mjs'
import { environment } from './peers.mjs'
import { NotRun, npmPackage } from './servers/programs.mjs'

const PACKAGE = '@node-llama-cpp/linux-x64'
/** Mixtures that need no importance matrix, but differ with one. */
const DIFFERENT = ['q4_0', 'q5_1', 'q2_k', 'q3_k_m', 'q4_k_m', 'q5_k_s', 'q6_k', 'iq3_s', 'iq3_m', 'iq4_nl', 'iq4_xs']

const digest = (path) => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Writes an importance matrix for a llama, as llama-imatrix does. */
async function writeImportance(path, options) {
  const metadata = {
    'general.type': 'imatrix',
    'imatrix.datasets': ['text'],
    'imatrix.chunk_count': { type: 'uint32', value: 7 },
    'imatrix.chunk_size': { type: 'uint32', value: 512 },
  }
  const writer = await create(path, { metadata, overwrite: true })
  for (const [name, [, columns]] of llamaShapes(options)) {
    if (columns === undefined || name.startsWith('token')) continue
    const sums = weights(columns, name.length).map((value) => value ** 4 * 1000)
    await writer.add(`${name}.in_sum2`, sums, { shape: [1, columns] })
    await writer.add(`${name}.counts`, Float32Array.of(512), { shape: [1, 1] })
  }
  await writer.finish()
}

/** Calls `each` with the model, the mixture, whether with an importance matrix, the reference's file, the source and the matrix. */
async function quantizeAll({ build, python }, each) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new NotRun('the reference is built for Linux on x64')
  const own = await environment(join(build, 'venv-llama'), python, ['numpy==2.4.6', 'gguf==0.19.0'])
  const libraries = join(await npmPackage(build, PACKAGE, '3.21.1'), 'bins/linux-x64')
  const folder = join(build, 'llama')
  mkdirSync(folder, { recursive: true })
  const [source, matrix] = [join(folder, 'source.gguf'), join(folder, 'imatrix.gguf')]
  for (const [model, options] of Object.entries(MODELS)) {
    await writeLlama(source, options)
    await writeImportance(matrix, options)
    const plain = Object.entries(MIXTURES).map(([name, number]) => ({ name, number, weighed: false }))
    const different = DIFFERENT.map((name) => [name, MIXTURES[name]])
    const weighed = [...different, ...Object.entries(WEIGHED_MIXTURES)].map(([name, number]) => ({
      name,
      number,
      weighed: true,
    }))
    for (const { name, number, weighed: isWeighed } of [...plain, ...weighed]) {
      const target = join(folder, 'reference.gguf')
      const jobs = JSON.stringify([[number, target, isWeighed ? [matrix, matrix] : null]])
      const { output } = await capture(own, [join(root, 'interop/llama_peer.py'), libraries, source, jobs])
      if (!/^RESULTS \[0\]$/m.test(output)) throw new Error(`llama.cpp cannot write ${model}, ${name}:\n${output}`)
      await each({ model, name, isWeighed, target, source, matrix, folder })
      rmSync(target)
    }
  }
}

/** [{ what, error }] of every model and mixture, the error undefined where the whole file has the same bytes. */
export async function compareLlama(context) {
  const results = []
  await quantizeAll(context, async ({ model, name, isWeighed, target, source, matrix, folder }) => {
    const ours = join(folder, 'ours.gguf')
    await convert(source, ours, { quantize: name, imatrix: isWeighed ? matrix : undefined, overwrite: true })
    const what = `${model}, ${name}${isWeighed ? ', with importance' : ''}`
    results.push({ what, error: digest(ours) === digest(target) ? undefined : new Error('the files differ') })
  })
  return results
}

if (resolve(process.argv[1] ?? '') === fileURLToPath(import.meta.url)) {
  const digests = {}
  const context = { build: join(root, 'build/interop'), python: process.env.PYTHON ?? 'python3' }
  await quantizeAll(context, ({ model, name, isWeighed, target }) => {
    if (!isWeighed) digests[model] = { ...digests[model], [name]: digest(target) }
  })
  writeFileSync(join(root, '__test__/fixtures/gguf-quantized.json'), `${JSON.stringify(digests, null, 2)}\n`)
}
