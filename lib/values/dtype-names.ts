// Dtype names of other tools: the command accepts them, and errors suggest the names of this package.
import type { DType } from './dtype.js'

/** Every dtype, with its names in other tools, in lowercase. */
export const DTYPE_NAMES: Readonly<Record<DType, readonly string[]>> = {
  float64: ['f64', 'fp64', 'double'],
  float32: ['f32', 'fp32', 'float'],
  float16: ['f16', 'fp16', 'half'],
  bfloat16: ['bf16'],
  int64: ['i64', 'long'],
  int32: ['i32', 'int'],
  int16: ['i16', 'short'],
  int8: ['i8'],
  uint64: ['u64'],
  uint32: ['u32'],
  uint16: ['u16'],
  uint8: ['u8', 'byte'],
  bool: ['boolean'],
  float8_e4m3fn: ['f8_e4m3', 'f8_e4m3fn', 'fp8_e4m3', 'fp8_e4m3fn', 'float8_e4m3'],
  float8_e5m2: ['f8_e5m2', 'fp8_e5m2'],
  float8_e4m3fnuz: ['f8_e4m3fnuz', 'fp8_e4m3fnuz'],
  float8_e5m2fnuz: ['f8_e5m2fnuz', 'fp8_e5m2fnuz'],
  float8_e8m0fnu: ['f8_e8m0', 'f8_e8m0fnu', 'float8_e8m0'],
  float6_e2m3fn: ['f6_e2m3', 'f6_e2m3fn'],
  float6_e3m2fn: ['f6_e3m2', 'f6_e3m2fn'],
  float4_e2m1fn: ['f4', 'fp4', 'f4_e2m1', 'f4_e2m1fn'],
  complex64: ['c64'],
  complex128: ['c128'],
}

/** The dtype for a name of any tool; undefined for an unknown name. */
export function dtypeCalled(name: string): DType | undefined {
  const wanted = name.trim().toLowerCase()
  const known = Object.entries(DTYPE_NAMES).find(([dtype, others]) => dtype === wanted || others.includes(wanted))
  return known?.[0] as DType | undefined
}
