// Fastify: rows of a table by their indices, as the bytes of float32. One row as JSON.
import assert from 'node:assert/strict'
import Fastify from 'fastify'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const table = file.tensor('transformer.wte.weight')
const [rows] = table.shape

const app = Fastify()
const ids = { type: 'array', maxItems: 4096, items: { type: 'integer', minimum: 0, maximum: rows - 1 } }
const body = { type: 'object', properties: { ids }, required: ['ids'] }
app.post('/embeddings', { schema: { body } }, async (request, reply) => {
  const vectors = await table.take(request.body.ids, { as: 'float32' })
  return reply
    .type('application/octet-stream')
    .send(Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength))
})
app.addHook('onClose', () => file.close())

const params = { type: 'object', properties: { row: ids.items } }
app.get('/embeddings/:row', { schema: { params } }, async (request) => {
  return [...(await table.load({ slice: [[request.params.row]], as: 'float32' }))]
})

// From here on: what a client sees.
const address = await app.listen({ port: 0, host: '127.0.0.1' })
const post = (ids) =>
  fetch(`${address}/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ids }),
  })
const row = (at) => [...table.slice([[at]]).data]
assert.deepEqual(await (await fetch(`${address}/embeddings/7`)).json(), row(7))
const bytes = await (await post([7, 0, 7])).arrayBuffer()
assert.deepEqual([...new Float32Array(bytes)], [...row(7), ...row(0), ...row(7)])
assert.equal((await post([rows])).status, 400)
assert.equal((await fetch(`${address}/embeddings/${rows}`)).status, 400)
console.log('fastify: 3 rows of', row(0).length, 'numbers as', bytes.byteLength, 'bytes')
await app.close()
