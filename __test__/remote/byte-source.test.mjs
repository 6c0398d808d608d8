// Files whose bytes a ByteSource of the caller reads: the same as by path, and nothing blocks the JavaScript thread.
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import test from 'ava'
import { compare, convert, diff, loadFile, open, openSync, verify } from 'ztensor'
import { sameBytes } from '../helpers/bytes.mjs'
import { propertiesAt } from '../helpers/editing.mjs'
import { isArgumentError, rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { external, model as onnx, tensor as onnxTensor } from '../helpers/onnx-writer.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, shard } from '../helpers/sharded.mjs'
import { fixturePath, vectors } from '../helpers/vectors.mjs'
import { serveFiles } from './web.mjs'

/** A source over bytes, which records its reads. */
function over(bytes, { name, sibling, read = (offset, length) => bytes.subarray(offset, offset + length) } = {}) {
  const asked = []
  const source = {
    byteLength: bytes.length,
    name,
    asked,
    async read(offset, length, { signal }) {
      asked.push([offset, length])
      return read(offset, length, signal)
    },
  }
  return sibling === undefined ? source : { ...source, sibling }
}

/** A source over a file, whose siblings are the files in its folder. */
function ofFile(path) {
  const sibling = (name) => over(readFileSync(join(dirname(path), name)), { name })
  return over(readFileSync(path), { name: basename(path), sibling })
}

const IMPORTED = [
  'numpy/bsr.npz',
  'gguf/types.gguf',
  'gguf/plain-big-endian.gguf',
  'gguf/split-00001-of-00003.gguf',
  'onnx/types-raw.onnx',
  'onnx/external.onnx',
]

for (const path of [...vectors.map(({ path }) => path), ...IMPORTED.map(fixturePath)]) {
  test(`${basename(path)}: a source has the contents of the file`, async (t) => {
    const local = openSync(path)
    const file = await open(ofFile(path))
    t.deepEqual([...file.keys()], [...local.keys()])
    t.is(file.format, local.format)
    t.is(file.path, undefined)
    t.deepEqual(file.metadata, local.metadata)
    for (const [name, tensor] of local) {
      const remoteTensor = file.tensor(name)
      t.deepEqual(
        [remoteTensor.dtype, remoteTensor.shape, remoteTensor.layout],
        [tensor.dtype, tensor.shape, tensor.layout],
      )
      const [ours, theirs] = await Promise.all(
        [file, local].map((of) => of.load([name]).catch(({ code, message }) => ({ code, message }))),
      )
      t.deepEqual(ours, theirs, name)
      if (tensor.byteLength === 0) continue
      if (tensor.layout === 'dense' && tensor.dtype === undefined) {
        t.is(thrownBy(() => remoteTensor.bytes)?.code, 'ZT_NOT_LOCAL')
        continue
      }
      t.is(remoteTensor.copyReason, 'remote', name)
      t.false(remoteTensor.mapped)
      if (tensor.layout === 'dense') {
        t.is(thrownBy(() => remoteTensor.data)?.code, 'ZT_NOT_LOCAL')
        t.is(thrownBy(() => remoteTensor.toFloat32())?.code, 'ZT_NOT_LOCAL')
        t.is(thrownBy(() => remoteTensor.slice([])?.data)?.code, 'ZT_NOT_LOCAL')
      }
    }
    const [ours, theirs] = await Promise.all([file.verify(), local.verify()])
    t.deepEqual({ ...ours, failures: ours.failures.length }, { ...theirs, failures: theirs.failures.length })
    const { added, removed, changed, unchanged } = await diff(file, local)
    t.deepEqual([added, removed, changed, unchanged], [[], [], [], local.size])
    file.close()
    local.close()
  })
}

test('convert, loadFile, verify and stats read a source', async (t) => {
  const path = fixturePath('zt12-dtypes.zt')
  const [target, expected] = [scratchPath('a.safetensors'), scratchPath('b.safetensors')]
  await convert(ofFile(path), target, { skip: true })
  await convert(path, expected, { skip: true })
  sameBytes(t, readFileSync(target), readFileSync(expected))
  t.deepEqual(await loadFile(ofFile(path)), await loadFile(path))
  t.true((await verify(ofFile(path))).ok)
  const file = await open(ofFile(path))
  const local = openSync(path)
  for (const name of file.keys()) t.deepEqual(await file.tensor(name).stats(), await local.tensor(name).stats())
  const name = [...file.keys()][0]
  t.true((await compare(file.tensor(name), local.tensor(name))).identical)
})

test('reads an index in two reads, and rows of a tensor in one more of only their bytes', async (t) => {
  const numbers = Array.from({ length: 1 << 20 }, (_, at) => at)
  const source = over(shard({ a: numbers, b: [1, 2] }))
  const file = await open(source)
  t.is(source.asked.length, 2)
  const rows = await file.tensor('a').load({ slice: [[500_000, 500_128]] })
  t.deepEqual([...rows], numbers.slice(500_000, 500_128))
  t.is(source.asked.length, 3)
  t.true(source.asked[2][1] <= 256 * 1024, `${source.asked[2][1]}`)
  const whole = await file.tensor('a').load()
  t.is(whole[(1 << 20) - 1], (1 << 20) - 1)
  t.true(source.asked.every(([offset, length]) => length <= 8 << 20 && offset + length <= source.byteLength))
})

test('siblings form a sharded checkpoint', async (t) => {
  const made = checkpoint({ 'a.safetensors': { one: [1, 2] }, 'b.safetensors': { two: [3] } })
  const index = made.path('model.safetensors.index.json')
  const names = []
  const source = ofFile(index)
  const { sibling } = source
  source.sibling = (name) => {
    names.push(name)
    return sibling(name)
  }
  const file = await open(source)
  t.deepEqual([...file.keys()].sort(), ['one', 'two'])
  t.deepEqual([...(await file.tensor('two').load())], [3])
  t.deepEqual([...new Set(names)].sort(), ['a.safetensors', 'b.safetensors'])
  const incomplete = await rejectionOf(() => open({ ...ofFile(index), sibling: undefined }))
  t.is(incomplete.code, 'ZT_INCOMPLETE')
  t.regex(incomplete.message, /no sibling with that name: return it from sibling\(name\)/)
})

test('sibling() never gets a name that leads out of the folder', async (t) => {
  const text = JSON.stringify({ metadata: {}, weight_map: { one: '../secret.safetensors', two: '/etc/passwd' } })
  const asked = []
  const source = over(Buffer.from(text), { name: 'm.safetensors.index.json', sibling: (name) => void asked.push(name) })
  const error = await rejectionOf(() => open(source))
  t.is(error.code, 'ZT_BAD_INDEX')
  t.deepEqual(asked, [])
})

test('sibling() never gets a name that reads as another path: backslashes, tabs and line breaks', async (t) => {
  for (const name of [
    '..\\..\\w.data',
    '\\\\evil\\w.data',
    '.\n./w.data',
    '.\t./w.data',
    '.\r./w.data',
    'w.data\n',
    'a\tb',
  ]) {
    const bytes = onnx({ tensors: [onnxTensor({ name: 'w', more: external({ location: name, length: '8' }) })] })
    const asked = []
    const file = await open(over(bytes, { name: 'm.onnx', sibling: (other) => void asked.push(other) }))
    t.is((await rejectionOf(() => file.tensor('w').load()))?.code, 'ZT_OUT_OF_BOUNDS', JSON.stringify(name))
    t.deepEqual(asked, [], JSON.stringify(name))
    file.close()
    const served = await serveFiles(t, {
      'public/m.onnx': bytes,
      'w.data': Buffer.alloc(8),
      'public/w.data': Buffer.alloc(8),
    })
    const remote = await open(served.url('/public/m.onnx'))
    t.is((await rejectionOf(() => remote.tensor('w').load()))?.code, 'ZT_OUT_OF_BOUNDS', JSON.stringify(name))
    t.deepEqual([...new Set(served.asked.map(({ url }) => url))], ['/public/m.onnx'], JSON.stringify(name))
    remote.close()
  }
})

const file = shard({ a: Array.from({ length: 1 << 18 }, (_, at) => at) })

/** A file whose index was read correctly, and whose later reads call `read`. */
async function broken(read) {
  let opened = false
  const right = (offset, length) => file.subarray(offset, offset + length)
  const source = over(file, { read: (...asked) => (opened ? read : right)(...asked) })
  const found = await open(source)
  opened = true
  return found
}

test('an error of read() is the cause of ZT_IO', async (t) => {
  const reason = new RangeError('no such bucket')
  const now = () => {
    throw reason
  }
  for (const fail of [now, () => Promise.reject(reason)]) {
    const opened = await broken(fail)
    const error = await rejectionOf(() => opened.tensor('a').load())
    t.is(error.code, 'ZT_IO')
    t.is(error.cause, reason)
    t.regex(error.message, /read\(\) of the source failed: no such bucket/)
  }
  const first = await rejectionOf(() => open({ byteLength: 100, read: () => Promise.reject(reason) }))
  t.is(first.cause, reason)
  const thrown = await rejectionOf(() => open({ byteLength: 100, read: () => Promise.reject(undefined) }))
  t.is(thrown.code, 'ZT_IO')
})

test('rejects results of another length or type', async (t) => {
  const wrong = [
    [(_, length) => new Uint8Array(length - 1), 'ZT_IO', /returned \d+ bytes instead of \d+/],
    [(_, length) => new Uint8Array(length + 1), 'ZT_IO', /returned \d+ bytes instead of \d+/],
    [() => new Uint8Array(0), 'ZT_IO', /returned 0 bytes instead of/],
    [() => undefined, 'ZT_IO', /the return value of read\(\) must be a Uint8Array, got undefined/],
    [(_, length) => new ArrayBuffer(length), 'ZT_IO', /must be a Uint8Array, got an instance of ArrayBuffer/],
  ]
  for (const [read, code, message] of wrong) {
    const opened = await broken(read)
    const error = await rejectionOf(() => opened.tensor('a').load())
    t.is(error.code, code)
    t.regex(error.message, message)
  }
})

test('a read that never settles ends at the abort signal or when the file closes, and is aborted', async (t) => {
  let isAsked
  const asked = new Promise((resolve) => {
    isAsked = resolve
  })
  const opened = await broken((_offset, _length, signal) => new Promise(() => isAsked(signal)))
  const reason = new Error('enough')
  const abort = new AbortController()
  const load = opened.tensor('a').load({ signal: abort.signal })
  const signal = await asked
  const aborted = new Promise((resolve) => signal.addEventListener('abort', () => resolve('aborted')))
  abort.abort(reason)
  t.is(await rejectionOf(() => load), reason)
  t.is(await aborted, 'aborted')
  const other = opened.tensor('a').load()
  setImmediate(() => opened.close())
  t.is((await rejectionOf(() => other)).code, 'ZT_CLOSED')
  const never = open({ byteLength: 1000, read: () => new Promise(() => {}) }, { signal: AbortSignal.abort(reason) })
  t.is(await rejectionOf(() => never), reason)
})

test('openSync rejects a source', async (t) => {
  t.is(thrownBy(() => openSync(over(file))).code, 'ZT_NOT_LOCAL')
  const opened = await open(over(file))
  const error = thrownBy(() => opened.share())
  isArgumentError(t, error, 'cannot be shared')
})

test('rejects invalid sources by name', async (t) => {
  const read = () => new Uint8Array()
  for (const [source, named] of [
    [{ byteLength: -1, read }, 'source.byteLength'],
    [{ byteLength: 1.5, read }, 'source.byteLength'],
    [{ byteLength: '8', read }, 'source.byteLength'],
    [{ byteLength: 8, read: 3 }, 'source.read'],
    [{ byteLength: 8, read, name: 7 }, 'source.name'],
    [{ byteLength: 8, read, sibling: 7 }, 'source.sibling'],
  ])
    isArgumentError(t, await rejectionOf(() => open(source)), named)
  const sibling = () => ({ byteLength: 'many', read })
  const index = Buffer.from(JSON.stringify({ weight_map: { a: 'a.safetensors' } }))
  const error = await rejectionOf(() => open(over(index, { name: 'x.index.json', sibling })))
  t.is(error.code, 'ZT_IO')
  t.regex(error.cause.message, /the return value of sibling\("a.safetensors"\)\.byteLength/)
})

test('the end of a worker ends its reads', async (t) => {
  const code = `
    const { parentPort } = require('node:worker_threads')
    require('ztensor').open({ byteLength: 1000, read: () => { parentPort.postMessage('asked'); return new Promise(() => {}) } })`
  const worker = new Worker(code, { eval: true })
  await new Promise((resolve) => worker.once('message', resolve))
  t.is(await worker.terminate(), 1)
  t.deepEqual(await propertiesAt(fixturePath('zt2-dtypes.zt')), await propertiesAt(fixturePath('zt2-dtypes.zt')))
})
