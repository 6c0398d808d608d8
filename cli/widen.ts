// The values of a sparse tensor as numbers. The library widens what is dense, so narrow values are handed back to it as a
// dense tensor in memory: its kernels, no second set of rules for eight kinds of floats.
import { type DType, openSync, type TypedArray } from '../index.js'

/** What safetensors calls the narrow floats, and the bits of one. */
const stored: Partial<Record<DType, readonly [name: string, bits: number]>> = {
  float16: ['F16', 16],
  bfloat16: ['BF16', 16],
  float8_e4m3fn: ['F8_E4M3', 8],
  float8_e5m2: ['F8_E5M2', 8],
  float8_e4m3fnuz: ['F8_E4M3FNUZ', 8],
  float8_e5m2fnuz: ['F8_E5M2FNUZ', 8],
  float8_e8m0fnu: ['F8_E8M0', 8],
  float4_e2m1fn: ['F4', 4],
  float6_e2m3fn: ['F6_E2M3', 6],
  float6_e3m2fn: ['F6_E3M2', 6],
}

/** `values` widened to float32 where they are narrower, otherwise as they are. Throws ZT_BAD_DTYPE for 6-bit floats. */
export function widened(dtype: DType, values: TypedArray): TypedArray {
  const [name, bits] = stored[dtype] ?? []
  if (name === undefined || bits === undefined) return values
  const { buffer, byteOffset, byteLength } = values
  const shape = [(byteLength * 8) / bits]
  const header = Buffer.from(JSON.stringify({ values: { dtype: name, shape, data_offsets: [0, byteLength] } }))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const file = openSync(Buffer.concat([length, header, new Uint8Array(buffer, byteOffset, byteLength)]))
  try {
    return file.tensor('values').toFloat32()
  } finally {
    file.close()
  }
}
