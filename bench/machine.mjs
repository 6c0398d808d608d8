// Prepares the machine before a measurement, so that a row does not depend on the one before it, and measures how steady it is.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'
import { freemem } from 'node:os'
import { median } from './timing.mjs'

const GIB = 2 ** 30
const TOUCHING = `
const all = []
for (let left = Number(process.argv[1]); left > 0; left -= 2 ** 26) all.push(Buffer.alloc(2 ** 26, 1))
`

/**
 * Starts a process that touches `bytes` of memory and ends. The host of a virtual machine may have reclaimed free memory, and returns
 * it at a tenth of the speed at which existing memory is cleared.
 */
export function warmMemory(bytes) {
  execFileSync(process.execPath, ['-e', TOUCHING, String(Math.min(bytes, freemem() - GIB))])
}

/**
 * Writes a file of `bytes` in large pieces and removes it. The next writer then finds memory in large blocks, which the host
 * of a virtual machine reclaims first: otherwise a copy in small pieces is up to four times as fast as one in large pieces.
 */
export function warmCache(path, bytes) {
  const piece = Buffer.alloc(8 << 20, 1)
  const fd = openSync(path, 'w')
  for (let at = 0; at < bytes; at += piece.length) writeSync(fd, piece)
  closeSync(fd)
  rmSync(path)
}

const hashed = Buffer.alloc(GIB / 16)
const SAME = {
  'a hash': () => createHash('sha256').update(hashed).digest(),
  'fresh memory': () => Buffer.alloc(GIB / 4, 1),
}

/** Measures a constant workload repeatedly, to show how steady the machine is. */
export class Unrest {
  #times = Object.fromEntries(Object.keys(SAME).map((name) => [name, []]))

  listen() {
    for (const [name, work] of Object.entries(SAME)) {
      const began = performance.now()
      work()
      this.#times[name].push(performance.now() - began)
    }
  }

  /** A sentence with the deviation of each from its median. */
  toString() {
    const share = (all, of) => Math.round(100 * (of / median(all) - 1))
    const each = Object.entries(this.#times).map(
      ([name, all]) => `${name} ${share(all, Math.min(...all))} % to +${share(all, Math.max(...all))} %`,
    )
    return `A constant workload deviated from its median by: ${each.join(', ')}.`
  }
}
