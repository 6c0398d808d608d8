// Contenders that take turns, so that a busy moment of the machine hits all of them.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Collects what the contender before left, where Node was started with --expose-gc; finalizers have a turn of their own. */
async function collect() {
  globalThis.gc?.()
  await nextTurn()
}

export const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

/**
 * What contenders say of themselves in so many rounds, after one that does not count unless they are not to be `warm`. Each round
 * begins with another one, so that nobody always comes behind the same; `before` comes before each.
 */
export async function inTurns(rounds, contenders, { before, warm = true } = {}) {
  const names = Object.keys(contenders)
  const said = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = warm ? 0 : 1; round <= rounds; round++) {
    const first = round % names.length
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      await before?.()
      const one = await contenders[name]()
      if (round > 0) said[name].push(one)
    }
  }
  return said
}

/** The medians of contenders that say a number. */
export async function medians(rounds, contenders, options) {
  const said = await inTurns(rounds, contenders, options)
  return Object.fromEntries(Object.entries(said).map(([name, all]) => [name, median(all)]))
}

/**
 * Below so many ms a run follows one that does not count. The collection before it throws away the code that was compiled
 * for the objects that died and leaves the processor's caches with the heap: 0.25 ms where an opening takes 0.1,
 * whoever does the work. The Python packages are measured one run after the other, too.
 */
const SHORT = 200

/**
 * The medians, in ms, of several contenders. Those of this process are functions, whose results must agree. Programs that measure
 * themselves are `told`: they are asked before and after all others, since a process that comes between two runs is felt by the next, and
 * the mean counts. `share(goal)` is the median of what `ours` took by the goal of the same round: a busy moment of the machine hits both.
 */
export async function measure(rounds, contenders, { before, warm = true, told = {} } = {}) {
  const results = new Set()
  const timed = (work) => {
    let short = false
    return async () => {
      await collect()
      if (short) await work()
      const start = performance.now()
      const result = await work()
      const ms = performance.now() - start
      short ||= before === undefined && ms < SHORT
      if (result !== undefined) results.add(result)
      if (results.size > 1) throw new Error(`the contenders disagree: ${[...results].join(', ')}`)
      return ms
    }
  }
  const mine = Object.fromEntries(Object.entries(contenders).map(([name, work]) => [name, timed(work)]))
  const ask = () => Object.entries(told).map(([name, ask]) => [name, ask()])
  const asked = ask()
  const said = await inTurns(rounds, mine, { before, warm })
  for (const [at, [name, ms]] of ask().entries()) {
    const mean = (asked[at][1] + ms) / 2
    // What did not answer twice is not there.
    if (!Number.isNaN(mean)) said[name] = new Array(rounds).fill(mean)
  }
  const share = (goal, ours = 'ours') => median(said[ours].map((ms, round) => ms / goal((name) => said[name][round])))
  const medians = Object.fromEntries(Object.entries(said).map(([name, all]) => [name, median(all)]))
  // Not among the times, where those are taken apart.
  return Object.defineProperty(medians, 'share', { value: share })
}
