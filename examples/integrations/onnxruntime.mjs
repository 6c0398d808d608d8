// Runs an ONNX graph whose weights are in a safetensors file. This package copies nothing: ONNX Runtime gets a view of the file.
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { open } from 'ztensor'

const graph = fileURLToPath(new URL('embeddings.onnx', import.meta.url))
const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')

// The session resolves external data by the name in the graph: here, to the bytes of a tensor of another file.
const session = await InferenceSession.create(graph, { externalData: [{ path: 'model.onnx_data', data: wte.bytes }] })

// Tensors go in and out as typed arrays: none of these lines copies.
const input_ids = new Tensor('int64', BigInt64Array.of(7n, 200n), [1, 2])
const { last_hidden_state: rows, scores } = await session.run({ input_ids })
assert.deepEqual(rows.dims, [1, 2, 64])
assert.deepEqual(rows.data.subarray(0, 64), wte.slice([[7, 8]]).data)

// A tensor of a file as an input: its data and shape are what ONNX Runtime takes.
const position = file.tensor('transformer.position_ids')
const input = new Tensor(position.dtype, position.data, [1, ...position.shape])
const all = await session.run({ input_ids: input })
assert.deepEqual(all.scores.dims, [1, 64, 256])

const own = scores.data.subarray(0, 256)
console.log('onnxruntime-node: token 7 is most like token', own.indexOf(Math.max(...own)))
await session.release()
file.close()
