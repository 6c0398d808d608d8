// Every public function that opens, reads, writes or converts, with every argument replaced in turn by unexpected
// values. Those that edit, compare, divide and share are in arguments-edits.test.mjs.
import { Writable } from 'node:stream'
import test from 'ava'
import { convert, create, open, openSync, toFloat32, verify } from 'ztensor'
import { sparse10, square10, zt10 } from '../corpus/zt.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { KEYS, opened, tryHostile } from '../helpers/hostile-arguments.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const BYTES = zt10({
  w: square10(),
  ...sparse10(),
})
const path = scratchFile(BYTES)

const withFile = opened(path)
const withWriter = (call) => async (value) => {
  const writer = await create(scratchPath('written.zt'))
  try {
    return await call(writer, value)
  } finally {
    await writer.abort()
  }
}
const into = () => new Writable({ write: (_chunk, _encoding, done) => done() })
const csr = () => ({
  shape: [1, 1],
  values: Float32Array.of(1),
  indices: Uint32Array.of(0),
  indptr: Uint32Array.of(0, 1),
})
const coo = () => ({ shape: [1], values: Float32Array.of(1), coords: Uint32Array.of(0) })
const object = () => ({ layout: 'x', shape: [1], components: { data: { dtype: 'uint8', data: new Uint8Array(1) } } })

/** [function and argument, the names that errors may use, the call, whether strings are paths] */
const CALLS = [
  ['openSync source', ['source'], (value) => openSync(value), 'path'],
  ['open source', ['source'], (value) => open(value), 'path'],
  ['verify source', ['source'], (value) => verify(value), 'path'],
  ['openSync options', ['options', ...KEYS], (value) => openSync(path, value)],
  ['open options', ['options', ...KEYS], (value) => open(path, value)],
  ['verify options', ['options', ...KEYS], (value) => verify(path, value)],
  ...[
    'format',
    'verify',
    'maxIndexBytes',
    'maxDecodedBytes',
    'maxRank',
    'maxAttributeValues',
    'onMappingLost',
    'onProgress',
    'signal',
  ].flatMap((key) => [
    [`open ${key}`, [key], (value) => open(path, { [key]: value })],
    [`open ${key} of memory`, [key], (value) => open(BYTES, { [key]: value })],
  ]),
  ['file.tensor name', ['name'], withFile((file, value) => file.tensor(value))],
  ['file.tensor options', ['options', 'dtype'], withFile((file, value) => file.tensor('w', value))],
  ['file.tensor dtype', ['dtype'], withFile((file, value) => file.tensor('w', { dtype: value }))],
  ['file.get name', [], withFile((file, value) => file.get(value))],
  ['file.has name', [], withFile((file, value) => file.has(value))],
  ['file.forEach callback', ['callback'], withFile((file, value) => file.forEach(value))],
  ['file.load options', ['options', ...KEYS], withFile((file, value) => file.load(value))],
  ...['names', 'filter', 'as', 'concurrency', 'onProgress', 'signal'].map((key) => [
    `file.load ${key}`,
    [key],
    withFile((file, value) => file.load({ [key]: value })),
  ]),
  ['file.close options', ['options', ...KEYS], withFile((file, value) => file.close(value))],
  ['file.close drain', ['drain'], withFile((file, value) => file.close({ drain: value }))],
  ['file.close signal', ['signal'], withFile((file, value) => file.close({ drain: true, signal: value }))],
  ['file.verify options', ['options', ...KEYS], withFile((file, value) => file.verify(value))],
  ['file.verify signal', ['signal'], withFile((file, value) => file.verify({ signal: value }))],
  ['file.verify onProgress', ['onProgress'], withFile((file, value) => file.verify({ onProgress: value }))],
  ['file.prefetch names', ['names'], withFile((file, value) => file.prefetch(value))],
  ['file.prefetch options', ['options', ...KEYS], withFile((file, value) => file.prefetch(undefined, value))],
  ['file.evict names', ['names'], withFile((file, value) => file.evict(value))],
  ['tensor.load options', ['options', ...KEYS], withFile((file, value) => file.tensor('w').load(value))],
  ...['as', 'slice', 'shard', 'into', 'signal'].map((key) => [
    `tensor.load ${key}`,
    [key, 'dim', 'rank', 'worldSize', 'ranges'],
    withFile((file, value) => file.tensor('w').load({ [key]: value })),
  ]),
  ['tensor.slice ranges', ['ranges'], withFile((file, value) => file.tensor('w').slice(value))],
  ['tensor.shard spec', ['shard', 'dim'], withFile((file, value) => file.tensor('w').shard(value))],
  ...['dim', 'rank', 'worldSize'].map((key) => [
    `tensor.shard ${key}`,
    [key],
    withFile((file, value) => file.tensor('w').shard({ dim: 0, rank: 0, worldSize: 2, [key]: value })),
  ]),
  ['tensor.toFloat32 options', ['options', 'into'], withFile((file, value) => file.tensor('w').toFloat32(value))],
  ['tensor.toFloat32 into', ['into'], withFile((file, value) => file.tensor('w').toFloat32({ into: value }))],
  ['tensor.take indices', ['indices'], withFile((file, value) => file.tensor('w').take(value))],
  ['tensor.take options', ['options', ...KEYS], withFile((file, value) => file.tensor('w').take([0], value))],
  ...['axis', 'as', 'into', 'transferable', 'signal'].map((key) => [
    `tensor.take ${key}`,
    [key],
    withFile((file, value) => file.tensor('w').take([0], { [key]: value })),
  ]),
  ['tensor.loadCsr options', ['options', 'signal'], withFile((file, value) => file.tensor('m').loadCsr(value))],
  ['tensor.loadCoo options', ['options', 'signal'], withFile((file, value) => file.tensor('k').loadCoo(value))],
  ['tensor.verify options', ['options', ...KEYS], withFile((file, value) => file.tensor('w').verify(value))],
  [
    'component.load options',
    ['options', 'signal'],
    withFile((file, value) => file.tensor('w').components.get('data').load(value)),
  ],
  [
    'csrTensor.toDense options',
    ['options', 'maxBytes'],
    withFile((file, value) => file.tensor('m').csr().toDense(value)),
  ],
  [
    'csrTensor.toDense maxBytes',
    ['maxBytes'],
    withFile((file, value) => file.tensor('m').csr().toDense({ maxBytes: value })),
  ],
  [
    'cooTensor.toDense options',
    ['options', 'maxBytes'],
    withFile((file, value) => file.tensor('k').coo().toDense(value)),
  ],
  ['toFloat32 values', ['values'], (value) => toFloat32(value, 'float16')],
  ['toFloat32 dtype', ['dtype'], (value) => toFloat32(new Uint16Array(4), value)],
  ['toFloat32 options', ['options', 'into'], (value) => toFloat32(new Uint16Array(4), 'float16', value)],
  ['toFloat32 into', ['into'], (value) => toFloat32(new Uint16Array(4), 'float16', { into: value })],
  ['create target', ['target', 'path'], (value) => create(value), 'path'],
  ['create options', ['options', ...KEYS], (value) => create(into(), value)],
  ...['format', 'version', 'digest', 'compression', 'alignment', 'overwrite', 'attributes', 'canonical'].map((key) => [
    `create ${key}`,
    [key, 'level', 'minSavings', 'attribute', 'compression', 'nested'],
    (value) => create(into(), { [key]: value }),
  ]),
  ['writer.add name', ['name'], withWriter((writer, value) => writer.add(value, new Float32Array(1)))],
  [
    'writer.add tensor',
    ['tensor', 'dtype', 'data', 'shape', 'array'],
    withWriter((writer, value) => writer.add('w', value)),
  ],
  ...['dtype', 'shape', 'data'].map((key) => [
    `writer.add ${key}`,
    [key, 'tensor', 'dimension'],
    withWriter((writer, value) =>
      writer.add('w', { dtype: 'float32', shape: [1], data: new Float32Array(1), [key]: value }),
    ),
  ]),
  [
    'writer.add options',
    ['options', 'attributes'],
    withWriter((writer, value) => writer.add('w', new Float32Array(1), value)),
  ],
  [
    'writer.add attributes',
    ['attribute'],
    withWriter((writer, value) => writer.add('w', new Float32Array(1), { attributes: value })),
  ],
  ['writer.addCsr name', ['name'], withWriter((writer, value) => writer.addCsr(value, csr()))],
  [
    'writer.addCsr matrix',
    ['matrix', 'shape', 'values', 'tensor', 'dtype'],
    withWriter((writer, value) => writer.addCsr('m', value)),
  ],
  ...['shape', 'dtype', 'values', 'indices', 'indptr'].map((key) => [
    `writer.addCsr ${key}`,
    [key, 'dtype', 'dimension'],
    withWriter((writer, value) => writer.addCsr('m', { ...csr(), [key]: value })),
  ]),
  [
    'writer.addCoo tensor',
    ['tensor', 'shape', 'values', 'coords', 'dtype'],
    withWriter((writer, value) => writer.addCoo('m', value)),
  ],
  ...['shape', 'dtype', 'values', 'coords'].map((key) => [
    `writer.addCoo ${key}`,
    [key, 'dtype', 'dimension'],
    withWriter((writer, value) => writer.addCoo('m', { ...coo(), [key]: value })),
  ]),
  [
    'writer.addObject object',
    ['object', 'layout', 'shape', 'components'],
    withWriter((writer, value) => writer.addObject('m', value)),
  ],
  ...['layout', 'shape', 'dtype', 'attributes', 'components'].map((key) => [
    `writer.addObject ${key}`,
    [key, 'attribute', 'component', 'data', 'dimension'],
    withWriter((writer, value) => writer.addObject('m', { ...object(), [key]: value })),
  ]),
  [
    'writer.stream name',
    ['name'],
    withWriter((writer, value) => streamed(writer, value, { dtype: 'uint8', shape: [1] })),
  ],
  [
    'writer.stream tensor',
    ['spec', 'dtype', 'shape', 'tensor'],
    withWriter((writer, value) => streamed(writer, 's', value)),
  ],
  ['convert source', ['source'], (value) => convert(value, scratchPath('out.zt')), 'path'],
  ['convert target', ['target', 'path'], (value) => convert(path, value), 'path'],
  ['convert options', ['options', ...KEYS], (value) => convert(path, scratchPath('out.zt'), value)],
  ...['filter', 'rename', 'version', 'format', 'digest', 'onProgress', 'signal', 'overwrite'].map((key) => [
    `convert ${key}`,
    [key, 'name'],
    (value) => convert(path, scratchPath('out.zt'), { [key]: value }),
  ]),
]

/** A stream of one byte, to its end. */
async function streamed(writer, name, spec) {
  const stream = writer.stream(name, spec)
  stream.on('error', () => {})
  stream.destroy()
}

tryHostile(test, CALLS)

test('rejects constructing classes directly and borrowing their methods', async (t) => {
  const file = openSync(path)
  const tensor = file.tensor('w')
  for (const made of [file, tensor, tensor.components.get('data'), file.tensor('m').csr(), file.tensor('k').coo()]) {
    const prototype = Object.getPrototypeOf(made)
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const { get, value } = Object.getOwnPropertyDescriptor(prototype, name)
      const method = get ?? value
      if (name === 'constructor' || typeof method !== 'function') continue
      for (const self of [{}, Object.create(prototype), undefined, null, 7]) {
        const error = await rejectionOf(async () => method.call(self))
        t.false(
          /napi|Failed|internal:/.test(String(error?.message)),
          `${made.constructor.name}.${name}: ${error?.message}`,
        )
      }
    }
  }
  file.close()
})

test('handles a source that changes, shrinks or is detached during a read', async (t) => {
  const copy = () => Uint8Array.from(BYTES)
  const file = openSync(copy())
  const resizable = new ArrayBuffer(BYTES.length, { maxByteLength: BYTES.length * 2 })
  new Uint8Array(resizable).set(BYTES)
  const opened = openSync(new Uint8Array(resizable))
  t.is(opened.tensor('w').data.length, 4)
  if (resizable.resize !== undefined) {
    const load = opened.tensor('w').load()
    resizable.resize(16)
    const [{ reason }] = await Promise.allSettled([load])
    if (reason !== undefined) t.is(reason.code, 'ZT_CLOSED')
    t.is((await rejectionOf(async () => opened.tensor('m').csr()))?.code, 'ZT_CLOSED')
  }
  const shared = new SharedArrayBuffer(BYTES.length)
  new Uint8Array(shared).set(BYTES)
  const ofShared = await rejectionOf(async () => openSync(new Uint8Array(shared)).tensor('w').load())
  t.is(ofShared, undefined)
  const source = copy()
  const gone = openSync(source)
  structuredClone(source.buffer, { transfer: [source.buffer] })
  t.is((await rejectionOf(() => gone.load()))?.code, 'ZT_CLOSED')
  t.is((await rejectionOf(async () => gone.tensor('w').data))?.code, 'ZT_CLOSED')
  for (const each of [file, opened, gone]) each.close()
})
