// The files of fixtures/gguf-files.py, and their values as the gguf package reads them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inflateSync } from 'node:zlib'
import { numbersOf } from './bytes.mjs'

/** The tensors of types.gguf in a folder: [{ name, type, shape, expected: Float32Array }]. */
export function decoded(folder) {
  const file = readFileSync(join(folder, 'values.bin'))
  const end = file.indexOf('\n')
  const payload = inflateSync(file.subarray(end + 1))
  let at = 0
  return JSON.parse(file.subarray(0, end).toString()).files['types.gguf'].map((one) => {
    const bytes = payload.subarray(at, at + one.elements * 4)
    at += bytes.length
    return { ...one, expected: numbersOf(Float32Array, bytes) }
  })
}
