// Calls that need no whole tensor keep pieces of compressed data in memory, with any codec, with and without frames.
import { truncateSync, writeFileSync } from 'node:fs'
import { deflateSync } from 'node:zlib'
import test from 'ava'
import { compare, convert, create, open, openSync } from 'ztensor'
import { filters, TYPES } from '../corpus/hdf5.mjs'
import { hdf5Stored } from '../corpus/hdf5-chunks.mjs'
import { npy } from '../corpus/numpy.mjs'
import { bomb, frame } from '../corpus/zstd.mjs'
import { zt10 } from '../corpus/zt.mjs'
import { some } from '../helpers/campaign.mjs'
import { hasPeaks, peakOf } from '../helpers/peak-memory.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const MIB = 2 ** 20
const ROW = 256

const values = (rows) => Float32Array.from({ length: rows * ROW }, (_, at) => at % 1009)

async function written(options, rows, name = 'large.zt', content = values(rows)) {
  const path = scratchPath(name)
  const writer = await create(path, options)
  await writer.add('a', { dtype: 'float32', shape: [rows, ROW], data: content })
  await writer.finish()
  return path
}

/** A file of zTensor 1.0 with one zstd frame, like those of older writers. */
function oneFrame(rows, bytes, digest) {
  const data = { bytes, encoding: 'zstd', digest }
  const path = scratchPath('frame.zt')
  writeFileSync(path, zt10({ a: { dtype: 'float32', shape: [rows, ROW], format: 'dense', components: { data } } }))
  return path
}

/** The content in frames of 128 KiB without a seek table. */
const frames = (content) => {
  const parts = []
  for (let at = 0; at < content.length; at += 131072) parts.push(frame(content.subarray(at, at + 131072)))
  return Buffer.concat(parts)
}

/** The header of a large array in Fortran order. */
const fortranHeader = (rows) => npy("'<f4'", `(${rows}, ${ROW})`, Buffer.alloc(0), { fortran: 'True' })

function fortran(rows) {
  const content = values(rows)
  const columns = Float32Array.from(content, (_, at) => content[(at % rows) * ROW + Math.floor(at / rows)])
  return scratchFile(Buffer.concat([fortranHeader(rows), bytesOf(columns)]), 'a.npy')
}

/** A dataset of HDF5 in chunks of whole columns. `content` are those of each chunk. */
const hdf5Columns = (rows, columns, content) =>
  scratchFile(
    hdf5Stored(
      [rows, ROW],
      [rows, columns],
      Array.from({ length: ROW / columns }, (_, nth) => content(nth)),
      { kind: TYPES.float32, more: [filters([1, 6])] },
    ),
    'a.h5',
  )

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength)

/** Each with more than 16 MiB, so that it is decoded in pieces. */
const ROWS = 20_000
const STORAGES = {
  'frames and a seek table, 0.1': () => written({ version: '0.1', compression: true, digest: 'crc32c' }, ROWS),
  'frames and a seek table, 1.2': () =>
    written({ version: '1.2', compression: { frameSize: 100_000 }, digest: 'sha256' }, ROWS),
  'frames and a seek table, 2': () => written({ version: '2', canonical: false, compression: true }, ROWS),
  'frames that end within elements, 1.0': () => written({ version: '1.0', compression: { frameSize: 99_999 } }, ROWS),
  'zstd without a seek table': async () => oneFrame(ROWS, frames(bytesOf(values(ROWS)))),
  'deflate of npz': () => written({ format: 'npz', compression: true }, ROWS, 'a.npz'),
  'Fortran order': () => fortran(ROWS),
}

async function streamed(stream) {
  const parts = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

const picked = (all, indices) => Float32Array.from(indices.flatMap((at) => [...all.subarray(at * ROW, (at + 1) * ROW)]))

for (const [title, make] of Object.entries(STORAGES)) {
  test(`data in pieces equals the whole: ${title}`, async (t) => {
    const all = values(ROWS)
    const file = await open(await make())
    const [a] = file.values()
    const same = (found, expected, call) => t.is(Buffer.compare(bytesOf(found), bytesOf(expected)), 0, call)
    const indices = [ROWS - 1, 0, 7777, 7777, 12]
    same(await a.take(indices), picked(all, indices), 'take')
    same(await a.take(indices, { as: 'float32' }), picked(all, indices), 'take as')
    same(
      await a.take([255, 3], { axis: 1 }),
      Float32Array.from({ length: ROWS * 2 }, (_, at) => all[(at >> 1) * ROW + (at % 2 ? 3 : 255)]),
      'columns',
    )
    same(await a.load({ slice: [[5000, 5002]] }), all.subarray(5000 * ROW, 5002 * ROW), 'slice')
    same(
      await a.load({
        slice: [
          [9, 19_000, 9],
          [3, 5],
        ],
      }),
      Float32Array.from(
        { length: 2 * Math.ceil((19_000 - 9) / 9) },
        (_, at) => all[(9 + (at >> 1) * 9) * ROW + 3 + (at % 2)],
      ),
      'steps',
    )
    same(a.slice([[19_999, 20_000]]).data, all.subarray(19_999 * ROW), 'slice()')
    same(await a.load({ as: 'float32' }), all, 'load as')
    same(await streamed(a.createReadStream()), all, 'stream')
    same(await streamed(a.createReadStream({ highWaterMark: 1000 })), all, 'stream of small chunks')
    same(await a.load(), all, 'load')
    same([...openSync(file.path).values()][0].data, all, 'data')
    const { min, max, mean } = await a.stats({ bins: 4 })
    t.deepEqual([min, max], [0, 1008])
    t.true(Math.abs(mean - all.reduce((sum, value) => sum + value) / all.length) < 1e-6)
    t.true((await file.verify()).ok)
    file.close()
  })
}

test('chunks of whole columns, in pieces of some rows, equal the whole', async (t) => {
  // 40 MiB of elements, so that not all of them are decoded at once.
  const [rows, columns] = [40_960, 32]
  const all = values(rows)
  const chunk = (nth) => {
    const elements = new Float32Array(rows * columns)
    for (let row = 0; row < rows; row++)
      elements.set(all.subarray(row * ROW + nth * columns, row * ROW + (nth + 1) * columns), row * columns)
    return deflateSync(bytesOf(elements), { level: 1 })
  }
  const file = await open(hdf5Columns(rows, columns, chunk))
  const [w] = file.values()
  t.is(Buffer.compare(await streamed(w.createReadStream()), bytesOf(all)), 0)
  const { min, max } = await w.stats()
  t.deepEqual([min, max], [0, 1008])
  t.true((await file.verify()).ok)
})

test('a load in frames checks a digest over all stored bytes', async (t) => {
  for (const digest of ['sha256', 'crc32c']) {
    const path = await written({ version: '1.0', compression: true, digest }, ROWS)
    const whole = openSync(path).tensor('a').components.get('data')
    const { readFileSync } = await import('node:fs')
    const bytes = readFileSync(path)
    // In the magic of the seek table, which then is an unknown frame, and in its descriptor.
    for (const at of [whole.storedLength - 5, whole.storedLength - 1]) {
      const damaged = Buffer.from(bytes)
      damaged[whole.offset + at] ^= 0x80
      const tensor = openSync(damaged).tensor('a')
      await t.throwsAsync(tensor.load(), { code: 'ZT_DIGEST_MISMATCH' }, `${digest} ${at}`)
      t.false((await tensor.verify()).ok)
    }
  }
})

test('a stream of compressed data ends when it is destroyed, aborted or closed', async (t) => {
  const path = oneFrame(ROWS, frames(bytesOf(values(ROWS))))
  const file = await open(path)
  const a = file.tensor('a')
  for await (const chunk of a.createReadStream()) {
    t.is(chunk.length, MIB)
    break
  }
  const controller = new AbortController()
  const aborted = async () => {
    for await (const _ of a.createReadStream({ signal: controller.signal })) controller.abort(new Error('enough'))
  }
  await t.throwsAsync(aborted, { message: 'enough' })
  const closed = async () => {
    for await (const _ of a.createReadStream()) file.close()
  }
  await t.throwsAsync(closed, { code: 'ZT_CLOSED' })
  const damaged = frames(bytesOf(values(ROWS))).subarray(0, -200_000)
  const broken = (await open(oneFrame(ROWS, damaged))).tensor('a')
  await t.throwsAsync(streamed(broken.createReadStream()), { code: 'ZT_DECODE' })
  await t.throwsAsync(broken.stats(), { code: 'ZT_DECODE' })
  await t.throwsAsync(broken.take([0]), { code: 'ZT_DECODE' })
})

test('slices of large data without frames have the values of the whole, also after it is kept', async (t) => {
  const rows = 40_000
  const all = values(rows)
  for (const path of [
    oneFrame(rows, frames(bytesOf(all))),
    await written({ format: 'npz', compression: true }, rows, 'a.npz'),
  ]) {
    const a = openSync(path).tensor('a')
    for (let nth = 0; nth < 8; nth++) {
      const row = (nth * 7919) % rows
      t.deepEqual([...a.slice([[row, row + 1]]).data], [...all.subarray(row * ROW, (row + 1) * ROW)], `row ${row}`)
      const columns = a.slice([
        [row % 100, null, 1000],
        [nth, nth + 2],
      ]).data
      const expected = []
      for (let at = row % 100; at < rows; at += 1000) expected.push(...all.subarray(at * ROW + nth, at * ROW + nth + 2))
      t.deepEqual([...columns], expected)
      t.is(a.at(row, nth), all[row * ROW + nth])
    }
    const damaged = openSync(oneFrame(rows, frames(bytesOf(all)).subarray(0, -200_000))).tensor('a')
    for (let nth = 0; nth < 6; nth++) t.throws(() => damaged.slice([[0, 1]]), { code: 'ZT_DECODE' })
  }
})

/** Blocks of q8_0 with frames of zstd, or without. */
async function blocks(rows, version) {
  const source = scratchPath('blocks.gguf')
  const writer = await create(source, { metadata: { 'general.architecture': 'x' } })
  const elements = Float32Array.from({ length: rows * ROW }, (_, at) => ((at * 7) % 255) - 127)
  await writer.add('w.weight', elements, { shape: [rows, ROW], type: 'q8_0' })
  await writer.finish()
  const path = scratchPath(`blocks-${version}.zt`)
  await convert(source, path, {
    version,
    compression: { frameSize: 100_000 },
    ...(version === '2' && { canonical: false }),
  })
  return { source, path }
}

test('slices, rows and statistics of compressed blocks have the values of the whole', async (t) => {
  for (const [rows, version] of [
    [2000, '1.2'],
    [70_000, '1.2'],
    [70_000, '2'],
  ]) {
    const { source, path } = await blocks(rows, version)
    const [plain, packed] = [source, path].map((path) => openSync(path).tensor('w.weight'))
    t.is(packed.components.get('data').encoding.includes('zstd'), true)
    const whole = plain.toFloat32()
    const same = (found, expected, call) => t.is(Buffer.compare(bytesOf(found), bytesOf(expected)), 0, call)
    same(packed.toFloat32(), whole, 'toFloat32')
    same(await packed.load({ as: 'float32' }), whole, 'load')
    for (const options of [{}, { bins: 5 }, { bins: 3, range: [-100, 90] }])
      t.deepEqual(await packed.stats(options), await plain.stats(options), 'stats')
    t.true((await compare(packed, plain)).identical)
    const slices = [
      [[5, 9]],
      [[rows - 1]],
      [null, [33, 35]],
      [
        [3, null, 1000],
        [1, 256, 50],
      ],
    ]
    for (const slice of slices)
      same(await packed.load({ as: 'float32', slice }), await plain.load({ as: 'float32', slice }), 'slice')
    const indices = [rows - 1, 0, 1234, 1234, 77]
    const taken = (tensor, options) =>
      tensor.take(
        indices.map((at) => at % (options?.axis ? ROW : rows)),
        options,
      )
    same(await taken(packed, { as: 'float32' }), await taken(plain, { as: 'float32' }), 'take')
    const columns = { as: 'float32', axis: 1 }
    const taking = await taken(plain, columns)
    same(await taken(packed, columns), taking, 'columns')
    const at = indices.map((index) => index % ROW)
    const expected = Float32Array.from(taking, (_, n) => whole[Math.floor(n / at.length) * ROW + at[n % at.length]])
    same(taking, expected, 'columns of floats')
  }
})

/** A tensor of 4-bit codes with scales, compressed. */
async function codes(rows) {
  const path = scratchPath('codes.zt')
  const writer = await create(path, { version: '2', canonical: false, compression: true })
  const words = Uint32Array.from({ length: (rows * ROW) / 8 }, (_, at) => Math.imul(at % 5003, 2654435761))
  const scales = Float32Array.from({ length: (rows * ROW) / 128 }, (_, at) => 1 + (at % 7) / 8)
  await writer.addObject('w', {
    layout: 'zt.quant_group/1',
    shape: [rows, ROW],
    attributes: {
      bits: 4,
      group_size: 128,
      axis: 1,
      packing: { word: 'u32', order: 'lsb_first', per_word: 8 },
      scale_form: 'f32_factors',
      zero_point: { form: 'implied', value: 8 },
    },
    components: { scales: { dtype: 'float32', data: scales }, data: { dtype: 'uint32', data: words } },
  })
  await writer.finish()
  return path
}

test('statistics and comparisons of large codes have the values of their floats', async (t) => {
  const rows = 20_001
  const quantized = openSync(await codes(rows)).tensor('w')
  const floats = await quantized.load({ as: 'float32' })
  const dense = openSync(await written({ version: '2' }, rows, 'floats.zt', floats)).tensor('a')
  for (const options of [{}, { bins: 5 }, { bins: 3, range: [-3, 4] }])
    t.deepEqual(await quantized.stats(options), await dense.stats(options))
  t.true((await compare(quantized, dense)).equal)
  t.true((await compare(quantized, quantized)).identical)
})

if (hasPeaks) {
  test('slices, rows, floats and statistics of compressed blocks take at most 64 MiB beyond their result', async (t) => {
    // 81 MiB of blocks, 304 MiB of float32.
    const rows = 311_296
    const { path } = await blocks(rows, '1.2')
    const codesPath = await codes(rows)
    const prepare = `const quantized = z.openSync(${JSON.stringify(codesPath)}).tensor('w'); const [file, other] = [1, 2].map(() => z.openSync(${JSON.stringify(path)})); const w = file.tensor('w.weight')`
    const calls = {
      slice: ["await w.load({ as: 'float32', slice: [[5, 9]] })", 0],
      take: ["await w.take([5, 100_000], { as: 'float32' })", 0],
      'take of columns': ["await w.take([5, 70], { as: 'float32', axis: 1 })", rows * 2 * 4],
      load: ["await w.load({ as: 'float32' })", rows * ROW * 4],
      stats: ['await w.stats({ bins: 4 })', 0],
      compare: ["await z.compare(w, other.tensor('w.weight'))", 0],
      // Codes of 38 MiB and their scales are in memory.
      'stats of codes': ['await quantized.stats()', 41 * MIB],
    }
    for (const [call, [work, result]] of Object.entries(calls)) {
      const { peak } = peakOf(t, prepare, work)
      t.true(peak <= result + 64 * MIB, `${call}: ${Math.round((peak - result) / MIB)} MiB`)
    }
  })

  /** 96 MiB and more of arrays, in which rows and cells are sorted. */
  const SPARSE = {
    csr: (writer, first = 0) => {
      const indptr = Uint32Array.from({ length: 12_289 }, (_, row) => row * 1024)
      const indices = new Uint32Array(12_288 * 1024).map((_, at) => first + (at % 1024))
      return writer.addCsr('s', {
        shape: [12_288, 4096],
        values: new Float32Array(indices.length).fill(1),
        indices,
        indptr,
      })
    },
    coo: (writer) => {
      const nnz = 12_288 * 1024
      const coords = new Uint32Array(2 * nnz).map((_, at) => (at < nnz ? at >> 10 : at % 1024))
      return writer.addCoo('s', { shape: [12_288, 1024], values: new Float32Array(nnz), coords })
    },
  }
  for (const [layout, add] of Object.entries(SPARSE)) {
    test(`verify and compare read a large sparse tensor in pieces: ${layout}`, async (t) => {
      for (const options of [
        { version: '1.2', compression: true, digest: 'sha256' },
        { version: '2', canonical: false, compression: { frameSize: 99_999 } },
        { version: '2', canonical: false },
      ]) {
        const write = async (name, first) => {
          const path = scratchPath(name)
          const writer = await create(path, options)
          await add(writer, first)
          await writer.finish()
          return path
        }
        const path = await write('sparse.zt')
        const prepare = `const file = z.openSync(${JSON.stringify(path)})`
        const { peak, printed } = peakOf(t, prepare, 'return (await file.verify()).ok')
        t.true(printed)
        t.true(peak <= 64 * MIB, `${JSON.stringify(options)}: ${Math.round(peak / MIB)} MiB`)
        if (layout !== 'csr') continue
        // The first and the last of the columns of each row differ: tensors with the same columns are compared by their values.
        const paths = [path, await write('shifted.zt', 1)]
        const pair = `const [a, b] = ${JSON.stringify(paths)}.map((path) => z.openSync(path).tensor('s'))`
        const compared = peakOf(t, pair, 'return (await z.compare(a, b)).differing')
        t.is(compared.printed, 2 * 12_288)
        // Each of the two files keeps 16 MiB of frames.
        t.true(compared.peak <= 80 * MIB, `compare, ${JSON.stringify(options)}: ${Math.round(compared.peak / MIB)} MiB`)
      }
    })
  }

  /** 160 MiB of elements. */
  const LARGE = 160 * 1024
  const CALLS = {
    take: 'await a.take([7, 100_000])',
    'take of columns': 'await a.take([7], { axis: 1 })',
    'load of a slice': 'await a.load({ slice: [[5, 9]] })',
    slice: 'a.slice([[5, 9]]).data',
    'a slice of columns': 'a.slice([null, [5, 6]]).data',
    at: 'a.at(5, 6)',
    stats: 'await a.stats()',
    verify: 'await file.verify()',
    diff: 'await z.diff(file, other)',
    compare: 'await z.compare(a, b)',
    'a read stream': 'for await (const _ of a.createReadStream());',
  }
  const large = {
    'frames and a seek table, 1.2': () => written({ version: '1.2', compression: true, digest: 'crc32c' }, LARGE),
    'zstd without a seek table': async () => oneFrame(LARGE, bomb(LARGE * ROW * 4, 7)),
    'deflate of npz': () => written({ format: 'npz', compression: true }, LARGE, 'a.npz'),
    'Fortran order': () => {
      const header = fortranHeader(LARGE)
      const path = scratchFile(header, 'a.npy')
      truncateSync(path, header.length + LARGE * ROW * 4)
      return path
    },
    'chunks of whole columns': () => {
      const chunk = deflateSync(Buffer.alloc(LARGE * 8 * 4, 7))
      return hdf5Columns(LARGE, 8, () => chunk)
    },
    'a chunk that is not compressed': () =>
      scratchFile(hdf5Stored([LARGE, ROW], [LARGE, ROW], [Buffer.alloc(LARGE * ROW * 4, 7)]), 'a.h5'),
    'one compressed buffer of Arrow': () => fixturePath('arrow-large/one-buffer-zstd.arrow'),
  }
  // docs/limits.md lists these.
  const UNBOUNDED = {
    'chunks of whole columns': ['diff', 'compare', 'a read stream'],
    'a chunk that is not compressed': ['take of columns', 'a slice of columns'],
  }
  for (const [turn, [title, make]] of Object.entries(large).entries()) {
    test(`calls that need no whole tensor take at most 64 MiB: ${title}`, async (t) => {
      const path = await make()
      const prepare = `const path = ${JSON.stringify(path)}; const [file, other] = [z.openSync(path), z.openSync(path)]; const [[a], [b]] = [file.values(), other.values()]`
      const calls = Object.entries(CALLS).filter(([call]) => !UNBOUNDED[title]?.includes(call))
      for (const [call, work] of some(calls, 3, turn)) {
        const { peak } = peakOf(t, prepare, work)
        // Chunks that were read are garbage until V8 collects it, at the latest after 32 MiB.
        t.true(peak <= (call === 'a read stream' ? 96 : 64) * MIB, `${call}: ${Math.round(peak / MIB)} MiB`)
      }
    })
  }
}
