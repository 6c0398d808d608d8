// `file.summary()`: totals by storage type, and what the metadata of GGUF says of a model.
import test from 'ava'
import { convert, create, openSync } from 'ztensor'
import { fixture } from '../helpers/command.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { CONFIG, checkpoint, WORDS } from '../helpers/tiny-checkpoint.mjs'

const summaryOf = (path, options) => {
  const file = openSync(path)
  try {
    return file.summary(options)
  } finally {
    file.close()
  }
}

test('adds up the tensors by storage type, that of most bytes first', (t) => {
  const path = fixture('zt2-quantized.zt')
  const file = openSync(path)
  const summary = file.summary()
  const tensors = [...file.values()]
  const sum = (values) => values.reduce((all, value) => all + value, 0)
  t.is(summary.path, path)
  t.is(summary.format, 'zt')
  t.is(summary.version, '2')
  t.is(summary.files, 1)
  t.is(summary.byteLength, file.byteLength)
  t.is(summary.tensors, file.size)
  t.is(summary.parameters, sum(tensors.map(({ size }) => size)))
  t.is(summary.bitsPerWeight, 5.01)
  t.is(summary.model, undefined)
  const types = Object.entries(summary.storageTypes)
  for (const [type, found] of types) {
    const own = tensors.filter(({ storageType }) => storageType === type)
    const [parameters, byteLength] = [sum(own.map(({ size }) => size)), sum(own.map(({ byteLength }) => byteLength))]
    const bitsPerWeight = Math.round((800 * byteLength) / parameters) / 100
    const share = parameters / summary.parameters
    t.deepEqual(found, { tensors: own.length, parameters, byteLength, share, bitsPerWeight })
  }
  t.is(sum(types.map(([, { tensors }]) => tensors)), file.size)
  t.is(summary.storageTypes.q4_k.bitsPerWeight, 4.5)
  const bytes = types.map(([, { byteLength }]) => byteLength)
  t.deepEqual(
    bytes,
    [...bytes].sort((a, b) => b - a),
  )
  file.close()
  t.throws(() => file.summary(), { code: 'ZT_CLOSED' })
})

test('counts only the tensors that the filter selects, and rejects a glob that matches none', (t) => {
  const path = fixture('st-dtypes.safetensors')
  const file = openSync(path)
  const [name] = file.keys()
  for (const filter of [name, [name], (tensor) => tensor.name === name]) {
    const { tensors, parameters } = file.summary({ filter })
    t.deepEqual([tensors, parameters], [1, file.tensor(name).size])
  }
  t.deepEqual(file.summary({ filter: () => false }).storageTypes, {})
  t.is(file.summary({ filter: () => false }).bitsPerWeight, undefined)
  t.throws(() => file.summary({ filter: 'no.such.*' }), { code: 'ZT_INVALID_ARG', message: /matches no tensor/ })
  file.close()
})

test('describes a converted checkpoint: architecture, context, vocabulary, mixture and tied embeddings', async (t) => {
  const metadata = { 'general.name': 'Tiny', 'general.license': 'mit', 'tokenizer.chat_template': '{{ messages }}' }
  const withoutHead = ({ 'lm_head.weight': _, ...others }) => others
  for (const [change, tiedEmbeddings] of [
    [(tensors) => tensors, false],
    [withoutHead, true],
  ]) {
    const { folder } = await checkpoint({ config: { ...CONFIG, tie_word_embeddings: tiedEmbeddings }, change })
    const target = scratchPath('tiny.gguf')
    await convert(folder, target, { quantize: 'q4_k_m', metadata, overwrite: true })
    const { model, tensors } = summaryOf(target)
    t.deepEqual(model, {
      name: 'Tiny',
      architecture: 'llama',
      contextLength: CONFIG.max_position_embeddings,
      vocabularySize: WORDS.length,
      mixture: 'Q4_K_M',
      hasChatTemplate: true,
      tiedEmbeddings,
      license: 'mit',
    })
    t.true(tensors > 0)
  }
})

test('metadata of other kinds describes no model', async (t) => {
  const none = {
    name: undefined,
    architecture: undefined,
    contextLength: undefined,
    vocabularySize: undefined,
    mixture: undefined,
    hasChatTemplate: false,
    tiedEmbeddings: undefined,
    license: undefined,
  }
  const wrong = {
    'general.name': 7,
    'general.architecture': '$&',
    'general.file_type': { type: 'uint32', value: 4_000_000_000 },
    '$&.context_length': -1,
    'tokenizer.ggml.tokens': 'a',
    'tokenizer.chat_template': '',
  }
  for (const [attributes, expected] of [
    [{}, none],
    [wrong, { ...none, architecture: '$&' }],
    [
      { 'general.architecture': '$&', '$&.context_length': 9 },
      { ...none, architecture: '$&', contextLength: 9 },
    ],
  ]) {
    const path = scratchPath('any.gguf')
    const writer = await create(path, { metadata: attributes, overwrite: true })
    await writer.add('x', new Float32Array(2))
    await writer.finish()
    t.deepEqual(summaryOf(path).model, expected)
  }
})
