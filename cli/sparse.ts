// Prints the entries of a sparse tensor: coordinates and values, in file order.
import { type AnyTensor, type CsrTensor, type DType, type Tensor, type TypedArray, toFloat32 } from '../index.js'
import { cellJson, cellText, isNarrowFloat } from './cells.js'
import { showCount } from './quantity.js'
import { print, printLines } from './stdout.js'

// Up to fifty entries are shown in full, otherwise ten at each end.
const shownInFull = 50
const edge = 10

export interface Entries {
  nnz: number
  coordinates(at: number): number[]
  text(at: number): string
  json(at: number): string
}

export function isSparse(tensor: AnyTensor): boolean {
  return tensor.layout === 'sparse_csr' || tensor.layout === 'sparse_coo'
}

/** The row of entry `at`: the last one that starts at or before it. */
function rowOf(indptr: CsrTensor['indptr'], at: number): number {
  let low = 0
  let high = indptr.length - 1
  while (high - low > 1) {
    const middle = (low + high) >>> 1
    if (Number(indptr[middle]) <= at) low = middle
    else high = middle
  }
  return low
}

// Narrow values are widened in blocks, since only the ends of a large tensor are shown.
const widenedAtOnce = 1 << 14

/** Returns a function that formats single values of `all`. */
function valueReader(dtype: DType, all: TypedArray, format: (data: TypedArray, index: number) => string) {
  if (!isNarrowFloat(dtype)) return (at: number) => format(all, at)
  const perElement = dtype === 'float4_e2m1fn' ? 2 : 1
  let from = -1
  let values: TypedArray = all
  return (at: number) => {
    const start = at - (at % widenedAtOnce)
    if (start !== from) {
      values = toFloat32(all.subarray(start / perElement, (start + widenedAtOnce) / perElement), dtype)
      from = start
    }
    return format(values, at - start)
  }
}

/** The entries of `tensor`, which alias the file if possible, so that only printed values are read. Indices are validated. */
export function readEntries(tensor: AnyTensor): Entries {
  // csr() and coo() throw for an unknown dtype.
  const dtype = tensor.dtype as DType
  const values = (all: TypedArray) => ({
    text: valueReader(dtype, all, cellText(dtype)),
    json: valueReader(dtype, all, cellJson(dtype)),
  })
  if (tensor.layout === 'sparse_csr') {
    const csr = (tensor as Tensor).csr()
    const coordinates = (at: number) => [rowOf(csr.indptr, at), Number(csr.indices[at])]
    return { nnz: csr.nnz, coordinates, ...values(csr.values) }
  }
  const coo = (tensor as Tensor).coo()
  // Dimension-major: all of dimension 0 first.
  const coordinates = (at: number) => coo.shape.map((_, dimension) => Number(coo.coords[dimension * coo.nnz + at]))
  return { nnz: coo.nnz, coordinates, ...values(coo.values) }
}

/** Prints `(row, column)  value` for each entry. Many entries are abbreviated unless `all`. */
export async function printEntries(entries: Entries, all: boolean): Promise<void> {
  const { nnz } = entries
  const line = (at: number): string => `(${entries.coordinates(at).join(', ')})  ${entries.text(at)}`
  const whole = all || nnz <= shownInFull
  function* lines(): Generator<string> {
    yield `${showCount(nnz)} stored:`
    for (let at = 0; at < (whole ? nnz : edge); at++) yield line(at)
    if (whole) return
    yield '…'
    for (let at = nnz - edge; at < nnz; at++) yield line(at)
  }
  await printLines(lines())
}

/** Prints a JSON array of [coordinates, value] pairs between `before` and `after`. */
export async function printEntriesJson(entries: Entries, before: string, after: string): Promise<void> {
  const { nnz } = entries
  function* lines(): Generator<string> {
    yield `${before}[`
    for (let at = 0; at < nnz; at++) {
      yield ` [[${entries.coordinates(at).join(', ')}], ${entries.json(at)}]${at < nnz - 1 ? ',' : ''}`
    }
  }
  await printLines(lines())
  await print(`]${after}`)
}
