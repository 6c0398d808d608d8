import { invalid, rethrowNative } from '../native/errors.js'
import { allocate, filled } from '../native/memory.js'
import { binding } from '../native/native.js'
import { arrayKind } from '../native/realm.js'
import { optional, readOptions, validateInto, validateTypedArray, withArticle, wrongType } from '../values/arguments.js'
import { fileBytes, toFileOrder } from '../values/byte-order.js'
import { type DType, type DTypeArrays, type DTypeInfo, dtypeInfo, type TypedArray } from '../values/dtype.js'
import { validateDType } from '../values/dtype-argument.js'
import { array } from './store.js'

export const FLOAT32 = dtypeInfo('float32') as DTypeInfo

/** How to return widened elements. */
export interface WidenOptions {
  /** A Float32Array to fill, with one float for each element. */
  into?: Float32Array | undefined
}

/**
 * Widens elements to float32: exactly for 8- and 16-bit types and bool, rounded to nearest (ties to even) for wider integers and
 * float64. Use it for the values of a sparse tensor or a component; dense tensors and slices have a `toFloat32()` method.
 *
 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
 */
export function toFloat32<D extends DType>(values: DTypeArrays[D], dtype: D, options?: WidenOptions): Float32Array {
  const info = validateDType('dtype', dtype)
  const input = validateTypedArray('values', values)
  if (![info.array.name, 'Uint8Array', 'Uint8ClampedArray'].includes(arrayKind(input) as string))
    throw wrongType('values', `${withArticle(info.array.name)} or Uint8Array for ${info.name}`, values)
  if (info.bits >= 8 && (input.byteLength * 8) % info.bits !== 0)
    throw invalid(RangeError, `values must have whole elements of ${info.name}, got ${input.byteLength} bytes`)
  const { into } = readOptions(options, ['into'])
  const size = Math.floor((input.byteLength * 8) / info.bits)
  return widen(input, info, size, into)
}

/** Widens the elements of a slice or loaded tensor, whose dtype and shape are known. */
export function widenSlice(
  { dtype, shape, data }: { dtype: DType; shape: readonly number[]; data: TypedArray },
  options: WidenOptions | undefined,
): Float32Array {
  const { into } = readOptions(options, ['into'])
  const size = shape.reduce((product, dim) => product * dim, 1)
  return widen(data, dtypeInfo(dtype) as DTypeInfo, size, into)
}

/** Elements that one native call widens: every runtime supports arrays of their bytes. */
const STEP = 2 ** 27

/** Widens `size` elements. */
export function widen(input: TypedArray, dtype: DTypeInfo, size: number, into: Float32Array | undefined): Float32Array {
  const target = optional(into, (value) => validateInto(value, FLOAT32, size) as Float32Array)
  if (target === undefined && size <= STEP) {
    const bytes = fileBytes(input, 0, Math.ceil((size * dtype.bits) / 8))
    const buffer = filled(size * 4, (output) => binding.toFloat32(dtype.code, bytes, output))
    return array(FLOAT32, buffer, 0, size * 4) as Float32Array
  }
  const output = target ?? (array(FLOAT32, allocate(size * 4), 0, size * 4) as Float32Array)
  if (size > 0 && input.buffer === output.buffer)
    throw invalid(TypeError, 'into must not share its buffer with the values')
  for (let at = 0; at < size; at += STEP) {
    const count = Math.min(STEP, size - at)
    const from = fileBytes(input, (at * dtype.bits) / 8, Math.ceil(((at + count) * dtype.bits) / 8))
    const to = new Uint8Array(output.buffer, output.byteOffset + at * 4, count * 4)
    rethrowNative(() => binding.toFloat32(dtype.code, from, to))
  }
  toFileOrder(output, FLOAT32)
  return output
}
