// stream(): a tensor's bytes as they come, in pieces of any size, counted at their end.
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import test from 'ava'
import fc from 'fast-check'
import { create, openSync, ZTensorError } from 'ztensor'
import { littleEndian } from '../helpers/bytes.mjs'
import { scaled } from '../helpers/campaign.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { noise, sample, scratchFolder, streamed, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

/** The bytes in chunks of these lengths, which repeat. */
function chunked(bytes, lengths) {
  const chunks = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = lengths[i % lengths.length]
    chunks.push(bytes.subarray(at, at + length))
    at += length
  }
  return chunks
}

test('writes any tensor in any pieces, compressed or not', async (t) => {
  const inputs = fc.record({
    format: fc.constantFrom(...WRITE_FORMATS),
    which: fc.nat(),
    shape: fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 4 }).map((shape) => [...shape, 4]),
    lengths: fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 6 }),
    compression: fc.constantFrom(false, { level: 1, minSavings: 0 }),
    digest: fc.constantFrom(false, 'crc32c', 'sha256'),
  })
  const body = async ({ format, which, shape, lengths, compression, digest }) => {
    const dtype = format.dtypes[which % format.dtypes.length]
    const data = sample(dtype, shape, which, 64)
    const options = format.zt ? { ...format.options, compression, digest } : format.options
    const path = await written(options, async (writer) => {
      await streamed(writer.stream('0', { dtype, shape }), chunked(littleEndian(data), lengths))
    })
    const file = openSync(path, { format: format.options.format ?? 'zt' })
    t.is(file.tensor('0').dtype, dtype)
    t.deepEqual([...file.tensor('0').shape], shape)
    t.true(littleEndian(await file.tensor('0').load()).equals(littleEndian(data)))
    file.close()
  }
  await fc.assert(fc.asyncProperty(inputs, body), { numRuns: scaled(150) })
})

test('is a Writable, and ends a pipeline', async (t) => {
  const bytes = noise(12 * 2 ** 20, 1)
  const source = scratchFile(bytes)
  for (const { options } of WRITE_FORMATS) {
    const path = await written(options, async (writer) => {
      const stream = writer.stream('0', { dtype: 'int8', shape: [3, 2 ** 22] })
      t.true(stream instanceof Writable)
      await pipeline(createReadStream(source), stream)
      await pipeline(
        Readable.from(['ab', Buffer.from('cd')], { objectMode: true }),
        writer.stream('1', { dtype: 'int8', shape: [4] }),
      )
    })
    const file = openSync(path)
    t.is(littleEndian(file.tensor('0').data).compare(bytes), 0)
    t.is(littleEndian(file.tensor('1').data).toString(), 'abcd')
    file.close()
  }
})

test('accepts typed arrays as their bytes, and attributes', async (t) => {
  const path = await written({}, async (writer) => {
    const stream = writer.stream('0', { dtype: 'float32', shape: [3] }, { attributes: { a: [1n, 'b'] } })
    await streamed(stream, [littleEndian(Float32Array.of(1.5)), littleEndian(Float32Array.of(2.5, 3.5))])
  })
  const file = openSync(path)
  t.deepEqual([...file.tensor('0').data], [1.5, 2.5, 3.5])
  t.deepEqual({ ...file.tensor('0').attributes }, { a: [1, 'b'] })
  file.close()
})

test('an empty tensor is an empty stream', async (t) => {
  const path = await written({}, async (writer) => {
    await streamed(writer.stream('none', { dtype: 'float32', shape: [0, 3] }), [])
    await streamed(writer.stream('chunks', { dtype: 'float32', shape: [0] }), [new Uint8Array(0)])
  })
  const file = openSync(path)
  t.deepEqual([...file.keys()], ['none', 'chunks'])
  t.deepEqual([...file.tensor('none').shape], [0, 3])
  file.close()
})

test('other calls wait until the stream has ended', async (t) => {
  const path = scratchPath('turns.zt')
  const writer = await create(path)
  const first = writer.stream('first', { dtype: 'uint8', shape: [2] })
  const second = writer.stream('second', { dtype: 'uint8', shape: [1] })
  const order = []
  const calls = [
    writer.add('third', Uint8Array.of(4)).then(() => order.push('third')),
    writer.finish().then(() => order.push('finish')),
  ]
  const ends = [first, second].map((stream, i) =>
    new Promise((resolve) => stream.on('close', resolve)).then(() => order.push(i)),
  )
  second.end(Uint8Array.of(3))
  first.write(Uint8Array.of(1))
  t.false(existsSync(path))
  first.end(Uint8Array.of(2))
  await Promise.all([...calls, ...ends])
  t.deepEqual(
    order.filter((name) => typeof name === 'string'),
    ['third', 'finish'],
  )
  t.true(order.indexOf(0) < order.indexOf(1))
  t.true(order.indexOf(1) < order.indexOf('finish'))
  const file = openSync(path)
  t.deepEqual([...file.keys()], ['first', 'second', 'third'])
  t.deepEqual([...file.tensor('first').data], [1, 2])
  t.deepEqual([...file.tensor('second').data], [3])
  file.close()
})

for (const { name: format, options, zt } of WRITE_FORMATS) {
  for (const compression of zt ? [false, {}] : [false]) {
    const how = { ...options, compression }
    const label = `${format}, compression ${JSON.stringify(compression)}`

    for (const [what, shape, lengths] of [
      ['a byte too few', [9], [8]],
      ['no bytes', [9], []],
      ['a byte too many', [9], [9, 1]],
      ['all too many', [0], [1]],
      ['megabytes too few', [2 ** 22], [2 ** 20, 2 ** 20]],
      ['megabytes too many', [2 ** 20], [2 ** 20, 2 ** 20]],
    ]) {
      test(`${label}: ${what} is ZT_BAD_SHAPE, and leaves no file`, async (t) => {
        const { path, names } = scratchFolder()
        const writer = await create(path('a'), how)
        const stream = writer.stream('0', { dtype: 'int8', shape })
        const error = await rejectionOf(() =>
          streamed(
            stream,
            lengths.map((length) => noise(length, 1)),
          ),
        )
        t.true(error instanceof ZTensorError)
        t.is(error.code, 'ZT_BAD_SHAPE')
        t.is(error.tensor, '0')
        t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
        t.deepEqual(names(), [])
      })
    }

    test(`${label}: destroying it at any point ends the writer`, async (t) => {
      for (const written of [0, 1, 4000, 3 * 2 ** 20]) {
        for (const cause of [undefined, new Error('enough')]) {
          const { path, names } = scratchFolder()
          const writer = await create(path('a'), how)
          await writer.add('0', Int8Array.of(1))
          const stream = writer.stream('1', { dtype: 'int8', shape: [2 ** 23] })
          if (written > 0) await new Promise((resolve) => stream.write(noise(written, 1), resolve))
          const closed = new Promise((resolve) => stream.on('close', resolve))
          const failure = new Promise((resolve) => stream.on('error', resolve))
          stream.destroy(cause)
          await closed
          if (cause !== undefined) t.is(await failure, cause)
          t.is((await rejectionOf(() => writer.add('2', Int8Array.of(1))))?.code, 'ZT_CLOSED')
          t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
          t.deepEqual(names(), [])
        }
      }
    })
  }
}

test('destroying it during a write ends the writer', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await create(path('a'))
  const stream = writer.stream('0', { dtype: 'int8', shape: [2 ** 23] })
  stream.write(noise(2 ** 22, 1))
  stream.destroy()
  t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
  t.deepEqual(names(), [])
})

test('destroying it before its turn ends the writer at its turn', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await create(path('a'))
  const before = writer.add('0', noise(2 ** 22, 1))
  writer.stream('1', { dtype: 'int8', shape: [1] }).destroy()
  await before
  t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
  t.deepEqual(names(), [])
})

test('a failing source ends the writer with the error of the source', async (t) => {
  const { path, names } = scratchFolder()
  const writer = await create(path('a'))
  const failing = Readable.from(
    (async function* () {
      yield noise(1000, 1)
      throw new Error('the source broke')
    })(),
  )
  const error = await rejectionOf(() => pipeline(failing, writer.stream('0', { dtype: 'int8', shape: [5000] })))
  t.is(error?.message, 'the source broke')
  t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
  t.deepEqual(names(), [])
})

test('a rejection at its turn is an error of the stream, and the writer continues', async (t) => {
  const path = await written({}, async (writer) => {
    await writer.add('0', Int8Array.of(1))
    const error = await rejectionOf(() => streamed(writer.stream('0', { dtype: 'int8', shape: [1] }), [noise(1, 1)]))
    t.is(error?.code, 'ZT_BAD_INDEX')
    t.is(error?.tensor, '0')
    await writer.add('1', Int8Array.of(2))
  })
  const file = openSync(path)
  t.deepEqual([...file.keys()], ['0', '1'])
  file.close()
})

test('checks arguments immediately', async (t) => {
  await written({}, async (writer) => {
    const tensor = { dtype: 'int8', shape: [1] }
    isArgumentError(
      t,
      thrownBy(() => writer.stream(1, tensor)),
      'name',
    )
    isArgumentError(
      t,
      thrownBy(() => writer.stream('x', { ...tensor, dtype: 'i8' })),
      'dtype',
    )
    isArgumentError(
      t,
      thrownBy(() => writer.stream('x', { ...tensor, shape: [-1] })),
      'shape[0]',
    )
    isArgumentError(
      t,
      thrownBy(() => writer.stream('x', tensor, 1)),
      'options',
    )
  })
})

test('the caller may reuse its buffer after a write', async (t) => {
  const path = await written({ compression: {} }, async (writer) => {
    const stream = writer.stream('0', { dtype: 'uint8', shape: [4 * 2 ** 20] })
    const buffer = new Uint8Array(2 ** 20)
    for (let round = 1; round <= 4; round++) {
      buffer.fill(round)
      await new Promise((resolve, reject) => stream.write(buffer, (error) => (error ? reject(error) : resolve())))
    }
    await streamed(stream, [])
  })
  const file = openSync(path)
  const data = await file.tensor('0').load()
  t.true(data.every((value, i) => value === Math.floor(i / 2 ** 20) + 1))
  t.true(readFileSync(path).length < 2 ** 20)
  file.close()
})
