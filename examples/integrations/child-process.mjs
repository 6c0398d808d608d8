// child_process: a job in a separate process, which cannot crash the server. It opens the path: both processes map the same pages.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { open } from 'ztensor'

const path = process.argv[2] ?? 'examples/model.safetensors'
const file = await open(path)

if (process.send === undefined) {
  // 'advanced' sends typed arrays unchanged; the default would convert them to objects.
  const child = fork(fileURLToPath(import.meta.url), [path], { serialization: 'advanced' })
  const [{ name, sums }] = await once(child, 'message')
  const matrix = file.tensor(name)
  const row = matrix.data.subarray(0, matrix.shape[1]).reduce((sum, value) => sum + value, 0)
  assert.ok(sums instanceof Float64Array && Math.abs(sums[0] - row) < 1e-5)
  const [code] = await once(child, 'exit')
  assert.equal(code, 0)
  console.log('child_process: the sums of', sums.length, 'rows from another process')
} else {
  const matrix = file.tensor('transformer.wte.weight')
  const [rows, width] = matrix.shape
  const sums = Float64Array.from({ length: rows }, (_, row) => {
    return matrix.data.subarray(row * width, (row + 1) * width).reduce((sum, value) => sum + value, 0)
  })
  process.send({ name: matrix.name, sums })
  process.disconnect()
}
file.close()
