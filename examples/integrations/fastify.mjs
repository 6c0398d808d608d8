// Fastify: embeddings as JSON, or as the bytes of float32. A row is read when somebody asks for it.
import assert from 'node:assert/strict'
import Fastify from 'fastify'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const table = file.tensor('transformer.wte.weight')
const [rows, width] = table.shape

const app = Fastify()
const params = { type: 'object', properties: { row: { type: 'integer', minimum: 0, maximum: rows - 1 } } }

app.get('/embeddings/:row', { schema: { params } }, async (request) => {
  const { row } = request.params
  return [...(await table.load({ slice: [[row]], as: 'float32' }))]
})

app.get('/embeddings/:row/bytes', { schema: { params } }, async (request, reply) => {
  const values = await table.load({ slice: [[request.params.row]], as: 'float32' })
  return reply.type('application/octet-stream').send(Buffer.from(values.buffer, values.byteOffset, values.byteLength))
})

app.addHook('onClose', () => file.close())

// From here on: what a client sees.
const address = await app.listen({ port: 0, host: '127.0.0.1' })
const expected = [...table.slice([[7, 8]]).data]
assert.deepEqual(await (await fetch(`${address}/embeddings/7`)).json(), expected)
const bytes = await (await fetch(`${address}/embeddings/7/bytes`)).arrayBuffer()
assert.deepEqual([...new Float32Array(bytes)], expected)
assert.equal((await fetch(`${address}/embeddings/${rows}`)).status, 400)
console.log('fastify: rows of', width, 'numbers as JSON and as', bytes.byteLength, 'bytes')
await app.close()
