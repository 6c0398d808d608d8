/** The message of an error, with its code. */
export function messageOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  const message = error instanceof Error ? error.message : String(error)
  return typeof code === 'string' ? `${message} (${code})` : message
}
