// The name of the type in which the elements of a tensor are stored, also of quantized tensors.
import type { DType } from './dtype.js'

/** `gguf.q4_k/1` is the layout of tensors of the block type q4_k. */
const BLOCKS = /^gguf\.([a-z0-9_]+)\/\d+$/

/** The dtype of a dense or sparse tensor, the block type of ggml (`q4_k`), or the name of any other layout. `unknown` for unknown dtypes. */
export function storageTypeOf(layout: string, dtype: DType | undefined): string {
  if (layout === 'dense' || layout === 'sparse_csr' || layout === 'sparse_coo') return dtype ?? 'unknown'
  return BLOCKS.exec(layout)?.[1] ?? layout
}

const QUANTIZED = /^(gguf\.[a-z0-9_]+\/\d+|(zt\.quant_group|zt\.mx|tflite\.quantized)\/1)$/

/** Whether tensors of a layout load as float32 although they are not dense. */
export function isQuantized(layout: string): boolean {
  return QUANTIZED.test(layout)
}
