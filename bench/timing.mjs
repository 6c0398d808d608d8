// Medians of contenders that take turns, so that a busy moment of the machine hits all of them.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Collects what the contender before left, where Node was started with --expose-gc; finalizers have a turn of their own. */
async function collect() {
  globalThis.gc?.()
  await nextTurn()
}

export const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

async function time(work) {
  await collect()
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
  for (let round = warm ? 0 : 1; round <= rounds; round++) {
    const results = new Set()
    for (const [name, work] of Object.entries(contenders)) {
      await before?.()
      const { ms, result } = await time(work)
      if (round > 0) times[name].push(ms)
      if (result !== undefined) results.add(result)
    }
    if (results.size > 1) throw new Error(`the contenders disagree: ${[...results].join(', ')}`)
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
}
