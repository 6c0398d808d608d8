// Small random models. Their numbers are the same on every machine: integers divided by powers of two.
import { create } from 'ztensor'

/** Numbers from -0.5 to 0.5 with 24 bits; each eighth is a quarter of that, and each 97th ten times as large. */
export function weights(count, seed = 1) {
  const values = new Float32Array(count)
  let state = seed >>> 0
  for (let at = 0; at < count; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const value = (state >>> 8) / 2 ** 24 - 0.5
    values[at] = at % 97 === 0 ? value * 10 : at % 8 === 0 ? value / 4 : value
  }
  return values
}

/** The tensors of a llama: names and shapes, outermost dimension first. */
export function llamaShapes({
  width = 256,
  inner = 512,
  layers = 8,
  words = 64,
  heads = 8,
  keyHeads = 2,
  tied = false,
} = {}) {
  const keys = (width / heads) * keyHeads
  const layer = (number) => [
    [`blk.${number}.attn_norm.weight`, [width]],
    [`blk.${number}.ffn_norm.weight`, [width]],
    [`blk.${number}.attn_q.weight`, [width, width]],
    [`blk.${number}.attn_k.weight`, [keys, width]],
    [`blk.${number}.attn_v.weight`, [keys, width]],
    [`blk.${number}.attn_output.weight`, [width, width]],
    [`blk.${number}.ffn_gate.weight`, [inner, width]],
    [`blk.${number}.ffn_up.weight`, [inner, width]],
    [`blk.${number}.ffn_down.weight`, [width, inner]],
  ]
  return [
    ['token_embd.weight', [words, width]],
    ['output_norm.weight', [width]],
    ...(tied ? [] : [['output.weight', [words, width]]]),
    ...Array.from({ length: layers }, (_, number) => layer(number)).flat(),
  ]
}

/** Writes a llama as GGUF, in float32. */
export async function writeLlama(path, options = {}) {
  const { width = 256, inner = 512, layers = 8, words = 64, heads = 8, keyHeads = 2 } = options
  const metadata = {
    'general.architecture': 'llama',
    'general.name': 'tiny',
    'llama.block_count': layers,
    'llama.context_length': 128,
    'llama.embedding_length': width,
    'llama.feed_forward_length': inner,
    'llama.attention.head_count': heads,
    'llama.attention.head_count_kv': keyHeads,
    'llama.rope.dimension_count': width / heads,
    'llama.rope.freq_base': 10000,
    'llama.attention.layer_norm_rms_epsilon': 2 ** -17,
    'llama.vocab_size': words,
    ...options.metadata,
  }
  const writer = await create(path, { metadata, overwrite: true })
  for (const [at, [name, shape]] of llamaShapes(options).entries())
    await writer.add(
      name,
      weights(
        shape.reduce((a, b) => a * b),
        at + 1,
      ),
      { shape },
    )
  await writer.finish()
}

/** Writes an importance matrix for such a model, as llama-imatrix does: without embeddings, and without the tensors that `leftOut` names. */
export async function writeImportance(path, options, leftOut = []) {
  const metadata = {
    'general.type': 'imatrix',
    'imatrix.datasets': ['text'],
    'imatrix.chunk_count': { type: 'uint32', value: 7 },
    'imatrix.chunk_size': { type: 'uint32', value: 512 },
  }
  const writer = await create(path, { metadata, overwrite: true })
  for (const [name, [, columns]] of llamaShapes(options)) {
    if (columns === undefined || name.startsWith('token') || leftOut.includes(name)) continue
    const sums = weights(columns, name.length).map((value) => value ** 4 * 1000)
    await writer.add(`${name}.in_sum2`, sums, { shape: [1, columns] })
    await writer.add(`${name}.counts`, Float32Array.of(512), { shape: [1, 1] })
  }
  await writer.finish()
}

/** Names of mixtures that need no importance matrix, and their numbers in llama.cpp. */
export const MIXTURES = {
  f16: 1,
  bf16: 32,
  q4_0: 2,
  q4_1: 3,
  q5_0: 8,
  q5_1: 9,
  q8_0: 7,
  q2_k: 10,
  q3_k_s: 11,
  q3_k_m: 12,
  q3_k_l: 13,
  q4_k_s: 14,
  q4_k_m: 15,
  q5_k_s: 16,
  q5_k_m: 17,
  q6_k: 18,
  iq3_s: 26,
  iq3_m: 27,
  iq4_nl: 25,
  iq4_xs: 30,
  tq1_0: 36,
  tq2_0: 37,
  mxfp4_moe: 38,
}

/** Mixtures that need an importance matrix, and their numbers. */
export const WEIGHED_MIXTURES = {
  q2_k_s: 21,
  iq1_s: 24,
  iq1_m: 31,
  iq2_xxs: 19,
  iq2_xs: 20,
  iq2_s: 28,
  iq2_m: 29,
  iq3_xxs: 23,
  iq3_xs: 22,
}

/** Models that the rules of mixtures treat differently. */
export const MODELS = {
  grouped: { layers: 8, inner: 256 },
  'rows of 160': { layers: 3, inner: 160, keyHeads: 8 },
  tied: { layers: 2, inner: 256, words: 320, tied: true },
  'one key head': { layers: 5, inner: 256, keyHeads: 1 },
}
