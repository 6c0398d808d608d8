/** Resolves when the event loop has had its turn. Node's own promise of it would load a module more. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
