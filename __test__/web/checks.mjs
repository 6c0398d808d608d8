// What @ztensor/web does beyond reading as the addon does: sources, aborts, limits, servers that lie.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'
import { Writable } from 'node:stream'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as addon from 'ztensor'
import { root } from '../../scripts/command.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const read = (name) => new Uint8Array(readFileSync(fixturePath(name)))
const codeOf = async (call) => {
  try {
    await call()
  } catch (error) {
    return error.code
  }
  return 'none'
}

/** A safetensors file of one float32 tensor, whose bytes begin at `offset` bytes of data. */
function safetensors(name, values, offset = 0) {
  const bytes = new Uint8Array(Float32Array.from(values).buffer)
  const tensor = { dtype: 'F32', shape: [values.length], data_offsets: [offset, offset + bytes.length] }
  const gap = offset === 0 ? {} : { gap: { dtype: 'U8', shape: [offset], data_offsets: [0, offset] } }
  const json = new TextEncoder().encode(JSON.stringify({ ...gap, [name]: tensor }))
  const head = new Uint8Array(8 + json.length)
  new DataView(head.buffer).setBigUint64(0, BigInt(json.length), true)
  head.set(json, 8)
  return { head, bytes, byteLength: head.length + offset + bytes.length }
}

/** The bytes of a file that the addon writes. `add` adds its tensors. */
async function writtenByAddon(options, add) {
  const chunks = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(chunk)
      done()
    },
  })
  const writer = await addon.create(stream, options)
  await add(writer)
  await writer.finish()
  return new Uint8Array(Buffer.concat(chunks))
}

const fileOf = (name, { head, bytes }) => new File([head, bytes], name)

/** Starts a server that answers with what `respond` makes of a range. */
async function serving(respond, use) {
  const server = createServer((request, response) => {
    const [, from, to] = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? '') ?? []
    respond(response, Number(from), Number(to), request)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(`http://127.0.0.1:${server.address().port}/model.safetensors?token=secret`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** Runs `use` without the pauses before retries. */
async function withoutPauses(use) {
  const { setTimeout } = globalThis
  const pauses = [100, 200, 400, 800, 1600]
  globalThis.setTimeout = (call, milliseconds, ...given) =>
    setTimeout(call, pauses.includes(milliseconds) ? 0 : milliseconds, ...given)
  try {
    return await use()
  } finally {
    globalThis.setTimeout = setTimeout
  }
}

/** The error of a file on a server that answers with what `respond` makes of a range, and the number of requests. */
async function failing(respond, use, options) {
  let count = 0
  const error = await serving(
    (response, from, to, request) => {
      count += 1
      respond(response, from, to, count, request)
    },
    (url) =>
      withoutPauses(() => use(url, options)).then(
        () => undefined,
        (error) => error,
      ),
  )
  return { error, count }
}

/** Begins an answer, and closes its connection. */
const interrupted = (response, status, headers) =>
  response.writeHead(status, { ...headers, 'content-length': 1000 }).write('x', () => response.destroy())

const large = safetensors(
  't',
  Float32Array.from({ length: 100_000 }, (_, at) => at),
)
const whole = Buffer.concat([large.head, large.bytes])
const partial = (response, from, to, etag = '"1"') =>
  response
    .writeHead(206, { etag, 'content-range': `bytes ${from}-${Math.min(to, whole.length - 1)}/${whole.length}` })
    .end(whole.subarray(from, to + 1))

/** A model of 6 GiB, of which only the index and the last tensor are not zero. */
const enormous = safetensors('t', [1, 2, 3, 4], 6 * 2 ** 30)

/** The bytes of the model in a range. */
function ofEnormous(from, length) {
  const { head, bytes, byteLength } = enormous
  const out = new Uint8Array(length)
  if (from < head.length) out.set(head.subarray(from, from + length))
  const start = byteLength - bytes.length
  if (from + length > start)
    out.set(bytes.subarray(Math.max(from - start, 0), from + length - start), Math.max(start - from, 0))
  return out
}

/** Counts the instances of the module that are in memory after a collection. */
async function instancesAfter(use) {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc')
  const { instantiate } = WebAssembly
  const memories = []
  WebAssembly.instantiate = async (...given) => {
    const instance = await instantiate(...given)
    memories.push(new WeakRef(instance.exports.memory))
    return instance
  }
  try {
    await use()
  } finally {
    WebAssembly.instantiate = instantiate
  }
  // A reference that was read in this turn keeps its target.
  await new Promise(setImmediate)
  gc()
  return { made: memories.length, left: memories.filter((memory) => memory.deref() !== undefined).length }
}

export const checks = {
  async 'the wrapper and the module have the same operations, in one order'() {
    const namesIn = (path, list, name) =>
      [...list.exec(readFileSync(join(root, path), 'utf8'))[1].matchAll(name)].map(([, name]) => name)
    const ofModule = namesIn('crates/web/src/lib.rs', /const OPERATIONS[^=]*= &\[(.*?)\];/s, /::(\w+),/g)
    const ofWrapper = namesIn('lib/web/module.ts', /const OPERATIONS = \[(.*?)\] as const/s, /'(\w+)'/g)
    assert.deepEqual(
      ofWrapper,
      ofModule.map((name) => name.replace(/_(\w)/g, (_all, letter) => letter.toUpperCase())),
    )
    assert.equal(new Set(ofWrapper).size, ofWrapper.length)
    assert.ok(ofWrapper.length > 50)
  },

  async 'memory does not grow by opening and closing files'({ open }) {
    const bytes = read('zt2-zstd.zt')
    const once = async () => {
      const file = await open(bytes)
      await file.tensor('frames').load({ as: 'float32' })
      file.close()
    }
    const { made, left } = await instancesAfter(async () => {
      for (let at = 0; at < 200; at++) await once()
    })
    assert.ok(made >= 200)
    // That of the operations on arrays, and perhaps the last.
    assert.ok(left <= 2, `${left} of ${made} instances are in memory`)
  },

  async 'a URL may be larger than 4 GiB'({ open }) {
    const { byteLength } = enormous
    const lengths = []
    await serving(
      (response, from, to) => {
        const end = Math.min(to, byteLength - 1)
        lengths.push(end - from + 1)
        response.writeHead(206, { etag: '"1"', 'content-range': `bytes ${from}-${end}/${byteLength}` })
        response.end(ofEnormous(from, end - from + 1))
      },
      async (url) => {
        const file = await open(url)
        assert.equal(file.byteLength, byteLength)
        assert.deepEqual(await file.tensor('t').load(), Float32Array.of(1, 2, 3, 4))
        assert.deepEqual(await file.tensor('gap').load({ slice: [[5 * 2 ** 30, 5 * 2 ** 30 + 3]] }), new Uint8Array(3))
        file.close()
      },
    )
    assert.ok(lengths.reduce((sum, length) => sum + length, 0) < 2 ** 20)
  },

  async 'synchronous access throws ZT_NOT_LOCAL'({ open }) {
    const file = await open(read('zt2-zstd.zt'))
    const tensor = file.tensor('raw')
    for (const call of [() => tensor.data, () => tensor.slice([[0, 1]]).data, () => tensor.toFloat32()])
      assert.equal(await codeOf(call), 'ZT_NOT_LOCAL')
    assert.equal(await codeOf(() => tensor.createReadStream()), 'ZT_INVALID_ARG')
    assert.equal(await codeOf(() => file.prefetch()), 'ZT_NOT_LOCAL')
    assert.equal(await codeOf(() => file.share()), 'ZT_INVALID_ARG')
    await file.close({ drain: true })
  },

  async 'a tensor of a File is a Blob that was not read'({ open }) {
    const file = await open(fileOf('a.safetensors', safetensors('t', [1, 2, 3])))
    const blob = file.tensor('t').blob()
    assert.deepEqual(new Float32Array(await blob.arrayBuffer()), await file.tensor('t').load())
    file.close()
    const memory = await open(read('zt2-zstd.zt'))
    assert.equal(memory.tensor('raw').blob(), undefined)
    memory.close()
  },

  async 'an index finds its shards in the list'({ open }) {
    const index = JSON.stringify({ metadata: {}, weight_map: { a: 'x.safetensors', b: 'y.safetensors' } })
    const list = [
      fileOf('y.safetensors', safetensors('b', [3, 4])),
      new File([index], 'model.safetensors.index.json'),
      fileOf('x.safetensors', safetensors('a', [1, 2])),
    ]
    const file = await open(list)
    assert.deepEqual([...file.keys()].sort(), ['a', 'b'])
    assert.deepEqual(await file.tensor('b').load(), Float32Array.of(3, 4))
    file.close()
    assert.equal(await codeOf(() => open(list.slice(1, 2))), 'ZT_INCOMPLETE')
  },

  async 'a list without an index is opened as one file'({ open }) {
    const file = await open(
      [safetensors('a', [1]), safetensors('b', [2])].map((one) => new Blob([one.head, one.bytes])),
    )
    assert.deepEqual([...file.keys()], ['a', 'b'])
    assert.deepEqual(await file.tensor('b').load(), Float32Array.of(2))
    file.close()
  },

  async 'a file may be larger than 4 GiB'({ open }) {
    const reads = []
    const { byteLength } = enormous
    const source = {
      byteLength,
      read(from, length) {
        reads.push(length)
        return ofEnormous(from, length)
      },
    }
    const file = await open(source)
    assert.deepEqual(await file.tensor('t').load({ slice: [[1, 3]] }), Float32Array.of(2, 3))
    assert.ok(reads.every((length) => length <= 8 * 2 ** 20))
    assert.equal(file.byteLength, byteLength)
    file.close()
  },

  async 'what the caller throws is the cause'({ open }) {
    const thrown = new Error('the disk is on fire')
    const source = { byteLength: 1000, read: () => Promise.reject(thrown) }
    await assert.rejects(open(source), { code: 'ZT_IO', cause: thrown })
    await assert.rejects(open({ byteLength: 1000, read: () => new Uint8Array(1) }), { code: 'ZT_IO' })
    await assert.rejects(open(17), { code: 'ZT_INVALID_ARG' })
    await assert.rejects(open(read('zt2-zstd.zt'), { shards: 'all' }), { code: 'ZT_INVALID_ARG' })
  },

  async 'worker is an invalid argument where there is none'({ open }) {
    const bytes = read('zt2-zstd.zt')
    await assert.rejects(open(bytes, { worker: true }), { code: 'ZT_INVALID_ARG', option: 'worker' })
    await assert.rejects(open(bytes, { worker: 1 }), { code: 'ZT_INVALID_ARG' })
  },

  async 'an aborted call rejects with the reason, and reading ends'({ open }) {
    const stop = new AbortController()
    let aborted = false
    const source = {
      byteLength: 1000,
      read: (_offset, _length, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted = true
            reject(signal.reason)
          })
        }),
    }
    const opening = open(source, { signal: stop.signal })
    setImmediate(() => stop.abort('enough'))
    assert.equal(await opening.catch((reason) => reason), 'enough')
    assert.ok(aborted)
  },

  async 'close ends the calls in flight'({ open }) {
    const bytes = read('zt2-zstd.zt')
    let isOpen = false
    const file = await open({
      byteLength: bytes.length,
      read: (offset, length) => (isOpen ? new Promise(() => {}) : bytes.subarray(offset, offset + length)),
    })
    isOpen = true
    const loading = file.tensor('frames').load()
    file.close()
    await assert.rejects(loading, { code: 'ZT_CLOSED' })
    assert.equal(await codeOf(() => file.tensor('frames')), 'ZT_CLOSED')
  },

  async 'many files and calls at once'({ open, compare }) {
    const bytes = read('zt2-zstd.zt')
    const files = await Promise.all(Array.from({ length: 50 }, () => open(bytes)))
    const loads = files.flatMap((file) => [...file.values()].map((tensor) => tensor.load()))
    const expected = await Promise.all([...files[0].values()].map((tensor) => tensor.load()))
    for (const [at, loaded] of (await Promise.all(loads)).entries())
      assert.deepEqual(loaded, expected[at % expected.length])
    assert.equal((await compare(files[0].tensor('frames'), files[1].tensor('frames'))).equal, true)
    for (const file of files) file.close()
  },

  async 'a component that decodes to more than 1 GiB is ZT_LIMIT'({ open }) {
    const bytes = read('zt2-zstd.zt')
    const file = await open(bytes, { maxDecodedBytes: 1000 })
    assert.equal(await codeOf(() => file.tensor('frames').load()), 'ZT_LIMIT')
    file.close()
  },

  async 'a URL is read by ranges, and its query is never shown'({ open }) {
    const ranges = []
    await serving(
      (response, from, to) => {
        ranges.push(to - from + 1)
        partial(response, from, to)
      },
      async (url) => {
        const file = await open(url)
        assert.deepEqual(await file.tensor('t').load({ slice: [[50_000, 50_002]] }), Float32Array.of(50_000, 50_001))
        assert.ok(file.path.endsWith('/model.safetensors'), file.path)
        assert.ok(ranges.reduce((sum, length) => sum + length, 0) < whole.length)
        file.close()
      },
    )
  },

  async 'a server that lies is an error'({ open }) {
    const lies = {
      'another version': (response, from, to, count) => partial(response, from, to, `"${count}"`),
      'no range': (response, from, to, count) =>
        count === 1 ? partial(response, from, to) : response.writeHead(200).end(whole),
      'fewer bytes': (response, from, to, count) =>
        count === 1
          ? partial(response, from, to)
          : response.writeHead(206, { etag: '"1"' }).end(whole.subarray(from, to)),
      'more bytes': (response, from, to, count) =>
        count === 1
          ? partial(response, from, to)
          : response.writeHead(206, { etag: '"1"' }).end(whole.subarray(from, to + 2)),
      'another range': (response, from, to, count) =>
        count === 1 ? partial(response, from, to) : partial(response, from - 1, to - 1),
      'more bytes at first': (response) => response.writeHead(206, { etag: '"1"' }).end(Buffer.alloc(2 ** 20)),
      'another range at first': (response, from, to) => partial(response, from + 1, to),
      'no file': (response) => response.writeHead(404).end(),
      'no permission': (response) => response.writeHead(403).end(),
    }
    for (const [what, lie] of Object.entries(lies)) {
      const { error } = await failing(lie, async (url) => {
        const file = await open(url)
        await file.tensor('t').load()
      })
      assert.equal(error?.code, what === 'no file' ? 'ZT_NOT_FOUND' : 'ZT_IO', what)
      assert.ok(!error.message.includes('secret'), error.message)
    }
  },

  async 'a server is asked again after a transient failure, and one without ranges is read whole'({ open }) {
    let count = 0
    await serving(
      (response, from, to) => {
        count += 1
        if (count === 1) response.writeHead(503).end()
        else partial(response, from, to)
      },
      async (url) => (await open(url)).close(),
    )
    await serving(
      (response) => response.writeHead(200).end(whole),
      async (url) => {
        const file = await open(url)
        assert.equal((await file.tensor('t').load()).length, 100_000)
        file.close()
      },
    )
  },

  async 'a source may use one buffer for all of its reads'({ open }) {
    const { head, bytes, byteLength } = safetensors(
      't',
      new Float32Array(5 * 2 ** 20).fill(1).map((_, at) => at),
    )
    const all = Buffer.concat([head, bytes])
    const scratch = new Uint8Array(8 * 2 ** 20)
    const file = await open({
      byteLength,
      read(offset, length) {
        scratch.set(all.subarray(offset, offset + length))
        return scratch.subarray(0, length)
      },
    })
    for (const options of [undefined, { as: 'float32' }]) {
      const loaded = await file.tensor('t').load(options)
      assert.ok(loaded.every((value, at) => value === at))
    }
    file.close()
  },

  async 'a source, and what sibling() returns, must be complete'({ open }) {
    const { head, bytes, byteLength } = safetensors('t', [1])
    const read = (offset, length) => Buffer.concat([head, bytes]).subarray(offset, offset + length)
    for (const wrong of [
      { byteLength: Number.NaN },
      { byteLength: -1 },
      { byteLength: 1.5 },
      { byteLength: BigInt(byteLength) },
      { name: 5 },
      { name: '\ud800' },
      { read: 5 },
      { sibling: 5 },
    ])
      assert.equal(await codeOf(() => open({ byteLength, read, ...wrong })), 'ZT_INVALID_ARG', Object.keys(wrong)[0])
    const index = new TextEncoder().encode('{"metadata":{},"weight_map":{"t":"a.safetensors"}}')
    const name = 'model.safetensors.index.json'
    const ofIndex = { name, byteLength: index.length, read: (offset, length) => index.slice(offset, offset + length) }
    for (const found of [null, {}, 5, new Blob([])]) {
      const error = await open({ ...ofIndex, sibling: () => found }).then(
        () => assert.fail('it resolved'),
        (error) => error,
      )
      assert.equal(error.code, 'ZT_IO')
      assert.match(error.message, /the return value of sibling\("a\.safetensors"\)/)
    }
  },

  async 'files of a list that have one name are all opened'({ open }) {
    const named = (name, tensor) => fileOf(name, safetensors(tensor, [1]))
    const file = await open([named('a', 'x'), named('2/a', 'y'), named('a', 'z'), new Blob([named('b', 'w')])])
    assert.deepEqual([...file.keys()].sort(), ['w', 'x', 'y', 'z'])
    file.close()
  },

  async 'the model of a list finds its data in it'({ open }) {
    // As from `<input type=file multiple>`, and from one with `webkitdirectory`.
    const chosen = (name) => new File([read(name)], basename(name))
    const within = (name) => Object.defineProperty(chosen(name), 'webkitRelativePath', { value: name })
    for (const [named, names] of [
      [chosen, ['openvino/network.bin', 'openvino/network.xml']],
      [within, ['onnx/external.onnx', 'onnx/external-a.bin', 'onnx/sub/external-b.bin']],
    ]) {
      const model = names.find((name) => !name.endsWith('.bin'))
      const file = await open(names.map(named))
      const same = await addon.open(fixturePath(model))
      assert.deepEqual([...file.keys()], [...same.keys()])
      for (const tensor of file.values())
        if (tensor.dtype !== undefined) assert.deepEqual(await tensor.load(), await same.tensor(tensor.name).load())
      file.close()
      same.close()
      // Another model is not dropped.
      const two = [...names.map(named), fileOf('b.safetensors', safetensors('b', [1]))]
      assert.notEqual(await codeOf(() => open(two)), 'none')
      const alone = await open(named(model)).catch((error) => error)
      const messages = [alone.message, ...(alone.warnings ?? []).map(({ message }) => message)]
      assert.match(messages.join(), /open both as a list, open their folder/)
    }
  },

  async 'work on an open file reads the version that was opened'({ open, compare }) {
    const versions = [safetensors('a', [1, 1]), safetensors('b', [7, 7])].map((one) => fileOf('m.safetensors', one))
    let now = versions[0]
    const handle = { kind: 'file', name: 'm.safetensors', isSameEntry: async () => false, getFile: async () => now }
    const file = await open(handle)
    now = versions[1]
    const other = await open(versions[0])
    assert.equal((await compare(file.tensor('a'), other.tensor('a'))).identical, true)
    assert.deepEqual([...(await file.tensor('a').load())], [1, 1])
    file.close()
    other.close()
  },

  async 'stats and compare report their progress'({ open, compare }) {
    const { head, bytes } = safetensors('t', new Float32Array(2 ** 22))
    const file = await open(new Blob([head, bytes]))
    const t = file.tensor('t')
    for (const [call, total] of [
      [(options) => t.stats(options), bytes.length],
      [(options) => compare(t, t, options), 2 * bytes.length],
    ]) {
      const seen = []
      await call({ onProgress: (progress) => seen.push(progress) })
      const { bytes: done, totalBytes, tensors, totalTensors } = seen.at(-1)
      assert.deepEqual([done, totalBytes, tensors, totalTensors], [total, total, 1, 1])
    }
    file.close()
  },

  async 'each load checks its own digest'({ open }) {
    const big = new Uint8Array(40 * 2 ** 20).map((_, at) => at * 7)
    const intact = await writtenByAddon({ version: '1.2', digest: 'sha256' }, async (writer) => {
      await writer.add('big', big)
      await writer.add('small', new Uint8Array(64))
    })
    const damaged = intact.slice()
    damaged[2 ** 25] ^= 1
    for (const [bytes, expected] of [
      [intact, 'none'],
      [damaged, 'ZT_DIGEST_MISMATCH'],
    ]) {
      const file = await open(bytes)
      for (const options of [undefined, { slice: [[0, 2]] }]) {
        let isLoading = true
        const loading = codeOf(() => file.tensor('big').load()).finally(() => {
          isLoading = false
        })
        while (isLoading) {
          await file.tensor('small').load(options)
          await new Promise(setImmediate)
        }
        assert.equal(await loading, expected)
      }
      file.close()
    }
  },

  async 'memory of large operations on arrays is released'({ open }) {
    const coo = { shape: [4096, 4096], values: Float32Array.of(1, 2), coords: Uint32Array.of(0, 4095, 0, 4095) }
    const bytes = await writtenByAddon({ version: '2', canonical: false }, (writer) => writer.addCoo('s', coo))
    const file = await open(bytes)
    const { instantiate } = WebAssembly
    const instances = []
    WebAssembly.instantiate = async (...args) => {
      const instance = await instantiate(...args)
      instances.push(instance)
      return instance
    }
    try {
      assert.equal((await file.tensor('s').loadCoo()).toDense().length, 4096 * 4096)
      while (instances.length === 0) await new Promise(setImmediate)
      assert.equal((await file.tensor('s').loadCoo()).toDense().at(0), 1)
    } finally {
      WebAssembly.instantiate = instantiate
      file.close()
    }
  },

  async 'a connection that breaks is tried again, and then an error'({ open }) {
    const load = async (url) => {
      const file = await open(url)
      try {
        return await file.tensor('t').load({ slice: [[50_000, 50_002]] })
      } finally {
        file.close()
      }
    }
    const breaks = {
      'in the first answer': (response) => interrupted(response, 206, { etag: '"1"' }),
      'in the whole file': (response) => interrupted(response, 200),
      'before an answer': (response) => response.destroy(),
    }
    for (const [what, answer] of Object.entries(breaks)) {
      let count = 0
      const found = await serving(
        (response, from, to) => {
          count += 1
          if (count === 1) answer(response)
          else partial(response, from, to)
        },
        (url) => load(url),
      )
      assert.deepEqual(found, Float32Array.of(50_000, 50_001), what)
    }
    const later = (answer) => (response, from, to, count) =>
      count === 1 ? partial(response, from, to) : answer(response, from, to)
    const cases = [
      [breaks['in the first answer'], 6, /the connection to 127\.0\.0\.1 was interrupted: .*; tried 6 times$/],
      [breaks['in the whole file'], 6, /the connection to 127\.0\.0\.1 was interrupted: .*; tried 6 times$/],
      [later(breaks['in the first answer']), 7, /the connection to 127\.0\.0\.1 was interrupted: .*; tried 6 times$/],
      [later(breaks['before an answer']), 7, /the connection to 127\.0\.0\.1 was interrupted: .*; tried 6 times$/],
      [
        later((response, from, to) => response.writeHead(206, { etag: '"1"' }).end(whole.subarray(from, to))),
        7,
        /the response of the server ended 1 bytes early; tried 6 times$/,
      ],
      // A page that may not read the file gets no answer.
      [breaks['before an answer'], 2, /the request failed: .* \(CORS\); tried 2 times$/],
      [
        (response, _from, _to, count) =>
          count === 1 ? response.writeHead(503).end() : breaks['before an answer'](response),
        6,
        /the connection to 127\.0\.0\.1 was interrupted: .*; tried 6 times$/,
      ],
    ]
    for (const [respond, expected, message] of cases) {
      const { error, count } = await failing(respond, load)
      assert.equal(error?.code, 'ZT_IO', error?.message)
      assert.match(error.message, message)
      assert.ok(!error.message.includes('secret'), error.message)
      assert.equal(count, expected, error.message)
    }
  },

  async 'a server that sends nothing, or too little, is given up'({ open }) {
    const trickle = (response) => {
      response.writeHead(206, { etag: '"1"', 'content-range': `bytes 0-65535/${whole.length}` })
      let sent = 0
      const timer = setInterval(() => {
        sent += 1
        if (sent < 500) response.write('x')
        else response.end()
      }, 5)
      response.once('close', () => clearInterval(timer))
    }
    const begin = (response) => response.writeHead(206, { etag: '"1"', 'content-length': 1000 }).write('x')
    for (const respond of [() => {}, begin, trickle]) {
      const { error } = await failing(respond, open, { remote: { timeout: 50 } })
      assert.equal(error?.code, 'ZT_IO', error?.message)
      const words = /the server sent (nothing for|\d+ bytes in) 0\.05s \(option timeout\); tried 6 times$/
      assert.match(error.message, words)
      assert.equal(error.option, 'remote.timeout')
    }
    let count = 0
    await serving(
      (response, from, to) => {
        count += 1
        if (count > 1) partial(response, from, to)
      },
      async (url) => (await open(url, { remote: { timeout: 500 } })).close(),
    )
    assert.ok(count > 1)
    for (const timeout of [0, 1.5, '1'])
      assert.equal(await codeOf(() => open(new Uint8Array(8), { remote: { timeout } })), 'ZT_INVALID_ARG')
    // A longer time than timers have.
    const slow = { remote: { timeout: Number.MAX_SAFE_INTEGER } }
    await serving(
      (response, from, to) => partial(response, from, to),
      async (url) => (await open(url, slow)).close(),
    )
    const stop = new AbortController()
    const aborting = (response) => {
      begin(response)
      stop.abort('enough')
    }
    const aborted = await failing(aborting, open, { signal: stop.signal })
    assert.deepEqual(aborted, { error: 'enough', count: 1 })
  },

  async 'a status has the advice of Node'({ open }) {
    const status = (status) => (response) => response.writeHead(status).end()
    const headers = { authorization: 'Bearer secret' }
    const unsigned = (url, options) => open(url.replace(/\?.*/, ''), options)
    const loading = async (url) => (await open(url)).tensor('t').load()
    const later = (status) => (response, from, to, count) =>
      count === 1 ? partial(response, from, to) : response.writeHead(status).end()
    const cases = [
      [
        status(401),
        open,
        '401 (Unauthorized): it requires credentials: pass them in the option headers (authorization)',
      ],
      [status(401), open, '401 (Unauthorized): it rejects the credentials that were sent: check them', { headers }],
      [status(403), open, '403 (Forbidden): access is denied; a signed URL may have expired: create a new one'],
      [status(403), unsigned, '403 (Forbidden): access is denied: check the credentials and the name'],
      [
        status(416),
        open,
        '416 (Range Not Satisfiable): it rejects the byte range, so the file cannot be read in parts',
      ],
      [status(429), open, '429 (Too Many Requests): it received too many requests; tried 6 times'],
      [status(500), open, '500; tried 6 times'],
      [status(501), open, '501'],
      [later(403), loading, '403 (Forbidden): access is denied; a signed URL may have expired: create a new one'],
      [later(404), loading, '404 (Not Found): there is no such file: check the name'],
    ]
    for (const [respond, use, expected, remote] of cases) {
      const { error } = await failing(respond, use, { remote })
      assert.equal(error?.code, 'ZT_IO', error?.message)
      assert.equal(error.message.replace(/^'http:[^']*': the server answered /, ''), expected)
      assert.equal(error.cause.status, Number.parseInt(expected, 10))
      const isMissing = expected.includes('requires credentials')
      assert.equal(error.option, isMissing ? 'remote.headers' : undefined)
    }
    const { error } = await failing(later(416), loading)
    assert.match(error.message, /the file was changed while it was open/)
  },

  async 'the names of shards at a URL may have any characters'({ open }) {
    const names = ['x#1.safetensors', 'y?2.safetensors', 'sub/ä %31.safetensors']
    const index = JSON.stringify({ weight_map: Object.fromEntries(names.map((name, at) => [`t${at}`, name])) })
    await serving(
      (response, _from, _to, request) => {
        const path = new URL(request.url, 'http://localhost').pathname
        if (path.endsWith('.json')) return response.end(index)
        const at = names.findIndex((name) => path === `/${name.split('/').map(encodeURIComponent).join('/')}`)
        if (at < 0) return response.writeHead(404).end()
        const { head, bytes } = safetensors(`t${at}`, [at])
        return response.end(Buffer.concat([head, bytes]))
      },
      async (url) => {
        const file = await open(new URL('/model.safetensors.index.json', url))
        for (const at of names.keys()) assert.deepEqual([...(await file.tensor(`t${at}`).load())], [at])
        file.close()
      },
    )
  },

  async 'URLs that browsers do not fetch are refused'({ open }) {
    const { fetch } = globalThis
    const asked = []
    globalThis.fetch = (url) => {
      asked.push(url)
      return Promise.reject(new TypeError('Failed to fetch'))
    }
    try {
      const cases = {
        'hf://owner/repo/model.safetensors?token=secret':
          /use https:\/\/huggingface\.co\/<repo>\/resolve\/main\/<file>$/,
        's3://bucket/model.safetensors': /got one with s3:; such URLs need Node$/,
        'gs://bucket/model.safetensors': /got one with gs:; such URLs need Node$/,
        'az://container/model.safetensors': /got one with az:; such URLs need Node$/,
        'file:///model.safetensors': /got one with file:; such URLs need Node$/,
      }
      for (const [url, message] of Object.entries(cases))
        for (const source of [url, new URL(url), [url]])
          await assert.rejects(open(source), (error) => {
            assert.ok(error instanceof TypeError && error.code === 'ZT_INVALID_ARG', error.message)
            assert.match(error.message, /^source(\[0\])? must be a URL with http: or https:/)
            assert.match(error.message, message)
            return !error.message.includes('secret')
          })
      assert.deepEqual(asked, [])
    } finally {
      globalThis.fetch = fetch
    }
  },

  async 'memory that is free a little later is waited for, and its lack is ZT_LIMIT'({ open }) {
    const { instantiate } = WebAssembly
    let failures = 2
    WebAssembly.instantiate = async (...args) => {
      if (failures-- > 0) throw new RangeError('Out of memory')
      return instantiate(...args)
    }
    try {
      const file = await open(read('hdf5/tiny.keras'))
      assert.equal(failures, -1)
      assert.equal(file.size, 1)
      file.close()
      failures = Number.POSITIVE_INFINITY
      assert.equal(await codeOf(() => open(read('hdf5/tiny.keras'))), 'ZT_LIMIT')
    } finally {
      Object.assign(WebAssembly, { instantiate })
    }
  },
}
