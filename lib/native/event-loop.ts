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

/** Cost units of one turn: about 2 ms. One is the time to copy a byte. */
const BUDGET = 16 * 2 ** 20
/** Cost of a native call in addition to its bytes. */
const CALL = 32 * 2 ** 10
let spent = 0

function startOver(): void {
  spent = 0
}

/**
 * Accounts for a short native call of about `bytes` bytes on this thread. If earlier calls have used up the turn, returns a promise to
 * await first: awaiting many promises that are already settled never yields to the event loop.
 */
export function shareTurn(bytes: number): Promise<void> | undefined {
  const waiting = spent > BUDGET ? nextTurn() : undefined
  if (spent === 0) setImmediate(startOver)
  spent += bytes + CALL
  return waiting
}
