// Builds files of PaddlePaddle: pickles with NumPy's arrays, and parameters in one file.
import { bytes, call, cat, FALSE, global, int, le, list, NONE, pickle, TRUE, text, tuple } from './pytorch.mjs'

/** An array as NumPy pickles itself: `order` of its bytes, `fortran` where the first index runs fastest. */
export const ndarray = (shape, dtype, data, { order = '<', fortran = FALSE } = {}) => {
  const type = cat(
    call('numpy', 'dtype', text(dtype), FALSE, TRUE),
    tuple(int(3), text(order), NONE, NONE, NONE, int(-1), int(-1), int(0)),
    'b',
  )
  const empty = call('numpy.core.multiarray', '_reconstruct', global('numpy', 'ndarray'), tuple(int(0)), bytes(Buffer.from('b')))
  return cat(empty, tuple(int(1), tuple(...shape.map(int)), type, fortran, bytes(data)), 'b')
}

/** The pickle of protocol 3 of a value. */
export const saved = (value) => {
  const file = pickle(value)
  file[1] = 3
  return file
}

export const split = (shape, slices) => cat('}(', text('OriginShape'), tuple(...shape.map(int)), text('slices'), list(...slices.map(text)), 'u')

const varint = (value) => {
  const made = []
  for (let left = BigInt(value); made.length === 0 || left > 0n; left >>= 7n) made.push(Number(left & 127n) | (left > 127n ? 128 : 0))
  return Buffer.from(made)
}
/** `VarType.TensorDesc`. */
export const description = (type, dims) => cat(Buffer.from([8, type]), ...dims.flatMap((dim) => [Buffer.from([16]), varint(dim)]))
/** A parameter in one file with others. */
export const parameter = (type, dims, data, { version = 0, levels = [], inner = 0, desc = description(type, dims), length = desc.length } = {}) =>
  cat(le(4, version), le(8, levels.length), ...levels.flatMap((level) => [le(8, level.length), level]), le(4, inner), le(4, length), desc, data)
