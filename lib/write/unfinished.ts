// Writers that nobody has finished or given up, and nobody can any more: what they have written is lost, which a warning says.
const registry = new FinalizationRegistry<string | undefined>((path) => {
  const what = path === undefined ? 'A file that was written into a stream' : `'${path}'`
  process.emitWarning(
    `${what} was never finished: its writer was collected without finish() or abort(), and what was written is lost`,
    { type: 'ZTensorWarning', code: 'ZT_WARN_UNFINISHED' },
  )
})

/** Warns when the writer of `path` is collected. Gives what `forgetUnfinished` takes. */
export function watchUnfinished(writer: object, path: string | undefined): object {
  const token = {}
  registry.register(writer, path, token)
  return token
}

export function forgetUnfinished(token: object): void {
  registry.unregister(token)
}
