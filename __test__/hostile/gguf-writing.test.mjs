// Crafted sources, converted and quantized to GGUF: each makes the file of the reference, or an error that names the place.
// Damaged configurations and tokenizers are also in crates/gguf/tests/all/checkpoint.rs, and rows of NaN of every type in
// crates/core/tests/all/quantize.rs and `npm run interop`.
import {
  closeSync,
  existsSync,
  ftruncateSync,
  openSync as openFd,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import test from 'ava'
import { convert, create, openSync, saveFile } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { CONFIG, checkpoint, TOKENIZER, WORDS } from '../helpers/tiny-checkpoint.mjs'
import { weights, writeLlama } from '../helpers/tiny-models.mjs'

const metadata = { 'general.architecture': 'llama', 'llama.block_count': 1 }

test('rejects tensors that ggml does not support by name, quantized or not, and writes nothing', async (t) => {
  const shapes = {
    'none.weight': [[0, 256], 'ZT_BAD_SHAPE', /has no elements/],
    'five.weight': [[1, 1, 2, 2, 256], 'ZT_BAD_SHAPE', /5 dimensions, more than the 4/],
    [`${'n'.repeat(57)}.weight`]: [[2, 256], 'ZT_INVALID_ARG', /64 bytes, more than the 63/],
    // 64 bytes, not characters.
    [`${'ключ'.repeat(7)}x.weight`]: [[2, 256], 'ZT_INVALID_ARG', /64 bytes, more than the 63/],
  }
  for (const [name, [shape, code, message]] of Object.entries(shapes)) {
    const count = shape.reduce((a, b) => a * b)
    const source = scratchPath('s.safetensors')
    await saveFile(source, {
      'good.weight': { dtype: 'float32', shape: [2, 256], data: weights(512) },
      [name]: { dtype: 'float32', shape, data: weights(count) },
    })
    for (const options of [{}, { quantize: { '*': 'q8_0' } }, { quantize: 'q4_k_m' }, { dtype: 'bfloat16' }]) {
      const target = scratchPath('x.gguf')
      const error = await rejectionOf(() => convert(source, target, { metadata, ...options }))
      t.is(error.code, code, error.message)
      t.is(error.tensor, name)
      t.regex(error.message, message)
      t.false(existsSync(target))
      const { tensors, skippedTensors } = await convert(source, target, { metadata, ...options, skip: true })
      t.deepEqual([tensors, skippedTensors], [1, 1])
    }
  }
})

test('rejects elements that llama-quantize rejects, and writes nothing', async (t) => {
  const source = scratchPath('s.safetensors')
  const gguf = scratchPath('s.gguf')
  const target = scratchPath('x.gguf')
  const cases = [
    [Number.NaN, ['q4_0', 'q8_0', 'q2_k', 'q4_k', 'iq4_xs', 'tq2_0', 'mxfp4', 'nvfp4'], /: element 600 is NaN, so/],
    [-Infinity, ['q5_1', 'q6_k', 'q8_k', 'iq3_s'], /: element 600 is -inf, so/],
    [3e38, ['q4_0', 'q8_0'], /: elements 576 to 607 are too large for a scale of q[48]_0, so/],
    [3e38, ['q4_k', 'tq1_0', 'tq2_0'], /: elements 512 to 767 are too large for a scale of /],
  ]
  for (const [value, types, message] of cases) {
    const rows = weights(4 * 256)
    rows[600] = value
    await saveFile(source, { 'a.weight': { dtype: 'float32', shape: [4, 256], data: rows } }, { overwrite: true })
    await convert(source, gguf, { metadata, overwrite: true })
    for (const type of types) {
      for (const from of [source, gguf]) {
        const error = await rejectionOf(() => convert(from, target, { quantize: { '*': type }, metadata }))
        t.is(error?.code, 'ZT_BAD_DTYPE', `${value} as ${type}`)
        t.is(error.tensor, 'a.weight')
        t.regex(error.message, message)
        t.false(existsSync(target))
      }
      const writer = await create(target, { metadata })
      const error = await rejectionOf(() => writer.add('a.weight', rows, { shape: [4, 256], type }))
      t.is(error.code, 'ZT_BAD_DTYPE', error.message)
      t.is(error.tensor, 'a.weight')
      t.regex(error.message, message)
      await writer.abort()
    }
  }
})

test('quantizes very small and large finite elements like ggml, and a rule stores others as floats', async (t) => {
  const rows = new Float32Array(8 * 256)
  for (const [at, value] of [0, -0, 1e-45, -1e-45, 1e4, -1e4, 1e-30, 1].entries())
    rows.fill(value, at * 256, (at + 1) * 256)
  const nan = new Float32Array(256).fill(Number.NaN)
  const [source, plain, first, second] = ['s.safetensors', 's.gguf', 'a.gguf', 'b.gguf'].map((name) =>
    scratchPath(name),
  )
  await saveFile(source, {
    'a.weight': { dtype: 'float32', shape: [8, 256], data: rows },
    'b.weight': { dtype: 'float32', shape: [1, 256], data: nan },
  })
  await convert(source, plain, { metadata })
  // The same bytes from GGUF, and a file that can be read: no number of the data is taken as a size or an index.
  for (const type of ['q4_0', 'q8_0', 'q2_k', 'q4_k', 'q6_k', 'iq4_xs', 'iq3_s', 'tq2_0', 'mxfp4']) {
    const quantize = { 'b.weight': 'f32', '*': type }
    await convert(source, first, { quantize, metadata, overwrite: true })
    await convert(plain, second, { quantize, overwrite: true })
    t.deepEqual(readFileSync(second), readFileSync(first), type)
    const file = openSync(first)
    t.is(file.tensor('a.weight').toFloat32().length, rows.length, type)
    t.true(file.tensor('b.weight').toFloat32().every(Number.isNaN), type)
    file.close()
  }
})

test('converts and quantizes with metadata of 300,000 strings', async (t) => {
  const [source, copy, quantized] = ['s.gguf', 'c.gguf', 'q.gguf'].map((name) => scratchPath(name))
  const tokens = Array.from({ length: 300_000 }, (_, at) => `▁${at}`)
  await writeLlama(source, { layers: 1, metadata: { 'tokenizer.ggml.tokens': tokens } })
  await convert(source, copy)
  t.deepEqual(readFileSync(copy), readFileSync(source))
  await convert(source, quantized, { quantize: 'q8_0' })
  const found = openSync(quantized).metadata['tokenizer.ggml.tokens']
  t.is(found.length, tokens.length)
  t.true(found.every((token, at) => token === tokens[at]))
})

test('rejects files of a checkpoint truncated at any length', async (t) => {
  const { folder } = await checkpoint()
  for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors']) {
    const path = join(folder, name)
    const bytes = readFileSync(path)
    for (const length of [0, 1, Math.floor(bytes.length / 3), bytes.length - 2]) {
      writeFileSync(path, bytes.subarray(0, length))
      const target = scratchPath('x.gguf')
      const error = await rejectionOf(() => convert(folder, target, { checkpoint: true, quantize: 'q8_0' }))
      t.regex(String(error?.code), /^ZT_(BAD_INDEX|BAD_MAGIC|TRUNCATED|OUT_OF_BOUNDS)$/, `${name} ${length}: ${error}`)
      t.true(error.message.includes(name), error.message)
      t.false(existsSync(target))
    }
    writeFileSync(path, bytes)
  }
})

test('rejects numbers of a configuration that are negative, huge or not integers', async (t) => {
  const fields = [
    'vocab_size',
    'hidden_size',
    'intermediate_size',
    'num_hidden_layers',
    'num_attention_heads',
    'num_key_value_heads',
    'max_position_embeddings',
  ]
  for (const field of fields) {
    for (const value of [-1, -(2 ** 40), 1.5, 2 ** 63, 1e300]) {
      const { folder } = await checkpoint({ config: { ...CONFIG, [field]: value } })
      const target = scratchPath('x.gguf')
      const error = await rejectionOf(() => convert(folder, target))
      t.regex(String(error?.code), /^ZT_(BAD_INDEX|BAD_SHAPE|LIMIT)$/, `${field} ${value}: ${error}`)
      t.false(existsSync(target))
    }
  }
})

test('writes circular merges unchanged, like the reference', async (t) => {
  const merges = ['a b', 'ab a', 'b a', 'ba b', 'ab ab', 'a b']
  const { folder } = await checkpoint({ tokenizer: { ...TOKENIZER, model: { ...TOKENIZER.model, merges } } })
  const target = scratchPath('x.gguf')
  await convert(folder, target)
  const { metadata: attributes } = openSync(target)
  t.deepEqual([...attributes['tokenizer.ggml.merges']], merges)
  t.deepEqual([...attributes['tokenizer.ggml.tokens']], WORDS)
})

// Other tests would grow the process.
test.serial('rejects a tokenizer or a configuration of many GB before it reads it', async (t) => {
  const { folder } = await checkpoint()
  for (const name of ['config.json', 'tokenizer.json']) {
    const path = join(folder, name)
    const text = readFileSync(path)
    const file = openFd(path, 'w')
    // A hole, which takes no disk space.
    ftruncateSync(file, 2 ** 36)
    writeSync(file, text, 0, text.length, 0)
    closeSync(file)
    const before = process.memoryUsage.rss()
    const error = await rejectionOf(() => convert(folder, scratchPath('x.gguf'), { checkpoint: true }))
    t.is(error.code, 'ZT_LIMIT', error.message)
    t.true(error.message.includes(name), error.message)
    t.true(process.memoryUsage.rss() - before < 2 ** 28)
    writeFileSync(path, text)
  }
})

test('errors of an importance matrix name its file', async (t) => {
  const source = scratchPath('s.gguf')
  await writeLlama(source, { layers: 1 })
  const text = scratchPath('text.dat')
  writeFileSync(text, 'no importance matrix')
  const missing = scratchPath('missing.gguf')
  const folder = dirname(text)
  for (const [imatrix, code] of [
    [text, 'ZT_TRUNCATED'],
    [missing, 'ZT_IO'],
    [folder, 'ZT_IO'],
    ...(process.platform === 'win32' ? [] : [['/dev/null', 'ZT_IO']]),
  ]) {
    const target = scratchPath('x.gguf')
    const error = await rejectionOf(() => convert(source, target, { quantize: 'q4_k_m', imatrix }))
    t.is(error.code, code, error.message)
    t.true(error.message.startsWith(`the importance matrix '${imatrix}' cannot be read: `), error.message)
    t.false(existsSync(target))
  }
})

/** An importance matrix whose entries, each for 256 columns, all have the same bytes. */
function sharedMatrix(layers, file = 'shared.gguf') {
  const parts = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up']
  const names = Array.from({ length: layers }, (_, at) => parts.map((part) => `blk.${at}.${part}.weight`)).flat()
  const tensors = names.flatMap((name) => [
    { name: `${name}.in_sum2`, shape: [1, 256], type: 0, offset: 0, data: Buffer.alloc(0) },
    { name: `${name}.counts`, shape: [1, 1], type: 0, offset: 0, data: Buffer.alloc(0) },
  ])
  const metadata = [
    ['general.type', 'string', 'imatrix'],
    ['imatrix.datasets', 'array', ['string', ['a.txt']]],
    ['imatrix.chunk_count', 'u32', 1],
    ['imatrix.chunk_size', 'u32', 512],
  ]
  const sums = Float32Array.from({ length: 256 }, (_, at) => at + 1)
  const path = scratchPath(file)
  writeFileSync(path, Buffer.concat([gguf({ metadata, tensors }), Buffer.from(sums.buffer)]))
  return { path, entries: names.length }
}

test('reads only the entries of an importance matrix for quantized tensors, with any number of entries that share bytes', async (t) => {
  const source = scratchPath('llama.gguf')
  await writeLlama(source, { layers: 1, inner: 256 })
  const { path: imatrix, entries } = sharedMatrix(500)
  const target = scratchPath('x.gguf')
  const { quantized } = await convert(source, target, { quantize: { '*attn_q*': 'q4_k' }, imatrix })
  t.deepEqual([quantized.types, quantized.unweighted], [{ q4_k: 1 }, []])
  // The same weights in a separate entry make the same bytes.
  const { path: alone } = sharedMatrix(1, 'alone.gguf')
  const again = scratchPath('y.gguf')
  await convert(source, again, { quantize: { '*attn_q*': 'q4_k' }, imatrix: alone })
  const [shared, own] = [target, again].map((path) =>
    openSync(path).tensor('blk.0.attn_q.weight').components.get('data'),
  )
  t.deepEqual(shared.data, own.data)
  await convert(source, target, { quantize: 'q4_k_m', imatrix, overwrite: true })
  t.is(openSync(target).metadata['quantize.imatrix.entries_count'], entries)
})

test('rejects an importance matrix whose entries share bytes before they take more memory than the file', async (t) => {
  const layers = 40
  const source = scratchPath('llama.gguf')
  await writeLlama(source, { layers, inner: 256 })
  const { path: imatrix } = sharedMatrix(layers)
  const target = scratchPath('x.gguf')
  const error = await rejectionOf(() => convert(source, target, { quantize: 'q4_k_m', imatrix }))
  t.is(error.code, 'ZT_LIMIT')
  t.regex(error.message, /the importance matrix '.*' cannot be read: .*share bytes/)
  t.false(existsSync(target))
})

test('rejects a header that open would reject before it writes anything', async (t) => {
  const path = scratchPath('long.safetensors')
  const error = await rejectionOf(() =>
    create(path, { format: 'safetensors', metadata: { long: 'a'.repeat(100_000_000) } }),
  )
  t.is(error.code, 'ZT_LIMIT')
  t.false(existsSync(path))
})

/** Names of which so many make a header of safetensors that is too long, although none is. */
const longNames = (count) => Array.from({ length: count }, (_, at) => `${at}.${'n'.repeat(9_999_000)}`)
const TOO_LONG = { code: 'ZT_LIMIT', message: /header has more than 100000000 bytes/ }

test('an index that becomes too long through its tensors is refused at the tensor that is too many', async (t) => {
  const path = scratchPath('names.safetensors')
  const names = longNames(11)
  const writer = await create(path, { format: 'safetensors' })
  for (const name of names.slice(0, 10)) await writer.add(name, Uint8Array.of(1))
  const error = await t.throwsAsync(writer.add(names[10], Uint8Array.of(2)), TOO_LONG)
  t.is(error.tensor, names[10])
  // The file is unchanged, and can be finished.
  await writer.add('short', Uint8Array.of(3))
  await writer.finish()
  t.is(openSync(path).size, 11)
})

test('an index that would become too long is refused before the first byte where all tensors are known', async (t) => {
  const names = longNames(11)
  const path = scratchPath('all.safetensors')
  let loads = 0
  const tensor = {
    dtype: 'uint8',
    shape: [1],
    get data() {
      loads++
      return Uint8Array.of(1)
    },
  }
  await t.throwsAsync(saveFile(path, Object.fromEntries(names.map((name) => [name, tensor]))), TOO_LONG)
  await t.throwsAsync(saveFile(path, new Map(names.map((name) => [name, tensor]))), TOO_LONG)
  t.is(loads, 0)
  const source = scratchPath('names.zt')
  await saveFile(source, Object.fromEntries(names.map((name) => [name, Uint8Array.of(1)])))
  for (const options of [{}, { maxShardBytes: 5 }, { maxShardBytes: 1000 }]) {
    const converted = convert(source, path, options)
    // Two tensors a file fit.
    if (options.maxShardBytes === 5) await converted
    else await t.throwsAsync(converted, TOO_LONG, JSON.stringify(options))
  }
  t.false(existsSync(path))
  await t.throwsAsync(planJob('convert', source, path, { maxShardBytes: 1000 }), TOO_LONG)
  t.is((await planJob('convert', source, scratchPath('parts.safetensors'), { maxShardBytes: 5 })).tasks.length, 3)
})
