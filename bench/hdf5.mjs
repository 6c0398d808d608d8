// The rows of HDF5: h5py writes the files; h5py and this package read them, and so does h5wasm where
// `npm install --no-save --prefix build/bench h5wasm` has put it.
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer, npmPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const H5PY = 'h5py 3.16'

/** Reads all datasets with h5wasm. Returns the number of bytes. */
async function byH5wasm(h5wasm, path) {
  await h5wasm.ready
  const file = new h5wasm.File(path, 'r')
  let seen = 0
  for (const name of file.get('layers').keys()) seen += file.get(`layers/${name}/weight`).value.byteLength
  file.close()
  return seen
}

/** Yields each row when it is measured. No rows without h5py, which writes the files. */
export async function* hdf5({ inputs, rounds, quick }) {
  for (const [name, megabytes, work, kind, run, faster] of [
    [
      'chunked.h5',
      quick ? 25 : 500,
      'HDF5 of 500 MB in chunks, shuffled and deflated: load() all',
      'gzip',
      ours.load,
      1.5 * cpus().length,
    ],
    ['contiguous.h5', quick ? 50 : 1000, 'HDF5 of 1 GB, contiguous: alias and touch all', 'plain', ours.touch, 5],
  ]) {
    const path = inputs.path(name)
    if (!existsSync(path) && byPeer(H5PY, `write_${kind}`, path, 1, [String(megabytes)]) === undefined) return
    warm(path)
    const turns = Math.min(rounds, 5)
    const { ours: median } = await measure(turns, { ours: () => run(path) })
    const theirs = byPeer(H5PY, kind === 'gzip' ? 'load' : 'touch', path, turns)
    const h5wasm = kind === 'gzip' ? (await npmPeer('h5wasm/node'))?.default : undefined
    // Once: WebAssembly has 2 GiB per process.
    const wasm = h5wasm && (await measure(1, { h5wasm: () => byH5wasm(h5wasm, path) }, { warm: false }))
    yield {
      work,
      state: 'warm, written by h5py',
      ours: median,
      peers: { [H5PY]: theirs, ...wasm },
      reach: `${faster} × as fast as h5py${wasm ? ', 8 × h5wasm' : ''}`,
      target: Math.min(theirs / faster, wasm ? wasm.h5wasm / 8 : Infinity),
    }
  }
}
