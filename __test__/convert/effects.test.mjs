// An option of a conversion that has no effect is an error that names it, in calls, plans of jobs and the command.
import { existsSync } from 'node:fs'
import test from 'ava'
import { convert, create, editMetadata, openSync, saveFile } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { run } from '../helpers/command.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { writeLlama } from '../helpers/tiny-models.mjs'

const METADATA = { 'general.architecture': 'x' }

/** Floats of two dtypes, integers, and a mask that safetensors and zTensor hold. */
async function floats(path = scratchPath('floats.safetensors')) {
  const zeros = (dtype, shape) => ({ dtype, shape, data: new Float32Array(shape.reduce((a, b) => a * b)) })
  await saveFile(path, {
    'a.weight': zeros('float32', [2, 32]),
    'b.weight': zeros('float32', [2, 32]),
    'c.weight': zeros('bfloat16', [2, 32]),
    bias: zeros('float32', [32]),
    ids: Int32Array.of(1, 2),
  })
  return path
}

async function llama() {
  const path = scratchPath('llama.gguf')
  await writeLlama(path, { layers: 1 })
  return path
}

/** Asserts that a conversion and the plan of one fail with the option and the message, and write nothing. */
async function isRefused(t, source, name, options, option, message) {
  const { path, folder } = scratchFolder()
  const target = path(name)
  for (const call of [
    () => convert(source, target, options),
    () => convert(source, target, { ...options, dryRun: true }),
    ...(/\.(gguf|safetensors)$/.test(name) ? [() => planJob('convert', source, target, options)] : []),
  ]) {
    const error = await rejectionOf(call)
    isArgumentError(t, error, option)
    t.is(error?.option, option, error?.message)
    t.regex(error?.message ?? '', message)
    t.false(existsSync(target))
  }
  return folder
}

for (const [title, options, message] of [
  [
    'a dtype that no tensor has',
    { cast: { float64: 'float32' } },
    /cast: 'float64' casts nothing to float32: no .* dtype float64/,
  ],
  ['a dtype behind another', { cast: { float32: 'bfloat16', float64: 'float32' } }, /cast: 'float64' casts nothing/],
  ['a group that no tensor has', { cast: { 'uint*': 'int64' } }, /cast: 'uint\*' casts nothing to int64/],
  [
    'a dtype of a name that has another',
    { cast: [{ name: 'a*', dtype: 'float64', to: 'float32' }] },
    /cast: 'a\*' casts nothing.*of that name has the dtype float64/,
  ],
  [
    'a name behind a pattern of it',
    { cast: { '*': 'float64', 'a.weight': 'bfloat16' } },
    /cast: 'a\.weight' casts nothing.*earlier rules/,
  ],
  [
    'a dtype behind its group',
    { cast: { 'float*': 'float64', float32: 'bfloat16' } },
    /cast: 'float32' casts nothing.*earlier rules/,
  ],
  [
    'dtype behind a group',
    { cast: { 'float*': 'float64' }, dtype: 'bfloat16' },
    /^dtype casts nothing.*earlier rules/,
    'dtype',
  ],
  ['a name that filter leaves out', { filter: 'a*', cast: { 'b*': 'bfloat16' } }, /cast: 'b\*' matches no tensor/],
  ['a dtype that filter leaves out', { filter: 'a*', cast: { bfloat16: 'float32' } }, /cast: 'bfloat16' casts nothing/],
  ['dtype without floats', { filter: 'ids', dtype: 'bfloat16' }, /^dtype casts nothing.*floating-point/, 'dtype'],
])
  test(`a rule that casts nothing is an error: ${title}`, async (t) => {
    const source = await floats()
    const option = options.dtype === undefined || options.cast?.['float*'] === undefined ? 'cast' : 'dtype'
    const named = title.startsWith('dtype') ? 'dtype' : option
    for (const name of ['x.safetensors', 'x.zt', 'x.npz']) await isRefused(t, source, name, options, named, message)
  })

test('a rule counts that keeps tensors from later ones, and one whose tensors have the dtype already', async (t) => {
  const source = await floats()
  for (const options of [
    { cast: { 'a.*': 'float32', 'float*': 'bfloat16' } },
    { cast: { bfloat16: 'bfloat16' } },
    { dtype: 'float32' },
    { filter: 'c.*', dtype: 'bfloat16' },
  ])
    t.true((await convert(source, scratchPath('x.safetensors'), options)).tensors > 0)
})

test('a rule of cast for tensors that quantize takes is an error; dtype is for those that it leaves', async (t) => {
  const source = await llama()
  for (const [options, message] of [
    [{ quantize: 'q8_0', cast: { 'blk.*': 'bfloat16' } }, /cast: 'blk\.\*' casts nothing to bfloat16/],
    [{ quantize: { '*': 'q8_0' }, cast: { 'output.weight': 'bfloat16' } }, /cast: 'output\.weight'.*quantize takes/],
    [{ quantize: { 'blk.*': 'q8_0', '*': 'f16' }, cast: { 'output.weight': 'bfloat16' } }, /quantize takes/],
  ])
    await isRefused(t, source, 'x.gguf', options, 'cast', message)
  const { quantized } = await convert(source, scratchPath('x.gguf'), {
    quantize: { 'blk.*': 'q8_0' },
    cast: { 'output.weight': 'bfloat16' },
    dtype: 'float16',
  })
  t.deepEqual(quantized.types, { q8_0: 7 })
  await convert(source, scratchPath('y.gguf'), { quantize: 'q8_0', dtype: 'float16' })
})

test('a pattern of quantize behind one that matches all of its tensors is an error', async (t) => {
  const source = await llama()
  for (const [rules, message] of [
    [{ '*': 'q8_0', 'output.weight': 'q4_0' }, /^"output\.weight" has no effect: earlier patterns/],
    [{ 'blk.*': 'q8_0', 'blk.0.*': 'q4_0', '*': 'q5_0' }, /^"blk\.0\.\*" has no effect/],
    [{ '*.weight': 'q8_0', '*': 'q4_0' }, /^"\*" has no effect/],
    [{ '*': 'q8_0', 'nope*': 'q4_0' }, /^"nope\*" matches no tensor/],
  ])
    await isRefused(t, source, 'x.gguf', { quantize: rules }, 'quantize', message)
  await convert(source, scratchPath('x.gguf'), { quantize: { '*_norm*': 'f32', 'output.weight': 'q6_k', '*': 'q8_0' } })
})

test('dequantize without a quantized tensor is an error', async (t) => {
  const source = await floats()
  for (const name of ['x.zt', 'x.safetensors'])
    await isRefused(t, source, name, { dequantize: 'float16' }, 'dequantize', /dequantize has no effect/)
  const { code, stderr } = await run(['convert', source, scratchPath('x.zt'), '--dequantize'])
  t.is(code, 2)
  t.regex(stderr, /^ztensor: --dequantize has no effect/)
  const blocks = scratchPath('blocks.gguf')
  await convert(await llama(), blocks, { quantize: { '*': 'q8_0' } })
  // A quantized file has no other matrices to cast.
  const options = { dequantize: 'float32', dtype: 'bfloat16' }
  await isRefused(t, blocks, 'x.gguf', options, 'dtype', /^dtype casts nothing to bfloat16: ".*" stays float32/)
  await isRefused(t, blocks, 'x.safetensors', { ...options, filter: '*_q.*' }, 'dtype', /^dtype casts nothing/)
  await convert(blocks, scratchPath('y.gguf'), { dequantize: 'float32' })
})

test('checkpoint: false is an error where no conversion of a checkpoint applies', async (t) => {
  const source = await floats()
  for (const name of ['x.zt', 'x.safetensors']) {
    const error = await rejectionOf(() => convert(source, scratchPath(name), { checkpoint: false }))
    isArgumentError(t, error, 'checkpoint is only supported for GGUF')
    const { code, stderr } = await run(['convert', source, scratchPath(name), '--no-checkpoint'])
    t.is(code, 2)
    t.regex(stderr, /^ztensor: --no-checkpoint is only supported for GGUF/)
  }
  await isRefused(t, await llama(), 'x.gguf', { checkpoint: false }, 'checkpoint', /checkpoint has no effect here/)
  // It counts for weights next to a configuration, and for metadata without an architecture.
  await convert(source, scratchPath('a.gguf'), { checkpoint: false })
  await convert((await checkpoint()).folder, scratchPath('b.gguf'), { checkpoint: false, metadata: METADATA })
})

test('canonical is an error for a format without a canonical form, also if it is false', async (t) => {
  const source = await floats()
  for (const name of ['x.zt', 'x.safetensors', 'x.npz']) {
    for (const canonical of [true, false]) {
      await isRefused(t, source, name, { canonical }, 'canonical', /canonical is only supported for zTensor 2/)
      const error = await rejectionOf(() => create(scratchPath(name), { canonical }))
      isArgumentError(t, error, 'canonical')
    }
    // A plan for .zt is one of zTensor 2.
    for (const more of name === 'x.safetensors' ? [[], ['--plan']] : [[]]) {
      const { code, stderr } = await run(['convert', source, scratchPath(name), '--no-canonical', ...more])
      t.is(code, 2)
      t.regex(stderr, /^ztensor: --no-canonical is only supported for zTensor 2/)
    }
  }
  await convert(source, scratchPath('x.zt'), { version: '2', canonical: false })
})

test('a key of metadata to remove that does not exist is an error, as in editMetadata', async (t) => {
  const source = await llama()
  for (const name of ['x.gguf', 'x.zt'])
    await isRefused(
      t,
      source,
      name,
      { metadata: { nope: undefined } },
      'metadata',
      /metadata: there is no key "nope" to remove/,
    )
  await isRefused(
    t,
    source,
    'x.gguf',
    { copyMetadata: false, metadata: { ...METADATA, 'general.name': undefined } },
    'metadata',
    /"general\.name"/,
  )
  const map = new Map([[5, undefined]])
  isArgumentError(
    t,
    await rejectionOf(() => convert(source, scratchPath('x.zt'), { metadata: map })),
    'there is no key 5',
  )
  for (const metadata of [{ nope: undefined }, new Map([['nope', undefined]])]) {
    const error = await rejectionOf(() => create(scratchPath('x.gguf'), { metadata }))
    isArgumentError(t, error, 'there is no key "nope" to remove')
  }
  t.is((await rejectionOf(() => editMetadata(source, { remove: 'nope' }))).code, 'ZT_NOT_FOUND')
  const target = scratchPath('y.gguf')
  await convert(source, target, { metadata: { 'general.name': undefined } })
  t.false('general.name' in openSync(target).metadata)
  // The target holds no such value, but the source has the key.
  const odd = scratchPath('odd.zt')
  await saveFile(odd, { a: Float32Array.of(1) }, { metadata: { bytes: Uint8Array.of(1), text: 'b' } })
  await convert(odd, scratchPath('x.safetensors'), { metadata: { bytes: undefined } })
})

test('a filter that selects nothing is an error', async (t) => {
  const source = await floats()
  for (const filter of [() => false, ({ dtype }) => dtype === 'float64', [], ['a.*', '!a.*']])
    for (const name of ['x.safetensors', 'x.zt'])
      await isRefused(t, source, name, { filter }, 'filter', /filter selects none of the tensors/)
})

test('a glob of skip that matches none of the selected tensors is an error', async (t) => {
  const source = await floats()
  for (const name of ['x.safetensors', 'x.npz'])
    await isRefused(t, source, name, { filter: 'a*', skip: 'b*' }, 'skip', /skip: 'b\*' matches no tensor/)
})

test('names for the tensors of a format that numbers them are an error', async (t) => {
  const source = await floats()
  await isRefused(t, source, 'x.btf', { filter: 'a*', rename: { 'a*': 'b*' } }, 'rename', /rename has no effect/)
})

test('a rule of a plan that is used for no tensor is an error, unless it is a final *', async (t) => {
  const file = openSync(await floats())
  const plan = (rules) => thrownBy(() => file.plan({ rank: 0, worldSize: 2, rules }))
  for (const [rules, message] of [
    [{ 'nope.*': 'row', '*': 'replicate' }, /rules: "nope\.\*" matches no tensor/],
    [{ '*': 'replicate', 'a.*': 'row' }, /rules: "a\.\*" has no effect: earlier rules match/],
    [
      [
        ['*', 'replicate'],
        ['*', 'row'],
        ['ids', 'replicate'],
      ],
      /rules: "\*" has no effect/,
    ],
    [
      [
        ['\ud800', 'row'],
        ['*', 'replicate'],
      ],
      /matches no tensor/,
    ],
  ]) {
    const error = plan(rules)
    isArgumentError(t, error, 'rules')
    t.is(error.option, 'rules')
    t.regex(error.message, message)
  }
  t.is(plan({ '?.weight': 'row', bias: 'replicate', ids: 'replicate', '*': 'replicate' }), undefined)
  file.close()
})
