import { aTarget, aTypedArray, optional, options, wrongType } from './arguments.js'
import { bytesOf, type DType, type DTypeArrays, type DTypeInfo, dtypeInfo } from './dtype.js'
import { calling, invalid } from './errors.js'
import { allocate } from './memory.js'
import { binding } from './native.js'
import { array } from './store.js'

export const FLOAT32 = dtypeInfo('float32') as DTypeInfo

/** Where widened elements go. */
export interface WidenOptions {
  /** An array to fill, with one float for each element. */
  into?: Float32Array | undefined
}

/**
 * Elements widened to float32: exactly for the 8- and 16-bit types and bool, to the nearest (ties to even) for
 * wider integers and float64. For the data of a cut, of a sparse tensor or of a component; a dense tensor has
 * `toFloat32()` of its own.
 *
 * @throws ZTensorError ZT_BAD_DTYPE for complex and 6-bit types, ZT_LIMIT; TypeError and RangeError ZT_INVALID_ARG
 */
export function toFloat32<D extends DType>(values: DTypeArrays[D], dtype: D, given?: WidenOptions): Float32Array {
  const info = dtypeInfo(dtype)
  if (info === undefined) throw wrongType('dtype', 'the name of a dtype', dtype)
  const input = bytesOf(aTypedArray('values', values))
  const { into } = options(given, ['into'])
  const size = Math.floor((input.byteLength * 8) / info.bits)
  return widen(input, info, size, into)
}

/** Widens `size` elements. */
export function widen(input: Uint8Array, dtype: DTypeInfo, size: number, into: Float32Array | undefined): Float32Array {
  const target = optional(into, (value) => aTarget(value, FLOAT32, size) as Float32Array)
  const output = target ?? (array(FLOAT32, allocate(size * 4), 0, size * 4) as Float32Array)
  if (size > 0 && input.buffer === output.buffer)
    throw invalid(TypeError, 'into must not share its buffer with the values')
  calling(() => binding.toFloat32(dtype.code, input, bytesOf(output)))
  return output
}
