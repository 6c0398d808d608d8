import { tooLarge } from '../native/errors.js'
import { arrayKind } from '../native/realm.js'

/** The typed array class of each dtype. */
export interface DTypeArrays {
  float64: Float64Array
  float32: Float32Array
  /** The raw bits; `toFloat32()` and `float16()` give numbers. */
  float16: Uint16Array
  /** The raw bits; `toFloat32()` gives numbers. */
  bfloat16: Uint16Array
  int64: BigInt64Array
  int32: Int32Array
  int16: Int16Array
  int8: Int8Array
  uint64: BigUint64Array
  uint32: Uint32Array
  uint16: Uint16Array
  uint8: Uint8Array
  /** One byte an element, 0 or 1. */
  bool: Uint8Array
  float8_e4m3fn: Uint8Array
  float8_e5m2: Uint8Array
  float8_e4m3fnuz: Uint8Array
  float8_e5m2fnuz: Uint8Array
  float8_e8m0fnu: Uint8Array
  /** Packed, four elements in three bytes. */
  float6_e2m3fn: Uint8Array
  /** Packed, four elements in three bytes. */
  float6_e3m2fn: Uint8Array
  /** Packed, two elements a byte, the first in the low half. */
  float4_e2m1fn: Uint8Array
  /** Interleaved real and imaginary parts. */
  complex64: Float32Array
  /** Interleaved real and imaginary parts. */
  complex128: Float64Array
}

/** The typed array of a dtype; `never` for an undefined dtype. */
export type ArrayOf<D extends DType | undefined> = D extends DType ? DTypeArrays[D] : never

/** The typed array of each dtype over an ArrayBuffer, not a SharedArrayBuffer (TypeScript 5.7 and later distinguish them). */
export interface OwnArrays {
  float64: ReturnType<Float64ArrayConstructor['of']>
  float32: ReturnType<Float32ArrayConstructor['of']>
  float16: ReturnType<Uint16ArrayConstructor['of']>
  bfloat16: ReturnType<Uint16ArrayConstructor['of']>
  int64: ReturnType<BigInt64ArrayConstructor['of']>
  int32: ReturnType<Int32ArrayConstructor['of']>
  int16: ReturnType<Int16ArrayConstructor['of']>
  int8: ReturnType<Int8ArrayConstructor['of']>
  uint64: ReturnType<BigUint64ArrayConstructor['of']>
  uint32: ReturnType<Uint32ArrayConstructor['of']>
  uint16: ReturnType<Uint16ArrayConstructor['of']>
  uint8: ReturnType<Uint8ArrayConstructor['of']>
  bool: ReturnType<Uint8ArrayConstructor['of']>
  float8_e4m3fn: ReturnType<Uint8ArrayConstructor['of']>
  float8_e5m2: ReturnType<Uint8ArrayConstructor['of']>
  float8_e4m3fnuz: ReturnType<Uint8ArrayConstructor['of']>
  float8_e5m2fnuz: ReturnType<Uint8ArrayConstructor['of']>
  float8_e8m0fnu: ReturnType<Uint8ArrayConstructor['of']>
  float6_e2m3fn: ReturnType<Uint8ArrayConstructor['of']>
  float6_e3m2fn: ReturnType<Uint8ArrayConstructor['of']>
  float4_e2m1fn: ReturnType<Uint8ArrayConstructor['of']>
  complex64: ReturnType<Float32ArrayConstructor['of']>
  complex128: ReturnType<Float64ArrayConstructor['of']>
}

/** The typed array of a dtype over an ArrayBuffer; `never` for an undefined dtype. */
export type OwnArrayOf<D extends DType | undefined> = D extends DType ? OwnArrays[D] : never

/** The type of a tensor's elements, named as NumPy and ml_dtypes name them. */
export type DType = keyof DTypeArrays

/** A typed array of any dtype. */
export type TypedArray = DTypeArrays[DType]

/** An array of indices, in the integer type in which it is stored. */
export type IndexArray =
  | BigInt64Array
  | BigUint64Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array

interface ArrayClass {
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): TypedArray
  readonly BYTES_PER_ELEMENT: number
}

/** The properties of a dtype. */
export interface DTypeInfo {
  readonly name: DType
  readonly code: number
  /** Bits of one element; below 8 the elements are packed. */
  readonly bits: number
  readonly array: ArrayClass
}

// In the order of the codes that cross the binding.
const table: readonly [DType, number, ArrayClass][] = [
  ['float64', 64, Float64Array],
  ['float32', 32, Float32Array],
  ['float16', 16, Uint16Array],
  ['bfloat16', 16, Uint16Array],
  ['int64', 64, BigInt64Array],
  ['int32', 32, Int32Array],
  ['int16', 16, Int16Array],
  ['int8', 8, Int8Array],
  ['uint64', 64, BigUint64Array],
  ['uint32', 32, Uint32Array],
  ['uint16', 16, Uint16Array],
  ['uint8', 8, Uint8Array],
  ['bool', 8, Uint8Array],
  ['float8_e4m3fn', 8, Uint8Array],
  ['float8_e5m2', 8, Uint8Array],
  ['float8_e4m3fnuz', 8, Uint8Array],
  ['float8_e5m2fnuz', 8, Uint8Array],
  ['float8_e8m0fnu', 8, Uint8Array],
  ['float6_e2m3fn', 6, Uint8Array],
  ['float6_e3m2fn', 6, Uint8Array],
  ['float4_e2m1fn', 4, Uint8Array],
  ['complex64', 64, Float32Array],
  ['complex128', 128, Float64Array],
]

export const dtypes: readonly DTypeInfo[] = table.map(([name, bits, array], code) => ({ name, code, bits, array }))

const byName = new Map(dtypes.map((info) => [info.name as string, info]))

export function dtypeInfo(name: string): DTypeInfo | undefined {
  return byName.get(name)
}

/** The dtype of views on data of unknown type. */
export const uint8 = dtypes[11] as DTypeInfo

/**
 * Returns the bytes of an array, or those of a range, over the same memory.
 *
 * @throws ZTensorError ZT_LIMIT if the runtime does not support a Uint8Array of this length
 */
export function bytesOf(array: ArrayBufferView, start = 0, end = array.byteLength): Uint8Array {
  // A detached buffer allows no view, not even an empty one.
  if (start >= end) return new Uint8Array(0)
  try {
    return new Uint8Array(array.buffer, array.byteOffset + start, end - start)
  } catch (cause) {
    throw tooLarge(`${end - start} bytes`, cause)
  }
}

const ofArrays = new Map<string | undefined, DType>([
  ['Float64Array', 'float64'],
  ['Float32Array', 'float32'],
  ['Float16Array', 'float16'],
  ['BigInt64Array', 'int64'],
  ['Int32Array', 'int32'],
  ['Int16Array', 'int16'],
  ['Int8Array', 'int8'],
  ['BigUint64Array', 'uint64'],
  ['Uint32Array', 'uint32'],
  ['Uint16Array', 'uint16'],
  ['Uint8Array', 'uint8'],
])

/** The dtype that corresponds to a typed array's class. A Buffer is a Uint8Array. */
export function dtypeOfArray(array: ArrayBufferView): DType | undefined {
  return ofArrays.get(arrayKind(array))
}
