// Values of other realms (node:vm, jsdom, test runners) are accepted like those of this one, and the package works in another realm
// than that of its native binary.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createContext, runInContext } from 'node:vm'
import test from 'ava'
import { append, compare, convert, create, open, openSync, toFloat32, verify } from 'ztensor'
import { square10, zt10 } from '../corpus/zt.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const FILE = zt10({ w: square10(), v: square10() })
const PATH = scratchFile(FILE)

/** The URL of a realm with its own implementation, like jsdom. */
const OWN_URL = `(class URL {
  #text
  constructor(text) { this.#text = text }
  get href() { return this.#text }
  get protocol() { return this.#text.slice(0, this.#text.indexOf(':') + 1) }
  toString() { return this.#text }
})`
const context = createContext()
const there = runInContext('globalThis', context)
const ofLanguage = new Set(Object.getOwnPropertyNames(there))
there.URL = runInContext(OWN_URL, context)

/** Plain values of a realm's classes. */
function inRealm(realm) {
  const make = (value) => {
    if (Array.isArray(value)) return realm.Array.from(value, make)
    if (value !== null && typeof value === 'object' && Object.getPrototypeOf(value) === Object.prototype) {
      const object = new realm.Object()
      for (const [key, item] of Object.entries(value)) object[key] = make(item)
      return object
    }
    return value
  }
  const bytes = (buffer) => {
    const array = new realm.Uint8Array(buffer.length)
    array.set(buffer)
    return array
  }
  return {
    ...Object.fromEntries(KINDS.map((name) => [name, realm[name]])),
    URL: realm.URL,
    Map: realm.Map,
    DataView: realm.DataView,
    make,
    bytes,
  }
}
const KINDS =
  'Float64Array Float32Array BigInt64Array BigUint64Array Int32Array Uint32Array Int16Array Uint16Array Int8Array Uint8Array'.split(
    ' ',
  )

const written = async (add, options) => {
  const path = scratchPath()
  const writer = await create(path, options)
  await add(writer)
  await writer.finish()
  return readFileSync(path).toString('hex')
}
const reading = async (source, options) => {
  const file = await open(source, options)
  const found = [...file.keys()].map((name) => [...file.tensor(name).data])
  file.close()
  return found
}
const withTensor = async (read) => {
  const file = openSync(PATH)
  const found = await read(file.tensor('w'), file)
  file.close()
  return found
}

/** Calls with values of a realm; the results are the same for any realm. */
const CALLS = {
  'open: Uint8Array': (realm) => reading(realm.bytes(FILE)),
  'open: ArrayBuffer': (realm) => reading(realm.bytes(FILE).buffer),
  'open: URL': (realm) => reading(new realm.URL(pathToFileURL(PATH).href)),
  'open: list of paths': (realm) => reading(realm.make([PATH])),
  'open: list of URLs': (realm) => reading(realm.make([new realm.URL(pathToFileURL(PATH).href)])),
  'open: options': (realm) => reading(PATH, realm.make({ format: 'zt', verify: true, maxRank: 4 })),
  openSync: (realm) => [...openSync(realm.bytes(FILE), realm.make({ format: 'zt' })).keys()],
  'verify: Uint8Array': async (realm) => (await verify(realm.bytes(FILE), realm.make({}))).ok,
  'create: URL': async (realm) => {
    const path = scratchPath('by.url.zt')
    await (await create(new realm.URL(pathToFileURL(path).href))).finish()
    return readFileSync(path).toString('hex')
  },
  'create: options and metadata': (realm) =>
    written(
      () => {},
      realm.make({
        version: '1.2',
        metadata: realm.make({
          text: 'a',
          list: [1, [2]],
          nested: { bytes: realm.bytes(Buffer.from('b')), map: new realm.Map([[1, 2]]) },
        }),
      }),
    ),
  'create: metadata as a Map': (realm) =>
    written(() => {}, {
      metadata: new realm.Map([
        ['text', realm.make({ a: 1 })],
        [realm.bytes(Buffer.from('key')), realm.bytes(Buffer.from('value'))],
      ]),
    }),
  ...Object.fromEntries(
    KINDS.map((kind) => [`add: ${kind}`, (realm) => written((writer) => writer.add('t', new realm[kind](3)))]),
  ),
  'add: a large array': (realm) => written((writer) => writer.add('t', new realm.Float32Array(5000).fill(1.5))),
  'add: DataView': (realm) =>
    written((writer) =>
      writer.add(
        't',
        realm.make({ dtype: 'int8', shape: [4], data: new realm.DataView(realm.bytes(Buffer.from('abcd')).buffer) }),
      ),
    ),
  'add: { dtype, shape, data } and attributes': (realm) =>
    written((writer) =>
      writer.add(
        't',
        realm.make({ dtype: 'float16', shape: [1, 2], data: new realm.Uint16Array(2).fill(0x3c00) }),
        realm.make({ attributes: new realm.Map([['a', realm.make([1])]]) }),
      ),
    ),
  ...Object.fromEntries(
    ['Int32Array', 'Uint32Array', 'BigInt64Array', 'BigUint64Array'].flatMap((kind) =>
      ['1.0', '2'].map((version) => [
        `addCsr: ${kind} in ${version}`,
        (realm) => {
          const array = (...items) => realm[kind].from(items, kind.startsWith('Big') ? BigInt : Number)
          return written(
            (writer) =>
              writer.addCsr(
                'm',
                realm.make({
                  shape: [2, 3],
                  values: realm.Float32Array.of(1, 2),
                  indices: array(0, 2),
                  indptr: array(0, 1, 2),
                }),
              ),
            { version },
          )
        },
      ]),
    ),
  ),
  addCoo: (realm) =>
    written((writer) =>
      writer.addCoo(
        'm',
        realm.make({
          shape: [2, 3],
          values: realm.Float64Array.of(1, 2),
          coords: realm.BigUint64Array.of(0n, 1n, 0n, 2n),
        }),
      ),
    ),
  addObject: (realm) =>
    written((writer) =>
      writer.addObject(
        'q',
        realm.make({
          layout: 'mine',
          shape: [2],
          attributes: { a: [] },
          components: {
            data: { dtype: 'int8', data: realm.Int8Array.of(1, 2) },
            more: { dtype: 'uint8', data: realm.Uint8Array.of(3) },
          },
        }),
      ),
    ),
  stream: (realm) =>
    written((writer) => {
      const stream = writer.stream('s', realm.make({ dtype: 'uint8', shape: [3] }))
      return new Promise((resolve, reject) => {
        stream.on('finish', resolve).on('error', reject)
        stream.end(realm.bytes(Buffer.from('abc')))
      })
    }),
  append: async (realm) => {
    const path = scratchFile(FILE)
    const editor = await append(path, realm.make({ inPlace: false }))
    await editor.add('x', realm.Int16Array.of(1))
    await editor.setMetadata(new realm.Map([['a', 1]]))
    await editor.setTensorAttributes('w', realm.make({ b: { c: null } }))
    await editor.finish()
    return readFileSync(path).toString('hex')
  },
  convert: async (realm) => {
    const path = scratchPath('converted.safetensors')
    await convert(
      realm.bytes(FILE),
      new realm.URL(pathToFileURL(path).href),
      realm.make({ cast: { float32: 'float16' }, metadata: { a: 'b' } }),
    )
    return readFileSync(path).toString('hex')
  },
  'load into: its own type': (realm) =>
    withTensor(async (tensor) => [...(await tensor.load({ into: new realm.Float32Array(4) }))]),
  'load into: bytes': (realm) =>
    withTensor(async (tensor) => [...(await tensor.load({ into: new realm.Uint8Array(16) }))]),
  'load: slice': (realm) =>
    withTensor(async (tensor) => [...(await tensor.load(realm.make({ slice: [[1, 2], null] })))]),
  'load: shard': (realm) =>
    withTensor(async (tensor) => [...(await tensor.load(realm.make({ shard: { dim: 0, rank: 1, worldSize: 2 } })))]),
  take: (realm) => withTensor(async (tensor) => [...(await tensor.take(realm.make([1, 0])))]),
  'take: typed indices': (realm) =>
    withTensor(async (tensor) => [...(await tensor.take(new realm.Int32Array([1, 0]), realm.make({ axis: 1 })))]),
  slice: (realm) => withTensor((tensor) => [...tensor.slice(realm.make([null, [0, 1]])).data]),
  shard: (realm) => withTensor((tensor) => [...tensor.shard(realm.make({ dim: 1, rank: 0, worldSize: 2 })).data]),
  'toFloat32 of a tensor': (realm) =>
    withTensor((tensor) => [...tensor.toFloat32(realm.make({ into: new realm.Float32Array(4) }))]),
  toFloat32: (realm) => [
    ...toFloat32(realm.Uint16Array.of(0x3c00), 'float16', realm.make({ into: new realm.Float32Array(1) })),
  ],
  'file.load': (realm) =>
    withTensor(async (_, file) => [...(await file.load(realm.make({ names: ['v'], concurrency: 1 }))).keys()]),
  plan: (realm) =>
    withTensor((_, file) => [
      ...file.plan(realm.make({ rank: 0, worldSize: 2, rules: [['*', 'row']] })).tensors.keys(),
    ]),
  stats: (realm) => withTensor(async (tensor) => (await tensor.stats(realm.make({ bins: 2, range: [0, 4] }))).max),
  compare: (realm) => withTensor(async (tensor) => (await compare(tensor, tensor, realm.make({ atol: 0 }))).equal),
}

for (const [what, call] of Object.entries(CALLS)) {
  test(`${what} of another realm is accepted like one of this realm`, async (t) => {
    const own = await call(inRealm(globalThis))
    t.deepEqual(await call(inRealm(there)), own)
  })
}

test('rejects the same values of another realm as of this one', async (t) => {
  const refused = {
    'a date as attributes': (realm) => written(() => {}, { metadata: new realm.Date() }),
    'an instance of a class as attributes': (realm) =>
      written(() => {}, { metadata: new (realm.Function('return class Mine {}')())() }),
    'a class called Object as attributes': (realm) =>
      written(() => {}, { metadata: new (realm.Function('return class Object {}')())() }),
    'an object of an object as attributes': (realm) => written(() => {}, { metadata: realm.Object.create({ a: 1 }) }),
    'an array as attributes': (realm) => written(() => {}, { metadata: realm.Array.of(1) }),
    'an array of clamped bytes': (realm) => written((writer) => writer.add('t', new realm.Uint8ClampedArray(1))),
    'an array of another type to fill': (realm) =>
      withTensor((tensor) => tensor.load({ into: new realm.Int32Array(4) })),
    'a proxy of an array': (realm) => written((writer) => writer.add('t', new Proxy(new realm.Float32Array(1), {}))),
    'an object that claims to be an array': (realm) =>
      written((writer) => writer.add('t', realm.Object.create(realm.Float32Array.prototype))),
    'a URL of an unsupported scheme': (realm) => open(new realm.URL('ftp://example.com/model.zt')),
  }
  for (const [what, call] of Object.entries(refused)) {
    for (const realm of [globalThis, there]) {
      const error = await rejectionOf(() => call(realm))
      t.is(error?.code, 'ZT_INVALID_ARG', `${what}: ${error?.stack}`)
    }
  }
})

test('rethrows the error of a function of another realm unchanged', async (t) => {
  for (const kind of ['Error', 'TypeError', 'RangeError']) {
    const own = new there[kind]('the caller’s own')
    const filter = () => {
      throw own
    }
    t.is(await rejectionOf(() => convert(PATH, scratchPath(), { filter })), own)
    t.is(await rejectionOf(() => convert(PATH, scratchPath(), { rename: filter })), own)
    t.is(await rejectionOf(() => open(PATH, { signal: AbortSignal.abort(own) })), own)
  }
})

/** Loads the package's own modules into a realm, as jest does; Node's and the binary stay those of the process. */
function packageIn(realm) {
  const loaded = new Map()
  const load = (path) => {
    if (loaded.has(path)) return loaded.get(path).exports
    const module = { exports: {} }
    loaded.set(path, module)
    const outside = createRequire(path)
    const within = (name) => {
      const found = outside.resolve(name)
      return name.startsWith('.') && found.endsWith('.js') ? load(found) : outside(name)
    }
    const source = `(function (exports, require, module, __filename, __dirname) {${readFileSync(path, 'utf8')}\n})`
    runInContext(source, realm, { filename: path })(module.exports, within, module, path, dirname(path))
    return module.exports
  }
  return load(join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'dist', 'index.js'))
}

test('the package reads and writes the same in another realm', async (t) => {
  // Node's globals, which jest passes on.
  const added = Object.getOwnPropertyNames(globalThis).filter(
    (name) => !ofLanguage.has(name) && !['global', 'localStorage'].includes(name),
  )
  const realm = createContext(Object.fromEntries(added.map((name) => [name, globalThis[name]])))
  const other = packageIn(realm)
  t.not(other.ZTensorError, (await import('ztensor')).ZTensorError)
  const path = scratchPath('other.zt')
  const attributes = { bytes: Buffer.from('b'), list: [1, { a: null }] }
  const writer = await other.create(path, {
    version: '1.2',
    metadata: attributes,
    compression: { level: 1, minSavings: 0 },
  })
  await writer.add('small', Int16Array.of(1, 2))
  await writer.add('large', new Float32Array(50_000))
  await writer.addCsr('m', {
    shape: [1, 2],
    values: Float32Array.of(1),
    indices: Uint32Array.of(1),
    indptr: Uint32Array.of(0, 1),
  })
  await writer.finish()
  const file = other.openSync(path)
  t.deepEqual(Buffer.from(file.metadata.bytes), Buffer.from('b'))
  t.is(JSON.stringify(file.metadata.list), '[1,{"a":null}]')
  t.deepEqual([...file.tensor('small').data], [1, 2])
  t.is((await file.tensor('large').load()).length, 50_000)
  t.is((await file.load()).size, 3)
  t.true((await file.verify()).ok)
  t.deepEqual([...file.tensor('m').csr().toDense()], [0, 1])
  t.is((await other.convert(path, scratchPath('again.zt'), { version: '2' })).tensors, 3)
  file.close()
  for (const call of [() => other.openSync(scratchPath('missing')), () => other.openSync(new Uint8Array(100))]) {
    const error = thrownBy(call)
    t.true(error instanceof other.ZTensorError, error?.stack)
    t.not(error.code, 'ZT_INTERNAL')
  }
  t.is(thrownBy(() => other.openSync(7))?.code, 'ZT_INVALID_ARG')
  const own = new Error('the caller’s own')
  const filter = () => {
    throw own
  }
  t.is(await rejectionOf(() => other.convert(path, scratchPath(), { filter })), own)
})
