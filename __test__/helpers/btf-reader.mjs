// A strict BTF reader, written from the specification alone, to check our files independently of our own reader.
import { ok, strictEqual } from 'node:assert/strict'
import { numbersOf } from './bytes.mjs'

const DTYPES = { 0: Int8Array, 1: Int16Array, 2: Int32Array, 3: BigInt64Array, 4: Float32Array, 5: Float64Array }

/** The records: { shape, layout, values } and, where sparse, `coords`, one tuple an entry. */
export function readBtf(bytes) {
  const u64 = (at) => Number(bytes.readBigUInt64LE(at))
  const u64s = (at, count) => Array.from({ length: count }, (_, i) => u64(at + 8 * i))
  const elements = (Class, at, count) => numbersOf(Class, bytes.subarray(at, at + count * Class.BYTES_PER_ELEMENT))
  const count = u64(0)
  const offsets = u64s(8, count)
  let end = 8 + 8 * count
  const records = offsets.map((offset) => {
    strictEqual(offset, end, 'records follow each other')
    const rank = u64(offset)
    const Class = DTYPES[bytes[offset + 8]]
    ok(Class, 'a dtype of the table')
    const layout = { 0: 'dense', 2: 'sparse_coo' }[bytes[offset + 9]]
    ok(layout, 'a layout of the table')
    ok(
      bytes.subarray(offset + 10, offset + 16).every((byte) => byte === 0),
      'reserved bytes are 0',
    )
    const shape = u64s(offset + 16, rank)
    let at = offset + 16 + 8 * rank
    const record = { shape, layout }
    if (layout === 'sparse_coo') {
      const [nnz, width] = u64s(at, 2)
      strictEqual(width, rank, 'indices are (N, RANK)')
      at += 16
      record.coords = Array.from({ length: nnz }, (_, i) => u64s(at + 8 * rank * i, rank))
      at += 8 * rank * nnz
      strictEqual(u64(at), nnz, 'values are (N)')
      record.values = elements(Class, at + 8, nnz)
      at += 8
    } else {
      record.values = elements(
        Class,
        at,
        shape.reduce((product, size) => product * size, 1),
      )
    }
    at += record.values.byteLength
    end = Math.ceil(at / 8) * 8
    ok(
      bytes.subarray(at, end).every((byte) => byte === 0),
      'padding is 0',
    )
    return record
  })
  ok(bytes.length <= end && end - bytes.length < 8, 'nothing follows')
  return records
}
