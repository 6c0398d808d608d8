// The types of the indices of sparse tensors: the source's, where the target allows them.
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { f32s, zt12 } from '../corpus/zt.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

/** The bytes of an array of indices, with a type in the notation of 1.2. */
function indices(type, numbers) {
  const array = new ARRAYS[type](numbers.length)
  numbers.forEach((number, at) => {
    array[at] = type.endsWith('64') ? BigInt(number) : number
  })
  return { dtype: type, bytes: littleEndian(array) }
}
const ARRAYS = {
  u8: Uint8Array,
  u16: Uint16Array,
  u32: Uint32Array,
  u64: BigUint64Array,
  i32: Int32Array,
  i64: BigInt64Array,
}

/** A file of 1.2 like those of other writers, whose indices have these types. */
function source(type, indptr = type) {
  const values = { dtype: 'f32', bytes: f32s(1, 2, 3) }
  const csr = { values, indices: indices(type, [0, 2, 1]), indptr: indices(indptr, [0, 2, 3]) }
  const coo = { values, coords: indices(type, [0, 0, 1, 0, 2, 1]) }
  return zt12({
    csr: { shape: [2, 3], format: 'sparse_csr', components: csr },
    coo: { shape: [2, 3], format: 'sparse_coo', components: coo },
  })
}

const V12 = { version: '1.2' }
const V2 = { version: '2' }
const V10 = { version: '1.0' }
const WIDE = 'BigUint64Array'

for (const [type, target, expected] of [
  ['u16', V12, 'Uint16Array'],
  ['u8', V12, 'Uint8Array'],
  ['i32', V12, 'Int32Array'],
  ['i64', V12, 'BigInt64Array'],
  ['u16', V2, 'Uint32Array'],
  ['i32', V2, 'Uint32Array'],
  ['u32', V2, 'Uint32Array'],
  ['i64', V2, WIDE],
  ['u16', V10, WIDE],
  ['u32', V10, WIDE],
]) {
  test(`${type} into ${target.version}: ${expected}`, async (t) => {
    const path = scratchPath('target.zt')
    await convert(source(type), path, target)
    const file = openSync(path, { verify: true })
    const { indices, indptr } = file.tensor('csr').csr()
    const { coords } = file.tensor('coo').coo()
    t.deepEqual(
      [indices, indptr, coords].map((array) => array.constructor.name),
      [expected, expected, expected],
    )
    t.deepEqual([...indices].map(Number), [0, 2, 1])
    t.deepEqual([...indptr].map(Number), [0, 2, 3])
    t.deepEqual([...coords].map(Number), [0, 0, 1, 0, 2, 1])
    file.close()
  })
}

test('1.2 keeps the type of each index array, and 2 uses the widest that is needed', async (t) => {
  for (const [target, expected] of [
    [V12, ['Uint16Array', WIDE]],
    [V2, [WIDE, WIDE]],
  ]) {
    const path = scratchPath('target.zt')
    await convert(source('u16', 'u64'), path, target)
    const { indices, indptr } = openSync(path).tensor('csr').csr()
    t.deepEqual([indices.constructor.name, indptr.constructor.name], expected)
  }
})
