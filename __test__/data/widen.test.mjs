// toFloat32() and load({ as: 'float32' }) compared with tables by numpy and ml_dtypes (fixtures/widen-tables.py).
import { readFileSync } from 'node:fs'
import { inflateSync } from 'node:zlib'
import test from 'ava'
import { openSync } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const SAFETENSORS_NAMES = {
  float16: 'F16',
  bfloat16: 'BF16',
  int16: 'I16',
  uint16: 'U16',
  int8: 'I8',
  uint8: 'U8',
  int32: 'I32',
  uint32: 'U32',
  int64: 'I64',
  uint64: 'U64',
  float64: 'F64',
  float32: 'F32',
  bool: 'BOOL',
  complex64: 'C64',
  float8_e4m3fn: 'F8_E4M3',
  float8_e5m2: 'F8_E5M2',
  float8_e4m3fnuz: 'F8_E4M3FNUZ',
  float8_e5m2fnuz: 'F8_E5M2FNUZ',
  float8_e8m0fnu: 'F8_E8M0',
}
const WIDTHS = { float16: 2, bfloat16: 2, int16: 2, uint16: 2, int32: 4, uint32: 4, int64: 8, uint64: 8, float64: 8 }

/** { dtype: { inputs: little-endian bytes, outputs: little-endian bytes of float32 } } */
const tables = (() => {
  const file = readFileSync(fixturePath('widen-tables.bin'))
  const end = file.indexOf('\n')
  const payload = inflateSync(file.subarray(end + 1))
  let at = 0
  const take = (length) => {
    at += length
    return payload.subarray(at - length, at)
  }
  const entries = JSON.parse(file.subarray(0, end).toString()).tables.map(({ dtype, elements, inputs }) => {
    const width = WIDTHS[dtype] ?? 1
    return [
      dtype,
      {
        elements,
        width,
        inputs: inputs ? take(elements * width) : patterns(elements, width),
        outputs: take(elements * 4),
      },
    ]
  })
  return Object.fromEntries(entries)
})()

/** 0, 1, 2, … as little-endian patterns. */
function patterns(elements, width) {
  const bytes = Buffer.alloc(elements * width)
  for (let i = 0; i < elements; i++) bytes.writeUIntLE(i, i * width, width)
  return bytes
}

/** A file of one tensor "x" of these elements. `pad` shifts the data by some bytes, so that it may be misaligned. */
function holding(dtype, bytes, width, pad = 0) {
  const header = JSON.stringify({
    x: { dtype: SAFETENSORS_NAMES[dtype], shape: [bytes.length / width], data_offsets: [0, bytes.length] },
  })
  const aligned = Math.ceil(header.length / 8) * 8
  return safetensors(header.padEnd(aligned + pad), bytes)
}

const bitsOf = (floats) => new Uint32Array(floats.buffer, floats.byteOffset, floats.length)

/** The indices at which the bits of the floats differ from the table; all NaN are equal. */
function differences(floats, outputs) {
  const bits = bitsOf(floats)
  const wrong = []
  for (let i = 0; i < floats.length && wrong.length < 10; i++) {
    const expected = outputs.readUInt32LE(i * 4)
    if (bits[i] !== expected && !(Number.isNaN(floats[i]) && Number.isNaN(outputs.readFloatLE(i * 4)))) {
      wrong.push(`[${i}] 0x${bits[i].toString(16)}, expected 0x${expected.toString(16)}`)
    }
  }
  return wrong
}

test('the tables cover every pattern of the narrow dtypes', (t) => {
  for (const [dtype, { elements, inputs, outputs }] of Object.entries(tables)) {
    t.is(outputs.length, elements * 4)
    if (dtype in WIDTHS && WIDTHS[dtype] === 2) t.is(elements, 65536)
    if (!(dtype in WIDTHS)) t.is(elements, 256)
    t.true(inputs.length > 0)
  }
})

for (const [dtype, { elements, width, inputs, outputs }] of Object.entries(tables)) {
  test(`${dtype}: widens ${elements} values like numpy`, async (t) => {
    for (const pad of [0, 1]) {
      const file = openSync(holding(dtype, inputs, width, pad))
      const tensor = file.tensor('x', { dtype })
      const floats = tensor.toFloat32()
      t.true(floats instanceof Float32Array)
      t.is(floats.length, elements)
      t.deepEqual(differences(floats, outputs), [])
      t.deepEqual(differences(await tensor.load({ as: 'float32' }), outputs), [])
      const into = new Float32Array(elements)
      t.is(tensor.toFloat32({ into }), into)
      t.deepEqual(differences(into, outputs), [])
      file.close()
    }
  })

  // SIMD processes several elements at a time: every length and start around its widths must be right, without writes past the end.
  test(`${dtype}: widens every length from 0 to 70, at any start`, (t) => {
    for (let length = 0; length <= 70; length++) {
      const start = (length * 37) % (elements - 70)
      const part = inputs.subarray(start * width, (start + length) * width)
      const file = openSync(holding(dtype, part, width, length % 8))
      const target = new Float32Array(length + 2).fill(-7)
      const floats = file.tensor('x').toFloat32({ into: target.subarray(1, length + 1) })
      t.deepEqual(differences(floats, outputs.subarray(start * 4)), [], `${length} from ${start}`)
      t.is(target[0], -7)
      t.is(target[length + 1], -7)
      file.close()
    }
  })
}

test('copies float32, and never aliases it', async (t) => {
  const bytes = Buffer.alloc(12)
  ;[1.5, -0, Infinity].forEach((value, i) => void bytes.writeFloatLE(value, i * 4))
  const file = openSync(holding('float32', bytes, 4))
  const tensor = file.tensor('x')
  const floats = tensor.toFloat32()
  t.deepEqual([...floats], [1.5, -0, Infinity])
  t.not(floats.buffer, tensor.data.buffer)
  floats[0] = 9
  t.is(tensor.data[0], 1.5)
  t.deepEqual([...(await tensor.load({ as: 'float32' }))], [1.5, -0, Infinity])
  file.close()
})

test('widens bool to 0 and 1', (t) => {
  const file = openSync(holding('bool', Buffer.from([0, 1, 1, 0, 1]), 1))
  t.deepEqual([...file.tensor('x').toFloat32()], [0, 1, 1, 0, 1])
  file.close()
})

test('rejects float32 for complex numbers', async (t) => {
  const file = openSync(holding('complex64', Buffer.alloc(16), 8))
  for (const error of [
    thrownBy(() => file.tensor('x').toFloat32()),
    await rejectionOf(() => file.tensor('x').load({ as: 'float32' })),
  ]) {
    t.is(error?.code, 'ZT_BAD_DTYPE')
    t.is(error?.tensor, 'x')
  }
  file.close()
})

test('the caller owns the widened values: they outlive close()', (t) => {
  const file = openSync(holding('int8', Buffer.from([1, 255]), 1))
  const floats = file.tensor('x').toFloat32()
  file.close()
  t.deepEqual([...floats], [1, -1])
})

test('into: accepts a Float32Array of the tensor’s size, and otherwise rejects with a ZT_INVALID_ARG that names it', (t) => {
  const file = openSync(holding('int8', Buffer.from([1, 2, 3]), 1))
  const tensor = file.tensor('x')
  for (const into of [
    new Float32Array(2),
    new Float32Array(4),
    new Float64Array(3),
    [0, 0, 0],
    new ArrayBuffer(12),
    7,
    null,
  ]) {
    isArgumentError(
      t,
      thrownBy(() => tensor.toFloat32({ into })),
      'into',
    )
  }
  file.close()
})

test('as: accepts only float32', async (t) => {
  const file = openSync(holding('int8', Buffer.from([1, 2, 3]), 1))
  for (const as of ['float64', 'Float32', 32, null, {}]) {
    isArgumentError(t, await rejectionOf(() => file.tensor('x').load({ as })), 'as')
  }
  file.close()
})

test('float16() returns a Float16Array, or an error that says that the runtime has none', (t) => {
  const file = openSync(holding('float16', Buffer.from([0x00, 0x3c, 0x00, 0xc0]), 2))
  const tensor = file.tensor('x')
  if (typeof globalThis.Float16Array === 'function') {
    t.true(tensor.float16() instanceof globalThis.Float16Array)
    t.deepEqual([...tensor.float16()], [1, -2])
  } else {
    t.regex(String(thrownBy(() => tensor.float16())?.message), /Float16Array/)
  }
  t.true(tensor.data instanceof Uint16Array)
  file.close()
})
