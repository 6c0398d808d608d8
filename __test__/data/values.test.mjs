// Single values, nested arrays, bytes, steps and streams of a tensor, each compared with data.
import { readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import test from 'ava'
import { loadFile, openSync, saveFile } from 'ztensor'
import { BIG_ENDIAN_HOST, littleEndian } from '../helpers/bytes.mjs'
import { safetensors, write } from '../helpers/command.mjs'
import { canMap } from '../helpers/data-placement.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const safetensorsFile = (tensors) => write(`${Object.keys(tensors).join('-')}.safetensors`, safetensors(tensors))
const COUNT = Float32Array.from({ length: 60 }, (_, at) => at)

const sample = (options = { version: '1.2' }) =>
  written(options, async (w) => {
    await w.add('x', COUNT, { shape: [3, 4, 5] })
    await w.add('half', { dtype: 'bfloat16', shape: [2], data: Float32Array.of(1.5, -2) })
    await w.add('long', BigInt64Array.of(-(2n ** 60n)))
    await w.add('bool', { dtype: 'bool', data: Uint8Array.of(0, 1) })
    await w.add('complex', { dtype: 'complex64', data: Float32Array.of(1, 2) })
    await w.add('scalar', Float32Array.of(7), { shape: [] })
    await w.add('none', new Float32Array(0), { shape: [2, 0] })
  })

test('at() returns one element, toArray() all of them nested', async (t) => {
  const file = openSync(await sample())
  const of = (name) => file.tensor(name)
  t.is(of('x').at(0, 0, 0), 0)
  t.is(of('x').at(1, 2, 3), 33)
  t.is(of('x').at(-1, -1, -1), 59)
  const nested = of('x').toArray()
  t.deepEqual(nested.flat(2), [...COUNT])
  t.deepEqual([nested.length, nested[0].length, nested[0][0].length], [3, 4, 5])
  t.deepEqual(of('half').toArray(), [1.5, -2])
  t.is(of('half').at(1), -2)
  t.is(of('long').at(0), -(2n ** 60n))
  t.deepEqual(of('bool').toArray(), [false, true])
  t.deepEqual(of('complex').at(0), [1, 2])
  t.is(of('scalar').toArray(), 7)
  t.is(of('scalar').at(), 7)
  t.deepEqual(of('none').toArray(), [[], []])
  for (const indices of [[], [0, 0], [0, 0, 5], [0, 0, -6], [0, 0, 0.5], ['0', 0, 0]])
    isArgumentError(
      t,
      thrownBy(() => of('x').at(...indices)),
      'indices',
    )
  t.is(thrownBy(() => of('x').toArray({ maxElements: 59 }))?.code, 'ZT_LIMIT')
  t.is(of('x').toArray({ maxElements: 60 }).length, 3)
  file.close()
})

test('packed elements are distinguishable', async (t) => {
  const path = await written({ version: '2' }, (w) => w.add('f4', { dtype: 'float4_e2m1fn', shape: [3], data: Uint8Array.of(0x21, 0x03) })) // biome-ignore format: one call
  const file = openSync(path)
  const tensor = file.tensor('f4')
  t.deepEqual(tensor.toArray(), [0.5, 1, 1.5])
  t.deepEqual([tensor.at(0), tensor.at(1), tensor.at(2)], [0.5, 1, 1.5])
  t.deepEqual(Buffer.concat(await tensor.createReadStream().toArray()), Buffer.of(0x21, 0x03))
  isArgumentError(
    t,
    thrownBy(() => tensor.slice([[0, 3, 2]])),
    'inside a byte',
  )
  file.close()
})

test('bytes covers the memory of data', async (t) => {
  const file = openSync(await sample())
  const { bytes, data } = file.tensor('x')
  t.true(bytes instanceof Uint8Array)
  t.deepEqual(Buffer.from(bytes), littleEndian(data))
  if (!BIG_ENDIAN_HOST) {
    t.is(bytes.buffer, data.buffer)
    t.deepEqual([bytes.byteOffset, bytes.byteLength], [data.byteOffset, data.byteLength])
  }
  file.close()
  if (canMap(data.BYTES_PER_ELEMENT)) t.is(bytes.byteLength, 0)
})

/** Ranges, their `[start, stop, step]` in each dimension, and the shape. */
const SLICES = [
  [
    [[1]],
    [
      [1, 2, 1],
      [0, 4, 1],
      [0, 5, 1],
    ],
    [4, 5],
  ],
  [
    [[-1], [-1], [-1]],
    [
      [2, 3, 1],
      [3, 4, 1],
      [4, 5, 1],
    ],
    [],
  ],
  [
    [[-2, null], null, [null, -1]],
    [
      [1, 3, 1],
      [0, 4, 1],
      [0, 4, 1],
    ],
    [2, 4, 4],
  ],
  [
    [null, [0, 4, 2]],
    [
      [0, 3, 1],
      [0, 4, 2],
      [0, 5, 1],
    ],
    [3, 2, 5],
  ],
  [
    [[0, null, 2], [1], [null, null, 3]],
    [
      [0, 3, 2],
      [1, 2, 1],
      [0, 5, 3],
    ],
    [2, 2],
  ],
  [
    [[0, 3, 99], null, [1, 5, 4]],
    [
      [0, 3, 99],
      [0, 4, 1],
      [1, 5, 4],
    ],
    [1, 4, 1],
  ],
  [
    [null, [2, 2, 2]],
    [
      [0, 3, 1],
      [2, 2, 2],
      [0, 5, 1],
    ],
    [3, 0, 5],
  ],
]
const FORMS = [{ version: '1.2' }, { version: '1.2', compression: {} }, { version: '2', canonical: false, compression: { frameSize: 4096, minSavings: 0 } }] // biome-ignore format: one table

test('slices by index, from the end and with steps, in all ways', async (t) => {
  for (const form of FORMS) {
    const path = await sample(form)
    for (const file of [openSync(path), openSync(path, { io: 'read' })]) {
      const tensor = file.tensor('x')
      for (const [ranges, loops, shape] of SLICES) {
        const [planes, rows, columns] = loops.map(([start, stop, step]) => {
          const all = []
          for (let at = start; at < stop; at += step) all.push(at)
          return all
        })
        const expected = planes.flatMap((i) => rows.flatMap((j) => columns.map((k) => (i * 4 + j) * 5 + k)))
        const part = tensor.slice(ranges)
        t.deepEqual(part.shape, shape)
        t.deepEqual([...part.data], expected, JSON.stringify(ranges))
        t.deepEqual([...part.toFloat32()], expected)
        t.deepEqual([...(await tensor.load({ slice: ranges }))], expected)
        t.deepEqual([...(await tensor.load({ slice: ranges, as: 'float32', into: new Float32Array(expected.length) }))], expected) // biome-ignore format: one claim
      }
      file.close()
    }
  }
})

test('createReadStream emits the bytes in chunks and ends at the given offset', async (t) => {
  const path = await written({ version: '1.0' }, (w) => w.add('x', Float32Array.from({ length: 9000 }, (_, at) => at), { shape: [3, 3000] })) // biome-ignore format: one call
  const file = openSync(path)
  const tensor = file.tensor('x')
  for (const highWaterMark of [undefined, 1, 100, 5000, 12_000, 2 ** 20]) {
    const chunks = await tensor
      .createReadStream(highWaterMark === 1 ? { highWaterMark: 1000 } : { highWaterMark })
      .toArray()
    t.true(Buffer.concat(chunks).equals(Buffer.from(tensor.bytes)))
    if (highWaterMark === 100) t.true(chunks.every(({ byteLength }) => byteLength <= 100))
  }
  const stop = new AbortController()
  const reason = new Error('enough')
  const stopped = tensor.createReadStream({ highWaterMark: 100, signal: stop.signal })
  stopped.once('data', () => stop.abort(reason))
  t.is(await rejectionOf(() => stopped.toArray()), reason)
  t.is(await rejectionOf(() => tensor.createReadStream({ signal: AbortSignal.abort(reason) }).toArray()), reason)
  const closing = tensor.createReadStream({ highWaterMark: 100 })
  closing.once('data', () => file.close())
  t.is((await rejectionOf(() => closing.toArray()))?.code, 'ZT_CLOSED')
  t.is(thrownBy(() => tensor.createReadStream())?.code, 'ZT_CLOSED')
  await nextTurn()
})

test('saveFile writes the result of loadFile, and objects like tensors', async (t) => {
  const source = openSync(await sample())
  for (const name of ['copy.zt', 'copy2.zt']) {
    const path = scratchPath(name)
    const options = name === 'copy.zt' ? { version: '1.2' } : { version: '2' }
    await saveFile(path, await loadFile(source.path), options)
    const loaded = await loadFile(path)
    t.deepEqual([...loaded.keys()].sort(), [...source.keys()].sort())
    for (const [key, { dtype, shape, data }] of loaded) {
      const tensor = source.tensor(key)
      t.deepEqual([dtype, shape, data], [tensor.dtype, tensor.shape, await tensor.load()], key)
    }
  }
  const mixed = scratchPath('mixed.safetensors')
  await saveFile(mixed, new Map([['slice', source.tensor('x').slice([[1]])], ['tensor', source.tensor('half')], ['array', COUNT]])) // biome-ignore format: one call
  const file = openSync(mixed)
  t.is(file.format, 'safetensors')
  t.deepEqual(file.tensor('slice').shape, [4, 5])
  t.is(file.tensor('tensor').dtype, 'bfloat16')
  for (const tensors of [7, null, [1], new Date()]) isArgumentError(t, await rejectionOf(() => saveFile(scratchPath('bad'), tensors)), 'tensors') // biome-ignore format: one claim
  t.is((await rejectionOf(() => saveFile(mixed, {}, { overwrite: false })))?.code, 'ZT_EXISTS')
  file.close()
  source.close()
})

test('at() names the number of indices that it expects', (t) => {
  const file = openSync(safetensorsFile({ m: ['F32', [2, 3], new Float32Array(6)], v: ['F32', [1], new Float32Array(1)], s: ['F32', [], new Float32Array(1)] })) // biome-ignore format: one call
  const messageOf = (name, ...indices) => thrownBy(() => file.tensor(name).at(...indices))?.message
  t.is(messageOf('m', 0), 'indices: expected 2 indices, one for each dimension, got 1')
  t.is(messageOf('v'), 'indices: expected 1 index, got 0')
  t.is(messageOf('s', 0), 'indices: expected none for a scalar, got 1')
  file.close()
})

test('at() returns the elements of a file that is not mapped', async (t) => {
  const values = Float32Array.from({ length: 3 * 4096 }, (_, at) => at)
  const stored = safetensorsFile({
    x: ['F32', [3, 4096], values],
    half: ['BF16', [2], Uint16Array.of(0x3fc0, 0xc000)],
    f4: ['F4', [2, 2], Uint8Array.of(0x21, 0x43)],
    complex: ['C64', [2], Float32Array.of(1, 2, 3, 4)],
  })
  const file = openSync(stored, { io: 'read' })
  t.is(file.tensor('x').at(2, -1), 3 * 4096 - 1)
  t.is(file.tensor('half').at(1), -2)
  t.deepEqual([0, 1, 2, 3].map((i) => file.tensor('f4').at(i >> 1, i & 1)), [0.5, 1, 1.5, 2]) // biome-ignore format: one claim
  t.deepEqual(file.tensor('complex').at(1), [3, 4])
  file.close()
})

test('at() decodes only the frame of its element', async (t) => {
  const values = Uint32Array.from({ length: 4 * 1024 }, (_, at) => Math.imul(at, 2654435761))
  const options = { version: '2', canonical: false, compression: { frameSize: 4096, minSavings: 0 } }
  const path = await written({ ...options }, (w) => w.add('x', { dtype: 'uint32', shape: [4, 1024], data: values.map((v) => v & 0xffff) })) // biome-ignore format: one call
  const whole = openSync(path)
  const { offset, storedLength, encoding } = whole.tensor('x').components.get('data')
  t.is(encoding, 'zt.zstd-seekable/1')
  whole.close()
  const bytes = readFileSync(path)
  // The second frame, for any lengths of frames.
  bytes[offset + Math.floor(storedLength * 0.4)] ^= 0xff
  const file = openSync(bytes)
  t.is(file.tensor('x').at(0, 1), values[1] & 0xffff)
  t.is(file.tensor('x').at(3, 1), values[3 * 1024 + 1] & 0xffff)
  t.regex(thrownBy(() => file.tensor('x').data)?.code ?? '', /^ZT_(DECODE|DIGEST_MISMATCH)$/)
  file.close()
})
