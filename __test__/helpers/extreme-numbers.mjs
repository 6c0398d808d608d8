// Files whose numbers are at the limits of arithmetic: 2^31, 2^32, 2^53, 2^60, 2^63, 2^64, and next to these. As a program it opens
// files in the ways that its first argument names, calls everything on them, and prints the outcome of each call.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { openSync, ZTensorError } from 'ztensor'
import { btf, dense as btfDense, coo, INT8 } from '../corpus/btf.mjs'
import { safetensors } from '../corpus/safetensors.mjs'
import { bomb, frame } from '../corpus/zstd.mjs'
import { f32s, square01, square10, square12, u64s, zt01, zt10, zt12 } from '../corpus/zt.mjs'
import { dense, digestOf, file, object, part } from '../corpus/zt2.mjs'

export const NUMBERS = [31n, 32n, 53n, 60n, 63n, 64n]
  .flatMap((power) => [-8n, -1n, 0n, 1n].map((step) => 2n ** power + step))
  .filter((number) => number < 2n ** 64n)
const PAGE = 4096
const SHA = `sha256:${'0'.repeat(64)}`

/** A root of version 2 whose shard table claims many shards of a size, with one tensor in the root. */
function root(count, size, parts = 1) {
  const shards = Array.from({ length: count }, (_, at) => [`s${at}.zt`, { size, digest: SHA }])
  const there = (at) => dense('f32', [4], PAGE, 16, { shard: `s${at}.zt` })
  const objects = Object.fromEntries(Array.from({ length: parts }, (_, at) => [`there${at}`, there(at)]))
  return file({
    blobs: { [PAGE]: f32s(1, 2, 3, 4) },
    manifest: {
      shards: Object.fromEntries(shards),
      objects: { own: dense('f32', [4], PAGE, 16, { digest: digestOf(f32s(1, 2, 3, 4)) }), ...objects },
    },
  })
}

const sparse10 = (shape, format, components) => ({ m: { dtype: 'float32', shape, format, components } })
const csr = (shape, count = 1) =>
  sparse10(shape, 'sparse_csr', {
    values: { bytes: f32s(...Array(count).fill(1)) },
    indices: { bytes: u64s(...Array(count).fill(0)) },
    indptr: { bytes: u64s(0, count) },
  })
const cooAt = (shape, ...coords) => sparse10(shape, 'sparse_coo', { values: { bytes: f32s(1) }, coords: { bytes: u64s(...coords) } }) // biome-ignore format: one line

const entry = (name, shape, start, end, dtype = 'F32') =>
  `"${name}":{"dtype":"${dtype}","shape":[${shape}],"data_offsets":[${start},${end}]}`
const data = Buffer.alloc(64, 7)

/** Fields that a number is written to: name -> bytes of a file with the number there. */
export const FIELDS = {
  0.1: {
    'a dimension': (n) => zt01([square01({ shape: [n] })]),
    'a dimension next to a 0': (n) => zt01([square01({ shape: [n, 0], bytes: Buffer.alloc(0) })]),
    'two dimensions': (n) => zt01([square01({ shape: [n, n] })]),
    'an offset': (n) => zt01([square01({ bytes: undefined, offset: n, size: 16 })]),
    'a size': (n) => zt01([square01({ size: n })]),
    'a dimension of compressed data': (n) => zt01([square01({ shape: [n], encoding: 'zstd', bytes: frame(f32s(1)) })]),
    'a shape of CSR in one blob': (n) => zt01([square01({ layout: 'sparse_csr', shape: [n, n] })]),
    'an array of CSR': (n) => zt01([square01({ layout: 'sparse', sparse_format: 'csr', shape: [1, 4], bytes: f32s(1), indices: [n], indptr: [0, n] })]), // biome-ignore format: one line
    'a coordinate': (n) => zt01([square01({ layout: 'sparse', sparse_format: 'coo', shape: [n], bytes: f32s(1), coords: [n - 1n] })]), // biome-ignore format: one line
  },
  '1.0': {
    'a dimension': (n) => zt10({ w: square10({ shape: [n] }) }),
    'a dimension next to a 0': (n) => zt10({ w: square10({ shape: [0, n] }, { bytes: Buffer.alloc(0) }) }),
    'a dimension next to 1': (n) => zt10({ w: square10({ shape: [1, n, 1] }) }),
    bools: (n) => zt10({ w: square10({ shape: [n], dtype: 'bool' }) }),
    'an offset': (n) => zt10({ w: square10({}, { bytes: undefined, offset: n, length: 16 }) }),
    'an offset of nothing': (n) => zt10({ w: square10({ shape: [0] }, { bytes: undefined, offset: n, length: 0 }) }),
    'a length': (n) => zt10({ w: square10({}, { length: n }) }),
    'a component in addition to the data': (n) => {
      const w = square10()
      return zt10({ w: { ...w, components: { ...w.components, other: { offset: n, length: n } } } })
    },
    'a compressed component in addition to the data': (n) => {
      const w = square10()
      const other = { bytes: frame(f32s(1), { declared: n }), encoding: 'zstd' }
      return zt10({ w: { ...w, components: { ...w.components, other } } })
    },
    'a dimension of compressed data': (n) =>
      zt10({ w: square10({ shape: [n] }, { bytes: frame(f32s(1), { declared: n }), encoding: 'zstd' }) }),
    'the size that a frame states': (n) =>
      zt10({ w: square10({}, { bytes: frame(f32s(1, 2, 3, 4), { declared: n }), encoding: 'zstd' }) }),
    rows: (n) => zt10(csr([n, 1])),
    columns: (n) => zt10(csr([1, n])),
    'a pointer': (n) => {
      const { m } = csr([1, 4])
      return zt10({ m: { ...m, components: { ...m.components, indptr: { bytes: u64s(0, n) } } } })
    },
    'a column index': (n) => {
      const { m } = csr([1, n])
      return zt10({ m: { ...m, components: { ...m.components, indices: { bytes: u64s(n - 1n) } } } })
    },
    'a cell far away': (n) => zt10(cooAt([n], n - 1n)),
    'a cell far away in two dimensions': (n) => zt10(cooAt([n, n], n - 1n, n - 1n)),
    'a shape that is not looked into': (n) => zt10({ w: square10({ shape: [n, n], format: 'x' }) }),
  },
  1.2: {
    'a dimension': (n) => zt12({ w: square12({ shape: [n] }) }),
    'a length': (n) => zt12({ w: square12({}, { length: n }) }),
    'an offset': (n) => zt12({ w: square12({}, { bytes: undefined, offset: n, length: 16 }) }),
    'a decoded length': (n) =>
      zt12({ w: square12({ shape: [n], format: 'x' }, { bytes: bomb(2 ** 20, 0, { declared: n }), encoding: 'zstd', uncompressed_length: n }) }), // biome-ignore format: one line
    'a decoded length of as many elements': (n) =>
      zt12({ w: square12({ shape: [n] }, { dtype: 'u8', bytes: bomb(2 ** 20), encoding: 'zstd', uncompressed_length: n }) }), // biome-ignore format: one line
    'a decoded length in addition to the data': (n) => {
      const w = square12()
      const other = { dtype: 'u8', bytes: frame(f32s(1)), encoding: 'zstd', uncompressed_length: n }
      return zt12({ w: { ...w, components: { ...w.components, other } } })
    },
    'decoded lengths of many': (n) => {
      const one = square12(
        { shape: [n], format: 'x' },
        { bytes: frame(f32s(1)), encoding: 'zstd', uncompressed_length: n },
      )
      return zt12(Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`w${at}`, structuredClone(one)])))
    },
  },
  2: {
    'a dimension': (n) => file({ blobs: { [PAGE]: data }, manifest: { objects: { w: dense('u8', [n], PAGE, 64) } } }),
    'an offset': (n) => file({ blobs: { [PAGE]: data }, manifest: { objects: { w: dense('u8', [64], n, 64) } } }),
    'a length': (n) => file({ blobs: { [PAGE]: data }, manifest: { objects: { w: dense('u8', [n], PAGE, n) } } }),
    'a decoded length': (n) =>
      file({ blobs: { [PAGE]: data }, manifest: { objects: { w: dense('u8', [n], PAGE, 64, { encoding: 'zstd', decoded_length: n }) } } }), // biome-ignore format: one line
    'a decoded length of frames': (n) =>
      file({ blobs: { [PAGE]: data }, manifest: { objects: { w: dense('u8', [n], PAGE, 64, { encoding: 'zt.zstd-seekable/1', decoded_length: n }) } } }), // biome-ignore format: one line
    'elements of 4 bits': (n) =>
      file({
        blobs: { [PAGE]: data },
        manifest: { objects: { w: dense('u8', [n], PAGE, 64, { type: 'f4_e2m1' }) } },
      }),
    'a custom layout': (n) =>
      file({ blobs: { [PAGE]: data }, manifest: { objects: { w: object([n], 'x.y/1', { data: part('u8', PAGE, 64), more: part('u8', PAGE, 64, { encoding: 'zstd', decoded_length: n }) }) } } }), // biome-ignore format: one line
    'the offset of the manifest': (n) => file({ manifest: { objects: {} }, offset: n }),
    'the length of the manifest': (n) => file({ manifest: { objects: {} }, length: n }),
    'rows': (n) =>
      file({ blobs: { [PAGE]: u64s(0, 0), [2 * PAGE]: Buffer.alloc(0) }, manifest: { objects: { w: object([n, 1], 'zt.sparse_csr/1', { indptr: part('u64', PAGE, 16), indices: part('u64', 2 * PAGE, 0), values: part('f32', 2 * PAGE, 0) }) } } }), // biome-ignore format: one line
  },
  shards: {
    'the size of a shard': (n) => root(1, n),
    'the sizes of 200 shards': (n) => root(200, n, 200),
    'the sizes of 1000 shards without tensors': (n) => root(1000, n, 0),
  },
  safetensors: {
    'a dimension': (n) => safetensors(`{${entry('w', n, 0, 64, 'U8')}}`, data),
    'a dimension next to a 0': (n) => safetensors(`{${entry('w', [n, 0], 0, 0, 'U8')}}`),
    'both offsets': (n) => safetensors(`{${entry('w', 0, n, n)}}`, data),
    'the end': (n) => safetensors(`{${entry('w', n, 0, n, 'U8')}}`, data),
    'the size of the header': (n) => safetensors(`{${entry('w', 64, 0, 64, 'U8')}}`, data, { size: n }),
  },
  btf: {
    'a dimension': (n) => btf([btfDense({ dtype: INT8, dims: [n], data })]),
    'a rank': (n) => btf([btfDense({ dtype: INT8, dims: [64], data, rank: n })]),
    'a count of tensors': (n) => btf([btfDense({ dtype: INT8, dims: [64], data })], { count: n }),
    'an offset': (n) => btf([btfDense({ dtype: INT8, dims: [64], data })], { offsets: () => [n] }),
    'a count of values': (n) => btf([coo({ indices: { dims: [n, 2], data: u64s(0, 0) }, values: { dims: [n], data: f32s(1) } })]), // biome-ignore format: one line
    'a shape of coordinates': (n) => btf([coo({ dims: [n, n], indices: { dims: [1, 2], data: u64s(n - 1n, n - 1n) }, values: { dims: [1], data: f32s(1) } })]), // biome-ignore format: one line
  },
}

/** The extension of a file of a table above. */
export const endingOf = (format) => (format === 'btf' || format === 'safetensors' ? format : 'zt')

/** The outcome of a call: `ok`, one of our codes, or anything else, which is a failure. */
async function ending(outcomes, what, request) {
  try {
    const result = await request()
    outcomes.push([what, 'ok', ''])
    return result
  } catch (error) {
    const ours = (error instanceof ZTensorError && error.code !== 'ZT_INTERNAL') || error.code === 'ZT_INVALID_ARG'
    outcomes.push([what, ours ? error.code : `a stranger: ${error.stack}`, error.message])
    return undefined
  }
}

const FEW = 2 ** 20

async function touchTensor(outcomes, tensor) {
  const ask = (what, request) => ending(outcomes, what, request)
  const { shape, components } = tensor
  await ask('fields', () => inspect(tensor) + JSON.stringify(tensor) + tensor.size + tensor.byteLength)
  await ask('data', () => tensor.data)
  await ask('copyReason', () => tensor.copyReason)
  await ask('load', () => tensor.load())
  await ask('load as float32', () => tensor.load({ as: 'float32' }))
  await ask('verify', () => tensor.verify())
  await ask('slice', () => tensor.slice(shape.map((size) => [size - Math.min(size, 1), size])))
  await ask('load a slice', () => tensor.load({ slice: shape.map((size) => [0, Math.min(size, 2)]) }))
  if (shape.length > 0) {
    const shard = { dim: 0, rank: 0, worldSize: Math.max(1, shape[0]) }
    await ask('shard', () => tensor.shard(shard))
    await ask('load a shard', () => tensor.load({ shard }))
  }
  // Statistics cover only the stored values of a sparse tensor, which may have very many elements.
  if (tensor.size < FEW || tensor.layout.startsWith('sparse')) await ask('stats', () => tensor.stats({ bins: 2 }))
  if (tensor.size < FEW) await ask('toFloat32', () => tensor.toFloat32())
  const sparse = (await ask('csr', () => tensor.csr())) ?? (await ask('coo', () => tensor.coo()))
  await ask('loadCsr', () => tensor.loadCsr())
  await ask('loadCoo', () => tensor.loadCoo())
  if (sparse !== undefined) {
    const other = tensor.layout === 'sparse_csr' ? 'toCoo' : 'toCsr'
    for (const to of ['toDense', other, 'toFloat32']) await ask(to, () => sparse[to]())
    // Not tried: gigabytes that this machine may have, and newer runtimes can allocate.
    if (tensor.size < 2 ** 28 || tensor.size > 2 ** 50)
      await ask('toDense of as much as may be', () => sparse.toDense({ maxBytes: Number.MAX_SAFE_INTEGER }))
  }
  for (const component of components.values()) {
    await ask('component', () => JSON.stringify(component) + component.copyReason)
    await ask('component.data', () => component.data)
    await ask('component.load', () => component.load())
  }
}

async function touchFile(outcomes, source, options) {
  const file = await ending(outcomes, 'open', () => openSync(source, options))
  if (file === undefined) return
  const ask = (what, request) => ending(outcomes, what, request)
  for (const tensor of Array.from(file.values()).slice(0, 4)) await touchTensor(outcomes, tensor)
  await ask('inspect', () => inspect(file) + JSON.stringify(file) + JSON.stringify(file.files))
  for (const rules of [{ '*': 'replicate' }, { '*': { dim: 0 } }]) {
    for (const worldSize of [1, 2, Number.MAX_SAFE_INTEGER]) {
      const plan = await ask('plan', () => file.plan({ rank: 0, worldSize, rules }))
      if (plan !== undefined) await ask('load a plan', () => Array.from(plan.ranges()) && file.load({ plan }))
    }
  }
  await ask('load', () => file.load())
  await ask('verify', () => file.verify())
  await ask('prefetch', () => file.prefetch())
  await ask('evict', () => file.evict())
  file.close()
}

/** The ways to open a file. With unbounded decoding, memory is requested for sizes that no machine has. */
const OPENINGS = {
  path: [(path) => path, undefined],
  memory: [(path) => readFileSync(path), undefined],
  'without shards': [(path) => path, { shards: 'none' }],
  unbounded: [(path) => path, { maxDecodedBytes: Number.MAX_SAFE_INTEGER }],
}

async function touched(openings, paths) {
  const all = []
  for (const path of paths) {
    for (const how of openings) {
      const [source, options] = OPENINGS[how]
      const outcomes = []
      await touchFile(outcomes, source(path), options)
      all.push({ path, how, outcomes })
    }
  }
  return all
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [openings, ...paths] = process.argv.slice(2)
  console.log(JSON.stringify(await touched(openings.split(','), paths)))
}
