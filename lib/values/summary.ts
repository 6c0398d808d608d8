// What many errors have in common.
import type { ZTensorError } from '../native/errors.js'

/** Causes that a message lists. */
const CAUSES = 5

/** The start of the message for attributes of a tensor that are left out, up to the name of the tensor. */
const ATTRIBUTES = 'attributes of '

/** What the message of an error begins with if it is about a tensor or its attributes. */
const OF_TENSOR = /^(attributes of )?tensor "(?:[^"\\]|\\.)*"(?:, component "[^"]*")?(?: are left out)?: /

/** The message that names the attributes of a tensor instead of the tensor itself. */
export const leftOutAttributes = ({ message, tensor }: ZTensorError): string =>
  `${ATTRIBUTES}tensor ${JSON.stringify(tensor)} are left out: ${message.replace(OF_TENSOR, '')}`

/** Whether a clause of a summary says by itself that something is left out. */
export const saysLeftOut = (clause: string): boolean => clause.startsWith(ATTRIBUTES)

/** One clause for each cause, with the number of tensors and the name of the first. */
export function summary(errors: readonly ZTensorError[]): string[] {
  const causes = new Map<string, { cause: string; count: number; of: string; tensor: string | undefined }>()
  for (const { message, tensor } of errors) {
    const [start = '', of = ''] = (tensor === undefined ? null : OF_TENSOR.exec(message)) ?? []
    const cause = message.slice(start.length)
    // The same cause of many tensors is listed once.
    const known = causes.get(of + cause)
    if (known === undefined) causes.set(of + cause, { cause, count: 1, of, tensor })
    else known.count += 1
  }
  const clauses = Array.from(causes.values(), ({ cause, count, of, tensor }) => {
    if (tensor === undefined) return cause
    const [name, verb] = [JSON.stringify(tensor), of === '' ? '' : ' are left out']
    return count === 1
      ? `${of}tensor ${name}${verb}: ${cause}`
      : `${of}${count} tensors${verb}: ${cause} (first: ${name})`
  })
  if (clauses.length <= CAUSES) return clauses
  return [...clauses.slice(0, CAUSES), `and ${clauses.length - CAUSES} more causes`]
}
