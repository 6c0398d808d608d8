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

const times = { 'a hash': [], 'fresh memory': [] }
const hashed = Buffer.alloc(GIB / 16)

/** Measures work that is always the same. */
export function listen() {
  const timed = (name, work) => {
    const began = performance.now()
    work()
    times[name].push(performance.now() - began)
  }
  timed('a hash', () => createHash('sha256').update(hashed).digest())
  timed('fresh memory', () => Buffer.alloc(GIB / 4, 1))
}

/** How far that work was above and below its median, in words. */
export function noise() {
  const share = (all, of) => `${Math.round(100 * (of / median(all) - 1))} %`
  return Object.entries(times)
    .map(([name, all]) => `${name} ${share(all, Math.min(...all))} to +${share(all, Math.max(...all))}`)
    .join(', ')
}
