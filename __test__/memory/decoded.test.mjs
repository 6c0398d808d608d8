// A loop over rows of compressed data: the file keeps the pieces that were decoded last, in bounded memory, until it is closed.
import test from 'ava'
import { create, open, openSync } from 'ztensor'
import { deflated, hdf5Chunks } from '../corpus/hdf5-chunks.mjs'
import { hasPeaks, peakOf } from '../helpers/peak-memory.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const MIB = 2 ** 20
const ROW = 64
const ROWS = 4000
const VALUES = Int32Array.from({ length: ROWS * ROW }, (_, at) => at * 7)
const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength)

async function written(options, name = 'rows.zt') {
  const path = scratchPath(name)
  const writer = await create(path, options)
  await writer.add('w', { dtype: 'int32', shape: [ROWS, ROW], data: VALUES })
  await writer.finish()
  return path
}

const frameSize = 65536
const STORAGES = {
  'frames of zTensor 2': () => written({ version: '2', canonical: false, compression: { frameSize } }),
  'frames of 1.2': () => written({ version: '1.2', digest: 'crc32c', compression: { frameSize } }),
  'frames of 0.1': () => written({ version: '0.1', compression: { frameSize } }),
  'deflate of npz': () => written({ format: 'npz', compression: true }, 'rows.npz'),
  'chunks of HDF5': () => scratchFile(hdf5Chunks([ROWS, ROW], [300, 24], bytesOf(VALUES), deflated), 'rows.h5'),
}

for (const [title, make] of Object.entries(STORAGES)) {
  test(`rows equal those of the whole: ${title}`, async (t) => {
    const path = await make()
    const file = await open(path)
    const w = file.tensor('w')
    const row = (at) => VALUES.subarray(at * ROW, (at + 1) * ROW)
    const same = (found, at) => t.is(Buffer.compare(bytesOf(found), bytesOf(row(at))), 0, `row ${at}`)
    const order = Array.from({ length: 300 }, (_, nth) => (nth * 37) % ROWS)
    for (let at = 500; at < 800; at++) same(await w.load({ slice: [[at]] }), at)
    for (const at of order) same(w.slice([[at]]).data, at)
    // On several threads.
    const loads = await Promise.all(order.map((at) => w.load({ slice: [[at]] })))
    for (const [nth, found] of loads.entries()) same(found, order[nth])
    const pending = order.map((at) => w.load({ slice: [[at]] }))
    file.close()
    for (const [nth, { status, value, reason }] of (await Promise.allSettled(pending)).entries()) {
      if (status === 'fulfilled') same(value, order[nth])
      else t.is(reason.code, 'ZT_CLOSED')
    }
    t.throws(() => w.slice([[0]]), { code: 'ZT_CLOSED' })
    const again = openSync(path)
    same(again.tensor('w').slice([[7]]).data, 7)
    again.close()
  })
}

test('rows of compressed record batches equal those of the whole', async (t) => {
  for (const name of ['few-zstd', 'few-lz4']) {
    const whole = await open(fixturePath(`arrow/${name}.arrow`))
    const file = await open(fixturePath(`arrow/${name}.arrow`))
    for (const tensor of whole.values()) {
      if (tensor.layout !== 'dense' || tensor.shape.length === 0) continue
      const all = await tensor.load()
      const width = all.length / tensor.shape[0]
      for (let at = 0; at < tensor.shape[0]; at++) {
        const found = file.tensor(tensor.name).slice([[at, at + 1]]).data
        t.deepEqual(
          bytesOf(found),
          bytesOf(all.subarray(at * width, (at + 1) * width)),
          `${name}: ${tensor.name}, ${at}`,
        )
      }
    }
  }
})

if (hasPeaks) {
  test('a loop over all rows takes a bounded amount of memory', async (t) => {
    // 128 MiB of elements in frames of 4 MiB.
    const path = scratchPath('large.zt')
    const writer = await create(path, { version: '2', canonical: false, compression: { frameSize: 4 * MIB } })
    await writer.add('w', {
      dtype: 'uint8',
      shape: [2 ** 17, 1024],
      data: new Uint8Array(2 ** 27).map((_, at) => at >> 9),
    })
    await writer.finish()
    const prepare = `const file = z.openSync(${JSON.stringify(path)}); const w = file.tensor('w')`
    const loop = 'for (let at = 0; at < 2 ** 17; at += 64) w.slice([[at]])'
    const { peak } = peakOf(t, prepare, loop)
    t.true(peak <= 64 * MIB, `${Math.round(peak / MIB)} MiB`)
  })
}
