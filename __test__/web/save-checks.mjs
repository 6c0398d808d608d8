// What `create` and `saveFile` of @ztensor/web/convert do beyond writing the bytes of the addon.
import assert from 'node:assert/strict'

const rejection = async (promise) =>
  promise.then(
    () => assert.fail('it resolved'),
    (error) => error,
  )

const floats = (count) => Float32Array.from({ length: count }, (_, at) => at)

/** A stream that counts what happens to it. */
function counted(write = () => {}) {
  const seen = { writes: 0, closed: 0, reason: undefined }
  const stream = new WritableStream({
    write(chunk) {
      seen.writes += 1
      return write(chunk)
    },
    close() {
      seen.closed += 1
    },
    abort(reason) {
      seen.reason = reason
    },
  })
  return { stream, seen }
}

export const saveChecks = {
  async 'saveFile writes tensors of an open file and of the caller'({ open }, { saveFile }) {
    const { blob } = await saveFile(undefined, { a: floats(6) }, { format: 'zt' })
    const file = await open(blob)
    const seen = []
    const options = { format: 'safetensors', onProgress: (progress) => seen.push(progress) }
    const tensors = new Map([
      ['b', file.tensor('a')],
      ['c', new Int32Array([7])],
    ])
    const saved = await open((await saveFile(undefined, tensors, options)).blob)
    assert.deepEqual(await saved.tensor('b').load(), floats(6))
    assert.deepEqual(await saved.tensor('c').load(), new Int32Array([7]))
    assert.deepEqual([seen.at(-1).tensors, seen.at(-1).bytes], [2, 28])
    file.close()
    saved.close()
  },

  async 'a stream is closed once, and has no blob'(_web, { saveFile }) {
    for (const format of ['zt', 'safetensors']) {
      const { stream, seen } = counted()
      assert.deepEqual(await saveFile(stream, { a: floats(1e6) }, { format }), {})
      assert.deepEqual([seen.closed, seen.reason], [1, undefined])
    }
  },

  async 'an array that is detached while it is written is ZT_CLOSED'(_web, { create }) {
    for (let turns = 0; turns < 4; turns++) {
      const writer = await create(undefined, { format: 'zt' })
      const data = new Float32Array(2 ** 23)
      const adding = rejection(writer.add('a', data))
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
      structuredClone(data.buffer, { transfer: [data.buffer] })
      const error = await adding
      assert.deepEqual([error.code, /detached or resized/.test(error.message)], ['ZT_CLOSED', true], error.message)
    }
  },

  async 'abort and a signal abort the stream'(_web, { create }) {
    for (const format of ['zt', 'safetensors']) {
      const { stream, seen } = counted()
      const writer = await create(stream, { format })
      await writer.add('a', floats(1e6))
      await writer.abort()
      assert.equal(seen.reason.code, 'ZT_IO')
      assert.equal((await rejection(writer.add('b', floats(1)))).code, 'ZT_CLOSED')
      const other = counted()
      const stop = new AbortController()
      const second = await create(other.stream, { format, signal: stop.signal })
      const reason = new Error('enough')
      stop.abort(reason)
      assert.equal(await rejection(second.add('a', floats(1))), reason)
      assert.equal(other.seen.reason, reason)
      assert.equal(other.seen.closed + seen.closed, 0)
    }
  },

  async 'a stream that fails is ZT_IO with its error, and is not written to again'(_web, { saveFile }) {
    for (const format of ['zt', 'safetensors']) {
      const cause = new Error('no paper')
      const { stream, seen } = counted(() => {
        throw cause
      })
      const error = await rejection(saveFile(stream, { a: floats(1e6), b: floats(1e6) }, { format }))
      assert.deepEqual([error.code, error.cause, seen.writes], ['ZT_IO', cause, 1])
    }
  },

  async 'a slow stream holds the writer back'(_web, { create }) {
    const { stream, seen } = counted(() => new Promise(() => {}))
    const writer = await create(stream, { format: 'zt' })
    let added = 0
    const count = () => {
      added += 1
    }
    const adding = Array.from({ length: 10 }, (_, at) => writer.add(String(at), floats(1e6)).then(count))
    while (seen.writes === 0) await new Promise(setImmediate)
    for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
    assert.deepEqual([seen.writes, added], [1, 0])
    const settled = Promise.allSettled(adding)
    await writer.abort()
    await settled
  },

  async 'what needs a path, a file or Node is refused, with what to do'({ open }, { create, saveFile }) {
    for (const [options, message] of [
      [{ format: 'zt', version: '2' }, /canonical file .* with canonical: false/],
      [{ format: 'safetensors', maxShardBytes: 1 }, /maxShardBytes writes several files/],
      [{ format: 'safetensors', overwrite: true }, /overwrite is for paths/],
      [{ format: 'safetensors', remote: {} }, /remote is for object stores/],
    ]) {
      const { stream } = counted()
      const error = await rejection(create(stream, options))
      assert.equal(error.code, 'ZT_INVALID_ARG', JSON.stringify(options))
      assert.match(error.message, message)
      assert.equal(stream.locked, false)
    }
    assert.equal((await rejection(saveFile('model.zt', {}))).code, 'ZT_INVALID_ARG')
    const writer = await create(undefined, { format: 'zt', version: '2', canonical: false })
    assert.throws(
      () => writer.stream('a', { dtype: 'uint8', shape: [1] }),
      /a stream of Node, which browsers do not have/,
    )
    const { blob } = await saveFile(undefined, { a: floats(1) }, { format: 'zt', version: '2', canonical: false })
    const file = await open(blob)
    assert.match((await rejection(writer.link('a', { file }))).message, /a browser links to no files/)
    file.close()
    await writer.abort()
  },
}
