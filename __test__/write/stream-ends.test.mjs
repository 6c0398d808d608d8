// Misbehaving streams under create() and convert(): the end of the stream, the signal and abort() settle each pending call, and
// errors of the owner's code are passed on.
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import test from 'ava'
import { convert, create, ZTensorError } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { noise, written } from '../helpers/sample-files.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const turn = () => new Promise(setImmediate)
const BYTES = noise(5 << 18, 1)
const source = await written({ version: '1.2' }, (writer) => writer.add('x', BYTES))

/** Functions that write a file into a stream and wait for it; the stream gets a MiB, the rest, and an index. */
const WAYS = {
  create: async (stream, signal) => {
    const writer = await create(stream, { version: '1.2', signal })
    await writer.add('x', BYTES)
    await writer.finish()
  },
  convert: (stream, signal) => convert(source, stream, { version: '1.2', signal }),
}
const KINDS = [{}, { emitClose: false }, { autoDestroy: false }, { emitClose: false, autoDestroy: false }]

/** Where a stream hangs. `stuck` is set from then on. */
const STALLS = {
  'its first write': (stream) => ({ write: () => stream.stop() }),
  'its last write': (stream) => {
    let bytes = 0
    const write = (chunk, _encoding, done) => {
      bytes += chunk.length
      if (bytes > BYTES.length) stream.stop()
      else done()
    }
    return { write }
  },
  'its end': (stream) => ({ write: (_chunk, _encoding, done) => done(), final: () => stream.stop() }),
}
function stalling(stall, kind) {
  const state = { stuck: false, stop: () => (state.stuck = true) }
  const stream = new Writable({ ...STALLS[stall](state), ...kind })
  const stuck = async () => {
    while (!state.stuck) await turn()
    // The writer waits by now.
    for (let i = 0; i < 5; i++) await turn()
  }
  return { stream, stuck }
}

for (const [way, write] of Object.entries(WAYS)) {
  for (const stall of Object.keys(STALLS)) {
    test(`${way}: a signal ends the wait for a stream that is stuck in ${stall}`, async (t) => {
      for (const kind of KINDS) {
        const { stream, stuck } = stalling(stall, kind)
        const stop = new AbortController()
        const writing = rejectionOf(() => write(stream, stop.signal))
        await stuck()
        const reason = new Error('enough')
        stop.abort(reason)
        t.is(await writing, reason)
        t.true(stream.destroyed)
      }
    })

    test(`${way}: a stream that is stuck in ${stall} and that its owner destroys is ZT_IO`, async (t) => {
      for (const kind of KINDS) {
        for (const cause of [undefined, new Error('no paper')]) {
          const { stream, stuck } = stalling(stall, kind)
          const writing = rejectionOf(() => write(stream))
          await stuck()
          stream.destroy(cause)
          const error = await writing
          t.true(error instanceof ZTensorError, String(error))
          t.is(error.code, 'ZT_IO')
          t.is(error.cause, cause)
        }
      }
    })
  }
}

for (const stall of Object.keys(STALLS)) {
  test(`abort() ends the wait for a stream that is stuck in ${stall}`, async (t) => {
    for (const kind of KINDS) {
      const { stream, stuck } = stalling(stall, kind)
      const writer = await create(stream, { version: '1.2' })
      const writing = rejectionOf(async () => {
        await writer.add('x', BYTES)
        await writer.finish()
      })
      await stuck()
      await writer.abort()
      t.is((await writing)?.code, 'ZT_IO')
      t.true(stream.destroyed)
      t.is((await rejectionOf(() => writer.finish()))?.code, 'ZT_CLOSED')
    }
  })
}

/** Streams that fail because of their owner's code. */
const FAILURES = {
  'throws in its first write': (cause) => ({
    write: () => {
      throw cause
    },
  }),
  'throws in its second write': (cause) => {
    let writes = 0
    const write = (_chunk, _encoding, done) => {
      writes += 1
      if (writes === 2) throw cause
      done()
    }
    return { write }
  },
  'fails in a write': (cause) => ({ write: (_chunk, _encoding, done) => done(cause) }),
  'fails in a write, later': (cause) => ({ write: (_chunk, _encoding, done) => setImmediate(done, cause) }),
  'throws at its end': (cause) => ({
    write: (_chunk, _encoding, done) => done(),
    final: () => {
      throw cause
    },
  }),
  'fails at its end': (cause) => ({ write: (_chunk, _encoding, done) => done(), final: (done) => done(cause) }),
  'fails when it is closed': (cause) => ({
    write: (_chunk, _encoding, done) => done(),
    destroy: (_error, done) => done(cause),
  }),
  'fails when it is closed, later': (cause) => ({
    write: (_chunk, _encoding, done) => done(),
    destroy: (_error, done) => setImmediate(done, cause),
  }),
}
for (const [way, write] of Object.entries(WAYS)) {
  for (const [what, fail] of Object.entries(FAILURES)) {
    test(`${way}: a stream that ${what} is ZT_IO with its error`, async (t) => {
      for (const kind of KINDS) {
        // A stream that does not close itself has no such failure, and one without 'close' events finishes before.
        if (what.includes('closed') && (kind.autoDestroy === false || kind.emitClose === false)) continue
        for (const cause of [new Error('no paper'), new RangeError('too much')]) {
          const stream = new Writable({ ...fail(cause), ...kind })
          const error = await rejectionOf(() => write(stream))
          t.true(error instanceof ZTensorError, String(error))
          t.is(error.code, 'ZT_IO')
          t.is(error.cause, cause)
          t.true(error.message.includes(cause.message))
        }
      }
    })
  }

  test(`${way}: a stream of any kind that takes everything resolves, and has its owner's listeners alone`, async (t) => {
    for (const kind of KINDS) {
      let bytes = 0
      const stream = new Writable({
        write: (chunk, _encoding, done) => {
          bytes += chunk.length
          done()
        },
        ...kind,
      })
      await write(stream)
      t.true(stream.writableFinished)
      t.true(bytes > BYTES.length)
      for (const event of ['error', 'close', 'drain', 'finish']) t.is(stream.listenerCount(event), 0, event)
    }
  })
}

test('abort() ends an unfinished stream of a tensor, and the calls that wait for it', async (t) => {
  const path = await written({}, () => {})
  for (const listens of [false, true]) {
    const writer = await create(path, { overwrite: true })
    const stream = writer.stream('x', { dtype: 'uint8', shape: [9] })
    const errors = []
    if (listens) stream.on('error', (error) => errors.push(error.code))
    stream.write('123')
    const behind = [rejectionOf(() => writer.add('y', Int8Array.of(1))), rejectionOf(() => writer.finish())]
    await writer.abort()
    t.true(stream.destroyed)
    for (const error of await Promise.all(behind)) t.is(error?.code, 'ZT_CLOSED')
    t.deepEqual(errors, listens ? ['ZT_CLOSED'] : [])
  }
})

test('a source that fails or is destroyed is ZT_IO with its error, not ZT_INTERNAL', async (t) => {
  const sources = {
    'a missing file': () => createReadStream(scratchPath('no-such.bin')),
    'a source that throws': () =>
      Readable.from(
        (async function* () {
          yield Buffer.alloc(8)
          throw new Error('connection reset')
        })(),
      ),
  }
  const given = { dtype: 'float32', shape: [64] }
  for (const [what, source] of Object.entries(sources)) {
    const writer = await create(scratchPath())
    const own = await rejectionOf(() => pipeline(source(), writer.stream('a', given)))
    const { code, message, cause } = await rejectionOf(() => writer.finish())
    t.deepEqual([code, cause.code, cause.cause], ['ZT_CLOSED', 'ZT_IO', own], what)
    t.false(message.includes('bug'), message)
  }
  const writer = await create(scratchPath())
  const stop = new AbortController()
  const piping = pipeline(new Readable({ read() {} }), writer.stream('a', given), { signal: stop.signal })
  stop.abort()
  t.is((await rejectionOf(() => piping))?.name, 'AbortError')
  t.is((await rejectionOf(() => writer.finish())).cause.cause.name, 'AbortError')
})

test("the stream gets the reason of the writer's signal unchanged", async (t) => {
  const stop = new AbortController()
  const writer = await create(scratchPath(), { signal: stop.signal })
  const stream = writer.stream('a', { dtype: 'float32', shape: [64] })
  const failing = once(stream, 'error')
  const reason = new Error('enough')
  stop.abort(reason)
  t.is((await failing)[0], reason)
  t.is(await rejectionOf(() => writer.finish()), reason)
})
