// Imported instead of the global: fake timers of tests replace the global, and some hosts have none.
import { setImmediate } from 'node:timers'

/** Yields to the event loop. `node:timers/promises` would load another module. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

let last: Promise<void> = Promise.resolve()

/** Yields to the event loop. Concurrent callers get consecutive turns, one each. */
export function ownTurn(): Promise<void> {
  last = last.then(nextTurn)
  return last
}
