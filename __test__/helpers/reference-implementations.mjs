// Simple reference implementations of slices and sparse matrices.

/** The flat indices of a slice of a row-major tensor. `ranges`: one [start, end) for each dimension, null for all of it. */
export function sliceIndices(shape, ranges) {
  let flat = [0]
  shape.forEach((length, dim) => {
    const [start, end] = ranges[dim] ?? [0, length]
    flat = flat.flatMap((base) => Array.from({ length: end - start }, (_, i) => base * length + start + i))
  })
  return flat
}

export const sliceShape = (shape, ranges) =>
  shape.map((length, dim) => (ranges[dim] ? ranges[dim][1] - ranges[dim][0] : length))

/** The elements at these flat indices, `per` array elements each. */
export function pick(array, indices, per = 1) {
  const picked = new array.constructor(indices.length * per)
  indices.forEach((from, i) => {
    for (let k = 0; k < per; k++) picked[i * per + k] = array[from * per + k]
  })
  return picked
}

/** The ranges of one shard of `worldSize` equal ones. */
export function shardRanges(shape, { dim, rank, worldSize }) {
  const each = shape[dim] / worldSize
  return shape.map((_, d) => (d === dim ? [rank * each, (rank + 1) * each] : null))
}

/** A dense matrix as CSR: values are those elements of `dense` that `keep` selects. */
export function toCsr(dense, [rows, columns], keep) {
  const values = []
  const indices = []
  const indptr = [0]
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      if (!keep[r * columns + c]) continue
      values.push(dense[r * columns + c])
      indices.push(c)
    }
    indptr.push(values.length)
  }
  return { values, indices, indptr }
}

/** Any dense tensor as COO, coordinates dimension by dimension. */
export function toCoo(dense, shape, keep) {
  const values = []
  const tuples = []
  dense.forEach((value, flat) => {
    if (!keep[flat]) return
    values.push(value)
    let rest = flat
    tuples.push(
      shape.map((_, d) => {
        const inner = shape.slice(d + 1).reduce((a, b) => a * b, 1)
        const at = Math.floor(rest / inner)
        rest %= inner
        return at
      }),
    )
  })
  return { values, coords: shape.flatMap((_, d) => tuples.map((tuple) => tuple[d])) }
}
