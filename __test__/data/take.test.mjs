// take(): rows by their indices. slices-everywhere tests its results for each kind of storage; this file tests its arguments, failures
// and reads. It also tests small loads of cached data, which run on the same thread.
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import test from 'ava'
import { open, openSync, saveFile } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const [ROWS, WIDTH] = [5000, 96]
const table = new Float32Array(ROWS * WIDTH).map((_, at) => Math.floor(at / WIDTH) + (at % WIDTH) / 128)
const row = (at) => table.subarray(at * WIDTH, (at + 1) * WIDTH)
const rowsOf = (indices) => Float32Array.from(indices.flatMap((at) => [...row(at < 0 ? at + ROWS : at)]))
const tensors = { table: { data: table, shape: [ROWS, WIDTH] }, scalar: { data: Float32Array.of(3), shape: [] }, other: Float32Array.of(1, 2) } // biome-ignore format: one table

const path = scratchPath('table.safetensors')
const compressed = scratchPath('table.zt')
test.before(async () => {
  await saveFile(path, tensors)
  await saveFile(compressed, tensors, { version: '1.2', digest: 'crc32c', compression: { level: 1, minSavings: 0 } })
})

test('accepts any integers within the dimension, in any list, also repeatedly', async (t) => {
  const file = openSync(path)
  const tensor = file.tensor('table')
  const indices = [4999, 0, 17, -1, 17, -5000]
  const expected = rowsOf(indices)
  for (const list of [
    indices,
    Int32Array.from(indices),
    Int16Array.from(indices),
    Float64Array.from(indices),
    BigInt64Array.from(indices, BigInt),
  ])
    t.deepEqual(await tensor.take(list), expected)
  t.deepEqual(await tensor.take(BigUint64Array.of(7n)), rowsOf([7]))
  t.deepEqual(await tensor.take([]), new Float32Array(0))
  const columns = Array.from({ length: ROWS }, (_, at) => [1, WIDTH - 1, 1].map((column) => row(at)[column]))
  t.deepEqual(await tensor.take([1, -1, 1], { axis: 1 }), Float32Array.from(columns.flat()))
  file.close()
})

test('rejects invalid indices, axes and options', async (t) => {
  const file = openSync(path)
  const tensor = file.tensor('table')
  for (const [indices, options, pattern] of [
    [[0, ROWS], {}, /indices\[1\] must be from -5000 to 4999, got 5000/],
    [[-ROWS - 1], {}, /indices\[0\] must be from/],
    [[0.5], {}, /indices\[0\]/],
    [[NaN], {}, /indices\[0\]/],
    [['1'], {}, /indices\[0\]/],
    [new Array(3), {}, /indices\[0\]/],
    [BigInt64Array.of(1n << 62n), {}, /indices\[0\]/],
    [7, {}, /indices must be an array or typed array of integers/],
    [undefined, {}, /indices must be/],
    [[WIDTH], { axis: 1 }, /indices\[0\] must be from -96 to 95/],
    [[0], { axis: 2 }, /axis must be from -2 to 1/],
    [[0], { as: 'float64' }, /as must be/],
    [[0], { into: new Float32Array(WIDTH), transferable: true }, /either into or transferable/],
    [[0], { into: new Float32Array(WIDTH + 1) }, /into must have 384 bytes, got 388/],
    [[0], { into: new Float64Array(WIDTH / 2) }, /into must be/],
    [[0], { dim: 1 }, /dim/],
  ]) {
    const error = await rejectionOf(() => tensor.take(indices, options))
    t.is(error.code, 'ZT_INVALID_ARG', String(pattern))
    t.regex(error.message, pattern)
  }
  t.regex((await rejectionOf(() => file.tensor('scalar').take([0]))).message, /"scalar" is a scalar: use load\(\)/)
  file.close()
  t.is((await rejectionOf(() => tensor.take([0]))).code, 'ZT_CLOSED')
})

test('accepts an array to fill, transferable, and a signal', async (t) => {
  const file = openSync(path)
  const tensor = file.tensor('table')
  const into = new Float32Array(2 * WIDTH)
  t.is(await tensor.take([3, 2], { into }), into)
  t.deepEqual(into, rowsOf([3, 2]))
  const moved = await tensor.take([9], { transferable: true })
  t.deepEqual(structuredClone(moved, { transfer: [moved.buffer] }), rowsOf([9]))
  t.is(moved.length, 0)
  t.is(await rejectionOf(() => tensor.take([0], { signal: AbortSignal.abort('enough') })), 'enough')
  const control = new AbortController()
  const taking = rejectionOf(() => tensor.take([0, 1], { signal: control.signal }))
  control.abort('later')
  t.is(await taking, 'later')
  file.close()
})

test('rejects a list that changes its length during the call', async (t) => {
  const file = openSync(path)
  const indices = new Array(2 ** 18).fill(1)
  const taking = rejectionOf(() => file.tensor('table').take(indices))
  indices.length = 2 ** 18 - 1
  t.is((await taking).code, 'ZT_INVALID_ARG')
  file.close()
})

test('reads nearby rows together, and only the requested ones', async (t) => {
  const large = new Float32Array(40 * table.length).map((_, at) => at)
  const header = JSON.stringify({ t: { dtype: 'F32', shape: [40 * ROWS, WIDTH], data_offsets: [0, large.byteLength] } })
  const padded = Buffer.from(header.padEnd(Math.ceil(header.length / 8) * 8))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(padded.length))
  const whole = Buffer.concat([length, padded, littleEndian(large)])
  const reads = []
  const read = async (offset, length) => {
    reads.push([offset, length])
    return whole.subarray(offset, offset + length)
  }
  const file = await open({ byteLength: whole.length, name: 'table.safetensors', read })
  reads.length = 0
  const first = 100_000
  const indices = [10, 11, 12, 11, 13].map((at) => first + at)
  const expected = Float32Array.from(indices.flatMap((at) => [...large.subarray(at * WIDTH, (at + 1) * WIDTH)]))
  t.deepEqual(await file.tensor('t').take(indices), expected)
  t.is(reads.length, 1, JSON.stringify(reads))
  t.true(reads[0][1] < large.byteLength / 8, `${reads[0][1]} of ${large.byteLength}`)
  file.close()
})

test('checks compressed rows, and rejects damage', async (t) => {
  const bytes = readFileSync(compressed)
  const intact = openSync(bytes)
  t.deepEqual(await intact.tensor('table').take([4, 4, 3000]), rowsOf([4, 4, 3000]))
  const { offset, storedLength } = intact.tensor('table').components.get('data')
  intact.close()
  const damaged = Buffer.from(bytes)
  damaged[offset + (storedLength >> 1)] ^= 4
  const file = openSync(damaged)
  const error = await rejectionOf(() => file.tensor('table').take([4]))
  t.true(['ZT_DIGEST_MISMATCH', 'ZT_DECODE'].includes(error.code), error.code)
  t.is(error.tensor, 'table')
  file.close()
})

test('rejects a file that was truncated after opening', async (t) => {
  const copy = scratchPath('truncated.safetensors')
  writeFileSync(copy, readFileSync(path))
  const file = openSync(copy, { io: 'read' })
  truncateSync(copy, 4096)
  const tensor = file.tensor('table')
  t.is((await rejectionOf(() => tensor.take([ROWS - 1]))).code, 'ZT_TRUNCATED')
  t.is((await rejectionOf(() => tensor.load({ slice: [[ROWS - 1]] }))).code, 'ZT_TRUNCATED')
  file.close()
})

test('consecutive small loads let the event loop run', async (t) => {
  const file = openSync(path)
  const tensor = file.tensor('table')
  let [turns, ended] = [0, false]
  const counting = (async () => {
    while (!ended) {
      await turn()
      turns += 1
    }
  })()
  for (let at = 0; at < 3000; at++) t.deepEqual(await tensor.load({ slice: [[at]] }), row(at))
  ended = true
  await counting
  // A turn loads at most 16 MiB, and each call counts as 32 KiB: on another thread, each of these would take a turn.
  t.true(turns >= 4, `${turns} turns`)
  file.close()
})

test('checks a small tensor like a large one', async (t) => {
  const small = scratchPath('small.zt')
  await saveFile(small, { w: Float32Array.of(1, 2, 3, 4) }, { version: '1.0', digest: 'crc32c' })
  const bytes = readFileSync(small)
  const whole = openSync(small)
  t.deepEqual(await whole.tensor('w').load(), Float32Array.of(1, 2, 3, 4))
  const { offset } = whole.tensor('w').components.get('data')
  whole.close()
  bytes[offset] ^= 1
  writeFileSync(small, bytes)
  const file = openSync(small)
  const error = await rejectionOf(() => file.tensor('w').load())
  t.is(error.code, 'ZT_DIGEST_MISMATCH')
  t.is(error.tensor, 'w')
  file.close()
})

test('rows of a file in memory equal those of a file on disk, and the memory is not needed afterwards', async (t) => {
  const bytes = new Uint8Array(readFileSync(path))
  for (const source of [bytes, readFileSync(compressed)]) {
    const file = openSync(source)
    const tensor = file.tensor('table')
    for (const indices of [[4999, 0, 17, -1, 17], [3, 4, 5], [], [100, 2000, 101]]) {
      t.deepEqual(await tensor.take(indices), rowsOf(indices), String(indices))
      t.deepEqual(await tensor.take(indices, { as: 'float32' }), rowsOf(indices))
    }
    const column = Float32Array.from({ length: ROWS }, (_, at) => row(at)[7])
    t.deepEqual(await tensor.take([7], { axis: 1 }), column)
    file.close()
  }
})

test('rejects an array proxy with any length before it allocates memory', async (t) => {
  const file = openSync(path)
  for (const length of [2 ** 40, 2 ** 32, -1, 1.5, Number.NaN, 'x', 7n, undefined]) {
    const indices = new Proxy([], { get: (list, key) => (key === 'length' ? length : list[key]) })
    const error = await rejectionOf(() => file.tensor('table').take(indices))
    t.like(error, { code: 'ZT_INVALID_ARG', name: 'RangeError' }, String(length))
    t.regex(error.message, /^indices\.length: expected an integer from 0 to 4294967295, got /)
  }
  file.close()
})
