// A hand-written loader for Node: the header by JSON.parse, the tensors by readSync.
import { closeSync, openSync, readSync } from 'node:fs'

function open(path) {
  const fd = openSync(path)
  const length = Buffer.alloc(8)
  readSync(fd, length, 0, 8, 0)
  const header = Buffer.alloc(Number(length.readBigUInt64LE()))
  readSync(fd, header, 0, header.length, 8)
  const tensors = JSON.parse(header.toString())
  delete tensors.__metadata__
  return { fd, tensors, data: 8 + header.length }
}

export function list(path) {
  const { fd, tensors } = open(path)
  let seen = 0
  for (const name in tensors) seen += name.length + Math.sign(tensors[name].dtype.length) + tensors[name].shape.length
  closeSync(fd)
  return seen
}

const ARRAYS = { BF16: Uint16Array, F32: Float32Array }

/** The elements of each tensor in an array of their type, and an element of each page. */
export function touch(path) {
  const { fd, tensors, data } = open(path)
  let sum = 0
  for (const name in tensors) {
    const { dtype, data_offsets } = tensors[name]
    const [begin, end] = data_offsets
    const ArrayOf = ARRAYS[dtype]
    const array = new ArrayOf((end - begin) / ArrayOf.BYTES_PER_ELEMENT)
    readSync(fd, array, 0, array.byteLength, data + begin)
    const step = 4096 / array.BYTES_PER_ELEMENT
    for (let at = 0; at < array.length; at += step) sum += array[at]
  }
  closeSync(fd)
  return sum
}

export function justOpen(path) {
  const { fd, tensors } = open(path)
  const names = Object.keys(tensors)
  closeSync(fd)
  return names.length
}

export function load(path) {
  const { fd, tensors, data } = open(path)
  const loaded = new Map()
  for (const name in tensors) {
    const [begin, end] = tensors[name].data_offsets
    const bytes = new Uint8Array(end - begin)
    readSync(fd, bytes, 0, bytes.length, data + begin)
    loaded.set(name, bytes)
  }
  closeSync(fd)
  return loaded.size
}
