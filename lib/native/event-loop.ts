// Not the global one: the fake clock of a test never calls back, and some hosts have none.
import { setImmediate } from 'node:timers'

/** Resolves when the event loop has had its turn. Node's own promise of it would load a module more. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

let last: Promise<void> = Promise.resolve()

/** The same for work on this thread that many may ask for at the same time: each has a turn of its own. */
export function ownTurn(): Promise<void> {
  last = last.then(nextTurn)
  return last
}
