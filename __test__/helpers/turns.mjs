// Limits concurrent work.

/** Returns a function that runs at most `max` functions concurrently, in the order of the calls. */
export function turns(max) {
  const waiting = []
  let free = max
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
