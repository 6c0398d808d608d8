// What the machine is given before a measurement, so that a row does not depend on what ran before it, and how steady it is.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { freemem } from 'node:os'
import { median } from './timing.mjs'

const GIB = 2 ** 30
const TOUCHING = `
const all = []
for (let left = Number(process.argv[1]); left > 0; left -= 2 ** 26) all.push(Buffer.alloc(2 ** 26, 1))
`

/**
 * Has a process touch so much memory and end. Of a virtual machine the host may have taken back what was free, and gives it at a
 * tenth of the speed at which memory that is there is cleared.
 */
export function warmMemory(bytes) {
  execFileSync(process.execPath, ['-e', TOUCHING, String(Math.min(bytes, freemem() - GIB))])
}

const hashed = Buffer.alloc(GIB / 16)
const SAME = {
  'a hash': () => createHash('sha256').update(hashed).digest(),
  'fresh memory': () => Buffer.alloc(GIB / 4, 1),
}

/** How steady the machine is: work that is always the same, measured again and again. */
export class Unrest {
  #times = Object.fromEntries(Object.keys(SAME).map((name) => [name, []]))

  listen() {
    for (const [name, work] of Object.entries(SAME)) {
      const began = performance.now()
      work()
      this.#times[name].push(performance.now() - began)
    }
  }

  /** How far each was below and above its median, in a sentence. */
  toString() {
    const share = (all, of) => Math.round(100 * (of / median(all) - 1))
    const each = Object.entries(this.#times).map(
      ([name, all]) => `${name} ${share(all, Math.min(...all))} % to +${share(all, Math.max(...all))} %`,
    )
    return `Work that is always the same took, beside its median: ${each.join(', ')}.`
  }
}
