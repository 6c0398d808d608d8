// Validates and converts the elements of a tensor to write.
import { inspect } from '#host'
import { rethrowNative, ZTensorError } from '../native/errors.js'
import { allocate } from '../native/memory.js'
import { binding } from '../native/native.js'
import { arrayKind } from '../native/realm.js'
import { validateInteger, withArticle, wrongType } from './arguments.js'
import { fileBytes } from './byte-order.js'
import { bytesOf, type DType, type DTypeInfo, dtypeInfo, dtypeOfArray } from './dtype.js'
import { validateDType } from './dtype-argument.js'

/** The elements of an array to write. */
export interface Elements {
  /** The bits of the elements, or the numbers to round. */
  readonly data: ArrayBufferView
  /** The dtype of the numbers, if they are rounded while they are written. */
  readonly from: DTypeInfo | undefined
  /** Size of the elements as they are written, in bytes. */
  readonly byteLength: number
}

/** The elements of a dense tensor to write. */
export interface DenseElements extends Elements {
  readonly dtype: DTypeInfo
  readonly shape: number[]
}

export function validateShape(value: unknown): number[] {
  if (!Array.isArray(value)) throw wrongType('shape', 'an array of sizes', value)
  const shape: number[] = []
  // A loop instead of map(), which skips holes. Names for messages are only built on errors.
  for (let dim = 0; dim < value.length; dim++) {
    const size: unknown = value[dim]
    shape.push(
      typeof size === 'number' && Number.isSafeInteger(size) && size >= 0
        ? size
        : validateInteger(`shape[${dim}]`, size),
    )
  }
  return shape
}

export function validateView(name: string, value: unknown): ArrayBufferView {
  if (!ArrayBuffer.isView(value)) throw wrongType(name, 'a typed array or DataView', value)
  return value
}

/** Returns a typed array unchanged, and the bytes of a DataView, whose length cannot be read once its buffer is detached. */
export function typedArrayOf(view: ArrayBufferView): ArrayBufferView {
  return arrayKind(view) === undefined ? bytesOf(view) : view
}

/** Array classes that can hold the bits of any dtype. */
const BYTES = new Set([undefined, 'Uint8Array', 'Uint8ClampedArray'])
/** Array classes whose numbers are rounded to a narrower float, and the dtypes that they are rounded to. */
const NUMBERS = new Set<unknown>(['Float32Array', 'Float64Array', 'Float16Array'])
const ROUNDED = new Set<DType>(['float16', 'bfloat16', 'float8_e4m3fn', 'float8_e5m2'])

/** From this number of elements on, other threads round them. */
const MANY = 2 ** 12

/**
 * The elements of a dtype in an array. The dtype's own array class and bytes are used unchanged; floats are rounded to float16, bfloat16
 * and float8, like `cast` of `convert`. Throws for any other array, whose bits would mean other numbers.
 */
export function elementsOf(name: string, array: ArrayBufferView, dtype: DTypeInfo): Elements {
  const kind = arrayKind(array)
  if (kind === dtype.array.name || BYTES.has(kind) || (kind === 'Float16Array' && dtype.name === 'float16'))
    return { data: typedArrayOf(array), from: undefined, byteLength: array.byteLength }
  if (NUMBERS.has(kind) && ROUNDED.has(dtype.name)) {
    const from = dtypeInfo(dtypeOfArray(array) as DType) as DTypeInfo
    const byteLength = (array.byteLength / from.bits) * dtype.bits
    const later = byteLength * 8 >= MANY * dtype.bits
    return later
      ? { data: array, from, byteLength }
      : { data: rounded(array, from, dtype), from: undefined, byteLength }
  }
  const numbers = ROUNDED.has(dtype.name) ? ', numbers to be rounded (a Float32Array or Float64Array)' : ''
  const bytes = dtype.array === Uint8Array ? '' : ' or bytes (a Uint8Array)'
  const expected = `${withArticle(dtype.array.name)}${numbers}${bytes} for ${dtype.name}`
  throw wrongType(name, expected, array)
}

function rounded(array: ArrayBufferView, from: DTypeInfo, to: DTypeInfo): Uint8Array {
  const output = new Uint8Array(allocate((array.byteLength / from.bits) * to.bits))
  rethrowNative(() => binding.castElements(from.code, to.code, 0, fileBytes(array), output))
  return output
}

/** Validates a dense tensor to write. Its dtype follows from the array by default, and its shape has one dimension by default. */
export function denseElements(
  given: { dtype?: unknown; shape?: unknown; data: unknown },
  shapeToo: unknown,
): DenseElements {
  const array = validateView('data', given.data)
  const named = given.dtype ?? dtypeOfArray(array)
  if (named === undefined) throw wrongType('tensor', 'an array whose type is a dtype, or { dtype, shape, data }', array)
  const dtype = validateDType('dtype', named)
  const elements = elementsOf('data', array, dtype)
  const size = (elements.byteLength * 8) / dtype.bits
  const shape = given.shape === undefined ? undefined : validateShape(given.shape)
  const other = shapeToo === undefined ? shape : validateShape(shapeToo)
  if (shape !== undefined && other !== undefined && inspect(shape) !== inspect(other)) {
    throw wrongType('shape', `[${shape.join(', ')}], the shape of the tensor itself`, shapeToo)
  }
  return { ...elements, dtype, shape: other ?? [size] }
}

/** Throws ZT_BAD_SHAPE if the array does not fill the shape. `padded`: the last byte of a packed type may be padded. */
export function checkLength(name: string, { dtype, shape, byteLength }: DenseElements, padded: boolean): void {
  let elements = 1
  for (const size of shape) elements = size === 0 || elements === 0 ? 0 : elements * size
  const bytes = (elements * dtype.bits) / 8
  // The core checks partial bytes, which some formats allow.
  if (!padded && !Number.isInteger(bytes)) return
  if (byteLength === (padded ? Math.ceil(bytes) : bytes) || !Number.isSafeInteger(elements * dtype.bits)) return
  const given = (byteLength * 8) / dtype.bits
  const holds = Number.isInteger(given) ? `${given} elements` : 'not a whole number of elements'
  const message = `the shape [${shape.join(', ')}] needs ${bytes} bytes (${elements} elements of ${dtype.name}), but the array has ${byteLength} (${holds})`
  throw new ZTensorError('ZT_BAD_SHAPE', `tensor ${JSON.stringify(name)}: ${message}`, { tensor: name })
}
