// Builds Binary Tensor Format files record by record.
import { u64, u64s } from './zt.mjs'

export const INT8 = 0
export const INT16 = 1
export const INT32 = 2
export const INT64 = 3
export const FLOAT32 = 4
export const FLOAT64 = 5
export const RMD = 0
export const COO = 2

/** RANK, DTYPE, LAYOUT and the reserved space. */
export const recordHeader = (rank, dtype, layout, reserved = Buffer.alloc(6)) =>
  Buffer.concat([u64(rank), Buffer.from([dtype, layout]), reserved])

/** A dense record; `rank` overrides the number of dimensions that it states. */
export const dense = ({ dtype = FLOAT32, dims = [2, 2], data, layout = RMD, rank = dims.length, reserved }) =>
  Buffer.concat([recordHeader(rank, dtype, layout, reserved), u64s(...dims), data])

/** A COO record: `indices` and `values` are { dims, data }. */
export const coo = ({ dtype = FLOAT32, dims = [2, 3], indices, values, reserved }) =>
  Buffer.concat([
    recordHeader(dims.length, dtype, COO, reserved),
    u64s(...dims),
    u64s(...indices.dims),
    indices.data,
    u64s(...values.dims),
    values.data,
  ])

const padded = (bytes) => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 7)])

/** A file of these records. `count` and `offsets` override fields of the header; `padLast: false` leaves its padding out. */
export function btf(records, { count = records.length, offsets, padLast = true } = {}) {
  const bodies = records.map((record, i) => (i === records.length - 1 && !padLast ? record : padded(record)))
  let at = 8 + 8 * records.length
  const starts = bodies.map((body) => {
    const offset = at
    at += body.length
    return offset
  })
  return Buffer.concat([u64(count), u64s(...(offsets?.(starts) ?? starts)), ...bodies])
}
