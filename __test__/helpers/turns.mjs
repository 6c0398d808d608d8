// Work that waits for its turn.

/** Gives a function that runs what it is given, but no more than `most` at once, in the order in which it was asked. */
export function turns(most) {
  const waiting = []
  let free = most
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise((go) => waiting.push(go))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
