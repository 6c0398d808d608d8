// The rows of PyTorch's checkpoints. torch also writes them.
import { existsSync, statSync } from 'node:fs'
import { warm } from './inputs.mjs'
import { machineLimits } from './limits.mjs'
import * as ours from './ours.mjs'
import { byPeer } from './peers.mjs'
import { measure } from './timing.mjs'

const TORCH = 'torch 2.4'

/** Yields each row. No rows without torch, which writes the file (`npm run interop -- --heavy` installs it). */
export async function* pytorch({ inputs, rounds, quick }) {
  const path = inputs.path('many.pt')
  const tensors = quick ? 30 : 300
  if (!existsSync(path) && byPeer(TORCH, 'write', path, 1, [String(tensors)]) === undefined) return
  warm(path)
  const { touch } = quick ? {} : machineLimits(path, inputs.sample().path)
  const limit = touch === undefined ? undefined : (statSync(path).size / touch) * 1e3
  for (const [work, run, title, faster, bound] of [
    [
      'list',
      ours.list,
      `a .pt of ${tensors} tensors, ${quick ? 0.26 : 2.6} GB: open, name, dtype and shape of each`,
      5,
    ],
    ['touch', ours.touch, '… alias all and touch each page', 3, limit],
  ]) {
    const { ours: median } = await measure(rounds, { ours: () => run(path) })
    const theirs = byPeer(TORCH, work, path, rounds)
    yield {
      work: title,
      state: 'warm, written by torch',
      ours: median,
      peers: { [TORCH]: theirs },
      limit: bound,
      limitIs: 'a native loop over the mapping',
      reach: `${faster} × as fast as torch.load(mmap=True, weights_only=True)`,
      target: theirs / faster,
    }
  }
}
