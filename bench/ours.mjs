// The same work through the package.
import { open, openSync } from 'ztensor'

export function justOpen(path) {
  const file = openSync(path)
  const { size } = file
  file.close()
  return size
}

export function list(path) {
  const file = openSync(path)
  let seen = 0
  for (const tensor of file.values()) seen += tensor.name.length + Math.sign(tensor.dtype.length) + tensor.shape.length
  file.close()
  return seen
}

export function touch(path) {
  const file = openSync(path)
  let sum = 0
  for (const { data } of file.values()) {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    for (let at = 0; at < bytes.length; at += 4096) sum += bytes[at]
  }
  file.close()
  return sum
}

export async function load(path) {
  const file = await open(path)
  const loaded = await file.load()
  file.close()
  return loaded.size
}
