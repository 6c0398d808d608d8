// The rows of NumPy's files. NumPy also writes them.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const NUMPY = 'numpy 2.4'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The time of libdeflate on all cores for the members of an archive; undefined without a compiler. */
function byLibdeflate(path) {
  const cargo = ['run', '--quiet', '--profile', 'bench', '-p', 'ztensor-import', '--example', 'inflate', '--', path]
  try {
    return {
      limit: Number(execFileSync('cargo', cargo, { cwd: root, encoding: 'utf8' })),
      limitIs: 'libdeflate, all cores',
    }
  } catch {
    return {}
  }
}

/** Yields each row when it is measured. No rows without NumPy, which writes the files. */
export async function* numpy({ inputs, rounds, quick }) {
  for (const [name, arrays, work, write, faster] of [
    ['stored.npz', quick ? 50 : 1000, 'npz of 1,000 stored arrays of 1 MB: open, list, load() all', 'npz_write', 2],
    ['deflated.npz', quick ? 25 : 500, 'npz of 500 MB, deflated: load() all', 'npz_deflate', 1.7 * cpus().length],
  ]) {
    const path = inputs.path(name)
    if (!existsSync(path) && byPeer(NUMPY, write, path, 1, [String(arrays)]) === undefined) return
    warm(path)
    const turns = Math.min(rounds, 5)
    const { ours: median } = await measure(turns, { ours: () => ours.load(path) })
    const theirs = byPeer(NUMPY, 'npz_load', path, turns)
    yield {
      work,
      state: 'warm, written by numpy',
      ours: median,
      peers: { [NUMPY]: theirs },
      ...(name === 'deflated.npz' && !quick ? byLibdeflate(path) : {}),
      reach: `${faster} × as fast as numpy`,
      target: theirs / faster,
    }
  }
}
