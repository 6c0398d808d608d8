// The input files of the benchmarks, written once to build/bench. Those of a quick run are deleted.
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync as openFile,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { convert, create, openSync } from 'ztensor'
import { byPeer } from './peers.mjs'

/** Names and shapes of a 1.2-billion-parameter Llama: few large tensors. */
function* llama(layers, vocabulary) {
  const [hidden, ffn, kv] = [2048, 8192, 512]
  yield ['model.embed_tokens.weight', [vocabulary, hidden]]
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}.`
    yield [`${prefix}self_attn.q_proj.weight`, [hidden, hidden]]
    yield [`${prefix}self_attn.k_proj.weight`, [kv, hidden]]
    yield [`${prefix}self_attn.v_proj.weight`, [kv, hidden]]
    yield [`${prefix}self_attn.o_proj.weight`, [hidden, hidden]]
    yield [`${prefix}mlp.gate_proj.weight`, [ffn, hidden]]
    yield [`${prefix}mlp.up_proj.weight`, [ffn, hidden]]
    yield [`${prefix}mlp.down_proj.weight`, [hidden, ffn]]
    yield [`${prefix}input_layernorm.weight`, [hidden]]
    yield [`${prefix}post_attention_layernorm.weight`, [hidden]]
  }
  yield ['model.norm.weight', [hidden]]
}

function* repeat(count, name, shape) {
  for (let at = 0; at < count; at++) yield [name(at), shape]
}

const expert = (at) => `model.layers.${Math.floor(at / 9)}.experts.${at % 9}.weight`

/** bfloat16 weights as training leaves them: normally distributed, which compresses to three quarters. */
export function weights(count) {
  const bits = new Uint16Array(count)
  const [float, word] = [new Float32Array(1), new Uint32Array(1)]
  const view = new Uint32Array(float.buffer)
  let seed = 7
  const uniform = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return (seed + 1) / 2 ** 32
  }
  for (let at = 0; at < count; at++) {
    float[0] = 0.02 * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    word[0] = view[0] >>> 16
    bits[at] = word[0]
  }
  return bits
}

/** Writes a safetensors file in pieces of 8 MiB, which is also how it comes into the page cache. */
function write(path, { dtype, bytes, tensors }) {
  const header = {}
  let end = 0
  for (const [name, shape] of tensors) {
    const begin = end
    end += shape.reduce((product, dim) => product * dim, bytes)
    header[name] = { dtype, shape, data_offsets: [begin, end] }
  }
  const text = Buffer.from(JSON.stringify(header))
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, ' ')])
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(padded.length))
  const block = Buffer.from(weights(4 << 20).buffer)
  const fd = openFile(`${path}.part`, 'w')
  writeSync(fd, Buffer.concat([length, padded]))
  for (let at = 0; at < end; at += block.length) {
    // No two large tensors are the same: a format may store such once.
    block.writeUInt32LE(at / block.length)
    writeSync(fd, block, 0, Math.min(block.length, end - at))
  }
  closeSync(fd)
  renameSync(`${path}.part`, path)
}

/** Paths that `warm` has written. */
const ready = new Set()

/**
 * Brings a file into the page cache. How it was written changes the cost of mapping it by a factor of up to a hundred, so each file
 * is written again once per process, in pieces of `pieces` bytes.
 */
export function warm(path, pieces = 8 << 20) {
  if (!ready.has(path)) {
    ready.add(path)
    copyInPieces(path, `${path}.part`, pieces)
    renameSync(`${path}.part`, path)
  }
  const fd = openFile(path)
  const piece = Buffer.alloc(8 << 20)
  while (readSync(fd, piece) > 0);
  closeSync(fd)
}

function copyInPieces(from, to, bytes) {
  const [source, target] = [openFile(from), openFile(to, 'w')]
  const piece = Buffer.alloc(bytes)
  for (let count = readSync(source, piece); count > 0; count = readSync(source, piece))
    writeSync(target, piece, 0, count)
  // Unsynced data would be written during another measurement.
  fsyncSync(target)
  closeSync(source)
  closeSync(target)
}

/** A folder of inputs; `quick` ones are a twentieth of the size. */
export class Inputs {
  #folder
  #quick

  constructor(folder, quick) {
    this.#folder = join(folder, quick ? 'quick' : 'full')
    this.#quick = quick
    mkdirSync(this.#folder, { recursive: true })
  }

  #count(full) {
    return this.#quick ? Math.ceil(full / 20) : full
  }

  /** The path of an input. */
  path(name) {
    return join(this.#folder, name)
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #made(name, make) {
    const path = this.path(name)
    if (!existsSync(path)) make(path)
    return { path, bytes: statSync(path).size }
  }

  /** 2.47 GB in 146 tensors of bfloat16. */
  large() {
    const input = () => ({ dtype: 'BF16', bytes: 2, tensors: this.#quick ? llama(1, 8192) : llama(16, 128256) })
    return this.#made('large.safetensors', (path) => write(path, input()))
  }

  /** A copy of the large one, which may be dropped from the page cache. */
  cold() {
    return this.#made('cold.safetensors', (path) => copyInPieces(this.large().path, path, 8 << 20))
  }

  /** One tensor of 262,144 rows: 1.07 GB of bfloat16. */
  tall() {
    const tensors = [['embedding.weight', [this.#count(262_144), 2048]]]
    return this.#made('tall.safetensors', (path) => write(path, { dtype: 'BF16', bytes: 2, tensors }))
  }

  /** 51,200 tensors of 10 KB. */
  small() {
    const tensors = repeat(this.#count(51_200), (at) => `layer.${at}.weight`, [2560])
    return this.#made('small.safetensors', (path) => write(path, { dtype: 'F32', bytes: 4, tensors }))
  }

  /** The same, written by the Python package; undefined if that is not installed. */
  smallByPython() {
    const path = this.path('small-python.safetensors')
    const written =
      existsSync(path) || byPeer('safetensors 0.8', 'write', path, 0, [String(this.#count(51_200))]) !== undefined
    return written ? { path, bytes: statSync(path).size } : undefined
  }

  /** Tensors of 64 bytes: 100,000 by default. */
  many(count = 100_000) {
    const tensors = repeat(this.#count(count), expert, [16])
    return this.#made(`many-${count}.safetensors`, (path) => write(path, { dtype: 'F32', bytes: 4, tensors }))
  }

  /** 512 MiB of weights in 64 tensors, to hash, decode and widen. */
  weights() {
    const tensors = repeat(this.#count(64), (at) => `w.${at}`, [2048, 2048])
    return this.#made('weights.safetensors', (path) => write(path, { dtype: 'BF16', bytes: 2, tensors }))
  }

  /** The bytes of one of those tensors. */
  sample() {
    return this.#made('sample.bin', (path) => writeFileSync(path, Buffer.from(weights(4 << 20).buffer)))
  }

  /** Converts another input to zTensor with these options. */
  async converted(input, name, options) {
    const path = this.path(name)
    if (!existsSync(path)) await convert(input.path, path, options)
    return { path, bytes: statSync(path).size }
  }

  /** The large one in zTensor 1.0, with digests. */
  crc32c() {
    return this.converted(this.large(), 'large-crc32c.zt', { version: '1.0', digest: 'crc32c' })
  }

  async #sparse(name, add) {
    const path = this.path(name)
    if (!existsSync(path)) {
      const writer = await create(path, { version: '1.2' })
      await add(writer)
      await writer.finish()
    }
    return { path, bytes: statSync(path).size }
  }

  /** 16 million values in 40 rows; every other row is in descending order. */
  rows() {
    const [rows, length] = [40, this.#count(400_000)]
    const [values, indices] = [new Float32Array(rows * length), new Uint32Array(rows * length)]
    for (let at = 0; at < values.length; at++) {
      const row = Math.floor(at / length)
      const nth = at - row * length
      indices[at] = 3 * (row % 2 === 0 ? nth : length - 1 - nth)
      values[at] = nth
    }
    const indptr = Uint32Array.from({ length: rows + 1 }, (_, row) => row * length)
    return this.#sparse('rows.zt', (writer) =>
      writer.addCsr('m', { shape: [rows, 3 * length], values, indices, indptr }),
    )
  }

  /** 12 million unique cells, in no order. */
  cells() {
    const [a, side] = [this.#count(47), 509]
    const nnz = a * side * side
    const coords = new Uint32Array(3 * nnz)
    for (let at = 0; at < nnz; at++) {
      const cell = (at * 1_000_003) % nnz
      coords[at] = Math.floor(cell / (side * side))
      coords[nnz + at] = Math.floor(cell / side) % side
      coords[2 * nnz + at] = cell % side
    }
    const shape = [a, side, side]
    return this.#sparse('cells.zt', (writer) => writer.addCoo('c', { shape, values: new Float32Array(nnz), coords }))
  }

  /** All of the weights as one tensor of a zTensor version, in frames that decode independently. */
  async seekable(version) {
    const path = this.path(`seekable-${version}.zt`)
    if (!existsSync(path)) {
      const file = openSync(this.weights().path)
      const rows = 2048 * file.size
      const writer = await create(path, {
        version,
        ...(version === '2' ? { canonical: false } : {}),
        compression: { level: 3 },
      })
      const stream = writer.stream('w', { dtype: 'bfloat16', shape: [rows, 2048] })
      for (const { data } of file.values()) {
        const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
        await new Promise((resolve, reject) => stream.write(bytes, (error) => (error ? reject(error) : resolve())))
      }
      await new Promise((resolve, reject) => stream.end((error) => (error ? reject(error) : resolve())))
      await writer.finish()
      file.close()
    }
    return { path, bytes: statSync(path).size }
  }
}
