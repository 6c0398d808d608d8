// GGUF files of tiny checkpoints of each architecture, in each type, loaded by llama.cpp's library of node-llama-cpp, which decodes a token
// with each: files that we say llama.cpp reads.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { convert, editMetadata, open } from 'ztensor'
import { capture, root } from '../scripts/command.mjs'
import { makeCheckpoints } from './checkpoints.mjs'
import { NotRun, npmPackage } from './servers/programs.mjs'

const PACKAGE = '@node-llama-cpp/linux-x64'

/** The files of each checkpoint: as stored, in each dtype, and quantized from the stored dtype or from another. */
const KINDS = {
  stored: {},
  f32: { dtype: 'float32' },
  f16: { dtype: 'float16' },
  bf16: { dtype: 'bfloat16' },
  'cast-f16': { cast: { 'float*': 'float16' } },
  q8_0: { quantize: 'q8_0' },
  'q8_0-f16': { quantize: 'q8_0', dtype: 'float16' },
  q4_k_m: { quantize: 'q4_k_m' },
  'q4_k_m-bf16': { quantize: 'q4_k_m', dtype: 'bfloat16' },
  'rules-f16': { quantize: { '*': 'f16' } },
}

/** Runs the script on some files. Returns why each one cannot be used, undefined if it can. */
function runAll(python, libraries, paths) {
  return new Promise((resolve, reject) => {
    const child = spawn(python, [join(root, 'interop/llama_run.py'), libraries])
    const output = []
    child.stdout.on('data', (piece) => output.push(piece))
    // The library prints its log there.
    child.stderr.resume()
    child.on('error', reject)
    child.on('close', () => {
      const lines = Buffer.concat(output).toString().split('\n')
      const failed = new Map()
      for (const path of paths) {
        const line = lines.find((one) => one === `RAN ${path}` || one.startsWith(`FAILED ${path}: `))
        if (line !== `RAN ${path}`)
          failed.set(path, line?.slice(`FAILED ${path}: `.length) ?? 'the script ended before')
      }
      resolve(failed)
    })
    child.stdin.end(paths.join('\n'))
  })
}

/** Returns [{ what, error }] for every checkpoint and kind. The error is undefined if llama.cpp decodes a token, or cannot load the reference either. */
export async function compareRuns(context) {
  const { build, python } = context
  const libraries = await librariesIn(build)
  const { folder } = await makeCheckpoints(context)
  return compareFolder(folder, { libraries, python, target: join(build, 'runs') })
}

/** The folder of llama.cpp's library. */
async function librariesIn(build) {
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new NotRun('the library is built for Linux on x64')
  return join(await npmPackage(build, PACKAGE, '3.21.1'), 'bins/linux-x64')
}

/** Like `compareRuns`, for the model of `ztensor demo`, as it is and quantized. */
export async function compareDemo({ build, python }) {
  const libraries = await librariesIn(build)
  const target = join(build, 'runs-demo')
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  const { status, output } = await capture(process.execPath, [join(root, 'dist/cli.js'), 'demo', target])
  if (status !== 0) throw new Error(output)
  const [model, quantized] = ['tiny-llama.gguf', 'tiny-llama-q4_k_m.gguf'].map((name) => join(target, name))
  await convert(model, quantized, { quantize: 'q4_k_m' })
  const failed = await runAll(python, libraries, [model, quantized])
  return [model, quantized].map((path) => {
    const why = failed.get(path)
    return { what: `demo, ${basename(path)}`, error: why === undefined ? undefined : new Error(why) }
  })
}

/** Like `compareRuns`, for the checkpoints in a folder. */
export async function compareFolder(folder, { libraries, python, target }) {
  const results = []
  for (const name of readdirSync(folder)) {
    rmSync(target, { recursive: true, force: true })
    mkdirSync(target, { recursive: true })
    const paths = new Map()
    for (const [kind, options] of Object.entries(KINDS)) {
      const [what, path] = [`${name}, ${kind}`, join(target, `${kind}.gguf`)]
      try {
        const { readers } = await convert(join(folder, name), path, { checkpoint: true, ...options })
        if (!readers.includes('llama.cpp')) throw new Error(`readers are ${readers.join(', ')}`)
        paths.set(path, what)
      } catch (error) {
        // MXFP4 of a checkpoint is not requantized by default.
        const isRefused = 'quantize' in options && /is quantized already/.test(error.message)
        results.push(isRefused ? { what: `${what}: rejected, because it is already quantized` } : { what, error })
      }
    }
    const control = await castAll(folder, name, target)
    const reference = join(folder, name, 'reference.gguf')
    const failed = await runAll(python, libraries, [...paths.keys(), control, reference])
    // llama.cpp detects some architectures by properties that a tiny checkpoint lacks. Then it cannot load the output of its converter
    // either, and our files fail for the same reason.
    const like = existsSync(reference) ? failed.get(reference) : undefined
    for (const [path, what] of paths) {
      const why = failed.get(path)
      const asReference =
        like === undefined ? '' : `, which is not loaded from llama.cpp's own converter either: ${like}`
      results.push({
        what: `${what}${asReference}`,
        error: why === like ? undefined : new Error(why ?? 'it is loaded'),
      })
    }
    const error = failed.has(control) ? undefined : new Error('llama.cpp computes with norms in float16')
    results.push({ what: `${name}, norms in float16, which fail`, error })
  }
  return results
}

/** A file whose norms are float16: they are cast while it names no architecture. */
async function castAll(folder, name, target) {
  const [stored, control] = ['a.gguf', 'control.gguf'].map((one) => join(target, one))
  await convert(join(folder, name), stored, { checkpoint: true, overwrite: true })
  const key = 'general.architecture'
  const file = await open(stored)
  const architecture = file.metadata[key]
  file.close()
  await convert(stored, control, { dtype: 'float16', metadata: { [key]: undefined } })
  await editMetadata(control, { set: { [key]: architecture } })
  return control
}
