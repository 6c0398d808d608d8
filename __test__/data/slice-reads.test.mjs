// A slice of a tensor that is not mapped reads only the bytes that it needs: tested with sparse files much larger than the memory.
import { closeSync, ftruncateSync, openSync as openFile, readFileSync, writeSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { safetensors } from '../corpus/safetensors.mjs'
import { littleEndian } from '../helpers/bytes.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'

const GIB = 2 ** 30
const COLUMNS = 2 ** 20

/** Bytes that this process has read so far, if the system counts them. */
function bytesRead() {
  return Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))[1])
}

/** A safetensors file of one float32 tensor, `pad` bytes off its alignment, with only one written row. */
function rowFile(rows, row, pad = 0) {
  const length = rows * COLUMNS * 4
  const header = JSON.stringify({ x: { dtype: 'F32', shape: [rows, COLUMNS], data_offsets: [0, length] } })
  const head = safetensors(header.padEnd(Math.ceil(header.length / 8) * 8 + pad))
  const path = scratchPath('rows.safetensors')
  const descriptor = openFile(path, 'w')
  writeSync(descriptor, head)
  ftruncateSync(descriptor, head.length + length)
  const values = Float32Array.from({ length: COLUMNS }, (_, at) => at)
  writeSync(descriptor, littleEndian(values), 0, values.byteLength, head.length + row * values.byteLength)
  closeSync(descriptor)
  return path
}

// Sequential, because the reads of the process are counted.
const linux = process.platform === 'linux' ? test.serial : test.skip

for (const { name, io, pad } of [
  { name: 'read', io: 'read', pad: 0 },
  { name: 'misaligned', io: 'auto', pad: 1 },
]) {
  linux(`${name}: slices of 100 GiB read their rows, and columns of a few of them`, async (t) => {
    const file = openSync(rowFile(25 * 1024, 20_000, pad), { io })
    const x = file.tensor('x')
    t.is(x.byteLength, 100 * GIB)
    const cuts = [
      [[20_000, 20_001], null],
      [
        [19_999, 20_002],
        [1000, 1004],
      ],
      [
        [20_000, 20_001],
        [8, 16],
      ],
    ]
    for (const ranges of cuts) {
      const [start, stop] = ranges[1] ?? [0, COLUMNS]
      const row = Array.from({ length: stop - start }, (_, at) => start + at)
      const zeros = row.map(() => 0)
      const expected = Float32Array.from(ranges[0][0] === 19_999 ? [...zeros, ...row, ...zeros] : row)
      const begun = bytesRead()
      const slice = x.slice(ranges)
      const sliced = bytesRead()
      const loaded = await x.load({ slice: ranges })
      const read = [sliced - begun, bytesRead() - sliced]
      t.true(Math.max(...read) < expected.byteLength + 2 ** 16, `${JSON.stringify(ranges)}: ${read}`)
      t.deepEqual(slice.data, expected)
      t.false(slice.mapped)
      t.deepEqual(loaded, expected)
    }
    const before = bytesRead()
    const shard = x.shard({ dim: 0, rank: 20_000 / 4, worldSize: 25 * 256 })
    t.true(bytesRead() - before < 4 * COLUMNS * 4 + 2 ** 16)
    t.is(shard.data[1], 1)
    const start = bytesRead()
    t.deepEqual([x.at(20_000, -1), x.at(19_999, 7)], [COLUMNS - 1, 0])
    t.true(bytesRead() - start < 2 ** 16)
    file.close()
  })
}

linux('a slice of compressed frames decodes only those that it overlaps, also repeatedly', async (t) => {
  const path = scratchPath('frames.zt')
  const values = Uint8Array.from({ length: 8 << 20 }, (_, at) => Math.imul(at, 2654435761) >>> 13)
  const writer = await create(path, { version: '2', canonical: false, compression: { level: 1, frameSize: 2 ** 16 } })
  await writer.add('x', { dtype: 'uint8', shape: [8 << 10, 1 << 10], data: values })
  await writer.finish()
  const file = openSync(path)
  const x = file.tensor('x')
  for (let row = 0; row < 4; row++) {
    const before = bytesRead()
    const { data } = x.slice([[row * 1000, row * 1000 + 2]])
    t.true(bytesRead() - before < 2 ** 18)
    t.deepEqual(data, values.subarray(row * 1024_000, row * 1024_000 + 2048))
  }
  file.close()
})

test.serial('a slice of misaligned memory copies only its elements, before and after data is read', (t) => {
  const data = Float32Array.from({ length: 24 }, (_, at) => at)
  const header = JSON.stringify({ x: { dtype: 'F32', shape: [4, 6], data_offsets: [0, 96] } })
  const bytes = safetensors(header.padEnd(Math.ceil(header.length / 8) * 8 + 1), littleEndian(data))
  for (const source of [bytes, scratchFile(bytes)]) {
    const file = openSync(source)
    const x = file.tensor('x')
    const cuts = () => [
      x.slice([[1, 3]]),
      x.slice([null, [2, 4]]),
      x.shard({ dim: 1, rank: 1, worldSize: 3 }),
      x.slice([[2, 2]]),
    ]
    const before = cuts()
    t.deepEqual(x.data, data)
    t.deepEqual(
      cuts().map((slice) => slice.data),
      before.map((slice) => slice.data),
    )
    t.deepEqual(before[0].data, data.subarray(6, 18))
    t.deepEqual(before[1].data, Float32Array.of(2, 3, 8, 9, 14, 15, 20, 21))
    t.is(before[3].data.length, 0)
    file.close()
  }
})
