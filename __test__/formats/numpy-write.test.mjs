// NumPy's files as we write them: read back by this package here, and by numpy.load in `npm run interop`.
import { existsSync, readFileSync } from 'node:fs'
import test from 'ava'
import fc from 'fast-check'
import { convert, create, diff, open, openSync } from 'ztensor'
import { fingerprint, numbersOf, sameBytes } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { expectedReason, isMapped } from '../helpers/data-placement.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { readings } from '../helpers/readings.mjs'
import { DTYPES, noise } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

const NUMPY = [
  'bool',
  'int8',
  'int16',
  'int32',
  'int64',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
  'float16',
  'float32',
  'float64',
]
const HELD = [...NUMPY, 'complex64', 'complex128']

/** A tensor of noise. */
function tensorOf(dtype, shape, seed = 1) {
  const [Class, bits] = DTYPES[dtype]
  const bytes = Uint8Array.from(noise((shape.reduce((a, b) => a * b, 1) * bits) / 8, seed))
  if (dtype === 'bool') for (const at of bytes.keys()) bytes[at] &= 1
  return { dtype, shape, data: numbersOf(Class, bytes) }
}

async function written(path, options, tensors) {
  const writer = await create(path, options)
  for (const [name, tensor] of Object.entries(tensors)) await writer.add(name, tensor)
  await writer.finish()
  return openSync(path)
}

test('npz: every dtype reads back unchanged, and is aliased', async (t) => {
  const tensors = Object.fromEntries(HELD.map((dtype, at) => [`folder/${dtype}`, tensorOf(dtype, [3, at + 1])]))
  const file = await written(scratchPath('x.npz'), { format: 'npz' }, { ...tensors, größe: tensorOf('uint8', []) })
  t.is(file.format, 'npz')
  for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
    const tensor = file.tensor(name)
    t.is(tensor.dtype, dtype)
    t.deepEqual([...tensor.shape], shape)
    t.deepEqual(fingerprint(tensor.data), fingerprint(data), name)
    isMapped(t, tensor, data.BYTES_PER_ELEMENT, name)
  }
  t.deepEqual([...file.keys()], [...Object.keys(tensors), 'größe'])
  const { ok, undigested } = await file.verify()
  t.true(ok)
  t.is(undigested, 0)
  t.deepEqual((await readings(file)).wrong, [])
  file.close()
})

test('npz: writes no tensors, and equal tensors as equal bytes', async (t) => {
  const none = await written(scratchPath('none.npz'), { format: 'npz' }, {})
  t.is(none.size, 0)
  t.is(none.byteLength, 22)
  none.close()
  const paths = [scratchPath('a.npz'), scratchPath('b.npz')]
  for (const path of paths)
    (await written(path, { format: 'npz' }, { x: tensorOf('float32', [4, 4]), y: tensorOf('int8', [0]) })).close()
  sameBytes(t, readFileSync(paths[0]), readFileSync(paths[1]))
})

/** Bytes of few values, as elements. */
const few = (length, Class) =>
  numbersOf(
    Class,
    noise(length, 5).map((byte) => byte & 3),
  )

test('npz: deflates members if that saves space, and aliases the rest', async (t) => {
  const tensors = {
    rows: { dtype: 'float32', shape: [100, 50], data: few(20_000, Float32Array) },
    noise: tensorOf('int16', [300, 300]),
    größe: { dtype: 'int64', shape: [500], data: few(4000, BigInt64Array) },
    empty: tensorOf('float32', [0, 3]),
    scalar: tensorOf('uint8', []),
  }
  const sizes = []
  for (const compression of [true, { level: 1 }]) {
    const path = scratchPath(`${JSON.stringify(compression).length}.npz`)
    const file = await written(path, { compression }, tensors)
    t.deepEqual([...file.keys()], Object.keys(tensors))
    for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
      const tensor = file.tensor(name, { dtype })
      t.deepEqual([...tensor.shape], shape)
      t.deepEqual(fingerprint(await tensor.load()), fingerprint(data), name)
      const { encoding } = tensor.components.get('data')
      t.is(encoding, ['rows', 'größe'].includes(name) ? 'deflate' : 'raw', name)
      t.is(tensor.copyReason, expectedReason(encoding === 'raw' ? undefined : 'encoded', data.BYTES_PER_ELEMENT), name)
    }
    const { ok, undigested } = await file.verify()
    t.deepEqual([ok, undigested], [true, 0])
    t.deepEqual((await readings(file)).wrong, [])
    sizes.push(file.byteLength)
    file.close()
  }
  t.true(sizes[1] > sizes[0], `${sizes}`)
})

test('npz: reads a deflated member in many pieces, and rejects damage', async (t) => {
  const path = scratchPath('large.npz')
  const data = few((9 << 20) + 8, Float64Array)
  const file = await written(path, { compression: true }, { x: { dtype: 'float64', shape: [data.length], data } })
  const { offset, storedLength, encoding } = file.tensor('x').components.get('data')
  t.is(encoding, 'deflate')
  t.deepEqual(fingerprint(await file.tensor('x').load()), fingerprint(data))
  t.true((await file.verify()).ok)
  file.close()
  for (const at of [storedLength >> 2, storedLength >> 1, storedLength - 3]) {
    const damaged = readFileSync(path)
    damaged[offset + at] ^= 4
    const reopened = openSync(damaged)
    const { ok, failures } = await reopened.verify()
    t.false(ok, `${at}`)
    const error = await rejectionOf(() => reopened.tensor('x').load())
    t.true(['ZT_DECODE', 'ZT_DIGEST_MISMATCH'].includes(error?.code), error?.stack)
    t.is(failures[0]?.code, error?.code)
    reopened.close()
  }
})

test('npy: writes one tensor, which reads back as arr_0', async (t) => {
  for (const shape of [[], [7], [2, 3, 4], [0, 5]]) {
    const tensor = tensorOf('float64', shape)
    const file = await written(scratchPath(`${shape.length}.npy`), { format: 'npy' }, { any: tensor })
    t.is(file.format, 'npy')
    t.deepEqual([...file.keys()], ['arr_0'])
    t.deepEqual([...file.tensor('arr_0').shape], shape)
    t.deepEqual(fingerprint(file.tensor('arr_0').data), fingerprint(tensor.data))
    file.close()
  }
})

test('rejects tensors that NumPy cannot store', async (t) => {
  const code = async (options, tensors) => {
    const path = scratchPath(`refused.${options.format}`)
    const error = await rejectionOf(async () => (await written(path, options, tensors)).close())
    t.is((await rejectionOf(() => open(path)))?.code, 'ZT_IO', 'nothing is left')
    return error?.code
  }
  const x = tensorOf('float32', [2])
  t.is(await code({ format: 'npz' }, { x: tensorOf('bfloat16', [2]) }), 'ZT_BAD_DTYPE')
  t.is(await code({ format: 'npz' }, { 'x\0y': x }), 'ZT_INVALID_ARG')
  t.is(await code({ format: 'npz' }, { ['x'.repeat(65_532)]: x }), 'ZT_INVALID_ARG')
  t.is(await code({ format: 'npy' }, {}), 'ZT_INVALID_ARG')
  t.is(await code({ format: 'npy' }, { x, y: x }), 'ZT_INVALID_ARG')
})

test('any arrays read back unchanged', async (t) => {
  const shapes = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 })
  const tensor = fc.record({
    name: fc.string({ unit: 'grapheme', maxLength: 90 }),
    dtype: fc.constantFrom(...HELD),
    shape: shapes,
  })
  const tensors = fc.uniqueArray(tensor, { selector: ({ name }) => name, maxLength: 8 })
  let run = 0
  await fc.assert(
    fc.asyncProperty(tensors, async (given) => {
      const named = given.filter(({ name }) => !name.includes('\0'))
      const all = Object.fromEntries(
        named.map(({ name, dtype, shape }, at) => [`${name}-`, tensorOf(dtype, shape, at)]),
      )
      run += 1
      const file = await written(scratchPath(`${run}.npz`), { format: 'npz' }, all)
      t.is(file.size, Object.keys(all).length)
      for (const [name, { dtype, shape, data }] of Object.entries(all)) {
        const found = file.tensor(name, { dtype })
        t.deepEqual([...found.shape], shape)
        t.deepEqual(fingerprint(await found.load()), fingerprint(data))
        t.is(found.components.get('data').digest.startsWith('crc32:0x'), true)
      }
      file.close()
    }),
    { numRuns: scaled(30) },
  )
})

test('converts to npz and back', async (t) => {
  const source = vector('zt12-dtypes.zt').path
  const [npz, back] = [scratchPath('from-zt.npz'), scratchPath('back.zt')]
  const { skipped } = await convert(source, npz, { skip: true })
  const first = openSync(source)
  t.deepEqual(
    skipped.map(({ tensor }) => tensor).sort(),
    [...first.values()]
      .filter(({ dtype }) => !HELD.includes(dtype))
      .map(({ name }) => name)
      .sort(),
  )
  await convert(npz, back, { version: '1.2' })
  const last = openSync(back)
  t.is(last.size + skipped.length, first.size)
  const deflated = scratchPath('deflated.npz')
  await convert(npz, deflated, { compression: { level: 9, minSavings: 0 } })
  const { same } = await diff(npz, deflated)
  t.true(same)
  for (const tensor of last.values())
    t.deepEqual(fingerprint(tensor.data), fingerprint(first.tensor(tensor.name).data), tensor.name)
  first.close()
  last.close()
})

test('npz: two names that readers take for the same one are refused before anything is written', async (t) => {
  const x = tensorOf('float32', [2])
  for (const names of [
    ['a', 'a.npy'],
    ['a.npy', 'a'],
    ['x', 'folder/b.npy.npy', 'folder/b.npy'],
    ['a/b', 'a\\b'],
    ['a//b', 'a/b'],
    ['./a', 'a'],
    ['/a', 'a'],
  ]) {
    const path = scratchPath('double.npz')
    const [first, second] = names.slice(-2)
    const message = `take this name and ${JSON.stringify(first)} for the same one`
    const writer = await create(path, { format: 'npz' })
    for (const name of names.slice(0, -1)) await writer.add(name, x)
    const error = await rejectionOf(() => writer.add(second, x))
    t.like(error, { code: 'ZT_BAD_INDEX', tensor: second })
    t.true(error.message.includes(message), error.message)
    await writer.finish()
    const file = openSync(path)
    t.deepEqual([...file.keys()], names.slice(0, -1))
    file.close()
    const source = scratchPath('double.zt')
    const all = await create(source)
    for (const name of names) await all.add(name, x)
    await all.finish()
    const target = scratchPath('converted.npz')
    const failed = await rejectionOf(() => convert(source, target))
    t.is(failed.code, 'ZT_BAD_INDEX')
    t.regex(failed.message, /for the same one/)
    t.false(existsSync(target))
    const { skipped } = await convert(source, target, { skip: true })
    t.is(skipped.length, 1)
    const rest = openSync(target)
    t.deepEqual([...rest.keys(), ...skipped.map(({ tensor }) => tensor)].sort(), [...names].sort())
    rest.close()
  }
})

test('npz: names that only look alike are read back', async (t) => {
  const x = tensorOf('float32', [2])
  const names = ['a', 'a.npy.npy', 'b.npy', 'a.np', 'aa.npy', '.npy']
  const file = await written(
    scratchPath('alike.npz'),
    { format: 'npz' },
    Object.fromEntries(names.map((name) => [name, x])),
  )
  t.deepEqual([...file.keys()], names)
  file.close()
})
