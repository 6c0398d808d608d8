// The rows of edits of metadata: in place, in a sparse file of 100 GB, and on a copy, compared with cp.
import { execFileSync } from 'node:child_process'
import { renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { editMetadata } from 'ztensor'
import { gguf } from '../__test__/helpers/gguf-writer.mjs'
import { warm } from './inputs.mjs'
import { warmCache } from './machine.mjs'
import { measure } from './timing.mjs'

const TOTAL = 100e9
const STATE = 'sparse, synced to disk'
const REACH = { reach: '50 ms', target: 50 }

/** Yields each row when it is measured. */
export async function* metadata({ inputs, rounds: most }) {
  const rounds = Math.min(most, 5)
  const [sparse, target] = [inputs.path('sparse.gguf'), inputs.path('metadata.safetensors')]
  try {
    const tensor = { name: 'w', shape: [TOTAL], type: 24, data: Buffer.alloc(0) }
    const header = gguf({ metadata: [['general.name', 'string', 'a']], tensors: [tensor] })
    writeFileSync(sparse, header)
    truncateSync(sparse, header.length + TOTAL)
    const methods = new Set()
    let length = 0
    const edit = async (more) => {
      length += more
      const set = { 'tokenizer.chat_template': 'x'.repeat(length) }
      methods.add((await editMetadata(sparse, { set, inPlace: true })).method)
    }
    // Longer than the padding allows.
    const { ours: inserted } = await measure(rounds, { ours: () => edit(10_000) })
    yield {
      work: `a longer header in 100 GB of GGUF (${[...methods].join()})`,
      state: STATE,
      ours: inserted,
      peers: {},
      ...REACH,
    }
    methods.clear()
    const { ours: fits } = await measure(rounds, { ours: () => edit(-1) })
    yield {
      work: `a header that fits in 100 GB of GGUF (${[...methods].join()})`,
      state: STATE,
      ours: fits,
      peers: {},
      ...REACH,
    }

    const large = inputs.large()
    warm(large.path)
    const clear = () => {
      rmSync(target, { force: true })
      rmSync(`${target}.copy`, { force: true })
      warmCache(target, large.bytes)
      execFileSync('cp', [large.path, target])
      execFileSync('sync', [target])
    }
    let last
    const run = {
      ours: async () => {
        last = (await editMetadata(target, { set: { note: 'x'.repeat(10_000) } })).method
      },
      copied: () => {
        execFileSync('cp', [target, `${target}.copy`])
        execFileSync('sync', [`${target}.copy`])
      },
      replaced: () => {
        run.copied()
        renameSync(`${target}.copy`, target)
      },
    }
    const { ours: mine, copied, replaced, share } = await measure(rounds, run, { before: clear, warm: false })
    const goal = { reach: '1.0 × cp + sync', target: copied, share: share((of) => of('copied')) }
    const work = `a longer header of 2.47 GB of safetensors (${last})`
    // An edit also frees the blocks of the file that it replaces.
    const peers = { 'cp + sync': copied, 'cp + sync + mv': replaced }
    yield { work, state: 'warm, synced to disk', ours: mine, peers, ...goal }
  } finally {
    for (const path of [sparse, target, `${target}.copy`]) rmSync(path, { force: true })
  }
}
