// The rows of Arrow: pyarrow writes the files, and pyarrow and this package read them.
import { existsSync } from 'node:fs'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const PYARROW = 'pyarrow 26.0'

/** Yields each row when it is measured. No rows without pyarrow, which writes the files. */
export async function* arrow({ inputs, rounds, quick }) {
  for (const [name, megabytes, work, kind, run, faster] of [
    ['lz4.feather', quick ? 25 : 500, 'Feather of 500 MB in batches, lz4: load() all', 'lz4', ours.load, 1],
    ['plain.arrow', quick ? 50 : 1000, 'Arrow of 1 GB, one batch: alias and touch all', 'plain', ours.touch, 1],
  ]) {
    const path = inputs.path(name)
    if (!existsSync(path) && byPeer(PYARROW, `write_${kind}`, path, 1, [String(megabytes)]) === undefined) return
    warm(path)
    const turns = Math.min(rounds, 5)
    const { ours: median } = await measure(turns, { ours: () => run(path) })
    const theirs = byPeer(PYARROW, kind === 'lz4' ? 'load' : 'touch', path, turns)
    yield {
      work,
      state: 'warm, written by pyarrow',
      ours: median,
      peers: { [PYARROW]: theirs },
      reach: 'as fast as pyarrow',
      target: theirs / faster,
    }
  }
}
