// Compares whole files that this package quantizes with those of llama.cpp's library of node-llama-cpp: every mixture of some models, with
// and without an importance matrix. With `node interop/llama.mjs` it writes the digests of the reference, __test__/fixtures/gguf-quantized.json.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { convert } from 'ztensor'
import { MIXTURES, MODELS, WEIGHED_MIXTURES, writeImportance, writeLlama } from '../__test__/helpers/tiny-models.mjs'
import { capture, root } from '../scripts/command.mjs'
import { environment } from './peers.mjs'
import { NotRun, npmPackage } from './servers/programs.mjs'

const PACKAGE = '@node-llama-cpp/linux-x64'
/** Mixtures that need no importance matrix, but differ with one. */
const DIFFERENT = ['q4_0', 'q5_1', 'q2_k', 'q3_k_m', 'q4_k_m', 'q5_k_s', 'q6_k', 'iq3_s', 'iq3_m', 'iq4_nl', 'iq4_xs']

const digest = (path) => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Tensors that an importance matrix lacks, each in a separate matrix. */
const LACKED = ['blk.0.attn_q.weight', 'blk.0.attn_v.weight', 'blk.0.ffn_down.weight', 'output.weight']

/** The folder for files, and `run(source, job)`, which quantizes with the library and returns whether it succeeds, and its output. */
async function reference({ build, python }) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new NotRun('the reference is built for Linux on x64')
  const own = await environment(join(build, 'venv-llama'), python, ['numpy==2.4.6', 'gguf==0.19.0'])
  const libraries = join(await npmPackage(build, PACKAGE, '3.21.1'), 'bins/linux-x64')
  const folder = join(build, 'llama')
  mkdirSync(folder, { recursive: true })
  const run = async (source, job) => {
    const command = [join(root, 'interop/llama_peer.py'), libraries, source, JSON.stringify([job])]
    const { output } = await capture(own, command)
    const result = /^RESULTS \[(\d)\]$/m.exec(output)
    if (result === null) throw new Error(`llama.cpp did not run:\n${output}`)
    return { done: result[1] === '0', output }
  }
  return { folder, run }
}

/** Calls `each` with the model, the mixture, whether with an importance matrix, the reference's file, the source and the matrix. */
async function quantizeAll(context, each) {
  const { folder, run } = await reference(context)
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
      const { done, output } = await run(source, [number, target, isWeighed ? [matrix, matrix] : null])
      if (!done) throw new Error(`llama.cpp cannot write ${model}, ${name}:\n${output}`)
      await each({ model, name, isWeighed, target, source, matrix, folder })
      rmSync(target)
    }
  }
}

/** Returns [{ what, error }] for every model and mixture. The error is undefined if the files have the same bytes, or both reject it. */
export async function compareLlama(context) {
  const results = []
  await quantizeAll(context, async ({ model, name, isWeighed, target, source, matrix, folder }) => {
    const ours = join(folder, 'ours.gguf')
    await convert(source, ours, { quantize: name, imatrix: isWeighed ? matrix : undefined, overwrite: true })
    const what = `${model}, ${name}${isWeighed ? ', with importance' : ''}`
    results.push({ what, error: digest(ours) === digest(target) ? undefined : new Error('the files differ') })
  })
  return [...results, ...(await compareLacking(context))]
}

/** Returns [{ what, error }] for every mixture with matrices that lack a tensor: both reject it before they write, or the files are equal. */
async function compareLacking(context) {
  const { folder, run } = await reference(context)
  const [source, matrix, target, ours] = ['source', 'imatrix', 'reference', 'ours'].map((name) =>
    join(folder, `${name}.gguf`),
  )
  const options = { layers: 1 }
  await writeLlama(source, options)
  const results = []
  for (const lacked of LACKED) {
    await writeImportance(matrix, options, [lacked])
    for (const [name, number] of Object.entries({ ...MIXTURES, ...WEIGHED_MIXTURES })) {
      const { done } = await run(source, [number, target, [matrix, matrix]])
      const refused = await convert(source, ours, { quantize: name, imatrix: matrix, overwrite: true }).then(
        () => undefined,
        ({ message }) => message,
      )
      const same = done
        ? refused === undefined && digest(ours) === digest(target)
        : refused?.includes(`"${lacked}": the importance matrix has no weights`)
      const error = same ? undefined : new Error(`llama.cpp ${done ? 'writes' : 'refuses'} it; here: ${refused}`)
      results.push({ what: `${name}, with importance except for ${lacked}`, error })
      rmSync(target, { force: true })
    }
  }
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
