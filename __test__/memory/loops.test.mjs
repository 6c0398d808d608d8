// Plain loops of synchronous calls, without turns of the event loop: they take about as much memory as loops over JavaScript's own arrays.
import test from 'ava'
import { convert, create } from 'ztensor'
import { some } from '../helpers/campaign.mjs'
import { hasPeaks, peakOf } from '../helpers/peak-memory.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const MIB = 2 ** 20
const LENGTH = MIB
/** Each turn of the loop makes 4 MiB. */
const TIMES = 48

async function written(options, name = 'loop.zt') {
  const path = scratchPath(name)
  const writer = await create(path, options)
  await writer.add('a', {
    dtype: 'float32',
    shape: [LENGTH / 4, 4],
    data: Float32Array.from({ length: LENGTH }, (_, at) => at % 7),
  })
  await writer.finish()
  return path
}

const STORAGES = {
  safetensors: [{ format: 'safetensors' }, 'a.safetensors'],
  'safetensors, read': [{ format: 'safetensors' }, 'a.safetensors', { io: 'read' }],
  'compressed 1.0': [{ version: '1.0', compression: true }],
  'compressed 1.2': [{ version: '1.2', compression: true }],
  'compressed 2': [{ version: '2', canonical: false, compression: true }],
  'compressed npz': [{ format: 'npz', compression: true }, 'a.npz'],
  'safetensors, in memory': [{ format: 'safetensors' }, 'a.safetensors', {}, 'memory'],
  'compressed 1.2, in memory': [{ version: '1.2', compression: true }, 'loop.zt', {}, 'memory'],
}

/** How the loop opens the file: by its path, or in memory that it read before. */
const SOURCES = { path: (path) => JSON.stringify(path), memory: () => 'bytes' }

/** Calls on a tensor `a` of a file that is opened anew, so that nothing is cached. */
const CALLS = {
  data: 'a.data',
  'components.data': "a.components.get('data').data",
  'a slice of rows': 'a.slice([[0, -1]]).data',
  'a slice with steps': 'a.slice([[0, null, 2]]).data',
  shard: 'a.shard({ dim: 1, rank: 1, worldSize: 2 }).data',
  'toFloat32 of a slice': 'a.slice([[1, null]]).toFloat32()',
  toFloat32: 'a.toFloat32()',
}

if (hasPeaks) {
  /** Twice the memory of the same loop with JavaScript arrays. */
  let most
  const allowed = (t) => {
    const loop = `for (let nth = 0; nth < ${TIMES}; nth++) new Float32Array(${LENGTH}).fill(2)`
    most ??= 2 * peakOf(t, '', loop).peak + 48 * MIB
    return most
  }

  for (const [turn, [storage, [options, name, opening = {}, source = 'path']]] of Object.entries(STORAGES).entries()) {
    test(`memory of arrays that synchronous calls return is freed within a loop: ${storage}`, async (t) => {
      const path = await written(options, name)
      const most = allowed(t)
      for (const [title, call] of some(Object.entries(CALLS), 3, turn)) {
        const loop = `for (let nth = 0; nth < ${TIMES}; nth++) {
          const file = z.openSync(${SOURCES[source](path)}, ${JSON.stringify(opening)})
          const a = file.tensor('a')
          ${call}
          file.close()
        }`
        const { peak } = peakOf(t, `const bytes = readFileSync(${JSON.stringify(path)})`, loop)
        t.true(peak <= most, `${title}: ${Math.round(peak / MIB)} MiB, allowed are ${Math.round(most / MIB)}`)
      }
    })
  }

  test('frees memory of arrays of sparse and quantized tensors within a loop', async (t) => {
    const most = allowed(t)
    const side = 1024
    const nnz = LENGTH / 4
    const values = Float32Array.from({ length: nnz }, (_, at) => at)
    const indices = Uint32Array.from({ length: nnz }, (_, at) => at % side)
    const indptr = Uint32Array.from({ length: nnz / side + 1 }, (_, at) => at * side)
    const coords = [Uint32Array.from({ length: nnz }, (_, at) => Math.floor(at / side)), indices]
    const shape = [nnz / side, side]
    const storages = { mapped: { version: '1.2' }, compressed: { version: '1.2', compression: true } }
    for (const [turn, [what, options]] of Object.entries(storages).entries()) {
      const path = scratchPath('sparse.zt')
      const writer = await create(path, { ...options, overwrite: true })
      await writer.addCsr('csr', { shape, dtype: 'float32', values, indices, indptr })
      await writer.addCoo('coo', {
        shape,
        dtype: 'float32',
        values,
        coords: Uint32Array.from([...coords[0], ...coords[1]]),
      })
      await writer.finish()
      const blocks = scratchPath('q.gguf')
      const quantized = await create(blocks, { metadata: { 'general.architecture': 'x' }, overwrite: true })
      await quantized.add('q.weight', new Float32Array(LENGTH).fill(1), { shape: [LENGTH / 256, 256], type: 'q8_0' })
      await quantized.finish()
      const packed = scratchPath('q.zt')
      await convert(blocks, packed, { ...options, overwrite: true })
      const calls = {
        csr: [path, "file.tensor('csr').csr()"],
        'csr.toDense': [path, "file.tensor('csr').csr().toDense()"],
        coo: [path, "file.tensor('coo').coo()"],
        'coo.toCsr': [path, "file.tensor('coo').coo().toCsr()"],
        'coo.toDense': [path, "file.tensor('coo').coo().toDense()"],
        toFloat32: [packed, "file.tensor('q.weight').toFloat32()"],
      }
      for (const [title, [path, call]] of some(Object.entries(calls), 2, turn)) {
        const open = `const file = z.openSync(${JSON.stringify(path)})`
        const { peak } = peakOf(t, '', `for (let nth = 0; nth < ${TIMES}; nth++) { ${open}; ${call}; file.close() }`)
        const found = `${what}, ${title}: ${Math.round(peak / MIB)} MiB, allowed are ${Math.round(most / MIB)}`
        t.true(peak <= most, found)
      }
    }
  })

  test('frees memory of arrays that conversions return within a loop', async (t) => {
    const most = allowed(t)
    const path = scratchPath('sparse.zt')
    const writer = await create(path, { version: '1.2' })
    const indptr = Uint32Array.from({ length: 1025 }, (_, at) => Number(at > 0))
    const matrix = { values: new Float32Array([3]), indices: new Uint32Array(1), indptr }
    await writer.addCsr('m', { shape: [1024, 1024], dtype: 'float32', ...matrix })
    await writer.finish()
    const csr = `const csr = z.openSync(${JSON.stringify(path)}).tensor('m').csr()`
    const cases = {
      toFloat32: ['const half = new Uint16Array(1e6)', "z.toFloat32(half, 'float16')"],
      'csr.toDense': [csr, 'csr.toDense()'],
    }
    for (const [title, [prepare, call]] of Object.entries(cases)) {
      const { peak } = peakOf(t, prepare, `for (let nth = 0; nth < ${TIMES}; nth++) ${call}`)
      t.true(peak <= most, `${title}: ${Math.round(peak / MIB)} MiB, allowed are ${Math.round(most / MIB)}`)
    }
  })

  test('resident memory does not rise with the number of rows of compressed data', async (t) => {
    for (const options of [{ version: '1.2' }, { version: '2', canonical: false }]) {
      const path = await written({ ...options, compression: true })
      const prepare = `const a = z.openSync(${JSON.stringify(path)}).tensor('a')`
      for (const call of [
        'await a.take([nth])',
        'await a.load({ slice: [[nth]] })',
        'a.slice([[nth]]).data',
        'a.at(nth, 0)',
      ]) {
        const { peak } = peakOf(
          t,
          prepare,
          `for (let nth = 0; nth < 300; nth++) { ${call}; if (nth % 10 === 0) await turn() }`,
        )
        t.true(peak <= 64 * MIB, `${call}: ${Math.round(peak / MIB)} MiB`)
      }
    }
  })
} else {
  test('not run: only Linux reports the peak of a process', (t) => t.pass())
}
