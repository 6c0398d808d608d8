// The loader that a Node user writes by hand: the header by JSON.parse, the tensors by readSync.
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

export function touch(path) {
  const { fd, tensors, data } = open(path)
  let sum = 0
  for (const name in tensors) {
    const [begin, end] = tensors[name].data_offsets
    const bytes = new Uint8Array(end - begin)
    readSync(fd, bytes, 0, bytes.length, data + begin)
    for (let at = 0; at < bytes.length; at += 4096) sum += bytes[at]
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
