// Fastify: rows of a table by their indices, as the bytes of float32. One row as JSON.
import assert from 'node:assert/strict'
import Fastify from 'fastify'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const table = file.tensor('transformer.wte.weight')
const [rows] = table.shape

const app = Fastify()
const row = { type: 'integer', minimum: 0, maximum: rows - 1 }
const ids = { type: 'array', maxItems: 4096, items: row }
const body = { type: 'object', properties: { ids }, required: ['ids'] }
app.post('/embeddings', { schema: { body } }, async (request, reply) => {
  const { ids } = Object(request.body) // the schema has validated it
  const vectors = await table.take(ids, { as: 'float32' })
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength)
  return reply.type('application/octet-stream').send(bytes)
})
app.addHook('onClose', () => file.close())

const params = { type: 'object', properties: { row } }
app.get('/embeddings/:row', { schema: { params } }, async (request) => {
  return [...(await table.load({ slice: [[request.params.row]], as: 'float32' }))]
})

// From here on, the client.
const address = await app.listen({ port: 0, host: '127.0.0.1' })
const post = (ids) =>
  fetch(`${address}/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ids }),
  })
const expected = (at) => [...table.slice([[at]]).data]
assert.deepEqual(await (await fetch(`${address}/embeddings/7`)).json(), expected(7))
const bytes = await (await post([7, 0, 7])).arrayBuffer()
assert.deepEqual([...new Float32Array(bytes)], [...expected(7), ...expected(0), ...expected(7)])
assert.equal((await post([rows])).status, 400)
assert.equal((await fetch(`${address}/embeddings/${rows}`)).status, 400)
console.log('fastify: 3 rows of', expected(0).length, 'numbers as', bytes.byteLength, 'bytes')
await app.close()
