// The types of the indices of sparse tensors: the source's, where the target allows them.
import test from 'ava'
import { convert, openSync } from 'ztensor'
import { scratchPath } from '../scratch.mjs'
import { written } from '../writing.mjs'

const MATRIX = { shape: [2, 3], values: Float32Array.of(1, 2, 3) }
const csr = (Indices, Indptr = Indices) => ({
  ...MATRIX,
  indices: of(Indices, [0, 2, 1]),
  indptr: of(Indptr, [0, 2, 3]),
})
const coo = (Coords) => ({ ...MATRIX, coords: of(Coords, [0, 0, 1, 0, 2, 1]) })
const of = (Kind, numbers) => (Kind.name.startsWith('Big') ? Kind.from(numbers, BigInt) : Kind.from(numbers))

const V12 = { version: '1.2' }
const V2 = { version: '2' }
const V10 = { version: '1.0' }
const WIDE = 'BigUint64Array'

for (const [Kind, target, expected] of [
  [Uint16Array, V12, 'Uint16Array'],
  [Uint8Array, V12, 'Uint8Array'],
  [Int32Array, V12, 'Int32Array'],
  [BigInt64Array, V12, 'BigInt64Array'],
  [Uint16Array, V2, 'Uint32Array'],
  [Int32Array, V2, 'Uint32Array'],
  [Uint32Array, V2, 'Uint32Array'],
  [BigInt64Array, V2, WIDE],
  [Uint16Array, V10, WIDE],
  [Uint32Array, V10, WIDE],
]) {
  test(`${Kind.name} into ${target.version}: ${expected}`, async (t) => {
    const source = await written(V12, async (writer) => {
      await writer.addCsr('csr', csr(Kind))
      await writer.addCoo('coo', coo(Kind))
    })
    const path = scratchPath('target.zt')
    await convert(source, path, target)
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

test('each array keeps its own type in 1.2, and in 2 all have the widest that is needed', async (t) => {
  const source = await written(V12, (writer) => writer.addCsr('csr', csr(Uint16Array, BigUint64Array)))
  for (const [target, expected] of [
    [V12, ['Uint16Array', WIDE]],
    [V2, [WIDE, WIDE]],
  ]) {
    const path = scratchPath('target.zt')
    await convert(source, path, target)
    const { indices, indptr } = openSync(path).tensor('csr').csr()
    t.deepEqual([indices.constructor.name, indptr.constructor.name], expected)
  }
})
