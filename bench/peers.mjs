// The Python packages beside which the rows stand, each in a virtual environment of its own: those that `npm run interop`
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
  const places = folders.flatMap((folder) => PEERS[peer].map((name) => join(folder, name, 'bin/python')))
  return places.find((place) => existsSync(place))
}

export const missing = () => Object.keys(PEERS).filter((peer) => interpreter(peer) === undefined)

/** A package that `npm install --no-save --prefix build/bench NAME` has put there; undefined where it is not. */
export async function npmPeer(name) {
  // A module is looked for from where the one that imports it is.
  const there = join(root, 'build/bench/import.mjs')
  writeFileSync(there, 'export default (name) => import(name)\n')
  const { default: importFromThere } = await import(pathToFileURL(there).href)
  return importFromThere(name).catch(() => undefined)
}

/** The median in ms of a peer's work on a file; undefined where the peer is not there, or cannot do it. */
export const byPeer = (peer, work, path, rounds, options) => told(peer, work, path, rounds, options)?.ms

/** The bytes that a peer's work on a file takes at its peak; undefined where that is not known. */
export const peakByPeer = (peer, work, path, options) => told(peer, work, path, 0, options)?.peak

function told(peer, work, path, rounds, options = []) {
  const python = interpreter(peer)
  if (python === undefined) return undefined
  // Where torch finds what stands in for CUDA (interop/cuda_stubs.py).
  const env = { ...process.env, LD_LIBRARY_PATH: join(root, 'build/interop/cuda-stubs') }
  const printed = execFileSync(python, [script, peer, work, path, String(rounds), ...options], {
    encoding: 'utf8',
    env,
  })
  const told = JSON.parse(printed)
  if (told.note !== undefined) console.log(`${peer}, ${work}: ${told.note}`)
  return told
}
