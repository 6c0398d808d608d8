// The rows of PyTorch's checkpoints. torch writes them, too.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { warm } from './inputs.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const TORCH = 'torch 2.4'

/** All rows; none where torch is not there to write the file (`npm run interop -- --heavy` installs it). */
export async function* pytorch({ rounds, quick, folder }) {
  const path = join(folder, quick ? 'quick' : 'full', 'many.pt')
  const tensors = quick ? 30 : 300
  if (!existsSync(path) && byPeer(TORCH, 'write', path, 1, [String(tensors)]) === undefined) return
  warm(path)
  for (const [work, run, said, faster] of [
    [
      'list',
      ours.list,
      `a .pt of ${tensors} tensors, ${quick ? 0.26 : 2.6} GB: open, name, dtype and shape of each`,
      5,
    ],
    ['touch', ours.touch, 'the same: alias all and touch each page', 3],
  ]) {
    const { ours: median } = await measure(rounds, { ours: () => run(path) })
    const theirs = byPeer(TORCH, work, path, rounds)
    yield {
      work: said,
      state: 'warm, written by torch',
      ours: median,
      peers: { [TORCH]: theirs },
      reach: `${faster} × as fast as torch.load(mmap=True, weights_only=True)`,
      target: theirs / faster,
    }
  }
}
