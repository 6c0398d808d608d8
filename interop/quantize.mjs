// Compares our quantized blocks with those of llama.cpp's library of node-llama-cpp, byte for byte: every type, with and without importance, six
// distributions of weights, and rows of unusual numbers.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../scripts/command.mjs'
import { environment } from './peers.mjs'
import { NotRun, npmPackage } from './servers/programs.mjs'

const PACKAGE = '@node-llama-cpp/linux-x64'
export const REFERENCE = `${PACKAGE} 3.21.1`
const ADDON = join(root, 'interop/quantize-addon.mjs')
const CARGO = ['build', '--quiet', '--profile', 'bench', '-p', 'ztensor-core', '--example', 'quantize']

/** Builds the example of the core that quantizes. Returns its path. */
export function buildExample() {
  try {
    execFileSync('cargo', CARGO, { cwd: root, stdio: 'pipe' })
  } catch (error) {
    throw new NotRun(`cargo cannot build the example: ${String(error.stderr ?? error.message).split('\n')[0]}`)
  }
  return join(root, 'target/release/examples/quantize')
}

/** Runs interop/quantize_peer.py with the reference's library and one of our programs. Returns its output. */
export async function runPeer(build, python, mode, program, ...args) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new NotRun('the reference is built for Linux on x64')
  const own = await environment(join(build, 'venv-quantize'), python, ['numpy==2.4.6'])
  const library = join(await npmPackage(build, PACKAGE, '3.21.1'), 'bins/linux-x64/libggml-base.so')
  const folder = join(build, 'quantize')
  mkdirSync(folder, { recursive: true })
  const peer = join(root, 'interop/quantize_peer.py')
  return execFileSync(own, [peer, mode, library, program, folder, ...args].map(String), { encoding: 'utf8' })
}

async function compare({ build, python }, program, weights) {
  const results = JSON.parse(await runPeer(build, python, 'compare', program, weights))
  return results.map(({ what, error }) => ({ what, error: error === null ? undefined : new Error(error) }))
}

/** Returns [{ what, error }] for every type and source. The error is undefined if all blocks that the package writes have the same bytes. */
export const compareQuantize = (context) => compare(context, ADDON, 2 ** 16)

/** Compares the blocks of the core's kernels: of 2^24 weights of each distribution, or as many as QUANTIZE_WEIGHTS says. */
export const compareKernels = (context) => compare(context, buildExample(), process.env.QUANTIZE_WEIGHTS ?? 2 ** 24)
