// The files of fixtures/onnx-files.py, and their values as the onnx package reads them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inflateSync } from 'node:zlib'
import { littleEndian } from './bytes.mjs'

/** The tensors of each file in a folder: Map of names to { name, dtype, shape, data: Uint8Array }. */
export function expectedOf(folder) {
  const file = readFileSync(join(folder, 'values.bin'))
  const end = file.indexOf('\n')
  const payload = inflateSync(file.subarray(end + 1))
  // In the order of writing, file after file.
  const { files } = JSON.parse(file.subarray(0, end).toString())
  let at = 0
  const named = Object.entries(files).map(([name, tensors]) => {
    const read = tensors.map((one) => {
      const data = payload.subarray(at, at + one.bytes)
      at += one.bytes
      return { ...one, data }
    })
    return [name, read]
  })
  return new Map(named)
}

/** ONNX types without a dtype. */
export const UNTYPED = new Set(['int4', 'uint4', 'int2', 'uint2'])

/** The differences between the tensors of an open file and those that the onnx package reads. */
export async function differences(file, expected) {
  const wrong = []
  const same = (found, { data }) => Buffer.compare(littleEndian(found), data) === 0
  for (const one of expected) {
    const tensor = file.get(one.name)
    if (tensor === undefined) {
      wrong.push(`${one.name} is missing`)
      continue
    }
    const dtype = UNTYPED.has(one.dtype) ? undefined : one.dtype
    if (tensor.dtype !== dtype) wrong.push(`${one.name} is ${tensor.dtype}, not ${dtype}`)
    if (tensor.shape.join() !== one.shape.join()) wrong.push(`${one.name} is of ${tensor.shape}, not ${one.shape}`)
    const component = tensor.components.get('data')
    const ways = { component: component.data, 'component.load()': await component.load() }
    if (dtype !== undefined) Object.assign(ways, { data: tensor.data, 'load()': await tensor.load() })
    for (const [way, found] of Object.entries(ways))
      if (!same(found, one)) wrong.push(`${one.name}: ${way} returns other bytes`)
  }
  return wrong
}
