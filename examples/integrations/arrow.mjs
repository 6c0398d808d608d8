// Apache Arrow: a matrix of a file as a column of its rows, without a copy, and back from an Arrow file.
import assert from 'node:assert/strict'
import {
  Data,
  Field,
  FixedSizeList,
  Float32,
  makeData,
  makeVector,
  RecordBatch,
  Schema,
  Struct,
  Table,
  tableToIPC,
} from 'apache-arrow'
import { open } from 'ztensor'

const file = await open(process.argv[2] ?? 'examples/model.safetensors')
const wte = file.tensor('transformer.wte.weight')
const [length, width] = wte.shape

// The values of the list are the typed array over the file.
const values = makeData({ type: new Float32(), length: length * width, nullCount: 0, data: wte.data })
const item = new Field('item', new Float32(), false)
const type = new FixedSizeList(width, item)
const list = new Data(type, 0, length, 0, {}, [values])
assert.equal(makeVector(list).get(7).toArray().buffer, wte.data.buffer)

// The canonical extension type for tensors: one cell is one row.
const extension = new Map([
  ['ARROW:extension:name', 'arrow.fixed_shape_tensor'],
  ['ARROW:extension:metadata', JSON.stringify({ shape: [width] })],
])
const field = new Field('wte', type, false, extension)
const schema = new Schema([field])
const batch = new RecordBatch(schema, new Data(new Struct([field]), 0, length, 0, {}, [list]))
const table = new Table(schema, [batch])

// An Arrow file of it opens like any other.
const bytes = tableToIPC(table, 'file')
const back = await open(bytes)
const column = back.tensor('wte')
assert.deepEqual(column.shape, [length, width])
assert.deepEqual(column.data, wte.data)
console.log('apache-arrow:', table.numRows, 'rows,', bytes.length, 'bytes,', column.dtype, column.shape)
back.close()
file.close()
