// Checkpoints of the Hugging Face hub to GGUF, from their folder to the file. The plans of all architectures are compared with those of
// llama.cpp's converter in crates/gguf/tests/all/checkpoint.rs, and their files in `npm run interop`.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, diff, openSync } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { CONFIG, checkpoint, HEADS, SHAPES, TOKENIZER, WORDS } from '../helpers/tiny-checkpoint.mjs'
import { weights } from '../helpers/tiny-models.mjs'
import { serveFiles } from '../remote/web.mjs'

/** The rows of a matrix of heads, with the two halves of each head interleaved, as llama.cpp rotates them. */
function interleaved(rows, heads) {
  const size = rows.length / heads
  return rows.map((_, at) => {
    const [head, within] = [Math.floor(at / size), at % size]
    return rows[head * size + (within % 2) * (size / 2) + Math.floor(within / 2)]
  })
}
const rowsOf = (tensor) => {
  const floats = tensor.toFloat32()
  const width = tensor.shape.at(-1)
  return Array.from({ length: floats.length / width }, (_, at) => floats.slice(at * width, (at + 1) * width))
}

test('names, row order, dtypes, metadata and tokenizer equal those of llama.cpp', async (t) => {
  const { folder, weights: path } = await checkpoint()
  const target = scratchPath('x.gguf')
  const { tensors, skipped } = await convert(folder, target)
  t.is(tensors, 12)
  t.deepEqual(skipped, [])
  const [source, file] = [openSync(path), openSync(target)]
  const get = (name) => file.tensor(name)
  t.deepEqual(rowsOf(get('token_embd.weight')), rowsOf(source.tensor('model.embed_tokens.weight')))
  t.deepEqual(rowsOf(get('blk.0.ffn_down.weight')), rowsOf(source.tensor('model.layers.0.mlp.down_proj.weight')))
  for (const [name, own, heads] of [
    ['blk.0.attn_q.weight', 'model.layers.0.self_attn.q_proj.weight', HEADS],
    ['blk.0.attn_k.weight', 'model.layers.0.self_attn.k_proj.weight', 2],
  ])
    t.deepEqual(rowsOf(get(name)), interleaved(rowsOf(source.tensor(own)), heads), name)
  t.is(get('blk.0.attn_q.weight').dtype, 'bfloat16')
  t.is(get('blk.0.attn_norm.weight').dtype, 'float32')
  const { metadata: attributes } = file
  t.like(attributes, {
    'general.architecture': 'llama',
    'general.file_type': 32,
    'llama.block_count': 1,
    'llama.context_length': 128,
    'llama.attention.head_count_kv': 2,
    'llama.rope.freq_base': 10000,
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.chat_template': '{{ x }}',
  })
  t.regex(attributes['general.name'], /My Tiny Llama$/i)
  t.deepEqual([...attributes['tokenizer.ggml.tokens']], WORDS)
  t.deepEqual([...attributes['tokenizer.ggml.merges']], ['a b'])
  source.close()
  file.close()
  // The same from the file, and with explicit metadata.
  const again = scratchPath('y.gguf')
  await convert(path, again, { metadata: { 'general.name': 'other', 'general.url': 'https://example.org' } })
  t.like(openSync(again).metadata, { 'general.name': 'other', 'general.url': 'https://example.org' })
})

test('quantizing a checkpoint during conversion equals quantizing its GGUF afterwards', async (t) => {
  const { folder } = await checkpoint({ dtype: 'float32' })
  const [whole, twice, once] = ['w.gguf', 't.gguf', 'o.gguf'].map((name) => scratchPath(name))
  await convert(folder, whole)
  await convert(whole, twice, { quantize: 'q8_0' })
  const { quantized } = await convert(folder, once, { quantize: 'q8_0' })
  t.deepEqual(quantized.types, { q8_0: 9 })
  const [a, b] = [openSync(twice), openSync(once)]
  t.deepEqual([...a.keys()], [...b.keys()])
  t.true((await diff(twice, once)).same)
  t.deepEqual({ ...a.metadata }, { ...b.metadata })
})

/** The size of blocks that share a factor; not all blocks of the tensors are whole. */
const BLOCK = [24, 40]
const blocksOf = (shape) => shape.map((size, at) => Math.ceil(size / BLOCK[at]))

/** Projections in float8, with factors for blocks. */
function scaled(tensors) {
  const changed = Object.entries(tensors).flatMap(([name, tensor]) => {
    if (!name.endsWith('_proj.weight')) return [[name, tensor]]
    const shape = blocksOf(tensor.shape)
    const factors = weights(shape[0] * shape[1], name.length)
    return [
      [name, { ...tensor, dtype: 'float8_e4m3fn' }],
      [`${name}_scale_inv`, { dtype: 'float32', shape, data: factors }],
    ]
  })
  return Object.fromEntries(changed)
}

/** The elements of a tensor of `scaled`, multiplied, as rows. */
function products(file, name) {
  const tensor = file.tensor(name)
  const factors = file.tensor(`${name}_scale_inv`).toFloat32()
  const [, across] = blocksOf(tensor.shape)
  const factor = (row, column) => factors[Math.floor(row / BLOCK[0]) * across + Math.floor(column / BLOCK[1])]
  return rowsOf(tensor).map((row, at) => row.map((value, column) => Math.fround(value * factor(at, column))))
}

/** The nearest bfloat16, ties to even. */
function toBFloat16(value) {
  const bits = new Uint32Array(Float32Array.of(value).buffer)
  bits[0] = bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)
  bits[0] &= 0xffff0000
  return new Float32Array(bits.buffer)[0]
}

test('multiplies float8 weights by the factors of their blocks', async (t) => {
  const config = { ...CONFIG, quantization_config: { quant_method: 'fp8', weight_block_size: BLOCK } }
  const { folder, weights: path } = await checkpoint({ config, change: scaled })
  const [half, full, twice, once] = ['h.gguf', 'f.gguf', 't.gguf', 'o.gguf'].map((name) => scratchPath(name))
  t.is((await convert(folder, half)).tensors, 12)
  await convert(folder, full, { dtype: 'float32' })
  const [source, a, b] = [path, half, full].map((file) => openSync(file))
  const names = {
    'blk.0.attn_v.weight': 'self_attn.v_proj',
    'blk.0.attn_output.weight': 'self_attn.o_proj',
    'blk.0.ffn_down.weight': 'mlp.down_proj',
    'blk.0.attn_q.weight': 'self_attn.q_proj',
  }
  for (const [name, own] of Object.entries(names)) {
    const rows = products(source, `model.layers.0.${own}.weight`)
    const wanted = own === 'self_attn.q_proj' ? interleaved(rows, HEADS) : rows
    t.is(b.tensor(name).dtype, 'float32')
    t.deepEqual(rowsOf(b.tensor(name)), wanted, name)
    t.is(a.tensor(name).dtype, 'bfloat16')
    const rounded = wanted.map((row) => row.map(toBFloat16))
    t.deepEqual(rowsOf(a.tensor(name)), rounded, name)
  }
  t.is(a.metadata['general.file_type'], 32)
  for (const file of [source, a, b]) file.close()
  // Quantized from the products, which are not rounded before.
  await convert(full, twice, { quantize: { '*_v.weight': 'q8_0', '*attn_q.*': 'q4_0' } })
  await convert(folder, once, { quantize: { '*_v.weight': 'q8_0', '*attn_q.*': 'q4_0', '*': 'f32' } })
  const [c, d] = [openSync(twice), openSync(once)]
  for (const name of ['blk.0.attn_v.weight', 'blk.0.attn_q.weight']) {
    t.regex(d.tensor(name).storageType, /^q/)
    t.deepEqual(rowsOf(d.tensor(name)), rowsOf(c.tensor(name)), name)
  }
  t.is(d.tensor('blk.0.attn_k.weight').dtype, 'float32')
})

test('rejects factors that do not fit their weights', async (t) => {
  const config = { ...CONFIG, quantization_config: { quant_method: 'fp8', weight_block_size: [8, 8] } }
  const { folder } = await checkpoint({ config, change: scaled })
  const error = await rejectionOf(() => convert(folder, scratchPath('x.gguf')))
  t.is(error.code, 'ZT_BAD_SHAPE', error.message)
  t.regex(error.tensor, /_scale_inv$/)
})

test('accepts an explicit pre-tokenizer if it is not recognized', async (t) => {
  const tokenizer = { ...TOKENIZER, pre_tokenizer: { type: 'Whitespace' } }
  const { folder } = await checkpoint({ tokenizer })
  const target = scratchPath('x.gguf')
  const error = await rejectionOf(() => convert(folder, target))
  t.is(error.code, 'ZT_UNSUPPORTED_ENCODING', error.message)
  t.regex(error.message, /'tokenizer\.ggml\.pre' in 'metadata'/)
  await convert(folder, target, { metadata: { 'tokenizer.ggml.pre': 'bloom' } })
  t.is(openSync(target).metadata['tokenizer.ggml.pre'], 'bloom')
})

test('a remote checkpoint makes the same file', async (t) => {
  const { folder, weights: path } = await checkpoint()
  const names = ['model.safetensors', 'config.json', 'tokenizer.json', 'tokenizer_config.json']
  const files = Object.fromEntries(names.map((name) => [`hub/${name}`, readFileSync(join(folder, name))]))
  const web = await serveFiles(t, files)
  const [near, remote] = [scratchPath('n.gguf'), scratchPath('r.gguf')]
  const metadata = { 'general.name': 'same' }
  await convert(path, near, { metadata })
  const { tensors } = await convert(web.url('/hub/model.safetensors?x=1'), remote, { metadata })
  t.is(tensors, 12)
  t.deepEqual(readFileSync(remote), readFileSync(near))
  // Without an explicit name, it is that of the folder.
  await convert(web.url('/hub/model.safetensors'), remote, { overwrite: true })
  t.is(openSync(remote).metadata['general.name'], 'Hub')
})

test('attributes replace all metadata of a checkpoint, also the name of the model, except for the type', async (t) => {
  const { folder } = await checkpoint()
  const target = scratchPath('a.gguf')
  await convert(folder, target, {
    copyMetadata: false,
    metadata: { 'general.architecture': 'other', 'general.url': 'u' },
  })
  t.deepEqual(Object.keys(openSync(target).metadata).sort(), [
    'general.architecture',
    'general.file_type',
    'general.url',
  ])
})

test('with checkpoint: false, copies tensors under their names or those of rename', async (t) => {
  const names = Object.keys(SHAPES).sort()
  const keys = (path) => [...openSync(path).keys()].sort()
  const { folder } = await checkpoint()
  const [off, renamed, other] = ['a.gguf', 'b.gguf', 'c.gguf'].map((name) => scratchPath(name))
  await convert(folder, off, { checkpoint: false })
  t.deepEqual(keys(off), names)
  await convert(folder, renamed, { checkpoint: false, rename: (name) => `x.${name}` })
  t.deepEqual(
    keys(renamed),
    names.map((name) => `x.${name}`),
  )
  const { folder: foreign } = await checkpoint({ config: { port: 8080 } })
  await convert(foreign, other, { checkpoint: false })
  t.deepEqual(keys(other), names)
  // The option does not apply to other targets.
  const safetensors = scratchPath('d.safetensors')
  await convert(folder, safetensors)
  t.deepEqual(keys(safetensors), names)
})

test('rejects unsupported checkpoints by name', async (t) => {
  const refused = async (made, options, code, message) => {
    const { folder } = await made
    const error = await rejectionOf(() => convert(folder, scratchPath('x.gguf'), options))
    t.is(error.code, code, error.message)
    t.regex(error.message, message)
  }
  const mamba = { ...CONFIG, architectures: ['MambaForCausalLM'] }
  await refused(
    checkpoint({ config: mamba }),
    {},
    'ZT_UNSUPPORTED_ENCODING',
    /MambaForCausalLM.*LlamaForCausalLM.*option rename, and the parameters with option metadata$/,
  )
  await refused(checkpoint({ tokenizer: null }), {}, 'ZT_NOT_FOUND', /tokenizer/)
  await refused(checkpoint({ config: '{"architectures": [' }), {}, 'ZT_BAD_INDEX', /config\.json/)
  const huge = { ...CONFIG, num_hidden_layers: 2 ** 52 }
  await refused(checkpoint({ config: huge }), {}, 'ZT_BAD_INDEX', /num_hidden_layers/)
  await refused(checkpoint(), { filter: '*.weight' }, 'ZT_INVALID_ARG', /checkpoint: false/)
  const { weights: path } = await checkpoint()
  const error = await rejectionOf(() => convert(path, scratchPath('x.zt'), { checkpoint: true }))
  t.regex(error.message, /checkpoint is only supported for GGUF/)
})

test('a part of a checkpoint is no GGUF model: a shard, a folder or an index without some of its files', async (t) => {
  const { folder, weights: path } = await checkpoint()
  const file = (name) => join(folder, name)
  await convert(path, file('model.safetensors.parts'), { format: 'safetensors', maxShardBytes: 40_000 })
  const [first, ...others] = readdirSync(folder)
    .filter((name) => /-of-\d+/.test(name))
    .sort()
  t.true(others.length > 0)
  rmSync(path)
  const [index] = readdirSync(folder).filter((name) => name.endsWith('.index.json'))
  const refused = async (source, options, pattern) => {
    for (const make of [
      () => convert(source, scratchPath('part.gguf'), options),
      () => planJob('convert', source, scratchPath('job.gguf'), options),
    ]) {
      const error = await rejectionOf(make)
      t.is(error?.code, 'ZT_INCOMPLETE', source)
      t.regex(error.message, pattern)
    }
  }
  // The whole is converted.
  const whole = scratchPath('whole.gguf')
  t.is((await convert(file(index), whole)).tensors, 12)
  const names = others.join(', ')
  await refused(
    file(first),
    {},
    new RegExp(`needs all of its tensors.*not open: ${names}.*folder, the index.*checkpoint: false`),
  )
  // Copied all the same.
  const part = scratchPath('part.gguf')
  const { tensors, warnings } = await convert(file(first), part, { checkpoint: false })
  t.true(tensors > 0 && tensors < 12)
  t.deepEqual(
    warnings.map(({ code }) => code),
    ['ZT_WARN_INCOMPLETE_SET'],
  )
  // An index that leaves files out, and missing files.
  const map = JSON.parse(readFileSync(file(index), 'utf8'))
  const listed = Object.entries(map.weight_map).filter(([, name]) => name === first)
  writeFileSync(file('some.safetensors.index.json'), JSON.stringify({ weight_map: Object.fromEntries(listed) }))
  await refused(file('some.safetensors.index.json'), {}, /needs all of its tensors.*1 of which is not open/)
  rmSync(file('some.safetensors.index.json'))
  rmSync(file(others[0]))
  for (const source of [folder, file(index)]) {
    await refused(source, {}, new RegExp(others[0]))
    await refused(
      source,
      { source: { shards: 'none' } },
      new RegExp(`needs all of its tensors.*missing.*${others[0]}.*checkpoint: false`),
    )
  }
})
