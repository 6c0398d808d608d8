// GGUF files as we write them, byte by byte. `npm run interop` reads them with the gguf package and llama.cpp.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, create, diff, editMetadata, open, openSync, saveFile } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { some } from '../helpers/campaign.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { gguf } from '../helpers/gguf-writer.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { MIXTURES, MODELS, WEIGHED_MIXTURES, weights, writeImportance, writeLlama } from '../helpers/tiny-models.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

/** An empty folder. */
function scratchFolder() {
  const folder = scratchPath('folder')
  mkdirSync(folder, { recursive: true })
  return folder
}

const sha256 = (path) => createHash('sha256').update(readFileSync(path)).digest('hex')

/** Writes one small tensor with some metadata. */
async function written(metadata, options = {}) {
  const path = scratchPath('x.gguf')
  const writer = await create(path, { metadata, ...options })
  await writer.add('t', Float32Array.of(1, 2, 3, 4, 5, 6), { shape: [2, 3] })
  await writer.finish()
  return path
}

/** The expected file of `written`. */
const expected = (metadata, options = {}) =>
  gguf({
    metadata,
    tensors: [{ name: 't', shape: [2, 3], type: 0, data: littleEndian(Float32Array.of(1, 2, 3, 4, 5, 6)) }],
    ...options,
  })

test('values have explicit types, or those that llama.cpp expects', async (t) => {
  const metadata = {
    'general.architecture': 'llama',
    'llama.block_count': 2,
    'llama.rope.freq_base': 10000,
    'llama.attention.head_count': [4, 4],
    'tokenizer.ggml.tokens': ['a', 'ü'],
    'tokenizer.ggml.scores': [0, 1],
    'tokenizer.ggml.add_bos_token': true,
    'general.sampling.top_k': 40,
    'general.sampling.temp': 1,
    'other.rope.freq_base': 10000,
    plain: -5,
    large: 2 ** 40,
    largest: 2n ** 64n - 1n,
    float: 0.5,
    double: 1e300,
    mixed: [1, 0.5],
    bytes: Uint8Array.of(1, 2),
    flags: [true, false],
    u8: { type: 'uint8', value: 200 },
    i8: { type: 'int8', value: -100 },
    u16: { type: 'uint16', value: 60000 },
    i16: { type: 'int16', value: -30000 },
    u32: { type: 'uint32', value: 4e9 },
    i32: { type: 'int32', value: -2e9 },
    f32: { type: 'float32', value: 1 },
    bool: { type: 'bool', value: false },
    string: { type: 'string', value: 's' },
    u64: { type: 'uint64', value: 1 },
    i64: { type: 'int64', value: -1 },
    f64: { type: 'float64', value: 0.1 },
    'u8 list': { type: 'uint8', value: [1, 2] },
    'f64 list': { type: 'float64', value: [1, 0.1] },
    'empty list': { type: 'string', value: [] },
    'bytes as text': { type: 'string', value: Uint8Array.of(255) },
  }
  const kinds = [
    ['general.architecture', 'string', 'llama'],
    ['llama.block_count', 'u32', 2],
    ['llama.rope.freq_base', 'f32', 10000],
    ['llama.attention.head_count', 'array', ['i32', [4, 4]]],
    ['tokenizer.ggml.tokens', 'array', ['string', ['a', 'ü']]],
    ['tokenizer.ggml.scores', 'array', ['f32', [0, 1]]],
    ['tokenizer.ggml.add_bos_token', 'bool', 1],
    ['general.sampling.top_k', 'i32', 40],
    ['general.sampling.temp', 'f32', 1],
    ['other.rope.freq_base', 'i32', 10000],
    ['plain', 'i32', -5],
    ['large', 'i64', 2 ** 40],
    ['largest', 'u64', 2n ** 64n - 1n],
    ['float', 'f32', 0.5],
    ['double', 'f64', 1e300],
    ['mixed', 'array', ['f32', [1, 0.5]]],
    ['bytes', 'array', ['u8', [1, 2]]],
    ['flags', 'array', ['bool', [1, 0]]],
    ['u8', 'u8', 200],
    ['i8', 'i8', -100],
    ['u16', 'u16', 60000],
    ['i16', 'i16', -30000],
    ['u32', 'u32', 4e9],
    ['i32', 'i32', -2e9],
    ['f32', 'f32', 1],
    ['bool', 'bool', 0],
    ['string', 'string', 's'],
    ['u64', 'u64', 1],
    ['i64', 'i64', -1],
    ['f64', 'f64', 0.1],
    ['u8 list', 'array', ['u8', [1, 2]]],
    ['f64 list', 'array', ['f64', [1, 0.1]]],
    ['empty list', 'array', ['string', []]],
  ]
  const { 'bytes as text': _, ...texts } = metadata
  const path = await written(texts)
  t.deepEqual(readFileSync(path), expected(kinds))
  // The same through `attributes`, and again through a conversion, which keeps every type.
  const other = scratchPath('y.gguf')
  const writer = await create(other, { metadata })
  await writer.add('t', Float32Array.of(1, 2, 3, 4, 5, 6), { shape: [2, 3] })
  await writer.finish()
  const copy = scratchPath('copy.gguf')
  const { skipped } = await convert(other, copy)
  t.deepEqual(skipped, [])
  t.deepEqual(readFileSync(copy), readFileSync(other))
  t.deepEqual(openSync(copy).metadata['bytes as text'], Uint8Array.of(255))
})

const wrong = {
  'GGUF has text, booleans, integers of up to 64 bits, floats, and arrays of one of these': { k: null },
  "GGUF has no maps and no null; a value with a type of GGUF is { type: 'uint32', value: 5 }": { k: { a: 1 } },
  'the items of an array must have one type': { k: [1, 'a'] },
  'GGUF writers do not nest arrays': { k: [[1]] },
  "an empty array has no type: pass one, such as { type: 'string', value: [] }": { k: [] },
  'the value does not fit the type uint8': { k: { type: 'uint8', value: 256 } },
  'the value does not fit the type int8': { k: { type: 'int8', value: 1.5 } },
  'the value does not fit the type bool': { k: { type: 'bool', value: 1 } },
  'the value does not fit the type string': { k: { type: 'string', value: 1 } },
  'a key of GGUF metadata has 1 to 65535 bytes, not 0': { '': 1 },
  'a key of GGUF metadata must be a string': new Map([[1, 1]]),
  'an alignment must be a power of two from 8 to 2^24': { 'general.alignment': 24 },
  'there is no type "int" in GGUF; the types are uint8, int8': { k: { type: 'int', value: 1 } },
}
for (const [message, metadata] of Object.entries(wrong)) {
  test(`rejects metadata that GGUF cannot store: ${message}`, async (t) => {
    const path = scratchPath('x.gguf')
    const error = await rejectionOf(() => create(path, { metadata }))
    t.is(error.code, 'ZT_INVALID_ARG')
    t.true(error.message.includes(message), error.message)
    t.false(existsSync(path))
  })
}

test('a conversion omits lists of lists, and keeps the types of all other values', async (t) => {
  const source = scratchPath('s.gguf')
  const nested = gguf({
    metadata: [
      ['u8', 'u8', 7],
      ['nested', 'array', ['array', [['i32', [1]]]]],
      ['f64', 'f64', 0.1],
    ],
    tensors: [{ name: 't', shape: [2, 3], type: 0, data: littleEndian(Float32Array.of(1, 2, 3, 4, 5, 6)) }],
  })
  writeFileSync(source, nested)
  const target = scratchPath('x.gguf')
  const { skipped } = await convert(source, target)
  t.regex(skipped[0].message, /GGUF cannot store 1 value of the metadata: "nested"/)
  t.deepEqual(
    readFileSync(target),
    expected([
      ['u8', 'u8', 7],
      ['f64', 'f64', 0.1],
    ]),
  )
  const error = await rejectionOf(() => convert(source, scratchPath('y.gguf'), { strictMetadata: true }))
  t.is(error.code, 'ZT_INVALID_ARG')
})

test('the given alignment takes precedence over that of the source', async (t) => {
  for (const alignment of [8, 64, 4096]) {
    const path = await written({}, { alignment })
    t.deepEqual(readFileSync(path), expected([['general.alignment', 'u32', alignment]], { alignment }))
    const copy = scratchPath('copy.gguf')
    await convert(path, copy)
    t.deepEqual(readFileSync(copy), readFileSync(path))
    const other = scratchPath('other.gguf')
    await convert(path, other, { alignment: 32 })
    t.deepEqual(readFileSync(other), expected([['general.alignment', 'u32', 32]]))
  }
  const stated = await written({ 'general.alignment': 128 })
  t.deepEqual(readFileSync(stated), expected([['general.alignment', 'u32', 128]], { alignment: 128 }))
  t.is((await rejectionOf(() => written({}, { alignment: 4 }))).code, 'ZT_INVALID_ARG')
})

test('the alignment is a uint32, whatever type its source or an option states', async (t) => {
  const wide = scratchPath('wide.gguf')
  writeFileSync(wide, expected([['general.alignment', 'u64', 8]], { alignment: 8 }))
  const copy = scratchPath('copy.gguf')
  const typed = await written({ 'general.alignment': { type: 'int32', value: 8 } })
  await convert(wide, copy)
  for (const path of [copy, typed])
    t.deepEqual(readFileSync(path), expected([['general.alignment', 'u32', 8]], { alignment: 8 }))
  const set = { 'general.alignment': { type: 'uint64', value: 8 } }
  t.regex((await rejectionOf(() => editMetadata(copy, { set }))).message, /general\.alignment is a uint32/)
})

test('metadata cannot set what follows from how the file is written', async (t) => {
  const path = await written({})
  for (const key of ['split.no', 'split.count', 'split.tensors.count', 'ztensor.padding'])
    for (const metadata of [{ [key]: 1 }, { [key]: undefined }])
      for (const write of [() => written(metadata), () => convert(path, scratchPath('x.gguf'), { metadata })])
        t.like(await rejectionOf(write), { code: 'ZT_INVALID_ARG', option: 'metadata' }, key)
  const both = { alignment: 64, metadata: { 'general.alignment': 32 } }
  t.like(await rejectionOf(() => convert(path, scratchPath('x.gguf'), both)), { option: 'alignment' })
  await t.notThrowsAsync(convert(path, scratchPath('x.gguf'), { ...both, alignment: 32 }))
})

test('rejects tensors that ggml does not read by name', async (t) => {
  const writer = await create(scratchPath('x.gguf'))
  const refused = async (name, array, options, code, message) => {
    const error = await rejectionOf(() => writer.add(name, array, options))
    t.is(error.code, code)
    t.regex(error.message, message)
  }
  await refused(
    'five',
    new Float32Array(32),
    { shape: [2, 2, 2, 2, 2] },
    'ZT_BAD_SHAPE',
    /5 dimensions, more than the 4/,
  )
  await refused('none', new Float32Array(0), { shape: [0, 4] }, 'ZT_BAD_SHAPE', /has no elements/)
  await refused('n'.repeat(64), new Float32Array(4), {}, 'ZT_INVALID_ARG', /64 bytes, more than the 63/)
  await refused('u8', new Uint8Array(4), {}, 'ZT_BAD_DTYPE', /GGUF cannot hold uint8/)
  await refused(
    'q',
    new Float32Array(100),
    { type: 'q4_k' },
    'ZT_BAD_SHAPE',
    /rows of 100 elements are not a multiple of the 256/,
  )
  await refused('q', new Float32Array(100), { type: 'q4' }, 'ZT_INVALID_ARG', /type must be one of q4_0, /)
  await refused('a', new Float32Array(4), { attributes: { note: 1 } }, 'ZT_INVALID_ARG', /no attributes of a tensor/)
  await writer.add('n'.repeat(63), Float32Array.of(1))
  await writer.add('scalar', Float32Array.of(2), { shape: [] })
  await writer.finish()
  t.is(openSync(writer.path).size, 2)
})

test('blocks pass unchanged through every format that supports them', async (t) => {
  for (const name of ['types.gguf', 'plain.gguf', 'aligned-4096.gguf']) {
    const source = fixturePath(`gguf/${name}`)
    const direct = scratchPath('direct.gguf')
    const { skippedTensors } = await convert(source, direct)
    t.is(skippedTensors, 0)
    // Version 2 names the types that it supports.
    const skip = name === 'types.gguf' ? ['*tq1_0*', '*tq2_0*', '*nvfp4*'] : false
    t.true((await diff(source, direct)).same)
    for (const version of ['1.0', '1.2', '2']) {
      const between = scratchPath(`between-${version}.zt`)
      const own = await convert(source, between, { version, skip })
      if (own.skippedTensors > 0) t.is(version, '2')
      const back = scratchPath(`back-${version}.gguf`)
      await convert(between, back, { checkpoint: false })
      const { changed, added, removed } = await diff(source, back)
      t.deepEqual([changed, added, removed.length], [[], [], own.skippedTensors], version)
    }
  }
})

test('a set of files states the position of each, and replaces an older set', async (t) => {
  const folder = scratchFolder()
  const source = join(folder, 'source.gguf')
  await writeLlama(source, { layers: 2 })
  const target = join(folder, 'model.gguf')
  const parts = () => readdirSync(folder).filter((name) => name.startsWith('model'))
  await convert(source, target, { maxShardBytes: 400_000 })
  const before = parts()
  t.true(before.length > 3)
  await convert(source, target, { maxShardBytes: 1_500_000, overwrite: true })
  const after = parts()
  t.true(after.length > 1 && after.length < before.length)
  const count = String(after.length).padStart(5, '0')
  t.deepEqual(
    after,
    Array.from(after, (_, at) => `model-${String(at + 1).padStart(5, '0')}-of-${count}.gguf`),
  )
  const set = await open(join(folder, after[0]))
  t.deepEqual(set.warnings, [])
  t.is(set.size, 21)
  t.is(set.metadata['split.count'], after.length)
  t.is(set.metadata['split.tensors.count'], 21)
  t.true((await diff(source, join(folder, after[0]))).same)
  // Only the first has the metadata of the model.
  const second = await open(join(folder, after[1]), { shards: 'none' })
  t.deepEqual(Object.keys(second.metadata), ['split.no', 'split.count', 'split.tensors.count'])
  set.close()
  second.close()
  // A single file again, without the keys of the set.
  const merged = join(folder, 'merged.gguf')
  await convert(join(folder, after[0]), merged)
  t.deepEqual(readFileSync(merged), readFileSync(source))
  await convert(source, target, { overwrite: true, maxShardBytes: 1e9 })
  t.deepEqual(parts(), ['model.gguf'])
})

const GOLDEN = JSON.parse(readFileSync(fixturePath('gguf-quantized.json')))
for (const [turn, [model, options]] of Object.entries(MODELS).entries()) {
  test(`mixtures: whole files equal those of llama.cpp: ${model}`, async (t) => {
    const folder = scratchFolder()
    const source = join(folder, 'source.gguf')
    await writeLlama(source, options)
    t.deepEqual(Object.keys(GOLDEN[model]), Object.keys(MIXTURES))
    for (const quantize of some(Object.keys(MIXTURES), 4, turn)) {
      const target = join(folder, `${quantize}.gguf`)
      const { quantized } = await convert(source, target, { quantize })
      t.is(sha256(target), GOLDEN[model][quantize], quantize)
      t.true(Object.keys(quantized.types).length > 0)
    }
  })
}

test('rows that are not whole blocks get a smaller type, and the result lists them', async (t) => {
  const source = scratchPath('s.gguf')
  await writeLlama(source, { layers: 1, inner: 144 })
  const { quantized } = await convert(source, scratchPath('x.gguf'), { quantize: 'q4_k_m' })
  t.deepEqual(quantized.fallbacks, [{ tensor: 'blk.0.ffn_down.weight', wanted: 'q6_k', type: 'float16' }])
  t.is(quantized.types.float16, 1)
})

test('rules: the first pattern that matches a name applies, and norms are kept', async (t) => {
  const source = scratchPath('s.gguf')
  await writeLlama(source, { layers: 2 })
  const target = scratchPath('x.gguf')
  const rules = { '*.ffn_down.*': 'q6_k', 'output.weight': 'bf16', '*.attn_?.weight': 'q5_0', '*': 'q5_k' }
  const { quantized } = await convert(source, target, { quantize: rules })
  t.deepEqual(quantized.types, { bfloat16: 1, q5_0: 6, q5_k: 7, q6_k: 2 })
  const file = openSync(target)
  const typeOf = (name) => file.tensor(name).storageType
  t.is(typeOf('blk.1.ffn_down.weight'), 'q6_k')
  t.is(typeOf('output.weight'), 'bfloat16')
  t.is(typeOf('blk.0.attn_q.weight'), 'q5_0')
  t.is(typeOf('token_embd.weight'), 'q5_k')
  t.is(typeOf('blk.0.attn_norm.weight'), 'float32')
  t.is(file.metadata['general.quantization_version'], 2)
  t.is(file.metadata['general.file_type'], undefined)
  // The patterns are those of the new names.
  const { quantized: renamed } = await convert(source, scratchPath('y.gguf'), {
    rename: { 'blk.*': 'layer.*' },
    quantize: { 'layer.*': 'q8_0' },
  })
  t.deepEqual(renamed.types, { q8_0: 14 })
})

test('rejects tensors that cannot be quantized before it writes anything', async (t) => {
  const source = scratchPath('s.gguf')
  await writeLlama(source, { layers: 1 })
  const refused = async (from, target, options, message) => {
    const error = await rejectionOf(() => convert(from, target, options))
    t.regex(error.message, message)
    t.false(existsSync(target))
    // A message that names a tensor has its name as a property, too.
    const [, named] = /(?:tensor|first:) "([^"]+)"/.exec(error.message) ?? []
    t.is(error.tensor, named)
  }
  const target = scratchPath('x.gguf')
  await refused(source, target, { quantize: 'q9' }, /there is no mixture "q9"; known are f32, f16/)
  await refused(source, target, { quantize: { '*': 'q9' } }, /there is no type "q9"; known are f32, f16/)
  await refused(source, target, { quantize: {} }, /quantize must have at least one pattern/)
  await refused(source, target, { quantize: 7 }, /quantize must be a mixture/)
  for (const mixture of Object.keys(WEIGHED_MIXTURES))
    await refused(source, target, { quantize: mixture }, /needs an importance matrix \(option imatrix\)/)
  const rules = { '*.attn_q.*': 'iq1_m' }
  await refused(source, target, { quantize: rules }, /iq1_m of this tensor needs an importance matrix/)
  await refused(
    source,
    scratchPath('x.safetensors'),
    { quantize: 'q8_0' },
    /safetensors cannot hold the layout "gguf.q8_0\/1"/,
  )
  const quantized = scratchPath('q.gguf')
  await convert(source, quantized, { quantize: 'q8_0' })
  await refused(quantized, target, { quantize: 'q4_k_m' }, /is quantized already.*option requantize/)
  await convert(quantized, target, { quantize: 'q4_k_m', requantize: true })
  t.is(openSync(target).tensor('token_embd.weight').storageType, 'q4_k')
})

test('rejects or lists a tensor without importance, like llama.cpp', async (t) => {
  const [source, matrix] = [scratchPath('s.gguf'), scratchPath('m.gguf')]
  const options = { layers: 1 }
  await writeLlama(source, options)
  const missing = ['blk.0.attn_q.weight', 'output.weight']
  await writeImportance(matrix, options, missing)
  const quantized = (quantize) => convert(source, scratchPath('x.gguf'), { quantize, imatrix: matrix })
  for (const quantize of ['q2_k_s', 'iq2_xxs', 'iq3_xs', { '*attn_q*': 'iq2_s' }]) {
    const target = scratchPath('refused.gguf')
    const error = await rejectionOf(() => convert(source, target, { quantize, imatrix: matrix }))
    t.is(error.code, 'ZT_INVALID_ARG')
    t.is(error.tensor, 'blk.0.attn_q.weight')
    t.regex(
      error.message,
      /^tensor "blk\.0\.attn_q\.weight": the importance matrix has no weights for this tensor, and i?q\w+ needs them/,
    )
    t.false(existsSync(target))
  }
  for (const quantize of ['q4_k_m', 'q2_k', { '*': 'q5_0' }])
    t.deepEqual((await quantized(quantize)).quantized.unweighted.toSorted(), [...missing, 'token_embd.weight'])
  // The output and the embeddings need no weights, unless the type does.
  await writeImportance(matrix, options, ['output.weight'])
  t.deepEqual((await quantized('q2_k_s')).quantized.unweighted.toSorted(), ['output.weight', 'token_embd.weight'])
  t.deepEqual((await quantized({ 'output.*': 'iq3_xxs' })).quantized.unweighted, ['output.weight'])
  const error = await rejectionOf(() => quantized({ 'output.*': 'iq1_s' }))
  t.regex(error.message, /has no weights for this tensor, and iq1_s needs them/)
  t.deepEqual((await convert(source, scratchPath('y.gguf'), { quantize: 'q4_k_m' })).quantized.unweighted, [])
  await writeImportance(matrix, { ...options, inner: 1024 })
  t.regex((await rejectionOf(() => quantized('q4_k_m'))).message, /has 1024 weights for the shape \[\d+, \d+\]/)
})

test('a tensor that has the type already needs a matrix without its weights, like in llama.cpp', async (t) => {
  const [source, matrix, partial, before] = ['s.gguf', 'm.gguf', 'p.gguf', 'b.gguf'].map((name) => scratchPath(name))
  const name = 'blk.0.attn_q.weight'
  await writeLlama(source, { layers: 1 })
  await writeImportance(matrix, { layers: 1 })
  await writeImportance(partial, { layers: 1 }, [name])
  await convert(source, before, { quantize: { '*attn_q*': 'iq2_xxs' }, imatrix: matrix })
  for (const quantize of ['iq2_xxs', { '*attn_q*': 'iq2_xxs' }]) {
    const error = await rejectionOf(() => convert(before, scratchPath('x.gguf'), { quantize }))
    t.regex(error.message, /^tensor "blk\.0\.\w+\.weight": the type iq2_xxs of this tensor needs an importance matrix/)
    const target = scratchPath('y.gguf')
    const { quantized } = await convert(before, target, { quantize, imatrix: partial })
    t.false(quantized.unweighted.includes(name))
    const [a, b] = [openSync(before), openSync(target)]
    t.is(b.tensor(name).storageType, 'iq2_xxs')
    t.deepEqual(b.tensor(name).toFloat32(), a.tensor(name).toFloat32())
  }
})

test('an array that is added with a type equals that of a conversion', async (t) => {
  const values = weights(64 * 512, 7)
  for (const type of ['q4_0', 'q8_0', 'q4_k', 'q6_k', 'iq3_s', 'iq4_nl', 'tq2_0', 'mxfp4']) {
    const [plain, added, converted] = ['p.gguf', 'a.gguf', 'c.gguf'].map((name) => scratchPath(name))
    await saveFile(plain, { 'x.weight': { dtype: 'float32', shape: [64, 512], data: values } })
    await convert(plain, converted, { quantize: { '*': type } })
    const writer = await create(added)
    await writer.add('x.weight', values, { shape: [64, 512], type })
    await writer.finish()
    t.deepEqual(readFileSync(added), readFileSync(converted), type)
    const inZt = scratchPath('z.zt')
    const other = await create(inZt, { version: '1.0' })
    await other.add('x.weight', values, { shape: [64, 512], type, attributes: { note: 'n' } })
    await other.finish()
    t.deepEqual(openSync(inZt).tensor('x.weight').toFloat32(), openSync(added).tensor('x.weight').toFloat32())
    t.is(openSync(inZt).tensor('x.weight').attributes.note, 'n')
  }
})

test('widens numbers of any dtype, and quantizes them once', async (t) => {
  const floats = weights(4 * 256, 3)
  const direct = await quantizedBlocks({ dtype: 'float32', shape: [4, 256], data: floats })
  for (const [dtype, data] of [
    ['float64', Float64Array.from(floats)],
    ['float16', floats],
  ]) {
    t.deepEqual(await quantizedBlocks({ dtype, shape: [4, 256], data }), direct, dtype)
  }
})

async function quantizedBlocks(tensor) {
  const path = scratchPath('x.gguf')
  const writer = await create(path)
  await writer.add('x.weight', tensor, { type: 'q4_k' })
  await writer.finish()
  return readFileSync(path)
}

test('metadata changes single attributes in any format', async (t) => {
  const source = scratchPath('s.safetensors')
  await saveFile(source, { a: Float32Array.of(1) }, { metadata: { format: 'pt', license: 'mit' } })
  const target = scratchPath('x.safetensors')
  await convert(source, target, { metadata: { license: undefined, author: 'me' } })
  t.deepEqual({ ...openSync(target).metadata }, { format: 'pt', author: 'me' })
  const path = scratchPath('x.zt')
  const writer = await create(path, {
    metadata: new Map([
      ['a', 1],
      [7, 3],
    ]),
  })
  await writer.finish()
  t.deepEqual({ ...openSync(path).metadata }, { 7: 3, a: 1 })
  const error = await rejectionOf(() => create(scratchPath('y.btf'), { metadata: { a: 'b' } }))
  t.regex(error.message, /BTF has no metadata/)
})
