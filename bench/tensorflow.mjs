// The row of TensorFlow's checkpoints: TensorFlow writes one; TensorFlow and this package read it. Both verify its checksums.
import { existsSync } from 'node:fs'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const TENSORFLOW = 'tensorflow 2.21'

/** No row without TensorFlow, which writes the file. */
export async function* tensorflow({ inputs, rounds, quick }) {
  const path = inputs.path('checkpoint.index')
  const megabytes = quick ? 50 : 1000
  if (!existsSync(path) && byPeer(TENSORFLOW, 'write', path, 1, [String(megabytes)]) === undefined) return
  warm(path.replace(/index$/, 'data-00000-of-00001'))
  const turns = Math.min(rounds, 5)
  const { ours: median } = await measure(turns, { ours: () => ours.load(path) })
  const theirs = byPeer(TENSORFLOW, 'load', path, turns)
  yield {
    work: 'TensorFlow checkpoint of 1 GB: load() all',
    state: 'warm, written by TensorFlow',
    ours: median,
    peers: { [TENSORFLOW]: theirs },
    reach: '2 × as fast as TensorFlow',
    target: theirs === undefined ? undefined : theirs / 2,
  }
}
