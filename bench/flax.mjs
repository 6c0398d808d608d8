// The row of Flax' checkpoints. Flax writes the file; Flax and this package read it.
import { existsSync } from 'node:fs'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const FLAX = 'flax 0.12'

/** Yields the row. No row without Flax, which writes the file (`npm run interop -- --heavy` installs it). */
export async function* flax({ inputs, rounds, quick }) {
  const path = inputs.path('state.msgpack')
  const megabytes = quick ? 50 : 500
  if (!existsSync(path) && byPeer(FLAX, 'write', path, 1, [String(megabytes)]) === undefined) return
  warm(path)
  const turns = Math.min(rounds, 9)
  const { ours: median } = await measure(turns, { ours: () => ours.load(path) })
  const theirs = byPeer(FLAX, 'load', path, turns)
  yield {
    work: `Flax of ${megabytes} MB: load() all`,
    state: 'warm, written by Flax',
    ours: median,
    peers: { [FLAX]: theirs },
    reach: '2 × as fast as flax.serialization.msgpack_restore',
    target: theirs / 2,
  }
}
