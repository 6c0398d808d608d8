import { ZTensorError } from '../native/errors.js'

/** The error for an array that changes while it is written. */
export function detached(): ZTensorError {
  return new ZTensorError(
    'ZT_CLOSED',
    'the array to write was detached or resized before it was written: do not change it until the call resolves',
  )
}
