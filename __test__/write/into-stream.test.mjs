// create() into a stream: the same bytes as at a path, at the speed of the reader, and nothing after an error.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, readFileSync } from 'node:fs'
import { createServer, get } from 'node:http'
import { connect, createServer as createSocketServer } from 'node:net'
import { PassThrough, Readable, Writable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGunzip, createGzip } from 'node:zlib'
import test from 'ava'
import { create, openSync, ZTensorError } from 'ztensor'
import { isArgumentError, rejectionOf } from '../helpers/errors.mjs'
import { noise, oneCell, sample, streamed, twoRows, WRITE_FORMATS, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const STREAMABLE = WRITE_FORMATS.filter(({ zt }) => zt)

/** Tensors of every kind, some larger than a chunk of the stream. */
async function addAll(writer) {
  await writer.add('small', Float32Array.of(1, 2, 3))
  await writer.add('large', sample('float32', [1 << 20], 1, 64))
  await writer.addCsr('csr', twoRows(1, 2))
  await writer.addCoo('coo', oneCell(1))
  await writer.add('none', new Int8Array(0))
  const pieces = Array.from({ length: 40 }, (_, seed) => noise(100_000, seed))
  await streamed(writer.stream('piecewise', { dtype: 'uint8', shape: [4_000_000] }), pieces)
  for (let i = 0; i < 200; i++) await writer.add(`t${i}`, noise(700, i))
}

/** The bytes that a writer wrote into a stream. */
async function collected(options, add, stream = new PassThrough()) {
  const all = buffer(stream)
  const writer = await create(stream, options)
  await add(writer)
  await writer.finish()
  return all
}

/** A Writable that keeps its chunks and waits for `each`. */
function sink(each = (done) => done()) {
  const chunks = []
  const stream = new Writable({
    highWaterMark: 1000,
    write: (chunk, _encoding, callback) => {
      chunks.push(chunk)
      each(callback, chunks.length)
    },
  })
  return { stream, bytes: () => Buffer.concat(chunks), chunks }
}

for (const { name: format, options } of STREAMABLE) {
  for (const stored of [{}, { digest: 'sha256', compression: { level: 3 } }, { digest: false, alignment: 4096 }]) {
    test(`${format}: writes the bytes of a path, ${JSON.stringify(stored)}`, async (t) => {
      const how = { ...options, ...stored }
      const file = readFileSync(await written(how, addAll))
      t.true((await collected(how, addAll)).equals(file))
    })
  }

  test(`${format}: writes a file without tensors`, async (t) => {
    const file = readFileSync(await written(options, () => {}))
    t.true((await collected(options, () => {})).equals(file))
  })
}

for (const { name: format, options } of WRITE_FORMATS.filter(({ zt }) => !zt)) {
  test(`${format}: a stream gets the bytes of a file with finish(), because the index comes first`, async (t) => {
    const add = (writer) => writer.add('0', Float32Array.of(1, 2))
    const file = readFileSync(await written(options, add))
    const { stream, chunks } = sink()
    const writer = await create(stream, options)
    await add(writer)
    t.deepEqual(chunks, [])
    await writer.finish()
    t.true(Buffer.concat(chunks).equals(file))
    t.is(stream.listenerCount('error') + stream.listenerCount('drain'), 0)
  })
}

test('a socket, an HTTP response, a file, the input of a process and a transform get all bytes', async (t) => {
  const file = readFileSync(await written({}, addAll))
  const same = (bytes, where) => t.true(bytes.equals(file), where)
  const write = async (stream) => {
    const writer = await create(stream)
    t.is(writer.path, undefined)
    await addAll(writer)
    await writer.finish()
  }

  const server = createSocketServer((socket) => buffer(socket).then((bytes) => server.emit('whole', bytes)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const received = once(server, 'whole')
  await write(connect(server.address().port, '127.0.0.1'))
  same((await received)[0], 'socket')
  server.close()

  const web = createServer((_, response) => void write(response))
  web.listen(0, '127.0.0.1')
  await once(web, 'listening')
  const [response] = await once(get({ port: web.address().port, host: '127.0.0.1', agent: false }), 'response')
  same(await buffer(response), 'response')
  web.close()

  const path = scratchPath('through.zt')
  await write(createWriteStream(path))
  same(readFileSync(path), 'file')

  const hash = spawn(
    process.execPath,
    ['-e', "process.stdin.pipe(require('crypto').createHash('sha256').setEncoding('hex')).pipe(process.stdout)"],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const output = buffer(hash.stdout)
  await write(hash.stdin)
  t.is(String(await output), createHash('sha256').update(file).digest('hex'), 'stdin')

  const gzip = createGzip({ level: 1 })
  const unpacked = buffer(gzip.pipe(createGunzip()))
  await write(gzip)
  same(await unpacked, 'gzip')
})

test('overlapping calls run in order', async (t) => {
  const overlapping = async (writer) => {
    const calls = [
      writer.add('a', noise(3_000_000, 1)),
      writer.add('b', noise(10, 2)),
      streamed(writer.stream('c', { dtype: 'uint8', shape: [5] }), [noise(5, 3)]),
      writer.add('d', noise(2_000_000, 4)),
    ]
    await Promise.all(calls)
  }
  const file = readFileSync(await written({}, overlapping))
  t.true((await collected({}, overlapping)).equals(file))
})

test('waits for a slow stream: little data is in progress, at any size', async (t) => {
  let waiting
  const { stream, chunks } = sink((done) => {
    waiting = done
  })
  const writer = await create(stream)
  const adds = []
  for (let i = 0; i < 40; i++) adds.push(writer.add(`${i}`, noise(2 ** 20, i)))
  // The first piece is not read, so no later add finishes.
  let done = 0
  for (const add of adds) add.then(() => done++)
  while (waiting === undefined) await new Promise(setImmediate)
  for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
  t.is(chunks.length, 1)
  t.true(done <= 2)
  t.true(stream.writableLength <= 8 * 2 ** 20)
  const taking = (async () => {
    while (!stream.writableFinished) {
      const next = waiting
      waiting = undefined
      next?.()
      await new Promise(setImmediate)
    }
  })()
  await Promise.all(adds)
  await writer.finish()
  await taking
  t.true(Math.max(...chunks.map((chunk) => chunk.length)) <= 8 * 2 ** 20)
  const file = openSync(Buffer.concat(chunks))
  t.is(file.size, 40)
  file.close()
})

for (const [when, at] of [
  ['at once', 1],
  ['in the middle', 3],
]) {
  test(`a stream that fails ${when} is ZT_IO with its error, and gets no more data`, async (t) => {
    const broke = Object.assign(new Error('no more'), { code: 'EPIPE' })
    const { stream, chunks } = sink((done, count) => done(count === at ? broke : null))
    const writer = await create(stream)
    let error
    for (let i = 0; i < 10 && error === undefined; i++) {
      error = await rejectionOf(() => writer.add(`${i}`, noise(2 ** 20, i)))
    }
    t.true(error instanceof ZTensorError)
    t.is(error.code, 'ZT_IO')
    t.is(error.cause, broke)
    t.is(chunks.length, at)
    for (const call of [() => writer.add('x', Int8Array.of(1)), () => writer.finish()]) {
      t.true(['ZT_IO', 'ZT_CLOSED'].includes((await rejectionOf(call))?.code))
    }
    t.true(stream.destroyed)
    t.is(chunks.length, at)
    await writer.abort()
  })
}

test('a stream that fails between two calls rejects the next one', async (t) => {
  const { stream, chunks } = sink()
  const writer = await create(stream)
  await writer.add('a', Int8Array.of(1))
  const closed = new Promise((resolve) => stream.on('close', resolve))
  stream.destroy(new Error('gone'))
  await closed
  const error = await rejectionOf(() => writer.add('b', Int8Array.of(1)))
  t.is(error?.code, 'ZT_IO')
  t.is(error?.cause?.message, 'gone')
  t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_IO')
  t.deepEqual(chunks, [])
})

test('a stream that closes, or that its owner ends, is ZT_IO', async (t) => {
  for (const stop of [(stream) => stream.destroy(), (stream) => stream.end()]) {
    const { stream } = sink()
    const writer = await create(stream)
    await writer.add('a', Int8Array.of(1))
    stop(stream)
    const error = await rejectionOf(() => writer.finish())
    t.true(error instanceof ZTensorError)
    t.is(error.code, 'ZT_IO')
  }
})

test('a socket whose reader goes away is ZT_IO, and the process continues', async (t) => {
  const server = createSocketServer((socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect(server.address().port, '127.0.0.1')
  const writer = await create(socket)
  let error
  for (let i = 0; i < 200 && error === undefined; i++) {
    error = await rejectionOf(() => writer.add(`${i}`, noise(2 ** 20, 1)))
  }
  t.is(error?.code, 'ZT_IO')
  server.close()
})

for (const [how, give] of Object.entries({
  'abort()': (writer) => writer.abort(),
  disposing: (writer) => writer[Symbol.asyncDispose](),
  'a stream of a tensor that ends early': (writer) =>
    rejectionOf(() => streamed(writer.stream('x', { dtype: 'int8', shape: [9] }), [new Uint8Array(8)])),
})) {
  test(`${how} destroys the stream, so that its reader detects the truncation`, async (t) => {
    const stream = new PassThrough()
    const read = rejectionOf(() => buffer(stream))
    const writer = await create(stream)
    await writer.add('a', noise(3 * 2 ** 20, 1))
    await give(writer)
    t.true(stream.destroyed)
    t.is((await read)?.code, 'ERR_STREAM_PREMATURE_CLOSE')
    t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
  })
}

test('abort() does not wait for a stream without a reader', async (t) => {
  const { stream } = sink(() => {})
  const writer = await create(stream)
  const adding = rejectionOf(() => writer.add('a', noise(3 * 2 ** 20, 1)))
  while (stream.writableLength === 0) await new Promise(setImmediate)
  await writer.abort()
  t.is((await adding)?.code, 'ZT_IO')
  t.true(stream.destroyed)
})

test('after finish() the stream has ended, and disposing the writer has no effect', async (t) => {
  const { stream, bytes } = sink()
  const writer = await create(stream)
  await writer.add('a', Int8Array.of(1))
  await writer.finish()
  t.true(stream.writableFinished)
  await writer.abort()
  await writer[Symbol.asyncDispose]()
  t.is(stream.errored, null)
  t.is((await rejectionOf(() => writer.add('b', Int8Array.of(1))))?.code, 'ZT_CLOSED')
  const file = openSync(bytes())
  t.deepEqual([...file.keys()], ['a'])
  file.close()
})

test('a tensor rejected before its first byte does not end the writer or its stream', async (t) => {
  const { stream, bytes } = sink()
  const writer = await create(stream)
  await writer.add('a', Int8Array.of(1))
  t.is((await rejectionOf(() => writer.add('a', Int8Array.of(1))))?.code, 'ZT_BAD_INDEX')
  t.is(
    (await rejectionOf(() => writer.add('b', { dtype: 'int8', shape: [2], data: Int8Array.of(1) })))?.code,
    'ZT_BAD_SHAPE',
  )
  await writer.add('c', Int8Array.of(2))
  await writer.finish()
  const file = openSync(bytes())
  t.deepEqual([...file.keys()], ['a', 'c'])
  file.close()
})

test('checks arguments immediately', async (t) => {
  const ended = new PassThrough()
  ended.end()
  const destroyed = new PassThrough()
  destroyed.destroy()
  isArgumentError(t, await rejectionOf(() => create(ended)), 'stream')
  isArgumentError(t, await rejectionOf(() => create(destroyed)), 'stream')
  isArgumentError(t, await rejectionOf(() => create(new PassThrough(), { overwrite: true })), 'overwrite')
  for (const wrong of [{}, null, 1, Readable.from([]), new WritableStream()]) {
    isArgumentError(t, await rejectionOf(() => create(wrong)), 'path')
  }
})
