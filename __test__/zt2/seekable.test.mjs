// Reads of zt.zstd-seekable/1: a slice decodes the frames that it overlaps and no others.
import { Buffer } from 'node:buffer'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchFile } from '../helpers/scratch.mjs'
import { vector } from '../helpers/vectors.mjs'

// `frames` is uint32 [3272, 256], each row its own number: 1024 rows to a frame of 1 MiB, four frames.
const { path, bytes } = vector('zt2-zstd.zt')
const [ROWS, COLUMNS] = [3272, 256]
const rows = (first, last) =>
  Uint32Array.from({ length: (last - first) * COLUMNS }, (_, i) => first + Math.floor(i / COLUMNS))

/** The file with a byte in the middle of one frame of `frames` changed. */
function damaged(frame) {
  const file = openSync(bytes)
  const { offset, storedLength } = file.tensor('frames').components.get('data')
  file.close()
  const copy = Buffer.from(bytes)
  const table = offset + storedLength - 9 - 4 * 8
  let start = offset
  for (let before = 0; before < frame; before++) start += copy.readUInt32LE(table + 8 * before)
  copy[start + copy.readUInt32LE(table + 8 * frame) / 2 - (copy.readUInt32LE(table + 8 * frame) % 2) / 2] ^= 0x55
  return copy
}

const CUTS = {
  'rows of one frame': [
    [0, 3],
    [0, 256],
  ],
  'rows of two frames': [
    [1000, 1100],
    [0, 256],
  ],
  'all but the ends': [
    [1, ROWS - 1],
    [0, 256],
  ],
  'the last row': [
    [ROWS - 1, ROWS],
    [0, 256],
  ],
  columns: [
    [0, ROWS],
    [5, 9],
  ],
  'columns across frames': [
    [1020, 2060],
    [255, 256],
  ],
  'one element': [
    [2048, 2049],
    [17, 18],
  ],
  nothing: [
    [7, 7],
    [0, 256],
  ],
}

for (const [name, ranges] of Object.entries(CUTS)) {
  test(`slices ${name}`, async (t) => {
    const [[top, bottom], [left, right]] = ranges
    const expected = Array.from(
      { length: (bottom - top) * (right - left) },
      (_, i) => top + Math.floor(i / (right - left)),
    )
    for (const source of [path, new Uint8Array(bytes)]) {
      const file = openSync(source)
      const tensor = file.tensor('frames')
      t.deepEqual(Array.from(await tensor.load({ slice: ranges })), expected)
      const slice = tensor.slice(ranges)
      t.deepEqual(Array.from(slice.data), expected)
      t.deepEqual(slice.shape, [bottom - top, right - left])
      t.false(slice.mapped)
      // After all is decoded, slices are copied from the result.
      t.is(tensor.data.length, ROWS * COLUMNS)
      t.deepEqual(Array.from(tensor.slice(ranges).data), expected)
      t.is(tensor.copyReason, 'encoded')
      file.close()
    }
  })
}

test('reads shards of a compressed tensor', async (t) => {
  const file = await open(path)
  const tensor = file.tensor('frames')
  for (let rank = 0; rank < 4; rank++) {
    const share = await tensor.load({ shard: { dim: 0, rank, worldSize: 4 } })
    t.deepEqual(share, rows(rank * 818, (rank + 1) * 818))
    t.deepEqual(tensor.shard({ dim: 0, rank, worldSize: 4 }).data, share)
  }
  file.close()
})

for (let frame = 0; frame < 4; frame++) {
  test(`reads frame ${frame} only if a slice overlaps it`, async (t) => {
    const file = openSync(scratchFile(damaged(frame)))
    const tensor = file.tensor('frames')
    for (let other = 0; other < 4; other++) {
      const ranges = [[other * 1024 + 1, Math.min(ROWS, (other + 1) * 1024) - 1]]
      if (other === frame) {
        t.is((await rejectionOf(() => tensor.load({ slice: ranges }))).code, 'ZT_DECODE')
        t.is(thrownBy(() => tensor.slice(ranges)).code, 'ZT_DECODE')
      } else {
        t.deepEqual(await tensor.load({ slice: ranges }), rows(...ranges[0]))
        t.deepEqual(tensor.slice(ranges).data, rows(...ranges[0]))
      }
    }
    for (const call of [
      () => tensor.load(),
      () => tensor.load({ as: 'float32' }),
      () => tensor.components.get('data').load(),
    ]) {
      t.like(await rejectionOf(call), {
        code: 'ZT_DECODE',
        tensor: 'frames',
        component: 'data',
        rule: 'zt.zstd-seekable/1 Rules',
      })
    }
    t.is(thrownBy(() => tensor.data).code, 'ZT_DECODE')
    const { ok, failures } = await file.verify()
    t.false(ok)
    t.deepEqual(
      failures.map((failure) => failure.tensor),
      ['frames'],
    )
    file.close()
  })
}

test('a compressed tensor as float32, prefetched, and within maxDecodedBytes', async (t) => {
  const file = openSync(path)
  await file.prefetch(['frames'])
  const wide = await file.tensor('frames').load({ as: 'float32' })
  t.is(wide[wide.length - 1], ROWS - 1)
  t.deepEqual(file.tensor('frames').toFloat32(), wide)
  file.close()
  const bounded = openSync(path, { maxDecodedBytes: 1 << 20 })
  t.is((await rejectionOf(() => bounded.tensor('frames').load())).code, 'ZT_LIMIT')
  t.deepEqual(await bounded.tensor('frames').load({ slice: [[0, 1]] }), rows(0, 1))
  bounded.close()
})

test('an abort ends a load of a compressed tensor', async (t) => {
  const file = openSync(path)
  const reason = new Error('enough')
  t.is(await rejectionOf(() => file.tensor('frames').load({ signal: AbortSignal.abort(reason) })), reason)
  file.close()
})
