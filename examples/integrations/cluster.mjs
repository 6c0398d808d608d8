// cluster: each process opens the file. The page cache holds one copy for all of them, since each maps the same file.
import assert from 'node:assert/strict'
import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { open } from 'ztensor'

const PROCESSES = 2

if (cluster.isPrimary) {
  const workers = Array.from({ length: PROCESSES }, () => cluster.fork())
  const ports = await Promise.all(workers.map(async (worker) => (await once(worker, 'listening'))[0].port))
  assert.equal(new Set(ports).size, 1)
  const answers = new Set()
  while (answers.size < PROCESSES) {
    const response = await fetch(`http://127.0.0.1:${ports[0]}/7`, { headers: { connection: 'close' } })
    assert.equal((await response.json()).length, 64)
    answers.add(response.headers.get('x-process'))
  }
  console.log('cluster: rows from', answers.size, 'processes at one port')
  for (const worker of workers) worker.kill()
} else {
  const file = await open(process.argv[2] ?? 'examples/model.safetensors')
  const table = file.tensor('transformer.wte.weight')
  const server = createServer(async (request, response) => {
    const row = Number(request.url.slice(1))
    const values = await table.load({ slice: [[row]], as: 'float32' })
    response.setHeader('x-process', String(process.pid))
    response.end(JSON.stringify([...values]))
  })
  server.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
}
