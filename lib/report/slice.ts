// A slice of a tensor as cells of a heat map.

import { invalid } from '../native/errors.js'
import type { Range } from '../read/slice.js'
import type { AnyTensor } from '../read/tensor.js'
import { validateInteger } from '../values/arguments.js'
import type { SliceFound } from './data.js'

/** Cells along a side: more than a screen shows well would only be more to send. */
const SIDE = 256

const stepOf = (size: number): number => Math.max(1, Math.ceil(size / SIDE))

const encoded = (values: Float32Array): string =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64')

/** A vector as lines of cells, the last one filled up with NaN. */
function folded(values: Float32Array, step: number, size: number): SliceFound {
  const columns = Math.min(SIDE, values.length)
  const rows = columns === 0 ? 0 : Math.ceil(values.length / columns)
  const cells = new Float32Array(rows * columns).fill(Number.NaN)
  cells.set(values)
  return { rows, columns, values: encoded(cells), steps: [1, step], of: [1, size] }
}

/**
 * The last two dimensions of a dense or quantized tensor at a place in the others, every so many rows and columns where they are
 * many.
 *
 * @throws ZTensorError what `load` throws; RangeError ZT_INVALID_ARG of a place that is not in the tensor
 */
export async function sliceOf(
  tensor: AnyTensor,
  place: readonly number[],
  signal: AbortSignal | undefined,
): Promise<SliceFound> {
  const outer = Math.max(0, tensor.shape.length - 2)
  if (place.length !== outer) throw invalid(RangeError, `at must have ${outer} indices, got ${place.length}`)
  for (const [dim, index] of place.entries()) {
    if (validateInteger('at', index) >= (tensor.shape[dim] as number)) {
      throw invalid(RangeError, `index ${index} is outside of dimension ${dim}`)
    }
  }
  const [rows, columns] = tensor.shape.slice(outer) as [number?, number?]
  if (columns === undefined) {
    const size = rows ?? 1
    // A vector may fill the whole square.
    const step = Math.max(1, Math.ceil(size / (SIDE * SIDE)))
    const slice: Range[] = rows === undefined ? [] : [[0, size, step]]
    const values = (await tensor.load({ as: 'float32', slice, signal })) as Float32Array
    return folded(values, step, size)
  }
  const [height, width] = [rows as number, columns]
  const steps = [stepOf(height), stepOf(width)] as const
  const leading: Range[] = place.map((index) => [index])
  const slice: Range[] = [...leading, [0, height, steps[0]], [0, width, steps[1]]]
  const values = (await tensor.load({ as: 'float32', slice, signal })) as Float32Array
  return {
    rows: Math.ceil(height / steps[0]),
    columns: Math.ceil(width / steps[1]),
    values: encoded(values),
    steps,
    of: [height, width],
  }
}
