// What many errors have in common.
import type { ZTensorError } from '../native/errors.js'

/** Causes that a message lists. */
const CAUSES = 5

/** The cause of an error without the name of its tensor, so that the same cause of many tensors is listed once. */
const causeOf = ({ message, tensor }: ZTensorError): string =>
  tensor === undefined ? message : message.replace(/^tensor "(?:[^"\\]|\\.)*"(?:, component "[^"]*")?: /, '')

/** One clause for each cause, with the number of tensors and the name of the first. */
export function summary(errors: readonly ZTensorError[]): string[] {
  const causes = new Map<string, { count: number; tensor: string | undefined }>()
  for (const error of errors) {
    const cause = causeOf(error)
    const known = causes.get(cause)
    if (known === undefined) causes.set(cause, { count: 1, tensor: error.tensor })
    else known.count += 1
  }
  const clauses = Array.from(causes, ([cause, { count, tensor }]) => {
    if (tensor === undefined) return cause
    const name = JSON.stringify(tensor)
    return count === 1 ? `tensor ${name}: ${cause}` : `${count} tensors: ${cause} (first: ${name})`
  })
  if (clauses.length <= CAUSES) return clauses
  return [...clauses.slice(0, CAUSES), `and ${clauses.length - CAUSES} more causes`]
}
