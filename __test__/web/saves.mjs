// Writes the same tensors in all formats that `create` writes to a stream, and describes each outcome: the digest of the bytes, or the error.
// The addon and @ztensor/web/convert must say the same. Runs in browsers, too.

/** Canonical zTensor 2 needs a file in Node, and is refused in browsers. */
const FORMATS = {
  safetensors: { format: 'safetensors' },
  'zTensor 1.0': { format: 'zt' },
  'zTensor 1.2': { format: 'zt', version: '1.2', digest: 'sha256' },
  'zTensor 2': { format: 'zt', version: '2', canonical: false },
  'compressed zTensor 2': { format: 'zt', version: '2', canonical: false, compression: { level: 1, minSavings: 0 } },
  GGUF: { format: 'gguf', metadata: { 'general.architecture': 'llama' } },
  npy: { format: 'npy' },
  npz: { format: 'npz', compression: true },
  BTF: { format: 'btf' },
}

const floats = (count) => Float32Array.from({ length: count }, (_, at) => Math.fround(Math.sin(at)))

/** The numbers of each element type, as arrays of it. */
const ARRAYS = [
  new Int8Array([-1, 2]),
  new Uint8Array([1, 255]),
  new Int16Array([-1, 2]),
  new Uint16Array([1, 65535]),
  new Int32Array([-1, 2]),
  new Uint32Array([1, 2 ** 32 - 1]),
  new BigInt64Array([-1n, 2n]),
  new BigUint64Array([1n, 2n ** 64n - 1n]),
  new Float32Array([Number.NaN, -0]),
  new Float64Array([Number.POSITIVE_INFINITY, 1e-300]),
]

const csr = {
  shape: [3, 4],
  values: new Float32Array([1, 2, 3]),
  indices: new Uint32Array([3, 0, 2]),
  indptr: new Uint32Array([0, 1, 1, 3]),
}
const coo = { shape: [3, 4], values: new Float32Array([1, 2]), coords: new Uint32Array([2, 0, 1, 3]) }

/** What is written, by name. */
const CONTENTS = {
  nothing: async () => {},
  'one tensor': (writer) => writer.add('0', floats(6), { shape: [2, 3] }),
  'a scalar and an empty tensor': async (writer) => {
    await writer.add('0', floats(1), { shape: [] })
    await writer.add('1', floats(0), { shape: [0, 5] })
  },
  ...Object.fromEntries(ARRAYS.map((array) => [array.constructor.name, (writer) => writer.add('0', array)])),
  ...Object.fromEntries(
    ['bfloat16', 'float16', 'float8_e4m3fn'].map((dtype) => [
      dtype,
      (writer) => writer.add('0', { dtype, shape: [2, 500], data: floats(1000) }),
    ]),
  ),
  bool: (writer) => writer.add('0', { dtype: 'bool', data: new Uint8Array([1, 0, 1]) }),
  'a bool of 2': (writer) => writer.add('0', { dtype: 'bool', data: new Uint8Array([2]) }),
  'several pieces, calls that are not awaited': async (writer) => {
    writer.add('0', floats(2_500_000), { shape: [2500, 1000] })
    writer.add('1', { dtype: 'bfloat16', data: floats(1_500_000) })
    writer.add('2', new Uint8Array(3))
  },
  'attributes of each kind': (writer) => {
    const attributes = { a: 1, b: -(2n ** 70n), c: [true, null, 1.5], d: { e: new Uint8Array([1, 2]) }, f: -0 }
    return writer.add('0', floats(2), { attributes })
  },
  CSR: (writer) => writer.addCsr('0', csr),
  'a large CSR': (writer) => {
    const rows = 400_000
    const indices = Uint32Array.from({ length: rows }, (_, at) => (at * 7) % 100)
    const indptr = Uint32Array.from({ length: rows + 1 }, (_, at) => at)
    return writer.addCsr('0', { shape: [rows, 100], values: floats(rows), indices, indptr })
  },
  'a CSR with a column that is too large': (writer) =>
    writer.addCsr('0', { ...csr, indices: new Uint32Array([4, 0, 2]) }),
  'COO out of order': (writer) => writer.addCoo('0', coo),
  'components of a layout': (writer) => {
    const components = { b: { data: new Uint8Array([1]) }, a: { dtype: 'float32', data: floats(2) } }
    return writer.addObject('0', { layout: 'acme.pair/1', shape: [2], dtype: 'float32', components })
  },
  'quantized to q8_0': (writer) => writer.add('0', floats(4096), { shape: [16, 256], type: 'q8_0' }),
  'quantized to q4_k': (writer) => writer.add('0', floats(4096), { shape: [16, 256], type: 'q4_k' }),
  'rows that are not whole blocks': (writer) => writer.add('0', floats(33), { type: 'q8_0' }),
  'an unknown block type': (writer) => writer.add('0', floats(32), { type: 'q9_9' }),
  'a name twice': async (writer) => {
    await writer.add('0', floats(1))
    await writer.add('0', floats(1))
  },
  'a shape that does not fit': (writer) => writer.add('0', floats(5), { shape: [2, 3] }),
  'an error that is handled': async (writer) => {
    await writer.add('0', floats(5), { shape: [2, 3] }).catch(() => {})
    await writer.add('0', floats(6), { shape: [2, 3] })
  },
}

/** All cases: a title, the options, and what is written. */
export const SAVES = Object.entries(FORMATS).flatMap(([format, options]) =>
  Object.entries(CONTENTS).map(([what, fill]) => ({ title: `${what} to ${format}`, options, fill })),
)

async function digestOf(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** `begin` creates a writer with options; `bytes` resolves to what it wrote. */
export async function describeSave({ options, fill }, begin) {
  let writer
  try {
    const begun = await begin(options)
    writer = begun.writer
    await fill(writer)
    await writer.finish()
    const bytes = await begun.bytes()
    return JSON.stringify({ length: bytes.byteLength, digest: await digestOf(bytes) })
  } catch (error) {
    await writer?.abort()
    const { code, message, tensor, option } = error
    return JSON.stringify(
      code === undefined || code === 'ZT_INTERNAL' ? `${error.stack}` : { code, message, tensor, option },
    )
  }
}
