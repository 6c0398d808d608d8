// Validates the tensors to write, before anything is written.

import { invalid, rethrowNative, ZTensorError } from '../native/errors.js'
import { type BlockType as BlockSize, binding, type SparseSpec } from '../native/native.js'
import { arrayKind, isPlainObject } from '../native/realm.js'
import { indexCode } from '../read/sparse.js'
import {
  optional,
  readOptions,
  validateKeys,
  validateObject,
  validateText,
  validateTypedArray,
  wrongType,
} from '../values/arguments.js'
import { type AttributeInput, freezeMap } from '../values/attribute-input.js'
import { type DType, type DTypeInfo, dtypeOfArray, type IndexArray, type TypedArray } from '../values/dtype.js'
import { validateDType } from '../values/dtype-argument.js'
import {
  type DenseElements,
  denseElements,
  type Elements,
  elementsOf,
  typedArrayOf,
  validateShape,
  validateView,
} from '../values/elements.js'
import type { BlockType } from '../values/format-table.js'

/** A dense tensor to write. A dense `Tensor`, a `TensorSlice` and a `LoadedTensor` are also accepted. */
export interface TensorInput {
  /** The dtype; by default that of the array. Required for bytes. */
  readonly dtype?: DType | undefined
  /** The shape; one dimension by default. */
  readonly shape?: readonly number[] | undefined
  /**
   * The elements: a typed array of the dtype (float16 and bfloat16 as bits in a Uint16Array), or their little-endian bytes as a
   * Uint8Array. For float16, bfloat16, float8_e4m3fn and float8_e5m2 also numbers in a Float32Array, Float64Array or Float16Array, which are rounded
   * to nearest, ties to even.
   */
  readonly data: ArrayBufferView
}

/** A sparse matrix to write, in the form of `CsrTensor`. */
export interface CsrInput {
  readonly shape: readonly [rows: number, columns: number]
  readonly dtype?: DType | undefined
  readonly values: TypedArray
  readonly indices: IndexArray
  readonly indptr: IndexArray
}

/** A sparse tensor to write, in the form of `CooTensor`: `coords` is a row-major `[ndim, nnz]` matrix. */
export interface CooInput {
  readonly shape: readonly number[]
  readonly dtype?: DType | undefined
  readonly values: TypedArray
  readonly coords: IndexArray
}

/** A tensor of any layout to write, by its components. */
export interface ObjectInput {
  readonly layout: string
  readonly shape: readonly number[]
  /** The dtype of the tensor. zTensor 1.0 requires one: uint8 by default. */
  readonly dtype?: DType | undefined
  readonly attributes?: AttributeInput | undefined
  readonly components: Readonly<Record<string, { readonly dtype?: DType | undefined; readonly data: ArrayBufferView }>>
}

/** A dense tensor whose bytes are written as a stream. */
export interface StreamInput {
  readonly dtype: DType
  readonly shape: readonly number[]
}

/** The options of a call that adds a tensor. */
export interface AddOptions {
  readonly attributes?: AttributeInput | undefined
}

/** The options of a call that adds a dense tensor. */
export interface AddDenseOptions extends AddOptions {
  /** The shape, for a typed array without one. */
  readonly shape?: readonly number[] | undefined
  /**
   * Quantizes the elements to a ggml block type (`'q4_k'`, `'q8_0'`, …), bit for bit as llama.cpp does. The last dimension must be whole
   * blocks: of 256 elements for `q2_k` to `q6_k`, of 32 for most others. For GGUF and zTensor, which store the layout `gguf.<type>/1`.
   */
  readonly type?: BlockType | (string & {}) | undefined
}

/** A component and its elements. */
export interface Part extends Elements {
  readonly role: string
  readonly dtype: DTypeInfo | undefined
  /** The block type that the elements are quantized to, from the dtype `from`. */
  readonly blocks?: string
}

/** Rejects unknown keys of a plain object. Instances of classes may have other properties. */
function refuseOthers(
  name: string,
  value: object,
  known: readonly string[],
  takenBy?: Readonly<Record<string, string>>,
): void {
  if (isPlainObject(value)) validateKeys(name, value, known, takenBy)
}

/** The method for a tensor with a key of another kind of tensor. */
const TAKEN_BY = { indptr: 'addCsr()', coords: 'addCoo()', components: 'addObject()' }

/** A copy of a tensor's attributes: the caller may change them before they are written. */
function ownAttributes({ attributes }: AddOptions): unknown {
  return attributes === undefined ? undefined : freezeMap('attributes', attributes)
}

/** A sparse tensor's values and their dtype. */
function valuesOf(tensor: { readonly dtype?: DType | undefined; readonly values: TypedArray }) {
  const values = validateTypedArray('values', tensor.values)
  const dtype = validateDType('dtype', tensor.dtype ?? dtypeOfArray(values))
  if (dtype.bits < 8)
    throw new ZTensorError(
      'ZT_BAD_DTYPE',
      `the values of a sparse tensor cannot be ${dtype.name}, whose elements are smaller than a byte`,
    )
  return { values, dtype }
}

/** A dense tensor and its attributes. */
export interface Dense {
  readonly name: string
  readonly attributes: unknown
  readonly elements: DenseElements
  /** The block type to quantize to. */
  readonly type: string | undefined
}

/** Arrays of numbers, whatever dtype they are to be rounded to. */
const NUMBERS = new Set<unknown>(['Float32Array', 'Float64Array'])

/** Validates the arguments of `add`. */
export function denseInput(name: string, tensor: unknown, options: AddDenseOptions | undefined): Dense {
  const checked = validateText('name', name)
  const given = readOptions(options, ['attributes', 'shape', 'type'])
  const type = optional(given.type, validateBlockType)
  const attributes = ownAttributes(given)
  if (typeof tensor !== 'object' || tensor === null || Array.isArray(tensor))
    throw wrongType('tensor', 'a typed array or { dtype, shape, data }', tensor)
  if (!ArrayBuffer.isView(tensor)) refuseOthers('tensor', tensor, ['dtype', 'shape', 'data'], TAKEN_BY)
  const whole = ArrayBuffer.isView(tensor) ? { data: tensor } : (tensor as TensorInput)
  // Numbers are not rounded to a dtype before they are quantized.
  const isNumbers = type !== undefined && NUMBERS.has(arrayKind(whole.data))
  const elements = denseElements(isNumbers ? { shape: whole.shape, data: whole.data } : whole, given.shape)
  return { name: checked, attributes, elements, type }
}

/** Validates the name of a block type. */
function validateBlockType(value: unknown): string {
  const name = validateText('type', value)
  if (rethrowNative(() => binding.blockType(name)) === null)
    throw invalid(RangeError, `type must be one of ${binding.blockTypes().join(', ')}, got ${JSON.stringify(name)}`)
  return name
}

/** The quantized tensor to write. */
export function quantizedInput({ name, attributes, elements }: Dense, type: string): Composed {
  const { elements: perBlock, bytes, layout, parameters } = rethrowNative(() => binding.blockType(type)) as BlockSize
  const { shape, dtype, data, from } = elements
  const row = shape.at(-1) ?? 1
  if (row % perBlock !== 0)
    throw new ZTensorError(
      'ZT_BAD_SHAPE',
      `tensor ${JSON.stringify(name)}: rows of ${row} elements are not a multiple of the ${perBlock} in a block of ${type}`,
      { tensor: name },
    )
  const byteLength = shape.reduce((total, size) => total * size, bytes / perBlock)
  const added = new Map(parameters.map(({ name, value }) => [name, value]))
  const own = (attributes as { map: unknown[] } | undefined)?.map ?? []
  const map = [...own, ...freezeMap('attributes', added).map]
  const part = {
    data,
    byteLength,
    from: from ?? dtype,
    role: 'data',
    dtype: validateDType('dtype', 'uint8'),
    blocks: type,
  }
  return { name, shape, layout, dtype: undefined, attributes: { map }, parts: [part] }
}

/** A sparse tensor in the binding's form. The arrays are values, indices and indptr, or values and coords. */
export interface Sparse {
  readonly spec: SparseSpec
  readonly arrays: TypedArray[]
}

/** Validates the arguments of `addCsr`. */
export function csrInput(name: string, matrix: CsrInput, options: AddOptions | undefined): Sparse {
  const checked = validateText('name', name)
  const attributes = ownAttributes(readOptions(options, ['attributes']))
  const shape = validateShape(validateObject('matrix', matrix).shape)
  refuseOthers('matrix', matrix, ['shape', 'dtype', 'values', 'indices', 'indptr', 'nnz', 'layout'])
  const { values, dtype } = valuesOf(matrix)
  const { indices, indptr } = matrix
  const dtypes = [dtype.code, indexCode('indices', indices), indexCode('indptr', indptr)]
  return { spec: sparseSpec(checked, shape, attributes, dtypes), arrays: [values, indices, indptr] }
}

/** Validates the arguments of `addCoo`. */
export function cooInput(name: string, tensor: CooInput, options: AddOptions | undefined): Sparse {
  const checked = validateText('name', name)
  const attributes = ownAttributes(readOptions(options, ['attributes']))
  const shape = validateShape(validateObject('tensor', tensor).shape)
  refuseOthers('tensor', tensor, ['shape', 'dtype', 'values', 'coords', 'nnz', 'layout'])
  const { values, dtype } = valuesOf(tensor)
  const { coords } = tensor
  const dtypes = [dtype.code, indexCode('coords', coords)]
  return { spec: sparseSpec(checked, shape, attributes, dtypes), arrays: [values, coords] }
}

function sparseSpec(name: string, shape: number[], attributes: unknown, dtypes: number[]): SparseSpec {
  return { name, shape, dtypes, ...(attributes === undefined ? {} : { attributes }) }
}

/** A tensor of any layout by its components. */
export interface Composed {
  readonly name: string
  readonly shape: number[]
  readonly layout: string
  readonly dtype: DTypeInfo | undefined
  readonly attributes: unknown
  readonly parts: Part[]
}

/** Validates the arguments of `addObject`. */
export function objectInput(name: string, object: ObjectInput): Composed {
  const checked = validateText('name', name)
  const components = validateObject('components', validateObject('object', object).components)
  refuseOthers('object', object, ['layout', 'shape', 'dtype', 'attributes', 'components'])
  const parts = Object.entries(components).map(([role, component]) => {
    const given = validateObject(`components.${role}`, component)
    refuseOthers(`components.${role}`, given, ['dtype', 'data'])
    const dtype = optional(given.dtype, (value) => validateDType(`components.${role}.dtype`, value))
    const data = validateView(`components.${role}.data`, component.data)
    const plain = { data: typedArrayOf(data), from: undefined, byteLength: data.byteLength }
    const elements = dtype === undefined ? plain : elementsOf(`components.${role}.data`, data, dtype)
    return { ...elements, role: validateText('a role of components', role), dtype }
  })
  const dtype = optional(object.dtype, (value) => validateDType('dtype', value))
  const layout = validateText('layout', object.layout)
  const sparse = /^(?:zt\.)?sparse_(csr|coo)(?:\/1)?$/.exec(layout)?.[1]
  if (sparse !== undefined) {
    throw invalid(TypeError, `layout ${layout}: use ${sparse === 'csr' ? 'addCsr()' : 'addCoo()'} to write it`)
  }
  const shape = validateShape(object.shape)
  return { name: checked, shape, layout, dtype, attributes: ownAttributes(object), parts }
}

/** Validates the arguments of `stream`. */
export function streamInput(name: string, tensor: StreamInput, options: AddOptions | undefined) {
  const checked = validateText('name', name)
  const attributes = ownAttributes(readOptions(options, ['attributes']))
  const dtype = validateDType('dtype', validateObject('tensor', tensor).dtype)
  refuseOthers('tensor', tensor, ['dtype', 'shape'])
  return { name: checked, attributes, dtype, shape: validateShape(tensor.shape) }
}
