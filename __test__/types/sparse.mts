import type { CooTensor, CsrTensor, Tensor } from 'ztensor'
import { type Equal, holds } from './equal.js'

type IndexArray =
  | BigInt64Array
  | BigUint64Array
  | Int32Array
  | Uint32Array
  | Int16Array
  | Uint16Array
  | Int8Array
  | Uint8Array

declare const tensor: Tensor<'float64'>

const csr = tensor.csr()
holds<Equal<typeof csr, CsrTensor<'float64'>>>()
holds<Equal<typeof csr.values, Float64Array>>()
holds<Equal<typeof csr.indices, IndexArray>>()
holds<Equal<typeof csr.indptr, IndexArray>>()
holds<Equal<typeof csr.shape, readonly [number, number]>>()
holds<Equal<ReturnType<typeof csr.toDense>, Float64Array>>()
const fromCsr = csr.toCoo()
holds<Equal<typeof fromCsr, CooTensor<'float64'>>>()

const coo = await tensor.loadCoo({ signal: AbortSignal.timeout(1) })
holds<Equal<typeof coo, CooTensor<'float64'>>>()
holds<Equal<typeof coo.coords, IndexArray>>()
holds<Equal<typeof coo.nnz, number>>()
const fromCoo = coo.toCsr()
holds<Equal<typeof fromCoo, CsrTensor<'float64'>>>()
// @ts-expect-error: a COO tensor has coordinates, no row pointers
coo.indptr

const widened = [csr.toFloat32(), coo.toFloat32()] as const
holds<Equal<typeof widened, readonly [CsrTensor<'float32'>, CooTensor<'float32'>]>>()
