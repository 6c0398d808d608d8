// The Python packages that rows are compared with, each in its own virtual environment: those that `npm run interop`
// sets up, or those in the folder that BENCH_VENVS names. ggml's C is measured where BENCH_GGML names a shared library of
// its `ggml-quants.c` (`gcc -O3 -march=native -shared`).
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const script = join(root, 'bench/python_peer.py')
const PEERS = {
  'flax 0.12': ['venv-flax'],
  'gguf 0.19': ['venv-gguf'],
  ggml: process.env.BENCH_GGML === undefined ? [] : ['venv-gguf'],
  'safetensors 0.8': ['venv-safetensors-0.8.0', 'v2.1.2'],
  'torch 2.4': ['venv-torch'],
  'numpy 2.4': ['venv-numpy', 'venv-safetensors-0.8.0', 'v2.1.2'],
  'onnx 1.23': ['venv-onnx'],
  'h5py 3.16': ['venv-hdf5'],
  'pyarrow 26.0': ['venv-arrow'],
  'tensorflow 2.21': ['venv-tensorflow'],
  'obstore 0.12': ['venv-obstore'],
  'boto3 1.44': ['venv-moto'],
  'ztensor 1.2.3': ['venv-ztensor-1.2.3', 'v1.2.3'],
  'ztensor 2.1.2': ['venv-ztensor-2.1.2', 'v2.1.2'],
}

function interpreter(peer) {
  const folders = [process.env.BENCH_VENVS, join(root, 'build/interop')].filter((folder) => folder !== undefined)
  const candidates = folders.flatMap((folder) => PEERS[peer].map((name) => join(folder, name, 'bin/python')))
  return candidates.find((path) => existsSync(path))
}

export const missing = () => Object.keys(PEERS).filter((peer) => interpreter(peer) === undefined)

/** A package that `npm install --no-save --prefix build/bench NAME` installed; undefined if it is not installed. */
export async function npmPeer(name) {
  // A module is resolved relative to the module that imports it.
  const there = join(root, 'build/bench/import.mjs')
  writeFileSync(there, 'export default (name) => import(name)\n')
  const { default: importFromThere } = await import(pathToFileURL(there).href)
  return importFromThere(name).catch(() => undefined)
}

/** The median of a peer's work on a file, in ms; undefined if the peer is not installed, or cannot do it. */
export const byPeer = (peer, work, path, rounds, options) => resultOf(peer, work, path, rounds, options)?.ms

/** The peak memory of a peer's work on a file, in bytes; undefined if it is unknown. */
export const peakByPeer = (peer, work, path, options) => resultOf(peer, work, path, 0, options)?.peak

function resultOf(peer, work, path, rounds, options = []) {
  const python = interpreter(peer)
  if (python === undefined) return undefined
  // The folder of the CUDA stubs for torch (interop/cuda_stubs.py).
  const env = { ...process.env, LD_LIBRARY_PATH: join(root, 'build/interop/cuda-stubs') }
  const printed = execFileSync(python, [script, peer, work, path, String(rounds), ...options], {
    encoding: 'utf8',
    env,
  })
  const result = JSON.parse(printed)
  if (result.note !== undefined) console.log(`${peer}, ${work}: ${result.note}`)
  return result
}
