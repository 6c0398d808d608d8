// What a conversion says of the file that it writes is true: types, readers, and rules that count.
import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, create, open, saveFile } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'

const LLAMA_CPP = 'llama.cpp'

async function llama() {
  const { path } = scratchFolder()
  await writeLlama(path('m.gguf'), { layers: 2, inner: 256 })
  return path
}

/** The number of tensors of each type in a file. */
async function typesIn(path) {
  const file = await open(path)
  const counts = {}
  for (const { storageType } of file.values()) counts[storageType] = (counts[storageType] ?? 0) + 1
  file.close()
  return counts
}

test('tensors that have the type of quantize already keep it, although dequantize is for the others', async (t) => {
  const path = await llama()
  await convert(path('m.gguf'), path('q8.gguf'), { quantize: 'q8_0' })
  const before = await typesIn(path('q8.gguf'))
  const { quantized } = await convert(path('q8.gguf'), path('again.gguf'), { quantize: 'q8_0', dequantize: 'float16' })
  const after = await typesIn(path('again.gguf'))
  t.is(after.q8_0, quantized.types.q8_0)
  t.deepEqual(after, before)
})

test('a rule for float32 takes precedence over dtype and cast, also for tensors that are float32', async (t) => {
  const path = await llama()
  // The embeddings are left to dtype and cast.
  const rules = { 'output.weight': 'f32', '*attn*': 'f32', 'blk.*': 'q8_0' }
  for (const [at, options] of [{ dtype: 'float16' }, { cast: { float32: 'bfloat16' } }].entries()) {
    const target = path(`o${at}.gguf`)
    const { quantized } = await convert(path('m.gguf'), target, { ...options, quantize: rules })
    const file = await open(target)
    t.is(file.tensor('output.weight').dtype, 'float32')
    t.is(file.tensor('blk.0.attn_q.weight').dtype, 'float32')
    const matrices = [...file.values()].filter(({ dtype, shape }) => dtype === 'float32' && shape.length > 1)
    t.is(quantized.types.float32, matrices.length)
    file.close()
  }
})

test('llama.cpp is a reader of whole models with its tokenizer alone', async (t) => {
  const { folder } = await checkpoint({ dtype: 'float32' })
  const { path } = scratchFolder()
  const source = path('whole.gguf')
  const readersOf = async (from, options = {}) =>
    (await convert(from, path('x.gguf'), { ...options, overwrite: true })).readers
  t.true((await convert(folder, source)).readers.includes(LLAMA_CPP))
  t.true((await readersOf(source)).includes(LLAMA_CPP))
  t.true((await readersOf(source, { quantize: 'q8_0' })).includes(LLAMA_CPP))
  const { metadata: attributes } = await open(source)
  const layers = `${attributes['general.architecture']}.block_count`
  for (const [what, options] of Object.entries({
    'one layer': { filter: 'blk.0.*' },
    'embeddings alone': { filter: 'token_embd*' },
    'other names': { rename: { 'blk.*': 'foo.*' } },
    'a number of layers as text': { metadata: { [layers]: '2' } },
    'more layers': { metadata: { [layers]: { type: 'uint32', value: 90 } } },
    'no tokens': { metadata: { 'tokenizer.ggml.tokens': undefined } },
  }))
    t.false((await readersOf(source, options)).includes(LLAMA_CPP), what)
  // All values are text in safetensors.
  await convert(source, path('s.safetensors'))
  t.false((await readersOf(path('s.safetensors'))).includes(LLAMA_CPP), 'through safetensors')
})

test('Python before 2 is no reader of quantized tensors', async (t) => {
  const path = await llama()
  for (const version of ['1.0', '1.2', '2']) {
    const options = { version, copyMetadata: false, overwrite: true }
    const { readers } = await convert(path('m.gguf'), path('p.zt'), { ...options, quantize: 'q8_0' })
    t.is(readers.length > 1, version === '2', version)
    t.true((await convert(path('m.gguf'), path('plain.zt'), options)).readers.length > 1, version)
  }
})

test('rules of the command with the same pattern are rejected', async (t) => {
  const path = await llama()
  for (const rules of [
    ['--rename', 'output.weight=a', 'output.weight=b'],
    ['--quantize', 'output.weight=q8_0', 'output.weight=q4_0'],
  ]) {
    const { code, stderr } = await run(['convert', path('m.gguf'), path('d.zt'), ...rules])
    t.is(code, 2)
    t.regex(stderr, /has the pattern 'output\.weight' twice/)
  }
})

test('a set of GGUF is not written beside another set of the same name', async (t) => {
  const path = await llama()
  const { folder, path: to } = scratchFolder()
  await convert(path('m.gguf'), to('m.gguf'), { maxShardBytes: 60_000 })
  const names = readdirSync(folder).sort()
  const error = await rejectionOf(() => convert(path('m.gguf'), to('m.gguf'), { maxShardBytes: 200_000 }))
  t.is(error.code, 'ZT_EXISTS')
  t.deepEqual(readdirSync(folder).sort(), names)
  await convert(path('m.gguf'), to('m.gguf'), { maxShardBytes: 200_000, overwrite: true })
  t.true(readdirSync(folder).length < names.length)
  ;(await open(folder)).close()
})

test('a job of more files than can be opened is rejected', async (t) => {
  const { path } = scratchFolder()
  await saveFile(path('many.safetensors'), Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`t${at}`, new Int8Array(1)]))) // biome-ignore format: one call
  for (const target of ['m.safetensors', 'm.gguf']) {
    const options = { maxShardBytes: 1, ...(target.endsWith('.gguf') ? { checkpoint: false } : {}) }
    const error = await rejectionOf(() => planJob('convert', path('many.safetensors'), path(target), options))
    t.like(error, { code: 'ZT_LIMIT' })
    t.regex(error.message, /10001 files, and at most 10000 can be opened/)
  }
})

test('the command and the result name the files of a set as they are', async (t) => {
  const source = await llama()
  const names = /-00001-of-(\d{5})\.gguf$/
  for (const command of ['split', 'convert']) {
    const { folder, path } = scratchFolder()
    // A file of the name of the set is not part of it.
    await saveFile(path('m.gguf'), { a: Float32Array.of(1) })
    const args = [source('m.gguf'), path('m.gguf'), '--max-shard-size', '200kB', '--overwrite']
    const { code, stdout } = await run([command, ...args])
    t.is(code, 0)
    const [, printed] = /^wrote {2}(.*) and its shards: /.exec(stdout) ?? []
    t.regex(printed, names)
    t.true(existsSync(printed), printed)
    const count = readdirSync(folder).filter((name) => /-of-/.test(name)).length
    t.is(Number(names.exec(printed)[1]), count)
  }
  const { path } = scratchFolder()
  const options = { maxShardBytes: 200_000 }
  const entries = {
    'm.gguf': names,
    'm.safetensors': /m\.safetensors\.index\.json$/,
    'm.zt': /m\.zt$/,
  }
  for (const [name, expected] of Object.entries(entries)) {
    const version = name.endsWith('.zt') ? { version: '2' } : {}
    const made = await convert(source('m.gguf'), path(name), { ...options, ...version })
    t.regex(made.path, expected)
    const file = await open(made.path)
    t.is(file.size, made.tensors)
    file.close()
  }
  // All of it fits into one file.
  t.is((await convert(source('m.gguf'), path('one.gguf'), { maxShardBytes: 1e9 })).path, path('one.gguf'))
  t.is((await convert(source('m.gguf'), path('dry.gguf'), { dryRun: true })).path, undefined)
})

test('rename instead of the conversion of a checkpoint: the result and the error say so', async (t) => {
  const { folder } = await checkpoint()
  const target = scratchFolder().path('x.gguf')
  const rename = { 'model.*': '*' }
  const error = await rejectionOf(() => convert(folder, target, { rename }))
  t.regex(error.message, /general\.architecture.*rename gives the tensors other names/)
  const metadata = { 'general.architecture': 'mine' }
  const { skipped } = await convert(folder, target, { rename, metadata })
  t.is(skipped.length, 1)
  t.regex(skipped[0].message, /the metadata and the tokenizer of config\.json.*rename/)
  const job = await planJob('convert', folder, scratchFolder().path('x.gguf'), { rename, metadata })
  t.regex(job.warnings.map(({ message }) => message).join(), /rename gives the tensors other names/)
  const args = ['convert', folder, target, '--overwrite', '--metadata', 'general.architecture=mine']
  const { code, stdout } = await run([...args, '--rename', 'model.*=*'])
  t.is(code, 0)
  t.regex(stdout, /^left out: the metadata and the tokenizer of config\.json/m)
  // Not if it was asked for, and not without a configuration.
  const options = { rename, metadata, overwrite: true }
  t.deepEqual((await convert(folder, target, { ...options, checkpoint: false })).skipped, [])
  rmSync(join(folder, 'config.json'))
  t.deepEqual((await convert(folder, target, options)).skipped, [])
})

test('shards that are given one by one are no checkpoint: the error says what to name instead', async (t) => {
  const { folder, weights } = await checkpoint()
  const { path } = scratchFolder()
  await saveFile(path('more.safetensors'), { more: Float32Array.of(1) })
  const both = [weights, path('more.safetensors')]
  const needs = /list of files; to convert a checkpoint, name its folder or its index/
  t.regex((await rejectionOf(() => convert(both, path('x.gguf')))).message, needs)
  t.regex((await rejectionOf(() => convert(both, path('x.gguf'), { checkpoint: true }))).message, needs)
  const { code, stderr } = await run(['merge', path('x.gguf'), ...both])
  t.is(code, 2)
  t.regex(stderr, needs)
  const bytes = readFileSync(weights)
  const error = await rejectionOf(() => convert(bytes, path('x.gguf')))
  t.regex(error.message, /the source has no path; to convert a checkpoint, name its folder/)
  t.true((await convert(both, path('x.gguf'), { checkpoint: false })).tensors > 1)
  t.true((await convert([weights], path('y.gguf'))).readers.includes(LLAMA_CPP))
  t.true((await convert(folder, path('z.gguf'))).readers.includes(LLAMA_CPP))
})

test('rules for a checkpoint take the names of GGUF, and the error for others says so', async (t) => {
  const { folder } = await checkpoint({ dtype: 'float32' })
  const { path } = scratchFolder()
  const names = /the names of a checkpoint are those that it gets in GGUF, such as '[a-z_0-9.]+\.weight'/
  const error = await rejectionOf(() => convert(folder, path('x.gguf'), { cast: { 'model.layers.*': 'bfloat16' } }))
  t.regex(error.message, names)
  t.regex(
    (await rejectionOf(() => convert(folder, path('x.gguf'), { cast: { 'lm_head.weight': 'bfloat16' } }))).message,
    names,
  )
  await convert(folder, path('x.gguf'), { cast: { 'output.weight': 'bfloat16' } })
  const file = await open(path('x.gguf'))
  t.is(file.tensor('output.weight').dtype, 'bfloat16')
  file.close()
})

if (process.platform !== 'win32')
  test('a link that leads to no file stays a link, and its file is created', async (t) => {
    const { folder, path } = scratchFolder()
    mkdirSync(path('real'))
    symlinkSync('real/m.safetensors', path('link.safetensors'))
    symlinkSync('link.safetensors', path('twice.safetensors'))
    const tensors = { a: Float32Array.of(1) }
    const refused = await rejectionOf(() => saveFile(path('link.safetensors'), tensors, { overwrite: false }))
    t.is(refused.code, 'ZT_EXISTS')
    for (const name of ['link.safetensors', 'twice.safetensors']) {
      await saveFile(path(name), tensors)
      t.true(lstatSync(path(name)).isSymbolicLink(), name)
      t.true(lstatSync(path('real/m.safetensors')).isFile(), name)
      rmSync(path('real/m.safetensors'))
    }
    const source = scratchFolder().path('s.safetensors')
    await saveFile(source, tensors)
    t.is((await run(['convert', source, path('link.safetensors'), '--overwrite'])).code, 0)
    t.deepEqual(readdirSync(path('real')), ['m.safetensors'])
    symlinkSync('round.zt', path('round.zt'))
    symlinkSync('nowhere/m.zt', path('lost.zt'))
    for (const name of ['round.zt', 'lost.zt']) {
      t.is((await rejectionOf(() => saveFile(path(name), tensors))).code, 'ZT_IO', name)
      t.true(lstatSync(path(name)).isSymbolicLink(), name)
    }
    t.deepEqual(readdirSync(folder).sort(), ['link.safetensors', 'lost.zt', 'real', 'round.zt', 'twice.safetensors'])
  })

test('options that take the architecture from a GGUF file are an error, and create writes what it is given', async (t) => {
  const source = (await llama())('m.gguf')
  const { path } = scratchFolder()
  for (const options of [
    { copyMetadata: false, copyAttributes: false },
    { copyMetadata: false },
    { metadata: { 'general.architecture': undefined } },
  ]) {
    const error = await rejectionOf(() => convert(source, path('x.gguf'), options))
    t.is(error.code, 'ZT_INVALID_ARG')
    t.regex(error.message, /no "general\.architecture".*checkpoint: false/)
    await convert(source, path('x.gguf'), { ...options, checkpoint: false, overwrite: true })
    rmSync(path('x.gguf'))
  }
  const { code, stderr } = await run(['convert', source, path('x.gguf'), '--no-copy-metadata'])
  t.is(code, 2)
  t.regex(stderr, /general\.architecture.*--no-checkpoint/s)
  t.is((await run(['convert', source, path('x.gguf'), '--no-copy-metadata', '--no-checkpoint'])).code, 0)
  // A copy of a file that has none, such as an importance matrix.
  await saveFile(path('bare.gguf'), { a: Float32Array.of(1) })
  const { readers } = await convert(path('bare.gguf'), path('copy.gguf'))
  t.false(readers.includes(LLAMA_CPP))
  const writer = await create(path('made.gguf'))
  await writer.add('a', Float32Array.of(1))
  await writer.finish()
})

if (process.platform !== 'win32')
  test('a companion of a checkpoint that is a pipe or a folder: the error names it', async (t) => {
    for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'generation_config.json'])
      for (const source of [{}, { followLinks: true }]) {
        const { folder } = await checkpoint()
        rmSync(join(folder, name), { force: true })
        spawnSync('mkfifo', [join(folder, name)])
        const error = await rejectionOf(() => convert(folder, scratchFolder().path('x.gguf'), { source }))
        t.is(error?.code, 'ZT_IO', name)
        t.true(error.message.includes(name), error.message)
      }
  })

test('a NUL in the metadata of a job: the error names the option and the key', async (t) => {
  const source = (await llama())('m.gguf')
  for (const [metadata, place] of [
    [{ 'a\0b': 1 }, 'a\\0b'],
    [{ general: 'x', 'llama.x\0': 'y' }, 'llama.x\\0'],
  ])
    for (const call of [planJob.bind(undefined, 'convert'), convert]) {
      const error = await rejectionOf(() => call(source, scratchFolder().path('x.gguf'), { metadata }))
      t.is(error.code, 'ZT_INVALID_ARG')
      t.is(error.option, 'metadata')
      t.true(error.message.includes(place), error.message)
    }
})
