// Writes ONNX models field by field, including malformed ones that the onnx package does not write.
import { Buffer } from 'node:buffer'
import { littleEndian } from './bytes.mjs'

/** A number in groups of seven bits; negative ones have 64 bits. */
export function varint(value) {
  const bytes = []
  let rest = BigInt.asUintN(64, BigInt(value))
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128)
    rest >>= 7n
  }
  return Buffer.from([...bytes, Number(rest)])
}

const tag = (number, wire) => varint(number * 8 + wire)
export const int = (number, value) => Buffer.concat([tag(number, 0), varint(value)])
/** Bytes, text or a message; `length` is the claimed length. */
export function bytes(number, value, length) {
  const body = Array.isArray(value) ? Buffer.concat(value) : Buffer.from(value)
  return Buffer.concat([tag(number, 2), varint(length ?? body.length), body])
}
export function float(number, value) {
  const body = Buffer.alloc(4)
  body.writeFloatLE(value)
  return Buffer.concat([tag(number, 5), body])
}
export function double(number, value) {
  const body = Buffer.alloc(8)
  body.writeDoubleLE(value)
  return Buffer.concat([tag(number, 1), body])
}
export const packed = (number, values) => bytes(number, values.map(varint))
export const f32s = (...values) => littleEndian(Float32Array.from(values))

export const TYPES = {
  float: 1,
  uint8: 2,
  int8: 3,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  double: 11,
  uint32: 12,
  int4: 22,
}

/** TensorProto: `more` are its other fields. */
export const tensor = ({ name = 'w', dims = [2], type = TYPES.float, raw, more = [] } = {}) => [
  ...dims.map((dim) => int(1, dim)),
  int(2, type),
  ...(name === null ? [] : [bytes(8, name)]),
  ...(raw === undefined ? [] : [bytes(9, raw)]),
  ...more,
]
/** The fields of a tensor whose data is in another file. */
export const external = (entries) => [
  ...Object.entries(entries).map(([key, value]) => bytes(13, [bytes(1, key), bytes(2, String(value))])),
  int(14, 1),
]
export const attribute = (name, ...fields) => [bytes(1, name), ...fields]
export const node = ({ type = 'Op', name, outputs = [], domain, attributes = [] } = {}) => [
  ...outputs.map((output) => bytes(2, output)),
  ...(name === undefined ? [] : [bytes(3, name)]),
  bytes(4, type),
  ...attributes.map((one) => bytes(5, one)),
  ...(domain === undefined ? [] : [bytes(7, domain)]),
]
export const graph = ({ nodes = [], tensors = [], sparse = [], more = [] } = {}) => [
  ...nodes.map((one) => bytes(1, one)),
  ...tensors.map((one) => bytes(5, one)),
  ...sparse.map((one) => bytes(15, one)),
  ...more,
]
/** A whole model. */
export const model = (of = {}, { version = 8, more = [] } = {}) =>
  Buffer.concat([int(1, version), bytes(7, Array.isArray(of) ? of : graph(of)), ...more, bytes(8, [int(2, 17)])])
/** A model of one tensor. */
export const one = (of) => model({ tensors: [tensor(of)] })
