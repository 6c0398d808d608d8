// Loads integers as another integer type, if all of them fit.

import { rethrowNative } from '../native/errors.js'
import { nextTurn } from '../native/event-loop.js'
import { binding } from '../native/native.js'
import { fileBytes, toHostOrder } from '../values/byte-order.js'
import type { DTypeInfo, TypedArray } from '../values/dtype.js'

/** Integer dtypes. */
export type IntegerDType = 'int8' | 'int16' | 'int32' | 'int64' | 'uint8' | 'uint16' | 'uint32' | 'uint64'

/** The types of `as`. */
export type LoadDType = 'float32' | IntegerDType

export const INTEGERS: readonly IntegerDType[] = [
  'int8',
  'int16',
  'int32',
  'int64',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
]

export const LOAD_DTYPES: readonly LoadDType[] = ['float32', ...INTEGERS]

export const isInteger = (dtype: string | undefined): dtype is IntegerDType => INTEGERS.includes(dtype as IntegerDType)

/** Elements that are converted in one turn of the event loop. */
const STEP = 2 ** 20

/** Fills `output`, an array of the type `to` or its bytes, with integers of the type `from`. */
export async function convertIntegers(
  input: TypedArray,
  from: DTypeInfo,
  output: ArrayBufferView,
  to: DTypeInfo,
  check: () => void,
): Promise<void> {
  const [width, wide] = [to.bits / 8, from.bits / 8]
  const size = input.byteLength / wide
  for (let at = 0; at < size; at += STEP) {
    if (at > 0) {
      await nextTurn()
      check()
    }
    const end = Math.min(size, at + STEP)
    const part = new Uint8Array(output.buffer, output.byteOffset + at * width, (end - at) * width)
    rethrowNative(() => binding.castElements(from.code, to.code, at, fileBytes(input, at * wide, end * wide), part))
  }
  toHostOrder(output)
}
