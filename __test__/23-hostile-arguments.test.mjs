// Every public function, with every argument in turn replaced by what it does not expect: an error that names the argument, or
// one of ours, or the caller's own where the argument throws it; never one of native code.
import { Writable } from 'node:stream'
import { inspect } from 'node:util'
import test from 'ava'
import { convert, create, open, openSync, toFloat32, verify, ZTensorError } from 'ztensor'
import { f32s, square10, u64s, zt10 } from './corpus/zt.mjs'
import { rejectionOf } from './raised.mjs'
import { scratchFile, scratchPath } from './scratch.mjs'

const BYTES = zt10({
  w: square10(),
  m: {
    dtype: 'float32',
    shape: [1, 1],
    format: 'sparse_csr',
    components: { values: { bytes: f32s(1) }, indices: { bytes: u64s(0) }, indptr: { bytes: u64s(0, 1) } },
  },
  k: {
    dtype: 'float32',
    shape: [1],
    format: 'sparse_coo',
    components: { values: { bytes: f32s(1) }, coords: { bytes: u64s(0) } },
  },
})
const path = scratchFile(BYTES)

/** What an argument throws of its own accord. */
const OWN = new Error('the caller’s own')
const throwing = () => {
  throw OWN
}
const everyTrap = Object.fromEntries(
  Reflect.ownKeys(Reflect)
    .filter((trap) => typeof trap === 'string')
    .map((trap) => [trap, throwing]),
)
const detached = () => {
  const array = new Float32Array(4)
  structuredClone(array.buffer, { transfer: [array.buffer] })
  return array
}
const shrunk = () => {
  const buffer = new ArrayBuffer(64, { maxByteLength: 128 })
  const array = new Float32Array(buffer, 0, 16)
  buffer.resize?.(8)
  return array
}

/** Made anew for each call. */
const VALUES = {
  null: () => null,
  true: () => true,
  'not a number': () => Number.NaN,
  negative: () => -1,
  'negative zero': () => -0,
  'a fraction': () => 0.5,
  infinite: () => Number.POSITIVE_INFINITY,
  '2^53': () => 2 ** 53,
  '2^53 - 1': () => 2 ** 53 - 1,
  '2^32': () => 2 ** 32,
  'a bigint': () => 1n,
  'a huge bigint': () => 2n ** 200n,
  'an empty text': () => '',
  'a text with a null byte': () => 'a\0b',
  'half a surrogate pair': () => '\ud800',
  'a long text': () => 'x'.repeat(2 ** 20),
  'a text of a number': () => '1',
  'a symbol': () => Symbol('s'),
  'a function': () => () => {},
  'a throwing function': () => throwing,
  'an object': () => ({}),
  'an object without prototype': () => Object.create(null),
  'an empty array': () => [],
  'an array of nonsense': () => [Number.NaN, -1, {}, null, undefined, 'x'],
  'an array of nonsense pairs': () => [
    [-1, 2],
    [0, Number.NaN],
  ],
  'a long array': () => Array(100_000).fill(1),
  'a sparse array': () => Array(5),
  'an array-like': () => ({ length: 2 ** 40 }),
  'a date': () => new Date(Number.NaN),
  'a map': () => new Map([[1, 2]]),
  'a circle': () => {
    const circle = {}
    circle.circle = circle
    return circle
  },
  'a depth': () => {
    let deep = {}
    for (let i = 0; i < 100_000; i++) deep = { deep }
    return deep
  },
  'a promise': () => Promise.resolve(1),
  'throwing getters': () =>
    Object.defineProperties(
      {},
      Object.fromEntries(KEYS.map((key) => [key, { get: throwing, enumerable: true, configurable: true }])),
    ),
  'a throwing iterable': () => ({ [Symbol.iterator]: throwing }),
  'an endless thing that converts to itself': () => ({
    [Symbol.toPrimitive]() {
      return this
    },
  }),
  'a throwing proxy': () => new Proxy({}, everyTrap),
  'a throwing proxy of an array': () => new Proxy([1], everyTrap),
  'a proxy of an array': () => new Proxy(new Float32Array(4), {}),
  'a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
  'a detached array': detached,
  'a detached buffer': () => detached().buffer,
  'an array of a buffer that shrank': shrunk,
  'a buffer that can grow': () => new ArrayBuffer(8, { maxByteLength: 64 }),
  'a shared buffer': () => new SharedArrayBuffer(64),
  'a shared array': () => new Float32Array(new SharedArrayBuffer(64)),
  'an array of another type': () => new BigInt64Array(4),
  'a data view': () => new DataView(new ArrayBuffer(16)),
  'an aborted controller': () => new AbortController(),
  'a class': () => class {},
}
const KEYS =
  'format verify maxIndexBytes maxDecodedBytes maxRank maxAttributeValues onMappingLost onProgress signal names concurrency as slice shard into dtype dim rank worldSize version digest compression level attributes alignment overwrite canonical data shape values indices indptr coords layout components filter rename length maxBytes'.split(
    ' ',
  )

const withFile = (call) => async (value) => {
  const file = openSync(path)
  try {
    return await call(file, value)
  } finally {
    file.close()
  }
}
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

/** [function and argument, the names by which it may be called, the call, whether texts are paths there] */
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
  ['file.get', [], withFile((file, value) => file.get(value))],
  ['file.has', [], withFile((file, value) => file.has(value))],
  ['file.forEach', ['callback'], withFile((file, value) => file.forEach(value))],
  ['file.load options', ['options', ...KEYS], withFile((file, value) => file.load(value))],
  ...['names', 'concurrency', 'onProgress', 'signal'].map((key) => [
    `file.load ${key}`,
    [key],
    withFile((file, value) => file.load({ [key]: value })),
  ]),
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
  ['tensor.slice', ['ranges'], withFile((file, value) => file.tensor('w').slice(value))],
  ['tensor.shard', ['shard', 'dim'], withFile((file, value) => file.tensor('w').shard(value))],
  ...['dim', 'rank', 'worldSize'].map((key) => [
    `tensor.shard ${key}`,
    [key],
    withFile((file, value) => file.tensor('w').shard({ dim: 0, rank: 0, worldSize: 2, [key]: value })),
  ]),
  ['tensor.toFloat32 options', ['options', 'into'], withFile((file, value) => file.tensor('w').toFloat32(value))],
  ['tensor.toFloat32 into', ['into'], withFile((file, value) => file.tensor('w').toFloat32({ into: value }))],
  ['tensor.loadCsr options', ['options', 'signal'], withFile((file, value) => file.tensor('m').loadCsr(value))],
  ['tensor.loadCoo options', ['options', 'signal'], withFile((file, value) => file.tensor('k').loadCoo(value))],
  ['tensor.verify options', ['options', ...KEYS], withFile((file, value) => file.tensor('w').verify(value))],
  [
    'component.load options',
    ['options', 'signal'],
    withFile((file, value) => file.tensor('w').components.get('data').load(value)),
  ],
  ['csr.toDense options', ['options', 'maxBytes'], withFile((file, value) => file.tensor('m').csr().toDense(value))],
  [
    'csr.toDense maxBytes',
    ['maxBytes'],
    withFile((file, value) => file.tensor('m').csr().toDense({ maxBytes: value })),
  ],
  ['coo.toCsr options', ['options', 'maxBytes'], withFile((file, value) => file.tensor('k').coo().toDense(value))],
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
    'writer.stream spec',
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

/** Why an outcome is not one that a caller can act on; undefined where it is. */
function fault(error, names) {
  if (error === undefined || error === OWN) return undefined
  // The runtime's word about the caller's own proxy, or function.
  if (error instanceof TypeError && /revoked|not a typed array|Class constructor/.test(error.message)) return undefined
  if (error instanceof ZTensorError) return error.code === 'ZT_INTERNAL' ? 'a defect' : undefined
  if (!(error instanceof TypeError || error instanceof RangeError)) return 'neither ours nor an error of arguments'
  if (error.code !== 'ZT_INVALID_ARG') return 'without our code'
  return names.some((name) => new RegExp(`\\b${name}`).test(error.message)) ? undefined : 'names no argument'
}

for (const [what, names, call, texts] of CALLS) {
  test(what, async (t) => {
    const faults = []
    for (const [kind, make] of Object.entries(VALUES)) {
      const value = make()
      if (texts === 'path' && typeof value === 'string' && value !== '' && !value.includes('\0')) continue
      const error = await rejectionOf(async () => {
        const result = await call(value)
        await (result?.abort?.() ?? result?.close?.())
      })
      const wrong = fault(error, names)
      if (wrong !== undefined) faults.push(`${kind}: ${wrong}: ${inspect(error).slice(0, 300)}`)
    }
    t.deepEqual(faults, [])
  })
}

test('the classes are not to be made by hand, and their methods not to be borrowed', async (t) => {
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

test('a source that is changed, shrunk or detached while it is read', async (t) => {
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
