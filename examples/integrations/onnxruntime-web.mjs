// The same graph in WebAssembly, as an Electron window or a browser runs it: the model and its weights are given as bytes.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { env, InferenceSession, Tensor } from 'onnxruntime-web'
import { open } from 'ztensor'

env.wasm.numThreads = 1
const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')
const graph = await readFile(new URL('embeddings.onnx', import.meta.url))

// WebAssembly has separate memory: the session copies the weights into it once.
const session = await InferenceSession.create(graph, { externalData: [{ path: 'model.onnx_data', data: wte.bytes }] })
const input_ids = new Tensor('int64', BigInt64Array.of(7n), [1, 1])
const { last_hidden_state: rows } = await session.run({ input_ids })
assert.deepEqual(rows.data, wte.slice([[7, 8]]).data)
console.log('onnxruntime-web:', rows.dims, rows.data.length, 'numbers')
await session.release()
file.close()
