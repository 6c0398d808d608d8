// Parses dtype names: those of this package, and those of safetensors, PyTorch and zTensor.
import type { DType } from '../index.js'
import { DTYPE_NAMES, dtypeCalled } from '../lib/values/dtype-names.js'
import { list } from '../lib/values/formats.js'
import { UsageError } from './failure.js'

/** The short name of a dtype: f32, bf16, i64. Other types, such as q4_k, keep their names. */
export function shortDtype(type: string): string {
  if (type === 'bool' || !Object.hasOwn(DTYPE_NAMES, type)) return type
  return DTYPE_NAMES[type as DType][0] ?? type
}

/** Parses the dtype of an option. */
export function parseDType(flag: string, typed: string): DType {
  const known = dtypeCalled(typed)
  if (known !== undefined) return known
  throw new UsageError(
    `${flag}: ${typed === '' ? 'a dtype is missing' : `${typed} is not a dtype`}`,
    `Dtypes are ${list(Object.keys(DTYPE_NAMES))}; names such as F32, fp16, bf16 and f8_e4m3 are also accepted.`,
  )
}
