// Worker threads: all read one mapping. Results come back in shared memory.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')
const [rows] = wte.shape
const norms = new Float64Array(new SharedArrayBuffer(rows * 8))

const program = `
  const { workerData: { shared, norms, from, to } } = require('node:worker_threads')
  const { openSync } = require('ztensor')
  const file = openSync(shared) // no second open, and no second mapping
  const wte = file.tensor('transformer.wte.weight')
  const width = wte.shape[1]
  for (let row = from; row < to; row++) {
    let sum = 0
    for (const value of wte.data.subarray(row * width, (row + 1) * width)) sum += value * value
    norms[row] = Math.sqrt(sum)
  }
  file.close()`

const shared = file.share()
const parts = [0, 1, 2, 3].map((part) => [(part * rows) / 4, ((part + 1) * rows) / 4])
await Promise.all(
  parts.map(async ([from, to]) => {
    const worker = new Worker(program, { eval: true, workerData: { shared, norms, from, to } })
    await once(worker, 'exit')
  }),
)
const expected = Math.hypot(...wte.data.subarray(0, wte.shape[1]))
assert.ok(Math.abs(norms[0] - expected) < 1e-9)
assert.ok(norms.every((norm) => norm > 0))
console.log('worker_threads: the norms of', rows, 'rows by', parts.length, 'threads')
file.close()
