// Medians of contenders that take turns, so that a busy moment of the machine hits all of them.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Collects what the contender before left, where Node was started with --expose-gc; finalizers have a turn of their own. */
async function collect() {
  globalThis.gc?.()
  await nextTurn()
}

export const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

/**
 * Below so many ms a run follows one that does not count. The collection before it throws away the code that was compiled
 * for the objects that died and leaves the processor's caches with the heap: 0.25 ms where an opening takes 0.1,
 * whoever does the work. The Python packages are measured one run after the other, too.
 */
const SHORT = 200

async function time(work, short) {
  await collect()
  if (short) await work()
  const start = performance.now()
  const result = await work()
  return { ms: performance.now() - start, result }
}

/**
 * The medians, in ms, of several contenders after a round that does not count. Those of this process are functions,
 * whose results must agree; `before` comes before each of them, untimed.
 */
export async function measure(rounds, contenders, { before, warm = true } = {}) {
  const times = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]))
  const short = new Set()
  for (let round = warm ? 0 : 1; round <= rounds; round++) {
    const results = new Set()
    for (const [name, work] of Object.entries(contenders)) {
      await before?.()
      const { ms, result } = await time(work, short.has(name))
      if (round > 0) times[name].push(ms)
      else if (before === undefined && ms < SHORT) short.add(name)
      if (result !== undefined) results.add(result)
    }
    if (results.size > 1) throw new Error(`the contenders disagree: ${[...results].join(', ')}`)
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
}
