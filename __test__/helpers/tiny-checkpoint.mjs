// Checkpoints of the Hugging Face hub: a tiny llama with its configuration and its tokenizer.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { saveFile } from 'ztensor'
import { scratchPath } from './scratch.mjs'
import { weights } from './tiny-models.mjs'

const WIDTH = 64
export const HEADS = 4
export const WORDS = ['<unk>', '<s>', '</s>', 'a', 'b', 'ab']

export const CONFIG = {
  architectures: ['LlamaForCausalLM'],
  model_type: 'llama',
  vocab_size: WORDS.length,
  hidden_size: WIDTH,
  intermediate_size: 96,
  num_hidden_layers: 1,
  num_attention_heads: HEADS,
  num_key_value_heads: 2,
  rms_norm_eps: 2 ** -17,
  rope_theta: 10000,
  max_position_embeddings: 128,
  hidden_act: 'silu',
  tie_word_embeddings: false,
  bos_token_id: 1,
  eos_token_id: 2,
}
export const TOKENIZER = {
  version: '1.0',
  added_tokens: [0, 1, 2].map((id) => ({ id, content: WORDS[id], special: true, normalized: false })),
  normalizer: null,
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      {
        type: 'Split',
        pattern: {
          Regex:
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        },
        behavior: 'Isolated',
        invert: false,
      },
      { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
    ],
  },
  model: {
    type: 'BPE',
    ignore_merges: true,
    vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])),
    merges: ['a b'],
  },
}

export const SHAPES = {
  'model.embed_tokens.weight': [WORDS.length, WIDTH],
  'model.norm.weight': [WIDTH],
  'lm_head.weight': [WORDS.length, WIDTH],
  'model.layers.0.input_layernorm.weight': [WIDTH],
  'model.layers.0.post_attention_layernorm.weight': [WIDTH],
  'model.layers.0.self_attn.q_proj.weight': [WIDTH, WIDTH],
  'model.layers.0.self_attn.k_proj.weight': [WIDTH / 2, WIDTH],
  'model.layers.0.self_attn.v_proj.weight': [WIDTH / 2, WIDTH],
  'model.layers.0.self_attn.o_proj.weight': [WIDTH, WIDTH],
  'model.layers.0.mlp.gate_proj.weight': [96, WIDTH],
  'model.layers.0.mlp.up_proj.weight': [96, WIDTH],
  'model.layers.0.mlp.down_proj.weight': [WIDTH, 96],
}

/** Writes a checkpoint into a new folder, and returns the folder and the path of the weights. `change` changes the tensors. */
export async function checkpoint({
  config = CONFIG,
  dtype = 'bfloat16',
  tokenizer = TOKENIZER,
  change = (all) => all,
} = {}) {
  const folder = scratchPath('my-tiny-llama')
  mkdirSync(folder)
  const tensors = Object.fromEntries(
    Object.entries(SHAPES).map(([name, shape], at) => {
      const count = shape.reduce((a, b) => a * b)
      const data = weights(count, at + 1)
      return [name, { dtype, shape, data: dtype === 'float64' ? Float64Array.from(data) : data }]
    }),
  )
  await saveFile(join(folder, 'model.safetensors'), change(tensors), { metadata: { format: 'pt' } })
  writeFileSync(join(folder, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config))
  if (tokenizer) writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer))
  writeFileSync(
    join(folder, 'tokenizer_config.json'),
    JSON.stringify({ bos_token: '<s>', eos_token: '</s>', chat_template: '{{ x }}' }),
  )
  return { folder, weights: join(folder, 'model.safetensors') }
}
