// Transformers.js: a virtual model folder. Its cache requests each file, and the weights are the bytes of a safetensors file.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { AutoModel, cos_sim, env, Tensor } from '@huggingface/transformers'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')

/** The files that Transformers.js requests, by the end of the name. */
const files = {
  'config.json': () => JSON.stringify({ model_type: 'bert', hidden_size: 64, vocab_size: 256 }),
  'onnx/model.onnx': () => readFile(new URL('embeddings.onnx', import.meta.url)),
  'onnx/model.onnx_data': () => wte.bytes,
}
env.useBrowserCache = false
env.useFSCache = false
env.useCustomCache = true
env.customCache = {
  match: async (name) => {
    const [, make] = Object.entries(files).find(([end]) => name.endsWith(`/${end}`)) ?? []
    return make && new Response(await make())
  },
  put: async () => {},
}
env.allowRemoteModels = false

const model = await AutoModel.from_pretrained('ours', { dtype: 'fp32', use_external_data_format: true })
const input_ids = new Tensor('int64', BigInt64Array.of(7n, 200n), [1, 2])
const { last_hidden_state } = await model({ input_ids })
assert.deepEqual(last_hidden_state.dims, [1, 2, 64])
assert.deepEqual(last_hidden_state.data.subarray(0, 64), wte.slice([[7, 8]]).data)

// A tensor of a file as a tensor of Transformers.js, with all its methods, over the same memory.
const embeddings = new Tensor('float32', wte.data, [...wte.shape])
assert.equal(embeddings.data, wte.data)
const [a, b] = [embeddings.slice([7, 8]).data, embeddings.slice([200, 201]).data]
console.log('transformers.js: cosine similarity of tokens 7 and 200:', cos_sim(a, b).toFixed(3))
await model.dispose()
file.close()
