import { type InspectOptions, inspect, types } from '#host'
import { optionHint, rethrowNative, ZTensorError } from '../native/errors.js'
import { allocate } from '../native/memory.js'
import { binding } from '../native/native.js'
import { optional, readOptions, validateInteger, wrongType } from '../values/arguments.js'
import { fileBytes } from '../values/byte-order.js'
import {
  bytesOf,
  type DType,
  type DTypeArrays,
  type DTypeInfo,
  dtypeInfo,
  dtypeOfArray,
  dtypes,
  type IndexArray,
  type TypedArray,
} from '../values/dtype.js'
import { shown } from '../values/inspect.js'
import { array } from './store.js'
import { widen } from './widen.js'

/** The default of `maxBytes`: 1 GiB. */
const DENSE_BYTES = 2 ** 30

/** A limit on the size of a converted tensor. */
export interface ToDenseOptions {
  /** Maximum size in bytes of the dense elements, or of the row pointers: 1 GiB by default. */
  maxBytes?: number | undefined
}

/** Allocates the dense elements of a sparse tensor, within the limit. */
function dense(shape: readonly number[], dtype: DTypeInfo, options: ToDenseOptions | undefined) {
  const { maxBytes } = readOptions(options, ['maxBytes'])
  const max = optional(maxBytes, (value) => validateInteger('maxBytes', value)) ?? DENSE_BYTES
  const byteLength = Math.ceil(
    (shape.reduce((product, size) => (product === 0 || size === 0 ? 0 : product * size), 1) * dtype.bits) / 8,
  )
  if (byteLength > max) {
    const hint = optionHint('maxBytes')
    throw new ZTensorError(
      'ZT_LIMIT',
      `the dense tensor of shape [${shape.join(', ')}] takes ${byteLength} bytes, more than the ${max} allowed${hint.text}`,
      { hints: [hint] },
    )
  }
  return array(dtype, allocate(byteLength), 0, byteLength)
}

function indexArray(code: number, length: number): IndexArray {
  const dtype = dtypes[code] as DTypeInfo
  const byteLength = (length * dtype.bits) / 8
  return array(dtype, allocate(byteLength), 0, byteLength) as IndexArray
}

/** The code of an index array's dtype. */
export function indexCode(role: string, indices: IndexArray): number {
  const name = types.isTypedArray(indices) ? dtypeOfArray(indices) : undefined
  const info = name === undefined ? undefined : dtypeInfo(name)
  if (info === undefined || !/^u?int/.test(info.name)) throw wrongType(role, 'a typed array of integers', indices)
  return info.code
}

/** Throws ZT_BAD_SPARSE if the arrays are not a valid CSR matrix; with `strict`, also if columns are not ascending in each row. */
export function checkCsr(
  shape: readonly number[],
  dtype: DTypeInfo,
  values: TypedArray,
  indices: IndexArray,
  indptr: IndexArray,
  strict = false,
): void {
  const codes = [dtype.code, indexCode('indices', indices), indexCode('indptr', indptr)]
  rethrowNative(() => binding.checkCsr(shape, codes, fileBytes(values), fileBytes(indices), fileBytes(indptr), strict))
}

/** Throws ZT_BAD_SPARSE if the arrays are not a valid COO tensor; with `strictly`, also if coordinates are duplicated. */
export function checkCoo(
  shape: readonly number[],
  dtype: DTypeInfo,
  values: TypedArray,
  coords: IndexArray,
  strictly = false,
): void {
  const codes = [dtype.code, indexCode('coords', coords)]
  rethrowNative(() => binding.checkCoo(shape, codes, fileBytes(values), fileBytes(coords), strictly))
}

/** The values as float32, without the padding after the last value. */
function widenedValues(values: TypedArray, dtype: DType, nnz: number): Float32Array {
  return widen(values, dtypeInfo(dtype) as DTypeInfo, nnz, undefined)
}

/** The summary of a sparse tensor for console.log and JSON. */
function facts({ shape, dtype, nnz }: { shape: readonly number[]; dtype: DType; nnz: number }): object {
  return { shape, dtype, nnz }
}

/**
 * A matrix in compressed sparse row form, as in SciPy: row `r` has the values `values[indptr[r]:indptr[r + 1]]` in the columns
 * `indices[indptr[r]:indptr[r + 1]]`.
 */
export class CsrTensor<D extends DType = DType> {
  readonly shape: readonly [rows: number, columns: number]
  readonly dtype: D
  readonly values: DTypeArrays[D]
  readonly indices: IndexArray
  readonly indptr: IndexArray
  /** Number of stored values. */
  readonly nnz: number

  private constructor(
    shape: readonly number[],
    dtype: D,
    values: DTypeArrays[D],
    indices: IndexArray,
    indptr: IndexArray,
  ) {
    this.shape = shape as readonly [number, number]
    this.dtype = dtype
    this.values = values
    this.indices = indices
    this.indptr = indptr
    this.nnz = indices.length
  }

  /** Tells the classes of loaded tensors apart, also for TypeScript. */
  get kind(): 'csr' {
    return 'csr'
  }

  get layout(): 'sparse_csr' {
    return 'sparse_csr'
  }

  get [Symbol.toStringTag](): string {
    return 'CsrTensor'
  }

  /** A summary without data. */
  toJSON(): object {
    return facts(this)
  }

  /** A summary without data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('CsrTensor', facts(this), options)
  }

  /** @internal */
  static make<D extends DType>(
    shape: readonly number[],
    dtype: D,
    values: DTypeArrays[D],
    indices: IndexArray,
    indptr: IndexArray,
  ): CsrTensor<D> {
    return new CsrTensor(shape, dtype, values, indices, indptr)
  }

  #parts() {
    const dtype = dtypeInfo(this.dtype) as DTypeInfo
    const codes = [dtype.code, indexCode('indices', this.indices), indexCode('indptr', this.indptr)]
    return [this.shape, codes, fileBytes(this.values), fileBytes(this.indices), fileBytes(this.indptr)] as const
  }

  /** @internal Throws ZT_BAD_SPARSE if the arrays are not a valid CSR matrix. */
  check(strict: boolean): this {
    checkCsr(this.shape, dtypeInfo(this.dtype) as DTypeInfo, this.values, this.indices, this.indptr, strict)
    return this
  }

  /**
   * Returns all elements in row-major order. Values with the same coordinates are summed.
   *
   * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE if the arrays were modified and are no longer valid
   */
  toDense(options?: ToDenseOptions): DTypeArrays[D] {
    const output = dense(this.shape, dtypeInfo(this.dtype) as DTypeInfo, options)
    rethrowNative(() => binding.csrToDense(...this.#parts(), bytesOf(output)))
    return output as DTypeArrays[D]
  }

  /**
   * Returns a matrix with the values widened to float32. It shares the index arrays.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex types
   */
  toFloat32(): CsrTensor<'float32'> {
    const values = widenedValues(this.values, this.dtype, this.nnz)
    return new CsrTensor(this.shape, 'float32', values, this.indices, this.indptr)
  }

  /** Converts to COO. The result shares the values. */
  toCoo(): CooTensor<D> {
    const parts = this.#parts()
    const coords = indexArray(
      rethrowNative(() => binding.csrCoordsDtype(...parts)),
      2 * this.nnz,
    )
    rethrowNative(() => binding.csrToCoords(...parts, bytesOf(coords)))
    return CooTensor.make(this.shape, this.dtype, this.values, coords)
  }
}

/**
 * A sparse tensor in coordinate form. `coords` is a `[ndim, nnz]` matrix in row-major order: `nnz` indices into dimension 0, then
 * `nnz` indices into dimension 1, and so on.
 */
export class CooTensor<D extends DType = DType> {
  readonly shape: readonly number[]
  readonly dtype: D
  readonly values: DTypeArrays[D]
  readonly coords: IndexArray
  /** Number of stored values. */
  readonly nnz: number

  private constructor(shape: readonly number[], dtype: D, values: DTypeArrays[D], coords: IndexArray) {
    this.shape = shape
    this.dtype = dtype
    this.values = values
    this.coords = coords
    // Counted by the coordinates, since the last byte of packed values may be padded. A scalar has no coordinates.
    const bits = (dtypeInfo(dtype) as DTypeInfo).bits
    this.nnz = shape.length > 0 ? coords.length / shape.length : Math.floor((values.byteLength * 8) / bits)
  }

  /** Tells the classes of loaded tensors apart, also for TypeScript. */
  get kind(): 'coo' {
    return 'coo'
  }

  get layout(): 'sparse_coo' {
    return 'sparse_coo'
  }

  get [Symbol.toStringTag](): string {
    return 'CooTensor'
  }

  /** A summary without data. */
  toJSON(): object {
    return facts(this)
  }

  /** A summary without data. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return shown('CooTensor', facts(this), options)
  }

  /** @internal */
  static make<D extends DType>(
    shape: readonly number[],
    dtype: D,
    values: DTypeArrays[D],
    coords: IndexArray,
  ): CooTensor<D> {
    return new CooTensor(shape, dtype, values, coords)
  }

  #parts() {
    const codes = [(dtypeInfo(this.dtype) as DTypeInfo).code, indexCode('coords', this.coords)]
    return [this.shape, codes, fileBytes(this.values), fileBytes(this.coords)] as const
  }

  /** @internal Throws ZT_BAD_SPARSE if the arrays are not a valid COO tensor. */
  check(strict: boolean): this {
    checkCoo(this.shape, dtypeInfo(this.dtype) as DTypeInfo, this.values, this.coords, strict)
    return this
  }

  /**
   * Returns all elements in row-major order. Values with the same coordinates are summed.
   *
   * @throws ZTensorError ZT_LIMIT beyond `maxBytes`, ZT_BAD_SPARSE if the arrays were modified and are no longer valid
   */
  toDense(options?: ToDenseOptions): DTypeArrays[D] {
    const output = dense(this.shape, dtypeInfo(this.dtype) as DTypeInfo, options)
    rethrowNative(() => binding.cooToDense(...this.#parts(), bytesOf(output)))
    return output as DTypeArrays[D]
  }

  /**
   * Converts to CSR, sorted by row and column. Duplicate coordinates are not summed.
   *
   * @throws ZTensorError ZT_BAD_LAYOUT unless the tensor has 2 dimensions, ZT_LIMIT beyond `maxBytes`
   */
  toCsr(options?: ToDenseOptions): CsrTensor<D> {
    const parts = this.#parts()
    const { shape, nnz } = this
    if (shape.length !== 2) {
      throw new ZTensorError(
        'ZT_BAD_LAYOUT',
        `CSR needs 2 dimensions, but the shape [${shape.join(', ')}] has ${shape.length}`,
      )
    }
    const pointers = 8 * ((shape[0] as number) + 1)
    const { maxBytes } = readOptions(options, ['maxBytes'])
    const max = optional(maxBytes, (value) => validateInteger('maxBytes', value)) ?? DENSE_BYTES
    if (pointers > max) {
      const hint = optionHint('maxBytes')
      throw new ZTensorError(
        'ZT_LIMIT',
        `the pointers of ${shape[0]} rows take up to ${pointers} bytes, more than the ${max} allowed${hint.text}`,
        { hints: [hint] },
      )
    }
    const dtype = dtypeInfo(this.dtype) as DTypeInfo
    const values = array(dtype, allocate(this.values.byteLength), 0, this.values.byteLength) as DTypeArrays[D]
    const indices = indexArray(indexCode('coords', this.coords), nnz)
    const indptr = indexArray(
      rethrowNative(() => binding.cooIndptrDtype(...parts)),
      (shape[0] as number) + 1,
    )
    rethrowNative(() => binding.cooToCsr(...parts, [bytesOf(values), bytesOf(indices), bytesOf(indptr)]))
    return CsrTensor.make(shape, this.dtype, values, indices, indptr)
  }

  /**
   * Returns a tensor with the values widened to float32. It shares the coordinates.
   *
   * @throws ZTensorError ZT_BAD_DTYPE for complex types
   */
  toFloat32(): CooTensor<'float32'> {
    return new CooTensor(this.shape, 'float32', widenedValues(this.values, this.dtype, this.nnz), this.coords)
  }
}
