import { setImmediate } from '#host'

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
/** The last turn that got calls; undefined if it is the current one. */
let turn: Promise<void> | undefined
/** Cost of the calls of that turn. */
let spent = 0

/** Starts over after a turn, unless a later one has got calls. */
function endWith(ended: Promise<void> | undefined): void {
  setImmediate(() => {
    if (turn !== ended) return
    turn = undefined
    spent = 0
  })
}

/**
 * Accounts for a short native call of about `bytes` bytes on this thread. If earlier calls have used up the turn, returns a promise of a
 * later turn to await first, which only as many callers get as it can serve: awaiting promises that are already settled never yields to
 * the event loop.
 */
export function shareTurn(bytes: number): Promise<void> | undefined {
  if (spent > BUDGET) {
    const next = turn === undefined ? nextTurn() : turn.then(nextTurn)
    turn = next
    spent = 0
    next.then(() => endWith(next))
  } else if (spent === 0) {
    endWith(turn)
  }
  spent += bytes + CALL
  return turn
}
