import type { AnyTensor, DType, DTypeArrays, Tensor, TypedArray } from 'ztensor'
import { type Equal, holds } from './equal.js'

// The typed array of each dtype.
holds<Equal<DTypeArrays['float64'], Float64Array>>()
holds<Equal<DTypeArrays['float32'], Float32Array>>()
holds<Equal<DTypeArrays['float16'], Uint16Array>>()
holds<Equal<DTypeArrays['bfloat16'], Uint16Array>>()
holds<Equal<DTypeArrays['int64'], BigInt64Array>>()
holds<Equal<DTypeArrays['int32'], Int32Array>>()
holds<Equal<DTypeArrays['int16'], Int16Array>>()
holds<Equal<DTypeArrays['int8'], Int8Array>>()
holds<Equal<DTypeArrays['uint64'], BigUint64Array>>()
holds<Equal<DTypeArrays['uint32'], Uint32Array>>()
holds<Equal<DTypeArrays['uint16'], Uint16Array>>()
holds<Equal<DTypeArrays['uint8'], Uint8Array>>()
holds<Equal<DTypeArrays['bool'], Uint8Array>>()
holds<Equal<DTypeArrays['complex64'], Float32Array>>()
holds<Equal<DTypeArrays['complex128'], Float64Array>>()
type Float8 = Extract<DType, `float8_${string}`>
holds<Equal<DTypeArrays[Float8], Uint8Array>>()
holds<Equal<Float8, 'float8_e4m3fn' | 'float8_e5m2' | 'float8_e4m3fnuz' | 'float8_e5m2fnuz' | 'float8_e8m0fnu'>>()
type Packed = Extract<DType, `float6_${string}` | `float4_${string}`>
holds<Equal<DTypeArrays[Packed], Uint8Array>>()

// Every dtype has an array, and nothing else has one.
holds<Equal<keyof DTypeArrays, DType>>()
holds<Equal<DTypeArrays[DType], TypedArray>>()

// Looking at the dtype narrows the data.
declare const tensor: AnyTensor
if (tensor.dtype === 'float32') {
  holds<Equal<typeof tensor, Tensor<'float32'>>>()
  holds<Equal<typeof tensor.data, Float32Array>>()
}
if (tensor.dtype === 'int64') holds<Equal<typeof tensor.data, BigInt64Array>>()
switch (tensor.dtype) {
  case 'bool':
  case 'uint8':
    holds<Equal<typeof tensor.data, Uint8Array>>()
    break
  case 'float16':
    holds<Equal<typeof tensor.data, Uint16Array>>()
    break
}
// A layout or a type that is not known here has none.
if (tensor.dtype === undefined) holds<Equal<typeof tensor, Tensor<undefined>>>()
// @ts-expect-error: it may be undefined
tensor.dtype.length
// @ts-expect-error: without a look at the dtype the data is one of many arrays
tensor.data satisfies Float32Array
// @ts-expect-error: no such dtype
tensor.dtype === 'float128'
// @ts-expect-error: no such dtype
export type Unknown = Tensor<'float128'>

// A tensor of one dtype is an AnyTensor; the reverse needs a look.
declare const weights: Tensor<'bfloat16'>
weights satisfies AnyTensor
// @ts-expect-error: an AnyTensor may be of any dtype
tensor satisfies Tensor<'bfloat16'>
// @ts-expect-error: dtypes do not mix
weights satisfies Tensor<'float16'>
