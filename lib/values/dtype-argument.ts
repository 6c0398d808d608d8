// Validates names of dtypes.
import { wrongType } from './arguments.js'
import { type DTypeInfo, dtypeInfo } from './dtype.js'
import { DTYPE_NAMES, dtypeCalled } from './dtype-names.js'

export function validateDType(name: string, value: unknown): DTypeInfo {
  const info = typeof value === 'string' ? dtypeInfo(value) : undefined
  if (info === undefined) throw noDType(name, value)
  return info
}

/** The error for an unknown dtype name. */
export function noDType(name: string, value: unknown): Error {
  const meant = typeof value === 'string' ? dtypeCalled(value) : undefined
  const known = meant === undefined ? `one of ${Object.keys(DTYPE_NAMES).join(', ')}` : `'${meant}'`
  return wrongType(name, `the name of a dtype (${known})`, value)
}
