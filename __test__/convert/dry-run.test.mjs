// A dry run returns what the conversion writes, and writes nothing.
import { readdirSync } from 'node:fs'
import { inspect } from 'node:util'
import test from 'ava'
import { convert, create, open } from 'ztensor'
import { some } from '../helpers/campaign.mjs'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

async function llama() {
  const { path } = scratchFolder()
  await writeLlama(path('m.gguf'), { layers: 2, inner: 256 })
  return path('m.gguf')
}

async function plain() {
  const { path } = scratchFolder()
  const writer = await create(path('m.zt'), { version: '1.2', metadata: { a: 'b', list: [1] } })
  for (let at = 0; at < 7; at++)
    await writer.add(`t.${at}`, { dtype: 'float32', shape: [at + 1, 100], data: new Float32Array(100 * (at + 1)) })
  await writer.add('half', { dtype: 'float16', shape: [3], data: new Uint16Array(3) })
  await writer.add('wide', { dtype: 'complex128', shape: [2], data: new Float64Array(4) })
  await writer.finish()
  return path('m.zt')
}

const CASES = {
  'a mixture of GGUF': async () => [await llama(), 'q.gguf', { quantize: 'q4_k_m' }],
  'a checkpoint to a mixture': async () => [(await checkpoint({ dtype: 'float32' })).folder, 'q.gguf', { quantize: 'q8_0' }],
  'a set of GGUF': async () => [await llama(), 'q.gguf', { quantize: 'q5_k_s', maxShardBytes: 60_000 }],
  'quantized tensors to floats': async () => [fixturePath('gguf/types.gguf'), 'f.safetensors', { dequantize: 'float32' }],
  'casts, names and a filter': async () => [
    await plain(),
    'c.safetensors',
    { cast: { float32: 'bfloat16' }, filter: ['t.*', '!t.3'], rename: { 't.*': 'x.*' } },
  ],
  'tensors that are skipped': async () => [await plain(), 's.safetensors', { skip: true }],
  'a set of safetensors': async () => [await plain(), 's.safetensors', { skip: true, maxShardBytes: 3000 }],
  'a set of zTensor 2': async () => [
    await plain(),
    's.zt',
    { version: '2', canonical: false, maxShardBytes: 10_000, alignment: 4096 },
  ],
  'sparse tensors': async () => [fixturePath('zt2-sparse.zt'), 'n.zt', { version: '1.2' }],
} // biome-ignore format: one case a line

for (const [title, make] of Object.entries(CASES)) {
  test(`a dry run returns what is written: ${title}`, async (t) => {
    const [source, name, options] = await make()
    const { folder, path } = scratchFolder()
    const target = path(name)
    const { plan, ...dry } = await convert(source, target, { ...options, dryRun: true })
    t.deepEqual(readdirSync(folder), [])
    const { plan: none, ...real } = await convert(source, target, options)
    t.is(none, undefined)
    const facts = ({ skipped, ...result }) => ({ ...result, skipped: skipped.map(String) })
    t.deepEqual(facts(dry), facts(real))
    const names = readdirSync(folder)
    const isSet = options.maxShardBytes !== undefined
    t.is(plan.files > 1, isSet)
    t.is(names.filter((one) => /\d{5}-of-/.test(one)).length, isSet ? plan.files : 0)
    const file = await open(names.includes(name) ? target : folder)
    const written = Array.from(file.values(), ({ name, storageType, shape, byteLength }) => ({
      ...{ name, storageType, shape: [...shape], byteLength },
    }))
    const planned = plan.tensors.map(({ file: _, ...tensor }) => tensor)
    const byName = (one, other) => (one.name < other.name ? -1 : 1)
    t.deepEqual(planned.sort(byName), written.sort(byName))
    t.is(
      plan.byteLength,
      written.reduce((sum, { byteLength }) => sum + byteLength, 0),
    )
    if (isSet)
      for (const { name, file: number } of plan.tensors) {
        const { path } = file.tensor(name).components.values().next().value
        t.true(path.includes(`${String(number + 1).padStart(5, '0')}-of-`), `${name} in ${path}`)
      }
    file.close()
  })
}

test('a dry run rejects what the conversion rejects', async (t) => {
  const { path } = scratchFolder()
  for (const [source, target, options] of [
    [await plain(), path('x.safetensors'), {}],
    [await plain(), path('x.gguf'), { skip: true }],
    [await llama(), path('x.gguf'), { quantize: 'q9' }],
    [await llama(), path('x.gguf'), { metadata: { k: null } }],
    [await llama(), path('x.gguf'), { cast: { nothing: 'float16' } }],
  ]) {
    const [dry, real] = [
      await rejectionOf(() => convert(source, target, { ...options, dryRun: true })),
      await rejectionOf(() => convert(source, target, options)),
    ]
    t.deepEqual([dry.code, dry.message], [real.code, real.message])
  }
})

const TARGETS = [
  ...['0.1', '1.0', '1.2', '2'].map((version) => ({ format: 'zt', version })),
  ...['safetensors', 'btf', 'gguf', 'npy', 'npz'].map((format) => ({ format })),
]
const OPTIONS = [
  ...[{ k: 'v' }, { k: 3 }, { k: { a: [1] } }, { k: null }, { a: undefined }, { 'cafe\u0301': 'x' }].map((metadata) => ({ metadata })),
  ...[{ x: 'y' }, { x: 1 }, { x: 2n ** 70n }, new Map([[1, 'x']])].map((metadata) => ({ metadata })),
  { copyMetadata: false },
  { copyMetadata: false, metadata: { k: 'v' } },
  { copyAttributes: false },
  { strictMetadata: true },
  { generator: 'x' },
  { alignment: 7 },
  { maxShardBytes: 10 },
  { compression: { frameSize: 4096 } },
  { digest: 'sha256' },
  { canonical: true },
  { cast: { float32: 'float16' } },
  { rename: () => 'same' },
  { rename: (name) => `${name}\0` },
  { filter: 'none' },
  { dequantize: 'float32' },
  { quantize: 'q8_0' },
  { quantize: 'q8_0', imatrix: 'no-such-file' },
  { skip: true, metadata: { k: { a: 1 } } },
] // biome-ignore format: one kind of option a line

for (const [turn, [title, make]] of Object.entries({
  'dense tensors': plain,
  // Their data is read before anything is written.
  'sparse tensors': () => fixturePath('zt2-sparse.zt'),
  blocks: () => fixturePath('gguf/types.gguf'),
}).entries()) {
  test(`a dry run and the conversion agree about each option in each format: ${title}`, async (t) => {
    const { path } = scratchFolder()
    const source = await make()
    const calls = TARGETS.flatMap((target) => OPTIONS.map((options) => ({ ...target, ...options })))
    let refused = 0
    for (const options of some(calls, 5, turn)) {
      const outcome = (more) =>
        convert(source, path('out'), { ...options, ...more }).then(
          ({ plan: _, ...result }) => ({ ...result, skipped: result.skipped.map(String) }),
          ({ name, code, option, tensor, message, rule }) => ({ name, code, option, tensor, message, rule }),
        )
      const dry = await outcome({ dryRun: true })
      t.deepEqual(dry, await outcome({ overwrite: true }), inspect(options))
      if (dry.code !== undefined) refused++
    }
    t.true(refused > 10, String(refused))
  })
}

test('convert --dry-run and quantize --dry-run print the tensors and their sizes', async (t) => {
  const source = await llama()
  const { folder, path } = scratchFolder()
  const { code, stdout, stderr } = await run(['quantize', source, path('q.gguf'), 'q4_k_m', '--dry-run'])
  t.is(stderr, '')
  t.is(code, 0)
  const lines = stdout.split('\n')
  t.regex(lines[0], /^NAME +DTYPE +SHAPE +SIZE$/)
  t.true(
    lines.some((line) => /^blk\.0\.attn_q\.weight +q4_k +\[256, 256\] +36\.0 KiB$/.test(line)),
    stdout,
  )
  t.regex(stdout, /\nwould write .*q\.gguf: \d+ tensors, [\d.]+ [KM]iB\nread by: .*\ntypes: /)
  const plan = JSON.parse(
    (await run(['convert', source, path('c.safetensors'), '--dtype', 'bf16', '--dry-run', '--json'])).stdout,
  )
  t.is(plan.event, 'plan')
  t.is(plan.tensors.length, lines.findIndex((line) => line.startsWith('would write')) - 1)
  t.deepEqual(readdirSync(folder), [])
})
