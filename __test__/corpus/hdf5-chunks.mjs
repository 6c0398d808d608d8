// An HDF5 file of one int32 dataset `w` in chunks, under a B-tree of one node.
import { deflateSync } from 'node:zlib'
import { dataset, filters, hdf5, header, layout, link, ROOT, tree } from './hdf5.mjs'

const [DATASET, INDEX, DATA] = [2048, 4096, 65536]
const INT32 = Buffer.from([0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0])

/** The storage of compressed chunks. */
export const deflated = { store: (chunk) => deflateSync(chunk), more: [filters([1, 6])] }

const product = (sizes) => sizes.reduce((total, size) => total * size, 1)
const unravel = (at, sizes) => sizes.map((size, dim) => Math.floor(at / product(sizes.slice(dim + 1))) % size)
const countsOf = (shape, chunk) => shape.map((size, dim) => Math.ceil(size / chunk[dim]))

/** The row-major elements `bytes` of `shape` in chunks of the shape `chunk`. Chunks at an end have elements beyond it. */
export function hdf5Chunks(shape, chunk, bytes, { store = (one) => one, more = [] } = {}) {
  const counts = countsOf(shape, chunk)
  const stored = []
  for (let nth = 0; nth < product(counts); nth++) {
    const offsets = unravel(nth, counts).map((at, dim) => at * chunk[dim])
    const elements = Buffer.alloc(product(chunk) * 4, 0xee)
    for (let at = 0; at < product(chunk); at++) {
      const index = unravel(at, chunk).map((i, dim) => i + offsets[dim])
      if (index.some((i, dim) => i >= shape[dim])) continue
      const from = index.reduce((flat, i, dim) => flat * shape[dim] + i, 0)
      bytes.copy(elements, at * 4, from * 4, from * 4 + 4)
    }
    stored.push(store(elements))
  }
  return hdf5Stored(shape, chunk, stored, { more })
}

/** A dataset whose chunks are stored as these bytes. */
export function hdf5Stored(shape, chunk, stored, { kind = INT32, more = [] } = {}) {
  const counts = countsOf(shape, chunk)
  let address = DATA
  const children = stored.map(({ length }, nth) => {
    const child = { offsets: unravel(nth, counts).map((at, dim) => at * chunk[dim]), address, size: length }
    address += length
    return child
  })
  const u64 = Buffer.alloc(8)
  u64.writeBigUInt64LE(BigInt(INDEX))
  const sizes = [...chunk, 4].map((size) => [size & 255, (size >> 8) & 255, size >> 16, 0])
  const layoutMessage = layout(3, 2, shape.length + 1, u64, ...sizes)
  return hdf5({
    root: header([link('w', DATASET)]),
    header: dataset({ dims: shape, kind, layout: layoutMessage, more }),
    data: Buffer.alloc(0),
    at: { [INDEX]: tree(shape.length, children), [DATA]: Buffer.concat(stored), [ROOT]: header([link('w', DATASET)]) },
  })
}
