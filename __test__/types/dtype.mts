import type { AnyTensor, ArrayOf, DType, Tensor, TypedArray } from 'ztensor'
import { type Equal, holds } from './equal.js'

// The typed array of each dtype.
holds<Equal<ArrayOf<'float64'>, Float64Array>>()
holds<Equal<ArrayOf<'float32'>, Float32Array>>()
holds<Equal<ArrayOf<'float16'>, Uint16Array>>()
holds<Equal<ArrayOf<'bfloat16'>, Uint16Array>>()
holds<Equal<ArrayOf<'int64'>, BigInt64Array>>()
holds<Equal<ArrayOf<'int32'>, Int32Array>>()
holds<Equal<ArrayOf<'int16'>, Int16Array>>()
holds<Equal<ArrayOf<'int8'>, Int8Array>>()
holds<Equal<ArrayOf<'uint64'>, BigUint64Array>>()
holds<Equal<ArrayOf<'uint32'>, Uint32Array>>()
holds<Equal<ArrayOf<'uint16'>, Uint16Array>>()
holds<Equal<ArrayOf<'uint8'>, Uint8Array>>()
holds<Equal<ArrayOf<'bool'>, Uint8Array>>()
holds<Equal<ArrayOf<'complex64'>, Float32Array>>()
holds<Equal<ArrayOf<'complex128'>, Float64Array>>()
type Float8 = Extract<DType, `float8_${string}`>
holds<Equal<ArrayOf<Float8>, Uint8Array>>()
holds<Equal<Float8, 'float8_e4m3fn' | 'float8_e5m2' | 'float8_e4m3fnuz' | 'float8_e5m2fnuz' | 'float8_e8m0fnu'>>()
type Packed = Extract<DType, `float6_${string}` | `float4_${string}`>
holds<Equal<ArrayOf<Packed>, Uint8Array>>()

// Every dtype has an array.
holds<Equal<ArrayOf<DType>, TypedArray>>()

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
// Unknown layouts and types have none.
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
