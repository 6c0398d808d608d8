// What we quantize, compared with llama.cpp's library of node-llama-cpp, byte for byte: every type, with and without importance, six
// distributions of weights, and rows of unusual numbers.
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../scripts/command.mjs'
import { environment } from './peers.mjs'
import { NotRun, npmPackage } from './servers/programs.mjs'

const PACKAGE = '@node-llama-cpp/linux-x64'
export const REFERENCE = `${PACKAGE} 3.21.1`
const WEIGHTS = process.env.QUANTIZE_WEIGHTS ?? 2 ** 20
const CARGO = ['build', '--quiet', '--profile', 'quick', '-p', 'ztensor-core', '--example', 'quantize']

/** Runs interop/quantize_peer.py with the reference's library and our program. Returns what it prints. */
export async function runPeer(build, python, mode, ...args) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new NotRun('the reference is built for Linux on x64')
  try {
    execFileSync('cargo', CARGO, { cwd: root, stdio: 'pipe' })
  } catch (error) {
    throw new NotRun(`cargo cannot build the example: ${String(error.stderr ?? error.message).split('\n')[0]}`)
  }
  const own = await environment(join(build, 'venv-quantize'), python, ['numpy==2.4.6'])
  const library = join(await npmPackage(build, PACKAGE, '3.21.1'), 'bins/linux-x64/libggml-base.so')
  const folder = join(build, 'quantize')
  mkdirSync(folder, { recursive: true })
  const program = join(root, 'target/quick/examples/quantize')
  const peer = join(root, 'interop/quantize_peer.py')
  return execFileSync(own, [peer, mode, library, program, folder, ...args].map(String), { encoding: 'utf8' })
}

/** [{ what, error }] of every type and source, the error undefined where all blocks have the same bytes. */
export async function compareQuantize({ build, python }) {
  const results = JSON.parse(await runPeer(build, python, 'compare', WEIGHTS))
  return results.map(({ what, differing, blocks }) => ({
    what,
    error: differing === 0 ? undefined : new Error(`${differing} of ${blocks} blocks have other bytes`),
  }))
}
