// The requirements of llama.cpp for a GGUF file that lists it as a reader: types of tensors, metadata, and the selected weights.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, create, open, openSync, saveFile } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { CONFIG, checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { weights } from '../helpers/tiny-models.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

/** The types of matrices and of all other tensors of a file, and the file type that it states. */
function typesOf(path) {
  const file = openSync(path)
  const types = (has) => [...new Set([...file.values()].filter(has).map(({ storageType }) => storageType))].sort()
  const found = {
    matrices: types(({ shape }) => shape.length > 1),
    others: types(({ shape }) => shape.length < 2),
    stated: file.metadata['general.file_type'],
  }
  file.close()
  return found
}

const ROWS = [
  ['dtype: float16', { dtype: 'float16' }, ['float16'], 1],
  ['dtype: bfloat16', { dtype: 'bfloat16' }, ['bfloat16'], 32],
  ['dtype: float32', { dtype: 'float32' }, ['float32'], 0],
  ['cast of a group', { cast: { 'float*': 'bfloat16' } }, ['bfloat16'], 32],
  ['cast of all names', { cast: [{ name: '*', dtype: 'float*', to: 'float16' }] }, ['float16'], 1],
  ['quantize and dtype', { quantize: 'q8_0', dtype: 'float16' }, ['q8_0'], 7],
  ['rules and dtype', { quantize: { '*': 'q4_0' }, dtype: 'bfloat16' }, ['q4_0'], 2],
  ['rules of a dtype', { quantize: { '*': 'f16' } }, ['float16'], 1],
]
for (const stored of ['float32', 'float64', 'bfloat16']) {
  test(`a checkpoint in ${stored}: matrices get the type, and norms stay float32, in its GGUF and in conversions of that`, async (t) => {
    const { folder } = await checkpoint({ dtype: stored })
    const plain = scratchPath('plain.gguf')
    await convert(folder, plain)
    const own = stored === 'float64' ? 'float32' : stored
    t.deepEqual(typesOf(plain), { matrices: [own], others: ['float32'], stated: { float32: 0, bfloat16: 32 }[own] })
    for (const source of [folder, plain])
      for (const [title, options, matrices, number] of ROWS) {
        const target = scratchPath('x.gguf')
        const { readers } = await convert(source, target, options)
        t.deepEqual(typesOf(target), { matrices, others: ['float32'], stated: number }, title)
        t.true(readers.includes('llama.cpp'))
      }
  })
}

test('a cast of a dtype does not apply to norms', async (t) => {
  const { folder } = await checkpoint({ dtype: 'float32' })
  const target = scratchPath('x.gguf')
  await convert(folder, target, { cast: { float32: 'float16' } })
  t.deepEqual(typesOf(target), { matrices: ['float16'], others: ['float32'], stated: 1 })
})

test('rejects a cast that names only norms, and types that llama.cpp does not compute with', async (t) => {
  const { folder } = await checkpoint()
  const plain = scratchPath('plain.gguf')
  await convert(folder, plain)
  for (const source of [folder, plain]) {
    const error = await rejectionOf(() => convert(source, scratchPath('x.gguf'), { cast: { '*_norm*': 'float16' } }))
    t.is(error.code, 'ZT_INVALID_ARG')
    t.regex(error.message, /'\*_norm\*' casts nothing to float16: ".*_norm\.weight" stays float32/)
  }
  const error = await rejectionOf(() => convert(folder, scratchPath('x.gguf'), { dtype: 'float64' }))
  t.is(error.code, 'ZT_BAD_DTYPE')
  t.regex(error.message, /float64/)
})

test('norms become float32 also with explicit names and metadata', async (t) => {
  const { weights: source } = await checkpoint()
  const target = scratchPath('x.gguf')
  const metadata = { 'general.architecture': 'mine', 'tokenizer.ggml.model': 'gpt2' }
  await convert(source, target, { rename: { 'model.*': '*' }, metadata })
  t.deepEqual(typesOf(target), { matrices: ['bfloat16'], others: ['float32'], stated: undefined })
  // A copy of a GGUF file is unchanged.
  const [odd, copy] = [scratchPath('odd.gguf'), scratchPath('copy.gguf')]
  await saveFile(odd, { 'a.weight': { dtype: 'float16', shape: [4], data: new Uint16Array(4) } }, { metadata })
  await convert(odd, copy)
  t.deepEqual(typesOf(copy), { matrices: [], others: ['float16'], stated: undefined })
})

test('single matrices of another dtype keep it, or get the requested dtype', async (t) => {
  const change = (tensors) => ({
    ...tensors,
    'lm_head.weight': { ...tensors['lm_head.weight'], dtype: 'float32' },
    'model.layers.0.mlp.down_proj.weight': { ...tensors['model.layers.0.mlp.down_proj.weight'], dtype: 'float16' },
  })
  const { folder } = await checkpoint({ change })
  const [own, cast] = [scratchPath('own.gguf'), scratchPath('cast.gguf')]
  await convert(folder, own)
  t.deepEqual(typesOf(own), { matrices: ['bfloat16', 'float16', 'float32'], others: ['float32'], stated: 32 })
  await convert(folder, cast, { dtype: 'float16' })
  t.deepEqual(typesOf(cast), { matrices: ['float16'], others: ['float32'], stated: 1 })
})

/** A folder with some files, and weights by their names. */
async function folderOf(files, names = ['model.safetensors']) {
  const folder = scratchPath('some-folder')
  mkdirSync(folder)
  for (const name of names)
    await saveFile(join(folder, name), { 'a.weight': { dtype: 'float32', shape: [2, 2], data: weights(4, 1) } })
  for (const [name, value] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(value))
  return folder
}

test('tensors without a model become GGUF only with checkpoint: false, which lists no program that runs them', async (t) => {
  const { architectures: _, ...unnamed } = CONFIG
  const numbers = scratchPath('numbers.npz')
  await saveFile(numbers, { 'a.weight': { dtype: 'float32', shape: [2, 2], data: weights(4, 1) } })
  const damaged = await folderOf({})
  writeFileSync(join(damaged, 'config.json'), '{"architectures')
  for (const [source, reason] of [
    [damaged, /'config\.json' is not valid JSON/],
    [await folderOf({}), /no 'config\.json' is next to the weights/],
    [join(await folderOf({}), 'model.safetensors'), /no 'config\.json'/],
    [await folderOf({ 'config.json': unnamed }), /'config\.json' has no "architectures"/],
    [await folderOf({ 'adapter_config.json': {} }, ['adapter_model.safetensors']), /adapter \(LoRA\)/],
    [await folderOf({ 'params.json': {} }, ['consolidated.safetensors']), /'params\.json'/],
    [numbers, /general\.architecture/],
  ]) {
    for (const options of [{}, { rename: (name) => `b.${name}` }, { dtype: 'float16' }]) {
      const error = await rejectionOf(() => convert(source, scratchPath('x.gguf'), options))
      t.is(error.code, 'ZT_INVALID_ARG', error.message)
      t.regex(error.message, /no "general\.architecture".*option metadata.*checkpoint: false/)
      if (options.rename === undefined) t.regex(error.message, reason)
    }
    const { readers } = await convert(source, scratchPath('x.gguf'), { checkpoint: false })
    t.deepEqual(readers, ['gguf for Python', 'ztensor'])
    await t.throwsAsync(planJob('convert', source, scratchPath('y.gguf')), { message: /general\.architecture/ })
  }
})

test('lists llama.cpp as a reader only for files with an architecture, a tokenizer and tensors of all layers', async (t) => {
  const source = await folderOf({})
  const readersOf = async (metadata) =>
    (await convert(source, scratchPath('x.gguf'), { metadata, checkpoint: false })).readers
  const others = ['gguf for Python', 'ztensor']
  t.deepEqual(await readersOf({ 'general.architecture': 'llama' }), others)
  t.deepEqual(await readersOf({ 'tokenizer.ggml.model': 'gpt2' }), others)
  const both = { 'general.architecture': 'llama', 'tokenizer.ggml.model': 'gpt2' }
  t.deepEqual(await readersOf(both), others)
  const { folder } = await checkpoint()
  t.deepEqual((await convert(folder, scratchPath('y.gguf'))).readers, ['llama.cpp', ...others])
  t.deepEqual(
    (await convert(folder, scratchPath('z.gguf'), { copyMetadata: false, copyAttributes: false, checkpoint: false }))
      .readers,
    others,
  )
})

test('the command prints what is missing, and copies with --no-checkpoint', async (t) => {
  const source = await folderOf({})
  const [failed, target] = [await run(['convert', source, scratchPath('x.gguf')]), scratchPath('y.gguf')]
  t.is(failed.code, 2)
  t.regex(failed.stderr, /general\.architecture.*--metadata.*--no-checkpoint/s)
  t.notRegex(failed.stderr, /lists the names/)
  const made = await run(['convert', source, target, '--no-checkpoint'])
  t.is(made.code, 0, made.stderr)
  t.regex(made.stdout, /^read by: gguf for Python, ztensor$/m)
})

test('selects the weights of a model among other tensor files of its folder, with a warning', async (t) => {
  for (const beside of ['consolidated.safetensors', 'adapter_model.safetensors']) {
    const { folder } = await checkpoint()
    await saveFile(join(folder, beside), { x: { dtype: 'float32', shape: [1], data: Float32Array.of(1) } })
    const { tensors, warnings } = await convert(folder, scratchPath('x.gguf'))
    t.is(tensors, 12)
    t.like(warnings[0], { code: 'ZT_WARN_SKIPPED' })
    t.true(warnings[0].message.includes(beside))
    const file = await open(folder)
    t.is(file.size, 12)
    file.close()
  }
})

test('a rule applies to each name that it matches', async (t) => {
  const [source, target] = [scratchPath('s.safetensors'), scratchPath('t.zt')]
  await saveFile(source, {
    emb: { dtype: 'float32', shape: [4, 32], data: weights(128, 1) },
    'table.pos_embd': { dtype: 'float32', shape: [2, 32], data: weights(64, 2) },
    'blk.0.ffn_gate_inp.weight': { dtype: 'float32', shape: [2, 32], data: weights(64, 3) },
    bias: { dtype: 'float32', shape: [32], data: weights(32, 4) },
  })
  const typesBy = async (quantize) => {
    await convert(source, target, { quantize, overwrite: true })
    const file = openSync(target)
    const types = Object.fromEntries([...file.values()].map(({ name, storageType }) => [name, storageType]))
    file.close()
    return types
  }
  const none = {
    emb: 'float32',
    'table.pos_embd': 'float32',
    'blk.0.ffn_gate_inp.weight': 'float32',
    bias: 'float32',
  }
  t.deepEqual(await typesBy({ 'emb*': 'q8_0' }), { ...none, emb: 'q8_0' })
  t.deepEqual(await typesBy({ '*': 'q8_0' }), { ...none, emb: 'q8_0', 'table.pos_embd': 'q8_0' })
  const router = 'blk.0.ffn_gate_inp.weight'
  t.deepEqual(await typesBy({ [router]: 'q8_0' }), { ...none, [router]: 'q8_0' })
  for (const [quantize, message] of [
    [{ 'embb*': 'q8_0' }, /"embb\*" matches no tensor/],
    [{ '*': 'q8_0', 'typo*': 'q4_0' }, /"typo\*" matches no tensor/],
    [{ 'bi*': 'q8_0' }, /"bi\*" names no tensor that can become q8_0: those with one dimension/],
    ['q8_0', /nothing to quantize among 4 tensors: q8_0 takes matrices whose names end in "weight"/],
  ]) {
    const error = await rejectionOf(() => convert(source, scratchPath('x.zt'), { quantize }))
    t.is(error.code, 'ZT_INVALID_ARG', error.message)
    t.regex(error.message, message)
  }
})

test('rejects a pattern without a match, and an option without effect', async (t) => {
  const { folder } = await checkpoint()
  const source = join(folder, 'model.safetensors')
  for (const [options, message] of [
    [{ filter: 'modl.*' }, /filter: 'modl\.\*' matches no tensor/],
    [{ filter: ['model.*', '!typo*'] }, /filter: '!typo\*' matches no tensor/],
    [{ skip: 'typo*' }, /skip: 'typo\*' matches no tensor/],
    [{ skip: ['model.*', 'typo*'] }, /skip: 'typo\*' matches no tensor/],
    [{ imatrix: 'none.gguf' }, /imatrix has no effect without a quantization \(option quantize\)/],
    [{ requantize: true }, /requantize has no effect without a quantization \(option quantize\)/],
    [{ rename: { 'typo*': 'x*' } }, /rename: 'typo\*' matches no tensor/],
  ]) {
    const error = await rejectionOf(() => convert(source, scratchPath('x.zt'), options))
    t.is(error.code, 'ZT_INVALID_ARG', error.message)
    t.regex(error.message, message)
    if (options.imatrix === undefined && options.requantize === undefined)
      await t.throwsAsync(planJob('convert', source, scratchPath('y.zt'), options), { message })
  }
  const file = openSync(source)
  for (const call of [
    () => file.load({ filter: 'typo*' }),
    () => file.verify({ filter: ['model.*', 'typo*'] }),
    () => file.prefetch({ filter: '!typo*' }),
  ])
    t.regex((await rejectionOf(call)).message, /filter: '!?typo\*' matches no tensor/)
  file.close()
  for (const [flags, words] of [
    [['--skip', 'typo*'], /--skip: 'typo\*' matches no tensor/],
    [['--imatrix', 'none.gguf'], /--imatrix has no effect without a quantization \(--quantize\)/],
  ]) {
    const { code, stderr } = await run(['convert', source, scratchPath('z.zt'), ...flags])
    t.is(code, 2)
    t.regex(stderr, words)
  }
})

test('general.file_type follows the written types', async (t) => {
  const { folder } = await checkpoint({ dtype: 'float32' })
  const [f32, q8] = [scratchPath('f32.gguf'), scratchPath('q8.gguf')]
  await convert(folder, f32)
  await convert(folder, q8, { quantize: 'q8_0' })
  for (const [source, options, number] of [
    [q8, {}, 7],
    [q8, { dequantize: 'float16' }, 1],
    [q8, { dequantize: 'bfloat16' }, 32],
    [q8, { quantize: { '*': 'q4_0' }, requantize: true }, 2],
    [f32, { dtype: 'float16' }, 1],
    [f32, { quantize: { '*': 'iq4_nl' } }, 25],
    [f32, { dtype: 'float16', metadata: { 'general.file_type': { type: 'uint32', value: 99 } } }, 99],
  ]) {
    const target = scratchPath('x.gguf')
    await convert(source, target, options)
    t.is(openSync(target).metadata['general.file_type'], number, JSON.stringify(options))
  }
  for (const [ending, number] of [
    ['zt', 1],
    ['safetensors', '1'],
  ]) {
    const target = scratchPath(`x.${ending}`)
    await convert(q8, target, { dequantize: 'float16' })
    t.is(openSync(target).metadata['general.file_type'], number, ending)
  }
})

test('zTensor files of quantized GGUF cause no warning about decoded layouts', async (t) => {
  const source = fixturePath('gguf/types.gguf')
  for (const version of ['1.0', '1.2', '2']) {
    const target = scratchPath('x.zt')
    // Version 2 names the types that it supports.
    await convert(source, target, { version, skip: version === '2' ? ['*tq1_0*', '*tq2_0*', '*nvfp4*'] : false })
    const file = openSync(target)
    const decoded = [...file.values()].filter(({ layout }) => layout.startsWith('gguf.'))
    t.true(decoded.length > 10)
    const warned = new Set(file.warnings.map(({ tensor }) => tensor))
    for (const tensor of decoded) {
      const isDecoded = (await tensor.load({ as: 'float32' }).catch(() => undefined)) !== undefined
      t.is(warned.has(tensor.name), !isDecoded, `${version} ${tensor.name}`)
    }
    file.close()
  }
  const odd = scratchPath('odd.zt')
  const writer = await create(odd, { version: '1.2' })
  await writer.addObject('q', {
    layout: 'gguf.q9_9/1',
    shape: [1],
    components: { data: { data: Uint8Array.of(1) } },
  })
  await writer.finish()
  t.is(openSync(odd).warnings[0].code, 'ZT_WARN_UNKNOWN_LAYOUT')
})

test('reads the JSON of a checkpoint like Python, with a warning about repeated keys', async (t) => {
  const text = JSON.stringify(CONFIG)
  const config = text.replace('{', '{"max_position_embeddings": 77, "limits": [0.0, Infinity, NaN, -Infinity],')
  const { folder } = await checkpoint({ config })
  const target = scratchPath('x.gguf')
  const { warnings } = await convert(folder, target)
  t.is(openSync(target).metadata['llama.context_length'], 128)
  t.like(warnings, [{ code: 'ZT_WARN_REPEATED_KEY' }])
  t.regex(warnings[0].message, /'config\.json'.*max_position_embeddings/)
  // The index of shards, too; the header of safetensors stays strict.
  const index = join(folder, 'model.safetensors.index.json')
  const file = openSync(join(folder, 'model.safetensors'))
  const map = [...file.keys()].map((name) => `${JSON.stringify(name)}: "model.safetensors"`).join(', ')
  file.close()
  writeFileSync(index, `{"metadata": {"x": NaN}, "weight_map": {"lm_head.weight": "other.safetensors", ${map}}}`)
  const opened = openSync(index)
  t.is(opened.size, 12)
  t.true(opened.warnings.some(({ code }) => code === 'ZT_WARN_REPEATED_KEY'))
  opened.close()
  const strict = scratchPath('strict.safetensors')
  const bytes = readFileSync(join(folder, 'model.safetensors'))
  const length = Number(bytes.readBigUInt64LE())
  const header = bytes
    .toString('utf8', 8, 8 + length)
    .replace('{', '{"__metadata__":{"a":"1","a":"2"},')
    .replace(/"__metadata__":\{"format":"pt"\},?/, '')
  const start = Buffer.alloc(8)
  start.writeBigUInt64LE(BigInt(Buffer.byteLength(header)))
  writeFileSync(strict, Buffer.concat([start, Buffer.from(header), bytes.subarray(8 + length)]))
  t.is((await rejectionOf(() => open(strict))).code, 'ZT_BAD_INDEX')
})
