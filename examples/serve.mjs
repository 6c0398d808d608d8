// Serves the rows of an embedding over HTTP: node examples/serve.mjs [PATH [NAME [PORT]]], then GET /3
// The weights stay in the file's mapping: opening takes no time, and pages are read when rows are requested.
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { open, toFloat32 } from 'ztensor'

const [path = fileURLToPath(new URL('model.safetensors', import.meta.url)), name, port = '0'] = process.argv.slice(2)
const file = await open(path)
const matrix = name === undefined ? [...file.values()].find(({ shape }) => shape.length === 2) : file.tensor(name)
if (matrix === undefined) throw new Error(`${path} has no matrix`)

const server = createServer((request, response) => {
  const row = Number(request.url?.slice(1))
  if (!Number.isInteger(row) || row < 0 || row >= matrix.shape[0]) {
    response.writeHead(404).end()
    return
  }
  const slice = matrix.slice([[row, row + 1]]) // no copy: rows are runs of memory
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify([...toFloat32(slice.data, slice.dtype)]))
})
server.listen(Number(port), '127.0.0.1', () => {
  console.log(`${matrix.name} on http://127.0.0.1:${server.address().port}/`)
})
process.once('SIGTERM', () => server.close(() => file.close()))
