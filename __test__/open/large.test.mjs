// Files past 2 and 4 GiB. They are sparse: a few KiB on disk.
import { closeSync, ftruncateSync, openSync as openFile, writeSync } from 'node:fs'
import test from 'ava'
import { open, openSync } from 'ztensor'
import { encode } from '../corpus/cbor.mjs'
import { f32s, MAGIC_10, u64 } from '../corpus/zt.mjs'
import { isMapped } from '../helpers/data-placement.mjs'
import { rejectionOf, thrownBy } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const GIB = 2 ** 30

/** A 1.0 file with its blobs at the given offsets, and nothing written between them. */
function sparseFile(tensors, blobs) {
  const path = scratchPath('large.zt')
  const descriptor = openFile(path, 'w')
  writeSync(descriptor, MAGIC_10, 0, 8, 0)
  let end = 8
  for (const { offset, bytes, length = bytes.length } of blobs) {
    if (bytes !== undefined) writeSync(descriptor, bytes, 0, bytes.length, offset)
    end = Math.max(end, offset + length)
  }
  const index = encode({ version: '1.0', tensors })
  ftruncateSync(descriptor, end)
  writeSync(descriptor, index, 0, index.length, end)
  writeSync(descriptor, u64(index.length), 0, 8, end + index.length)
  closeSync(descriptor)
  return { path, length: end + index.length + 8 }
}
const tensor = (dtype, shape, offset, length) => ({
  dtype,
  shape,
  format: 'dense',
  components: { data: { offset, length } },
})

test('reads a tensor beyond 4 GiB', async (t) => {
  const far = 5 * GIB
  const { path, length } = sparseFile(
    { far: tensor('float32', [2, 2], far, 16), near: tensor('float32', [4], 64, 16) },
    [
      { offset: 64, bytes: f32s(1, 2, 3, 4) },
      { offset: far, bytes: f32s(5, 6, 7, 8) },
    ],
  )
  for (const file of [openSync(path), await open(path)]) {
    t.is(file.byteLength, length)
    t.is(file.tensor('far').components.get('data').offset, far)
    t.deepEqual([...file.tensor('far').data], [5, 6, 7, 8])
    t.deepEqual([...file.tensor('near').data], [1, 2, 3, 4])
    t.deepEqual([...(await file.tensor('far').load())], [5, 6, 7, 8])
    t.deepEqual([...file.tensor('far').slice([[1, 2], null]).data], [7, 8])
    isMapped(t, file.tensor('far'), 4)
    file.close()
  }
})

test('lists, maps and slices a tensor of 3 GiB without reading it', async (t) => {
  const rows = 3 * 1024
  const columns = 1024 * 1024
  const last = 64 + rows * columns - 4
  const { path } = sparseFile({ big: tensor('uint8', [rows, columns], 64, rows * columns) }, [
    { offset: 64, length: rows * columns },
    { offset: last, bytes: Buffer.from([1, 2, 3, 4]) },
  ])
  const file = openSync(path)
  const big = file.tensor('big')
  t.is(big.size, 3 * GIB)
  t.is(big.byteLength, 3 * GIB)
  t.deepEqual(
    [
      ...big.slice([
        [rows - 1, rows],
        [columns - 4, columns],
      ]).data,
    ],
    [1, 2, 3, 4],
  )
  t.deepEqual(
    [
      ...(await big.load({
        slice: [
          [rows - 2, rows],
          [columns - 2, columns],
        ],
      })),
    ],
    [0, 0, 3, 4],
  )
  if (process.env.ZTENSOR_NO_EXTERNAL !== '1') {
    t.is(big.data.length, 3 * GIB)
    t.is(big.data[3 * GIB - 1], 4)
    t.is(big.data[2 * GIB], 0)
  }
  file.close()
})

test('rejects an index that fits the file but exceeds 1 GiB before it reads it', async (t) => {
  const size = GIB + 1
  const path = scratchPath('index.zt')
  const descriptor = openFile(path, 'w')
  writeSync(descriptor, MAGIC_10, 0, 8, 0)
  writeSync(descriptor, u64(size), 0, 8, 8 + size)
  closeSync(descriptor)
  for (const error of [thrownBy(() => openSync(path)), await rejectionOf(() => open(path))]) {
    t.is(error?.code, 'ZT_LIMIT')
    t.regex(error?.message ?? '', /maxIndexBytes/)
  }
})
