// ndarray: strided views and their many routines over a file, without a copy.
import assert from 'node:assert/strict'
import ndarray from 'ndarray'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')
const matrix = ndarray(wte.data, wte.shape)
assert.equal(matrix.data, wte.data)

const column = matrix.pick(null, 3) // no copy: a stride
const corner = matrix.hi(2, 2).transpose(1, 0)
assert.equal(column.get(200), wte.data[200 * 64 + 3])
assert.equal(corner.get(1, 0), wte.data[1])
console.log('ndarray: a column of', column.shape, 'with stride', column.stride)
file.close()
