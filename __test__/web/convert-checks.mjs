// What @ztensor/web/convert does beyond writing the bytes of the addon: targets, aborts, refusals, checkpoints at URLs, memory.
import assert from 'node:assert/strict'
import { createReadStream, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'
import { Writable } from 'node:stream'
import * as addon from 'ztensor'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { FolderHandle } from './folders.mjs'

const rejection = async (promise) =>
  promise.then(
    () => assert.fail('it resolved'),
    (error) => error,
  )

/** A source of float32 tensors with numbers that repeat, each of `count` elements. */
function source(tensors, count, shape = [count]) {
  const data = Float32Array.from({ length: 4096 }, (_, at) => Math.sin(at))
  const bytes = new Uint8Array(data.buffer)
  const length = count * 4
  const entries = Array.from({ length: tensors }, (_, at) => [
    `blk.${at}.ffn_up.weight`,
    { dtype: 'F32', shape, data_offsets: [at * length, (at + 1) * length] },
  ])
  const text = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)))
  const head = new Uint8Array(8 + text.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(text.length), true)
  head.set(text, 8)
  return {
    byteLength: head.length + tensors * length,
    read(offset, length) {
      const piece = new Uint8Array(length)
      for (let at = 0; at < length; ) {
        const place = offset + at
        const from = place < head.length ? head.subarray(place) : bytes.subarray((place - head.length) % bytes.length)
        piece.set(from.subarray(0, length - at), at)
        at += Math.min(from.length, length - at)
      }
      return piece
    },
  }
}

async function ofAddon(source, options) {
  const chunks = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  await addon.convert(source, stream, options)
  return Buffer.concat(chunks)
}

const bytesOf = async (blob) => Buffer.from(await blob.arrayBuffer())

/** Serves a folder, with ranges. */
async function serving(folder, use) {
  const server = createServer((request, response) => {
    const file = join(folder, decodeURIComponent(new URL(request.url, 'http://localhost').pathname))
    const size = statSync(file, { throwIfNoEntry: false })?.size
    if (size === undefined) return response.writeHead(404).end()
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')
    if (range === null) return createReadStream(file).pipe(response)
    const start = Number(range[1])
    if (start >= size) return response.writeHead(416, { 'content-range': `bytes */${size}` }).end()
    const end = Math.min(Number(range[2]), size - 1)
    response.writeHead(206, { 'content-range': `bytes ${start}-${end}/${size}` })
    createReadStream(file, { start, end }).pipe(response)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${server.address().port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

export const convertChecks = {
  async 'an open file is converted to a stream, twice, with progress'({ open }, { convert }) {
    const file = await open(source(3, 1 << 20))
    const expected = await ofAddon(source(3, 1 << 20), { format: 'safetensors' })
    for (let time = 0; time < 2; time++) {
      const chunks = []
      const seen = []
      const stream = new WritableStream({ write: (chunk) => void chunks.push(chunk) })
      const onProgress = (progress) => seen.push(progress)
      const result = await convert(file, stream, { format: 'safetensors', onProgress })
      assert.equal(result.blob, undefined)
      assert.ok(Buffer.concat(chunks).equals(expected))
      assert.equal(seen.at(-1).tensors, 3)
      assert.equal(seen.at(-1).bytes, seen.at(-1).totalBytes)
      assert.equal(stream.locked, true)
    }
    assert.equal(file.closed, false)
    file.close()
  },

  async 'a slow stream holds the conversion back'(_web, { convert }) {
    let [reads, waiting] = [0, undefined]
    const given = source(40, 1 << 20)
    const counted = {
      ...given,
      read(...range) {
        reads += 1
        return given.read(...range)
      },
    }
    const stream = new WritableStream({ write: () => new Promise((resolve) => (waiting = resolve)) })
    const stop = new AbortController()
    const converting = rejection(convert(counted, stream, { format: 'safetensors', signal: stop.signal }))
    while (waiting === undefined) await new Promise(setImmediate)
    for (let turn = 0; turn < 200; turn++) await new Promise(setImmediate)
    assert.ok(reads < 20, `${reads} reads`)
    const reason = new Error('enough')
    stop.abort(reason)
    assert.equal(await converting, reason)
  },

  async 'a stream that fails is ZT_IO with its error, and is not written to again'(_web, { convert }) {
    let writes = 0
    const cause = new Error('no paper')
    const stream = new WritableStream({
      write() {
        writes += 1
        throw cause
      },
    })
    const error = await rejection(convert(source(4, 1 << 20), stream, { format: 'safetensors' }))
    assert.equal(error.code, 'ZT_IO')
    assert.equal(error.cause, cause)
    assert.equal(writes, 1)
  },

  async 'the version of a file that was opened is converted'({ open }, { convert }) {
    const blobOf = ({ byteLength, read }) => new Blob([read(0, byteLength)])
    const versions = [source(1, 256), source(2, 256)].map(blobOf)
    let now = versions[0]
    const handle = { kind: 'file', name: 'm.safetensors', isSameEntry: async () => false, getFile: async () => now }
    const file = await open(handle)
    now = versions[1]
    const { blob, tensors } = await convert(file, undefined, { format: 'safetensors' })
    assert.equal(tensors, 1)
    const expected = await convert(versions[0], undefined, { format: 'safetensors' })
    assert.ok((await bytesOf(blob)).equals(await bytesOf(expected.blob)))
    file.close()
  },

  async 'the name of a handle selects the format'(_web, { convert }) {
    const written = []
    const handle = (name) => ({
      name,
      createWritable: async () => new WritableStream({ write: (chunk) => void written.push(chunk) }),
    })
    await convert(source(1, 256), handle('a.npz'))
    assert.equal(Buffer.concat(written).toString('latin1', 0, 2), 'PK')
    for (const name of ['a', 'a.h5', 'a.xyz'])
      assert.equal((await rejection(convert(source(1, 256), handle(name)))).code, 'ZT_INVALID_ARG', name)
    written.length = 0
    await convert(source(1, 256), handle('a.h5'), { format: 'safetensors' })
    assert.equal(Buffer.concat(written).toString('latin1', 8, 9), '{')
  },

  async 'an abort is heard while the stream is opened, and a late stream is aborted'(_web, converting) {
    const { convert, create, saveFile } = converting
    const calls = {
      convert: (handle, options) => convert(source(1, 256), handle, options),
      create: (handle, options) => create(handle, options),
      saveFile: (handle, options) => saveFile(handle, { a: new Float32Array(3) }, options),
    }
    for (const [name, call] of Object.entries(calls)) {
      const stop = new AbortController()
      const reason = new Error('enough')
      let comes = () => {}
      const createWritable = () => {
        stop.abort(reason)
        return new Promise((resolve) => {
          comes = resolve
        })
      }
      const handle = { name: 'a.safetensors', createWritable }
      assert.equal(await rejection(call(handle, { format: 'safetensors', signal: stop.signal })), reason, name)
      await new Promise((abort) => comes(new WritableStream({ abort })))

      const other = new AbortController()
      let abort = () => {}
      const isAborted = new Promise((resolve) => {
        abort = resolve
      })
      const atOnce = async () => {
        other.abort(reason)
        return new WritableStream({ abort })
      }
      const options = { format: 'safetensors', signal: other.signal }
      assert.equal(await rejection(call({ name: 'a.safetensors', createWritable: atOnce }, options)), reason, name)
      assert.equal(await isAborted, reason)
    }
  },

  async 'a stream has one writer'(_web, { convert, create }) {
    for (const begin of [
      (stream) => create(stream, { format: 'zt' }),
      (stream) => convert(source(1, 256), stream, { format: 'safetensors' }),
    ]) {
      const stream = new WritableStream()
      const found = await Promise.allSettled([begin(stream), begin(stream)])
      for (const { value } of found) await value?.abort?.()
      const refused = found.filter(({ status }) => status === 'rejected').map(({ reason }) => reason)
      assert.deepEqual(
        refused.map(({ code, message }) => [code, /no other writer has locked/.test(message)]),
        [['ZT_INVALID_ARG', true]],
      )
    }
  },

  async 'a Blob that the browser cannot keep at first is made again, or is ZT_IO'(_web, { convert }) {
    const { slice } = Blob.prototype
    const cause = new DOMException('the disk is full', 'NotReadableError')
    let failures = 2
    Blob.prototype.slice = function (...range) {
      return failures-- > 0 ? { arrayBuffer: () => Promise.reject(cause) } : slice.apply(this, range)
    }
    try {
      for (const format of ['safetensors', 'npz']) {
        failures = 2
        const { blob } = await convert(source(1, 256), undefined, { format })
        assert.ok((await bytesOf(blob)).equals(await ofAddon(source(1, 256), { format })))
      }
      // Kept data that is lost later.
      Blob.prototype.slice = function (start, end = this.size) {
        return end - start > 1 ? { arrayBuffer: () => Promise.reject(cause) } : slice.call(this, start, end)
      }
      const lost = await rejection(convert(source(1, 256), undefined, { format: 'npz' }))
      assert.deepEqual(
        [lost.code, lost.cause, /cannot be read: the disk is full/.test(lost.message)],
        ['ZT_IO', cause, true],
      )
      Blob.prototype.slice = () => ({ arrayBuffer: () => Promise.reject(cause) })
      const error = await rejection(convert(source(1, 256), undefined, { format: 'safetensors' }))
      assert.deepEqual([error.code, error.cause], ['ZT_IO', cause])
      assert.match(error.message, /no space to keep this file \(the disk is full\)/)
    } finally {
      Blob.prototype.slice = slice
    }
  },

  async 'a refusal leaves the stream as it is'(_web, { convert }) {
    const stream = new WritableStream()
    const error = await rejection(convert(source(1, 100), stream, { format: 'gguf' }))
    assert.equal(error.code, 'ZT_INVALID_ARG')
    assert.equal(stream.locked, false)
  },

  async 'what needs several files or a path is refused, with what to do'(_web, { convert }) {
    for (const [options, message] of [
      [{ format: 'zt', version: '2' }, /canonical file .* with canonical: false/],
      [{ format: 'safetensors', maxShardBytes: 1 }, /maxShardBytes writes several files/],
      [
        { format: 'gguf', quantize: 'q4_k', imatrix: 'a.imatrix' },
        /imatrix is the path of a file: quantize with it in Node/,
      ],
      [{ format: 'safetensors', overwrite: true }, /overwrite is for paths/],
      [{ format: 'safetensors', worker: true }, /worker is for browsers/],
      [{ format: 'gguf', checkpoint: true }, /checkpoint needs the path or the URL/],
    ]) {
      const error = await rejection(convert(source(1, 256), undefined, options))
      assert.equal(error.code, 'ZT_INVALID_ARG', JSON.stringify(options))
      assert.match(error.message, message)
    }
    assert.equal((await rejection(convert(source(1, 256), 'model.gguf', {}))).code, 'ZT_INVALID_ARG')
  },

  async 'a dry run returns the plan and leaves the stream as it is'(_web, { convert }) {
    const stream = new WritableStream()
    const options = { format: 'safetensors', dtype: 'float16', dryRun: true }
    const { plan, blob } = await convert(source(2, 256), stream, options)
    assert.deepEqual(plan, (await addon.convert(source(2, 256), 'a.safetensors', options)).plan)
    assert.equal(blob, undefined)
    assert.equal(stream.locked, false)
  },

  async 'a filter, new names, casts and metadata of every kind give the bytes of the addon'(_web, { convert }) {
    const metadata = { a: 1, b: -(2n ** 70n), c: [true, null, 1.5], d: { e: new Uint8Array([1, 2]) }, f: -0 }
    const options = {
      format: 'zt',
      version: '1.2',
      filter: ['*1*', '*2*'],
      rename: { 'blk.*.ffn_up.weight': 'layer.*' },
      cast: { 'blk.1.*': 'bfloat16' },
      metadata,
      digest: 'sha256',
    }
    const { blob } = await convert(source(4, 5000), undefined, options)
    assert.ok((await bytesOf(blob)).equals(await ofAddon(source(4, 5000), options)))
  },

  async 'a checkpoint at a URL becomes the GGUF of the addon'(_web, { convert }) {
    const { folder } = await checkpoint()
    await serving(folder, async (origin) => {
      const url = new URL('model.safetensors', origin)
      for (const options of [
        { format: 'gguf' },
        { format: 'gguf', dtype: 'float16' },
        { format: 'gguf', quantize: 'q8_0' },
      ]) {
        const expected = await ofAddon(url, { ...options, source: { remote: { allowPrivate: true } } })
        const { blob } = await convert(url, undefined, options)
        assert.ok((await bytesOf(blob)).equals(expected), JSON.stringify(options))
      }
    })
  },

  async 'a checkpoint in a folder becomes the GGUF of the addon'(_web, { convert }) {
    const { folder } = await checkpoint()
    mkdirSync(join(folder, 'additional_chat_templates'))
    writeFileSync(join(folder, 'additional_chat_templates/tool.jinja'), '{{ tools }}')
    writeFileSync(join(folder, 'chat_template.jinja'), '{{ messages }}')
    writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ bos_token: '<s>', eos_token: '</s>' }))
    for (const options of [{ format: 'gguf' }, { format: 'gguf', quantize: 'q8_0' }]) {
      const expected = await ofAddon(folder, options)
      assert.ok(expected.includes('{{ tools }}'))
      const { blob } = await convert(new FolderHandle(folder, basename(folder)), undefined, options)
      assert.ok((await bytesOf(blob)).equals(expected), JSON.stringify(options))
    }
  },

  async 'a compressed tensor of many frames gives the bytes of the addon'(_web, { convert }) {
    const options = { format: 'zt', version: '1.2', compression: { level: 1 } }
    const { blob } = await convert(source(1, 3 << 20), undefined, options)
    assert.ok((await bytesOf(blob)).equals(await ofAddon(source(1, 3 << 20), options)))
  },

  async 'a large tensor takes its own memory, not twice'(_web, { convert }) {
    const [count, limit] = [48 << 20, 256 << 20]
    let most = 0
    const before = process.memoryUsage().rss
    const stream = new WritableStream({
      write() {
        most = Math.max(most, process.memoryUsage().rss)
      },
    })
    await convert(source(1, count), stream, { format: 'safetensors' })
    assert.ok(most - before < count * 4 + limit, `${(most - before) >> 20} MiB for ${(count * 4) >> 20} MiB`)
  },
}
