// Converts a file in all formats that a browser writes, and describes each outcome: the digest of the bytes and what the result says, or the
// error. The addon and @ztensor/web must say the same. Runs in browsers, too.

/** The targets, by name. A model in GGUF states its architecture. */
export const TARGETS = {
  safetensors: { format: 'safetensors' },
  'zTensor 1.2': { format: 'zt', version: '1.2' },
  'zTensor 2': { format: 'zt', version: '2', canonical: false },
  'compressed zTensor 1.2': { format: 'zt', version: '1.2', compression: { level: 1, minSavings: 0 } },
  npz: { format: 'npz' },
  BTF: { format: 'btf' },
  GGUF: { format: 'gguf', checkpoint: false },
  'GGUF f16': { format: 'gguf', checkpoint: false, dtype: 'float16' },
  'GGUF q8_0': { format: 'gguf', checkpoint: false, quantize: 'q8_0', requantize: true },
  'GGUF q4_k_m': { format: 'gguf', checkpoint: false, quantize: 'q4_k_m', requantize: true },
  'skipping safetensors': { format: 'safetensors', skip: true, dequantize: 'float32' },
}

async function digestOf(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

const errorOf = ({ code, message, tensor }) => ({ code, message: code === undefined ? message : undefined, tensor })

/** `convert` resolves to the bytes and the result. Adds to `counts`. */
export async function describeConversion(convert, options, counts) {
  try {
    const { bytes, result } = await convert(options)
    counts.files += 1
    counts.bytes += bytes.byteLength
    const { tensors, skipped, skippedTensors, quantized, warnings, readers } = result
    const stated = { tensors, skipped: skipped.map(errorOf), skippedTensors, quantized, warnings, readers }
    return JSON.stringify({ digest: await digestOf(bytes), length: bytes.byteLength, ...stated })
  } catch (error) {
    counts.errors += 1
    return JSON.stringify(errorOf(error))
  }
}
