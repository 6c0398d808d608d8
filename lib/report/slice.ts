// Samples a slice of a tensor for a heat map.

import { invalid } from '../native/errors.js'
import { withinCall } from '../read/calls.js'
import type { Range } from '../read/slice.js'
import type { AnyTensor } from '../read/tensor.js'
import { validateInteger } from '../values/arguments.js'
import { fileBytes } from '../values/byte-order.js'
import { base64 } from './base64.js'
import type { SliceFound } from './data.js'

/** Maximum cells along a side: a screen cannot show more. */
const SIDE = 256

const stepOf = (size: number): number => Math.max(1, Math.ceil(size / SIDE))

const encoded = (values: Float32Array): string => base64(fileBytes(values))

/** Wraps a vector into rows of cells. The last row is padded with NaN. */
function folded(values: Float32Array, step: number, size: number): SliceFound {
  const columns = Math.min(SIDE, values.length)
  const rows = columns === 0 ? 0 : Math.ceil(values.length / columns)
  const cells = new Float32Array(rows * columns).fill(Number.NaN)
  cells.set(values)
  return { rows, columns, values: encoded(cells), steps: [1, step], of: [1, size] }
}

/**
 * Samples the last two dimensions of a dense or quantized tensor, at the given indices of the other dimensions, with a step between
 * rows and columns if there are many.
 *
 * @throws ZTensorError what `load` throws; RangeError ZT_INVALID_ARG for indices that are out of bounds
 */
export async function sliceOf(
  tensor: AnyTensor,
  indices: readonly number[],
  signal: AbortSignal | undefined,
): Promise<SliceFound> {
  const outer = Math.max(0, tensor.shape.length - 2)
  if (indices.length !== outer) throw invalid(RangeError, `at must have ${outer} indices, got ${indices.length}`)
  for (const [dim, index] of indices.entries()) {
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
    const values = (await withinCall(() => tensor.load({ as: 'float32', slice, signal }))) as Float32Array
    return folded(values, step, size)
  }
  const [height, width] = [rows as number, columns]
  const steps = [stepOf(height), stepOf(width)] as const
  const leading: Range[] = indices.map((index) => [index])
  const slice: Range[] = [...leading, [0, height, steps[0]], [0, width, steps[1]]]
  const values = (await withinCall(() => tensor.load({ as: 'float32', slice, signal }))) as Float32Array
  return {
    rows: Math.ceil(height / steps[0]),
    columns: Math.ceil(width / steps[1]),
    values: encoded(values),
    steps,
    of: [height, width],
  }
}
