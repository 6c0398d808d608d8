// tensor.data: its class, that it aliases the file, and that writes to it stay private.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import test from 'ava'
import { openSync, ZTensorError } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { frame } from '../corpus/zstd.mjs'
import { f32s, SQUARE, square01, square10, square12, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { canMap, isCopied, isMapped } from '../helpers/data-placement.mjs'
import { thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

// dtype -> [safetensors name, class, elements of the array for each element of the tensor]
const ARRAYS = {
  float64: ['F64', Float64Array],
  float32: ['F32', Float32Array],
  float16: ['F16', Uint16Array],
  bfloat16: ['BF16', Uint16Array],
  int64: ['I64', BigInt64Array],
  int32: ['I32', Int32Array],
  int16: ['I16', Int16Array],
  int8: ['I8', Int8Array],
  uint64: ['U64', BigUint64Array],
  uint32: ['U32', Uint32Array],
  uint16: ['U16', Uint16Array],
  uint8: ['U8', Uint8Array],
  bool: ['BOOL', Uint8Array],
  float8_e4m3fn: ['F8_E4M3', Uint8Array],
  float8_e5m2: ['F8_E5M2', Uint8Array],
  float8_e4m3fnuz: ['F8_E4M3FNUZ', Uint8Array],
  float8_e5m2fnuz: ['F8_E5M2FNUZ', Uint8Array],
  float8_e8m0fnu: ['F8_E8M0', Uint8Array],
  float4_e2m1fn: ['F4', Uint8Array, 0.5],
  float6_e2m3fn: ['F6_E2M3', Uint8Array, 0.75],
  float6_e3m2fn: ['F6_E3M2', Uint8Array, 0.75],
  complex64: ['C64', Float32Array, 2],
}

for (const [dtype, [spelling, Class, ratio = 1]] of Object.entries(ARRAYS)) {
  test(`${dtype}: ${Class.name} over the bytes in the file`, async (t) => {
    const elements = 8
    const bytes = Buffer.from(
      Array.from({ length: elements * ratio * Class.BYTES_PER_ELEMENT }, (_, i) => (i * 37 + 1) & 0x7f),
    )
    const header = JSON.stringify({ x: { dtype: spelling, shape: [2, 4], data_offsets: [0, bytes.length] } })
    const path = scratchFile(safetensors(header.padEnd(Math.ceil(header.length / 8) * 8), bytes))
    const file = openSync(path)
    const tensor = file.tensor('x', { dtype })
    t.is(tensor.size, elements)
    t.is(tensor.byteLength, bytes.length)
    for (const array of [tensor.data, await tensor.load(), tensor.components.get('data').data]) {
      t.is(array.constructor, Class)
      t.is(array.length, elements * ratio)
      t.is(array.byteLength, bytes.length)
    }
    t.deepEqual(littleEndian(tensor.components.get('data').data.slice()), littleEndian(tensor.data.slice()))
    isMapped(t, tensor, Class.BYTES_PER_ELEMENT)
    file.close()
  })
}

test('complex128 is a Float64Array, interleaved', (t) => {
  const file = openSync(
    zt12({
      c: {
        shape: [1],
        format: 'dense',
        components: {
          data: { dtype: 'f64', type: 'complex128', bytes: littleEndian(new Float64Array([1, -2])) },
        },
      },
    }),
  )
  t.deepEqual(file.tensor('c', { dtype: 'complex128' }).data, new Float64Array([1, -2]))
  file.close()
})

test('data returns the same object at each access', (t) => {
  for (const name of [
    'zt101-shapes.zt',
    'zt01h-zstd.zt',
    'zt01h-big-endian.zt',
    'st-empty-tensors.safetensors',
    'btf-dense.btf',
  ]) {
    const file = openSync(vector(name).path)
    for (const tensor of file.values()) {
      t.is(tensor.data, tensor.data, tensor.name)
      t.is(file.tensor(tensor.name).data, tensor.data, tensor.name)
    }
    file.close()
  }
})

test('a tensor has a separate buffer, of exactly its length', (t) => {
  const file = openSync(vector('zt12-dtypes.zt').path)
  const buffers = new Set()
  for (const tensor of file.values()) {
    t.is(tensor.data.byteOffset, 0)
    t.is(tensor.data.buffer.byteLength, tensor.byteLength)
    buffers.add(tensor.data.buffer)
  }
  t.is(buffers.size, file.size)
  file.close()
})

test('maps raw, aligned data', (t) => {
  for (const name of ['zt01-dtypes.zt', 'zt100-dtypes.zt', 'zt12-dtypes.zt', 'btf-dense.btf']) {
    const file = openSync(vector(name).path)
    for (const tensor of file.values()) {
      if (tensor.size > 0) isMapped(t, tensor, tensor.data.BYTES_PER_ELEMENT, `${name} ${tensor.name}`)
    }
    file.close()
  }
})

test('mapped and copyReason are known before data is read', (t) => {
  const file = openSync(
    scratchFile(zt10({ w: square10(), z: square10({}, { bytes: frame(SQUARE), encoding: 'zstd' }) })),
  )
  isMapped(t, file.tensor('w'), 4)
  isCopied(t, file.tensor('z'), 'encoded')
  file.close()
})

test('copies compressed data, because it is encoded', (t) => {
  const file = openSync(vector('zt12-zstd.zt').path)
  isCopied(t, file.tensor('lvl1'), 'encoded')
  t.is(file.tensor('lvl1').data.length, 64 * 65)
  isMapped(t, file.tensor('raw'), 4)
  file.close()
})

test('copies data that is misaligned for its elements; bytes are mapped', (t) => {
  const wide = openSync(scratchFile(zt10({ w: square10({}, { lead: 1 }) })))
  isCopied(t, wide.tensor('w'), 'misaligned')
  t.deepEqual([...wide.tensor('w').data], [1, 2, 3, 4])
  wide.close()
  const narrow = openSync(
    scratchFile(
      zt10({
        w: {
          dtype: 'uint8',
          shape: [4],
          format: 'dense',
          components: { data: { bytes: Buffer.from([1, 2, 3, 4]), lead: 3 } },
        },
      }),
    ),
  )
  isMapped(t, narrow.tensor('w'), 1)
  t.deepEqual([...narrow.tensor('w').data], [1, 2, 3, 4])
  narrow.close()
  const halfway = openSync(scratchFile(zt10({ w: square10({}, { lead: 4 }) })))
  isMapped(t, halfway.tensor('w'), 4)
  t.deepEqual([...halfway.tensor('w').data], [1, 2, 3, 4])
  halfway.close()
})

test('copies big-endian data, because of the byte order', (t) => {
  const file = openSync(scratchFile(zt01([square01({ bytes: Buffer.from(SQUARE).swap32(), data_endianness: 'big' })])))
  isCopied(t, file.tensor('w'), 'byte-order')
  t.deepEqual([...file.tensor('w').data], [1, 2, 3, 4])
  file.close()
})

test('writes to data stay in the views of this file', async (t) => {
  const bytes = zt10({ w: square10() })
  const path = scratchFile(bytes)
  const file = openSync(path)
  const other = openSync(path)
  const { data } = file.tensor('w')
  data.fill(99)
  t.deepEqual([...file.tensor('w').data], [99, 99, 99, 99])
  t.deepEqual([...other.tensor('w').data], [1, 2, 3, 4])
  sameBytes(t, readFileSync(path), bytes)
  const again = openSync(path)
  t.deepEqual([...again.tensor('w').data], [1, 2, 3, 4])
  for (const opened of [file, other, again]) opened.close()
  sameBytes(t, readFileSync(path), bytes)
})

test('data covers only the bytes of the tensor', (t) => {
  const file = openSync(scratchFile(zt10({ a: square10(), b: square10({}, { bytes: f32s(5, 6, 7, 8) }) })))
  t.deepEqual([...new Float32Array(file.tensor('a').data.buffer)], [1, 2, 3, 4])
  t.is(file.tensor('a').data.buffer.byteLength, 16)
  file.close()
})

test('reads empty tensors and scalars', async (t) => {
  const file = openSync(vector('zt111-shapes.zt').path)
  for (const [name, Class] of [
    ['empty', Float32Array],
    ['empty2', Float64Array],
  ]) {
    const tensor = file.tensor(name)
    t.is(tensor.size, 0)
    t.is(tensor.byteLength, 0)
    t.deepEqual(tensor.data, new Class(0))
    t.deepEqual(await tensor.load(), new Class(0))
    t.deepEqual(tensor.toFloat32(), new Float32Array(0))
  }
  t.deepEqual(file.tensor('empty2').shape, [3, 0, 2])
  const scalar = file.tensor('scalar')
  t.deepEqual(scalar.shape, [])
  t.is(scalar.size, 1)
  t.is(scalar.data.length, 1)
  t.deepEqual([...scalar.toFloat32()], [...scalar.data])
  file.close()
})

test('a file of more than 4,096 tensors: small ones share buffers, large ones do not, and all values are right', async (t) => {
  const count = 5000
  const tensors = {}
  let at = 0
  const parts = []
  for (let i = 0; i < count; i++) {
    // one of 96 KiB among many of 12 bytes
    const length = i === 2500 ? 24_576 : 3
    const bytes = littleEndian(Float32Array.from({ length }, (_, j) => i + j / 4))
    tensors[`t${i}`] = { dtype: 'F32', shape: [length], data_offsets: [at, at + bytes.length] }
    parts.push(bytes)
    at += bytes.length
  }
  const header = JSON.stringify(tensors)
  const file = openSync(
    scratchFile(safetensors(header.padEnd(Math.ceil(header.length / 64) * 64), Buffer.concat(parts))),
  )
  const buffers = new Set()
  for (let i = 0; i < count; i++) {
    const tensor = file.tensor(`t${i}`)
    const { data } = tensor
    if (data[0] !== i || data[1] !== i + 0.25 || data[2] !== i + 0.5 || data.length !== tensor.size)
      t.fail(`t${i}: ${data.subarray(0, 3)}`)
    buffers.add(data.buffer)
  }
  if (canMap(4)) t.true(buffers.size < count / 100, `${buffers.size} buffers`)
  const large = file.tensor('t2500').data
  t.is(large.buffer.byteLength, 24_576 * 4)
  file.tensor('t7').data.fill(-1)
  t.deepEqual([...file.tensor('t6').data], [6, 6.25, 6.5])
  t.deepEqual([...file.tensor('t8').data], [8, 8.25, 8.5])
  t.deepEqual([...(await file.tensor('t9').load())], [9, 9.25, 9.5])
  file.close()
})

test('a file that is replaced while mapped keeps its bytes', (t) => {
  const path = scratchFile(zt12({ w: square12() }))
  const file = openSync(path)
  const { data } = file.tensor('w')
  t.deepEqual([...data], [1, 2, 3, 4])
  if (process.platform !== 'win32') {
    writeFileSync(`${path}.new`, zt12({ w: square12({}, { bytes: f32s(9, 9, 9, 9) }) }))
    // rename over it, like every careful writer: the old inode remains
    renameSync(`${path}.new`, path)
    t.deepEqual([...data], [1, 2, 3, 4])
    const fresh = openSync(path)
    t.deepEqual([...fresh.tensor('w').data], [9, 9, 9, 9])
    fresh.close()
  }
  file.close()
})

test('data throws for tensors that are not dense', (t) => {
  const file = openSync(vector('zt101-sparse.zt').path)
  const error = thrownBy(() => file.tensor('csr_float32').data)
  t.true(error instanceof ZTensorError)
  t.is(error?.code, 'ZT_BAD_LAYOUT')
  t.is(error?.tensor, 'csr_float32')
  file.close()
})
