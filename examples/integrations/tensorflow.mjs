// TensorFlow.js: tensors out of any file, and a model whose weights come from a safetensors file by an I/O handler.
import assert from 'node:assert/strict'
import * as tf from '@tensorflow/tfjs-core'
import '@tensorflow/tfjs-backend-cpu'
import { open } from 'ztensor'

await tf.setBackend('cpu')
const file = await open(process.argv[2] ?? 'examples/model.safetensors')

// tf.tensor takes a typed array. The CPU backend uses it directly; WebGL and WebGPU upload it at the first use.
const wte = file.tensor('transformer.wte.weight')
const embeddings = tf.tensor(wte.data, wte.shape, 'float32')
const rows = tf.gather(embeddings, tf.tensor1d([7, 200], 'int32'))
assert.deepEqual(rows.dataSync().subarray(0, 64), wte.slice([[7, 8]]).data)

// Dtypes that TensorFlow.js lacks become float32.
const attention = file.tensor('transformer.h.0.attn.c_attn.weight') // float16
const scores = tf.matMul(rows, tf.tensor(await attention.load({ as: 'float32' }), attention.shape))
assert.deepEqual(scores.shape, [2, 192])

/** Weights by their names, as `loadGraphModel` and `loadLayersModel` take them. */
async function weightsOf(tensorFile) {
  const specs = []
  const parts = []
  for (const tensor of tensorFile.values()) {
    if (!tensor.dtype.startsWith('float') && tensor.dtype !== 'bfloat16') continue
    specs.push({ name: tensor.name, shape: [...tensor.shape], dtype: 'float32' })
    parts.push((await tensor.load({ as: 'float32' })).buffer)
  }
  return { weightSpecs: specs, weightData: parts }
}

const { weightSpecs, weightData } = await weightsOf(file)
const weights = tf.io.decodeWeights(tf.io.CompositeArrayBuffer.join(weightData), weightSpecs)
assert.deepEqual(weights['transformer.wte.weight'].dataSync(), wte.data)
console.log('tensorflow.js:', Object.keys(weights).length, 'weights,', scores.shape, 'scores')
file.close()
