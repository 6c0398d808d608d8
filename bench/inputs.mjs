// The files that the benchmarks read: three shapes of model, written once into build/bench and kept.
import { closeSync, existsSync, mkdirSync, openSync, renameSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Names and shapes of a 1.2-billion-parameter Llama: few large tensors. */
function* llama(layers) {
  const [hidden, ffn, kv, vocabulary] = [2048, 8192, 512, 128256]
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

/** The inputs by name; `quick` ones are a twentieth of the size. */
function inputs(quick) {
  const count = (full) => (quick ? full / 20 : full)
  const expert = (at) => `model.layers.${Math.floor(at / 9)}.experts.${at % 9}.weight`
  return {
    large: { dtype: 'BF16', bytes: 2, tensors: llama(quick ? 0 : 16) },
    small: { dtype: 'F32', bytes: 4, tensors: repeat(count(51_200), (at) => `layer.${at}.weight`, [2560]) },
    many: { dtype: 'F32', bytes: 4, tensors: repeat(count(100_000), expert, [16]) },
  }
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
  const block = Buffer.from(Uint8Array.from({ length: 8 << 20 }, (_, at) => (at * 31) & 0x3f))
  const fd = openSync(`${path}.part`, 'w')
  writeSync(fd, Buffer.concat([length, padded]))
  for (let at = 0; at < end; at += block.length) writeSync(fd, block, 0, Math.min(block.length, end - at))
  closeSync(fd)
  renameSync(`${path}.part`, path)
}

/** The paths of the inputs, written where they are missing. */
export function makeInputs(folder, quick) {
  mkdirSync(folder, { recursive: true })
  const paths = {}
  for (const [name, input] of Object.entries(inputs(quick))) {
    const path = join(folder, `${name}${quick ? '-quick' : ''}.safetensors`)
    if (!existsSync(path)) write(path, input)
    paths[name] = { path, bytes: statSync(path).size }
  }
  return paths
}
