// Errors name the options that change the outcome as data: `option`, and in `hints` the parts of the message that name options.
import test from 'ava'
import { convert, create, editMetadata, open, openSync, ZTensorError } from 'ztensor'
import { planJob } from 'ztensor/jobs'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const safetensors = fixturePath('st-dtypes.safetensors')
const sparse = fixturePath('zt101-sparse.zt')
const floats = () => written({}, (writer) => writer.add('x', new Float32Array(4), { shape: [2, 2] }))

/** Each case: the call, the code, and the options of the hints in order; `body` is the message without the hints. */
const cases = {
  'Rust: a file exists': {
    call: async () => convert(await floats(), await floats()),
    code: 'ZT_EXISTS',
    hints: [['overwrite', ' (option overwrite)']],
    body: /exists already$/,
  },
  'Rust: a limit': {
    call: () => open(safetensors, { maxIndexBytes: 10 }),
    code: 'ZT_LIMIT',
    hints: [['maxIndexBytes', ' (option maxIndexBytes)']],
    body: /more than the 10 allowed$/,
  },
  'Rust: another format': {
    call: () => open(safetensors, { format: 'zt' }),
    code: 'ZT_BAD_MAGIC',
    hints: [['format', ': omit the option format']],
    body: /this is safetensors, not zTensor$/,
  },
  'Rust: a file in memory without a known format': {
    call: () => open(Buffer.alloc(100, 0xa7)),
    code: 'ZT_BAD_MAGIC',
    hints: [['format', '. If it is one nevertheless, specify its format in the options']],
    body: /not a tensor file/,
  },
  'Rust: an option that excludes another': {
    call: () => create(scratchPath(), { version: '2', compression: true }).then((writer) => writer.finish()),
    code: 'ZT_INVALID_ARG',
    kind: RangeError,
    hints: [['canonical', '; write it with canonical: false']],
    body: /a canonical file is not compressed$/,
  },
  'Rust: attributes that the target cannot hold': {
    call: async () => {
      const noted = await written({ metadata: { by: 'me' } }, (writer) => writer.add('x', new Float32Array(1)))
      return convert(noted, scratchPath('y.npz'), { strictMetadata: true })
    },
    code: 'ZT_INVALID_ARG',
    hints: [
      ['skip', ' (option skip leaves it out)'],
      ['copyMetadata', '; copyMetadata: false omits it'],
    ],
    body: /cannot hold the metadata of the file$/,
  },
  'TypeScript: tensors that the target cannot hold': {
    call: () => convert(safetensors, scratchPath('x.npz')),
    code: 'ZT_BAD_DTYPE',
    hints: [
      ['skip', ' (option skip leaves it out)'],
      ['cast', ' (option cast converts dtypes)'],
    ],
    body: /cannot represent everything in the source: /,
  },
  'TypeScript: two tensors of one name': {
    call: () => convert(safetensors, scratchPath('x.zt'), { rename: () => 'x' }),
    code: 'ZT_BAD_INDEX',
    hints: [['rename', ' (option rename)']],
    body: /would both be called "x"$/,
  },
  'TypeScript: a dense tensor over the limit': {
    call: () => {
      const file = openSync(sparse)
      const tensor = [...file].map(([, tensor]) => tensor).find((tensor) => tensor.layout === 'sparse_csr')
      return tensor.loadCsr().then((csr) => csr.toDense({ maxBytes: 1 }))
    },
    code: 'ZT_LIMIT',
    hints: [['maxBytes', ' (option maxBytes)']],
    body: /more than the 1 allowed$/,
  },
  'TypeScript: a hint inside the message': {
    call: async () =>
      openSync(await floats())
        .tensor('x')
        .toArray({ maxElements: 1 }),
    code: 'ZT_LIMIT',
    hints: [['maxElements', ' (option maxElements)']],
    body: /more than the 1 allowed; take a part with slice\(\)$/,
  },
  'TypeScript: an argument, with advice about another option': {
    call: async () => convert(await floats(), scratchPath('x.gguf'), { checkpoint: false, imatrix: 'none.gguf' }),
    code: 'ZT_INVALID_ARG',
    kind: TypeError,
    option: 'imatrix',
    hints: [['quantize', ' (option quantize)']],
    body: /imatrix has no effect without a quantization$/,
  },
  'TypeScript: a job': {
    call: async () => planJob('convert', await floats(), scratchPath('x.zt'), { canonical: true }),
    code: 'ZT_INVALID_ARG',
    kind: TypeError,
    hints: [['canonical', ': set canonical: false']],
    body: /^a canonical file cannot be divided$/,
  },
}

for (const [title, { call, code, kind = ZTensorError, option, hints, body }] of Object.entries(cases)) {
  test(`an error has its option and its hints as data: ${title}`, async (t) => {
    const error = await rejectionOf(call)
    t.is(error?.code, code, error?.stack)
    t.true(error instanceof kind)
    t.is(error.option, option ?? hints[0][0])
    t.deepEqual(
      error.hints.map(({ option, text }) => [option, text]),
      hints,
    )
    for (const { text } of error.hints) t.true(error.message.includes(text), error.message)
    t.regex(
      error.hints.reduce((message, { text }) => message.replaceAll(text, ''), error.message),
      body,
    )
    t.false(Object.keys(error).includes('hints'), 'a logged error does not list its message twice')
  })
}

test('an error about an argument has its name as the option, and no hints', async (t) => {
  const source = await floats()
  for (const [call, option] of [
    [() => open(source, { maxRank: 'x' }), 'maxRank'],
    [() => convert(source, scratchPath('x.zt'), { filter: 'zz*' }), 'filter'],
    [() => convert(source, scratchPath('x.zt'), { skip: 'zz*' }), 'skip'],
    [() => convert(source, scratchPath('x.zt'), { rename: { 'zz*': 'x' } }), 'rename'],
    [() => convert(source, scratchPath('x.zt'), { cast: { zz: 'bfloat16' } }), 'cast'],
    [() => convert(source, scratchPath('x.zt'), { dtype: 'int8' }), 'dtype'],
    [() => create(scratchPath('x.npz'), { compression: { level: 12 } }), 'compression.level'],
    [() => create(scratchPath('x.npy'), { maxShardBytes: 1000 }), 'maxShardBytes'],
    [() => editMetadata(source, { drop: 'zz*' }), 'drop'],
    [() => open('s3://b/k.zt', { remote: { store: { endpoint: 'nonsense' } } }), 'remote.store.endpoint'],
  ]) {
    const error = await rejectionOf(async () => call())
    isArgumentError(t, error, option)
    t.is(error.option, option)
    t.true(error.message.startsWith(option), error.message)
    t.is(error.hints, undefined)
  }
})

test('an error without an option has neither', async (t) => {
  const error = await rejectionOf(() => open('missing.zt'))
  t.false('option' in error)
  t.false('hints' in error)
})

test('each problem of an error with several has its own option', async (t) => {
  const error = await rejectionOf(() => open([safetensors, sparse], { maxIndexBytes: 10 }))
  t.is(error.option, 'maxIndexBytes')
  t.deepEqual(
    error.hints.map(({ option }) => option),
    ['maxIndexBytes'],
  )
  t.deepEqual(
    error.cause.map(({ option }) => option),
    ['maxIndexBytes', 'maxIndexBytes'],
  )
})

test('a program constructs an error with a hint', (t) => {
  const hints = [{ option: 'overwrite', text: ' (option overwrite)' }]
  const error = new ZTensorError('ZT_EXISTS', "'a' exists (option overwrite)", { hints })
  t.is(error.option, 'overwrite')
  t.is(error.hints, hints)
})
