// Models for pictures and for tests in a browser: small ones with the names, shapes and habits of real ones.
import { writeFileSync } from 'node:fs'
import { create } from 'ztensor'
import { gguf } from '../helpers/gguf-writer.mjs'

/** The same normally distributed numbers each time. */
function normal(seed) {
  let state = seed >>> 0
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state + 1) / 2 ** 32
  }
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}

function bfloat16(values) {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length)
  return Uint16Array.from(words, (word) => (word + 0x7fff + ((word >>> 16) & 1)) >>> 16)
}

/** Names, shapes and spreads of a Llama, its width a sixteenth of the real one. */
function* llama(layers) {
  const [hidden, ffn, kv, vocabulary] = [256, 688, 64, 4096]
  yield ['model.embed_tokens.weight', [vocabulary, hidden], 0.018]
  for (let layer = 0; layer < layers; layer++) {
    const prefix = `model.layers.${layer}.`
    const depth = 1 + layer / layers
    yield [`${prefix}self_attn.q_proj.weight`, [hidden, hidden], 0.024 * depth]
    yield [`${prefix}self_attn.k_proj.weight`, [kv, hidden], 0.031 * depth]
    yield [`${prefix}self_attn.v_proj.weight`, [kv, hidden], 0.011 * depth ** 2]
    yield [`${prefix}self_attn.o_proj.weight`, [hidden, hidden], 0.015 * depth]
    yield [`${prefix}mlp.gate_proj.weight`, [ffn, hidden], 0.021]
    yield [`${prefix}mlp.up_proj.weight`, [ffn, hidden], 0.02]
    yield [`${prefix}mlp.down_proj.weight`, [hidden, ffn], 0.019 / depth]
    yield [`${prefix}input_layernorm.weight`, [hidden], 0.06, 0.3 + 0.3 * (layer / layers)]
    yield [`${prefix}post_attention_layernorm.weight`, [hidden], 0.04, 0.2 + 0.2 * (layer / layers)]
  }
  yield ['model.norm.weight', [hidden], 0.1, 1.8]
}

const METADATA = {
  format: 'pt',
  license: 'apache-2.0',
  architecture: 'LlamaForCausalLM',
  'training.tokens': '1.8e12',
  'training.optimizer': 'AdamW, betas 0.9 and 0.95, weight decay 0.1',
  chat_template:
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}{% endfor %}",
}

/**
 * Writes a Llama. `tuned` changes its values like further training, most in the last layers; `faults` adds values that a report
 * should find.
 */
export async function writeLlama(path, { layers = 16, tuned = false, faults = false } = {}) {
  const metadata = tuned ? { ...METADATA, 'training.tokens': '1.9e12', 'training.base': 'base.safetensors' } : METADATA
  const writer = await create(path, { metadata })
  let seed = 7
  for (const [name, shape, spread, mean = 0] of llama(layers)) {
    const next = normal(seed++)
    const drift = normal(seed + 100_003)
    const layer = Number(/layers\.(\d+)/.exec(name)?.[1] ?? 0)
    const moved = tuned && name.includes('proj') ? spread * 0.02 * (layer / layers) ** 3 : 0
    const values = Float32Array.from({ length: shape.reduce((one, other) => one * other) }, () => {
      const value = mean + spread * next()
      return moved === 0 ? value : value + moved * drift()
    })
    if (name.endsWith('down_proj.weight') && layer === 1) values[4711] = 1.9
    if (faults && name.endsWith('k_proj.weight') && layer === 3) values.set([Number.NaN, Number.POSITIVE_INFINITY], 17)
    if (faults && name.endsWith('v_proj.weight') && layer === 5) values.fill(0)
    const half = name.includes('norm')
      ? { dtype: 'float32', data: values }
      : { dtype: 'bfloat16', data: bfloat16(values) }
    await writer.add(name, { shape, ...half })
  }
  if (tuned) await writer.add('lm_head.bias', { dtype: 'float32', shape: [4096], data: new Float32Array(4096) })
  await writer.finish()
}

/** Writes a safetensors file of many small tensors. */
export async function writeMany(path, count) {
  const writer = await create(path)
  const next = normal(3)
  const values = Float32Array.from({ length: 16 }, next)
  for (let at = 0; at < count; at++) {
    values[at % 16] = next()
    await writer.add(`model.layers.${Math.floor(at / 900)}.experts.${Math.floor(at / 9) % 100}.w${at % 9}.weight`, {
      ...{ dtype: 'float32', shape: [4, 4], data: values },
    })
  }
  await writer.finish()
}

/** The GGUF types of a model: their numbers, the elements of a block and its bytes. */
const BLOCKS = { float32: [0, 1, 4], q8_0: [8, 32, 34], q4_k: [12, 256, 144], q6_k: [14, 256, 210] }

/** The tensors of a quantized Llama: name, shape, storage type. */
export function* quantized(layers = 4) {
  yield ['token_embd.weight', [512, 256], 'q8_0']
  for (let layer = 0; layer < layers; layer++) {
    yield [`blk.${layer}.attn_q.weight`, [256, 256], 'q4_k']
    yield [`blk.${layer}.attn_v.weight`, [64, 256], 'q6_k']
    yield [`blk.${layer}.ffn_up.weight`, [768, 256], 'q4_k']
    yield [`blk.${layer}.attn_norm.weight`, [256], 'float32']
  }
  yield ['output.weight', [512, 256], 'q6_k']
}

/** The bytes of a tensor of `quantized`. */
export function bytesOf([, shape, type]) {
  const [, elements, bytes] = BLOCKS[type]
  return (shape.reduce((one, other) => one * other) / elements) * bytes
}

/** Writes a GGUF file of them. */
export function writeQuantized(path) {
  const tensors = Array.from(quantized(), (tensor) => {
    const [name, shape, type] = tensor
    // As float16 a block scale of 0.05, as float32 6e-13.
    return { name, shape, type: BLOCKS[type][0], data: Buffer.alloc(bytesOf(tensor), 0x2b) }
  })
  writeFileSync(path, gguf({ tensors, metadata: [['general.architecture', 'string', 'llama']] }))
}

/** Writes a model of one dtype, whose modules differ in their layers. */
export async function writeOneDtype(path) {
  const writer = await create(path)
  const add = (name, shape) => {
    const data = new Uint16Array(shape.reduce((one, other) => one * other)).fill(0x3c01)
    return writer.add(name, { dtype: 'float16', shape, data })
  }
  await add('vision.embeddings.weight', [256, 588])
  for (let layer = 0; layer < 6; layer++) {
    for (const part of ['q_proj', 'k_proj']) await add(`vision.layers.${layer}.attn.${part}.weight`, [128, 128])
    await add(`vision.layers.${layer}.mlp.weight`, [512, 128])
  }
  await add('text.embeddings.weight', [1024, 128])
  for (let layer = 0; layer < 3; layer++) await add(`text.layers.${layer}.attn.q_proj.weight`, [128, 128])
  await add('scale', [1])
  await writer.finish()
}

/** Writes layers whose standard deviations are from 0.01998 to 0.02003. */
export async function writeNarrow(path) {
  const writer = await create(path)
  for (let layer = 0; layer < 6; layer++) {
    const spread = 0.01998 + 0.00001 * layer
    const data = Float32Array.from({ length: 64 }, (_, at) => (at % 2 === 0 ? spread : -spread))
    for (const name of ['q', 'k'])
      await writer.add(`layers.${layer}.${name}`, { dtype: 'float32', shape: [8, 8], data })
  }
  await writer.finish()
}
