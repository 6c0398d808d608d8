// Errors of calls that are not awaited reject finish(), and are not unhandled rejections.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const F = Float32Array.of(1)
const INT8 = { dtype: 'int8', shape: [1000] }

test('an add() that failed and was not awaited makes finish() fail', async (t) => {
  const path = scratchPath('unheard')
  const writer = await create(path)
  writer.add('a', F)
  writer.add('b', [1, 2])
  await writer.add('c', F)
  const error = await rejectionOf(() => writer.finish())
  t.is(error.code, 'ZT_INVALID_ARG')
  t.false(existsSync(path))
  const after = await rejectionOf(() => writer.add('d', F))
  t.is(after.code, 'ZT_CLOSED')
  t.is(after.cause, error)
  t.is((await rejectionOf(() => writer.finish())).cause, error)
})

test('the errors of all calls that add reach finish()', async (t) => {
  for (const call of ['addCsr', 'addCoo', 'addObject', 'link']) {
    const writer = await create(scratchPath('unheard'))
    writer[call]('x', {})
    t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_INVALID_ARG', call)
  }
})

test('an error of a call that waited in the queue reaches finish(), of files and of streams', async (t) => {
  const accept = { write: (_chunk, _encoding, callback) => callback() }
  for (const format of ['zt', 'safetensors']) {
    for (const target of [scratchPath('queued'), new Writable(accept)]) {
      const writer = await create(target, { format })
      await writer.add('a', F)
      writer.addObject('a', { layout: 'dense', shape: [1], dtype: 'float32', components: { data: { data: F } } })
      const error = await rejectionOf(() => writer.finish())
      t.is(error?.code, 'ZT_BAD_INDEX', `${format} to ${writer.path}`)
    }
  }
})

test('an error that was awaited does not make finish() fail', async (t) => {
  const path = scratchPath('heard')
  const writer = await create(path)
  for (const wait of [(p) => p.catch(() => {}), (p) => p.then(undefined, () => {}), (p) => Promise.allSettled([p])])
    await wait(writer.add('a', [1]))
  try {
    await writer.add('a', F, { shape: [2] })
  } catch {}
  await writer.add('a', F)
  await writer.finish()
  const file = openSync(path)
  t.is(file.size, 1)
  file.close()
})

test('an add() that fails after finish() was called makes finish() fail', async (t) => {
  const path = scratchPath('late')
  const writer = await create(path)
  const [added, finished] = await Promise.allSettled([writer.add('a', F, { shape: [2] }), writer.finish()])
  t.is(added.status, 'rejected')
  t.is(finished.reason, added.reason)
  t.false(existsSync(path))
})

/** How a stream ends, and the code of the error of finish(). */
const ENDS = {
  'a source that is destroyed': [
    'ZT_IO',
    (stream) => {
      const source = new Readable({ read() {} })
      source.push(Buffer.alloc(10))
      source.pipe(stream)
      setImmediate(() => source.destroy())
    },
  ],
  'a source that fails': [
    'ZT_IO',
    (stream) => {
      const source = new Readable({ read() {} })
      source.pipe(stream)
      setImmediate(() => source.destroy(new Error('broke')))
    },
  ],
  'too few bytes': ['ZT_BAD_SHAPE', (stream) => stream.end(Buffer.alloc(10))],
  'too many bytes': ['ZT_BAD_SHAPE', (stream) => stream.end(Buffer.alloc(1001))],
  'the stream destroyed': ['ZT_CLOSED', (stream) => stream.destroy()],
  'a pipeline whose source fails': [
    undefined,
    (stream) => {
      const source = new Readable({ read: () => source.destroy(new Error('broke')) })
      pipeline(source, stream).catch(() => {})
    },
  ],
}
for (const [what, [code, end]] of Object.entries(ENDS)) {
  test(`a stream: ${what} makes finish() fail`, async (t) => {
    const path = scratchPath('stream')
    const writer = await create(path)
    end(writer.stream('x', INT8))
    const error = await rejectionOf(() => writer.finish())
    t.truthy(error)
    if (code !== undefined) t.is(error.code, code)
    t.false(existsSync(path))
    const after = await rejectionOf(() => writer.add('y', F))
    t.is(after.code, 'ZT_CLOSED')
    t.true(after.cause instanceof Error)
  })
}

test('a stream with the name of an existing tensor makes finish() fail, unless its error has a listener', async (t) => {
  for (const listens of [false, true]) {
    const writer = await create(scratchPath('taken'))
    await writer.add('x', F)
    const stream = writer.stream('x', INT8)
    if (listens) stream.on('error', () => {})
    await new Promise((resolve) => stream.once('close', resolve))
    t.is((await rejectionOf(() => writer.finish()))?.code, listens ? undefined : 'ZT_BAD_INDEX')
  }
})

test('an unhandled rejection does not end the process', async (t) => {
  const program = `
    const { create } = require('ztensor')
    ;(async () => {
      const writer = await create(process.argv[1])
      writer.add('b', [1])
      writer.stream('x', { dtype: 'int8', shape: [3] }).end(Buffer.alloc(1))
      await new Promise((resolve) => setImmediate(resolve))
      await writer.finish().catch(({ code }) => console.log(code))
    })()`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program, scratchPath('process')])
  t.is(stdout, 'ZT_INVALID_ARG\n')
})
