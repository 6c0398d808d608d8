// Measures contenders in interleaved rounds, so that a busy moment of the machine affects all of them.
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Collects the garbage of the previous contender, if Node was started with --expose-gc. Finalizers run in the next turn. */
async function collect() {
  globalThis.gc?.()
  await nextTurn()
}

export const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1]

/**
 * Runs all contenders in `rounds` interleaved rounds, after an uncounted round if `warm`, and returns their results. The order rotates from
 * round to round. `before` runs before each contender.
 */
export async function inTurns(rounds, contenders, { before, warm = true } = {}) {
  const names = Object.keys(contenders)
  const times = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = warm ? 0 : 1; round <= rounds; round++) {
    const first = round % names.length
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      await before?.()
      const one = await contenders[name]()
      if (round > 0) times[name].push(one)
    }
  }
  return times
}

/** The medians of contenders that return a number. */
export async function medians(rounds, contenders, options) {
  const times = await inTurns(rounds, contenders, options)
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
}

/**
 * Runs shorter than this, in ms, follow an uncounted run. A garbage collection discards compiled code of dead objects and fills the
 * processor's caches with the heap, which costs 0.25 ms where an open takes 0.1, for every contender. The Python packages are also
 * measured with consecutive runs.
 */
const SHORT = 200

/**
 * The medians of several contenders, in ms. Contenders of this process are functions, whose results must agree. `external` contenders
 * measure themselves: they run before and after all others, since a process between two runs would affect the next one, and their mean
 * counts. `share(goal)` is the median ratio of `ours` to the goal of the same round, so that a busy moment affects both.
 */
export async function measure(rounds, contenders, { before, warm = true, external = {} } = {}) {
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
  const ask = () => Object.entries(external).map(([name, ask]) => [name, ask()])
  const asked = ask()
  const times = await inTurns(rounds, mine, { before, warm })
  for (const [at, [name, ms]] of ask().entries()) {
    const mean = (asked[at][1] + ms) / 2
    // A contender without two results is not available.
    if (!Number.isNaN(mean)) times[name] = new Array(rounds).fill(mean)
  }
  const share = (goal, ours = 'ours') => median(times[ours].map((ms, round) => ms / goal((name) => times[name][round])))
  const medians = Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
  // Not enumerable, so that it is not among the times.
  return Object.defineProperty(medians, 'share', { value: share })
}
