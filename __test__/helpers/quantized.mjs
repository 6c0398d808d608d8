// The quantized tensors of fixtures/quantized.py, and functions that write them.
import { readFileSync } from 'node:fs'
import { inflateSync } from 'node:zlib'
import { numbersOf } from './bytes.mjs'
import { DTYPES } from './sample-files.mjs'

/** [{ layout, shape, attributes, components: { role: { dtype, data } }, expected: Float32Array }] */
export function quantizedCases(path) {
  const file = readFileSync(path)
  const end = file.indexOf('\n')
  const payload = inflateSync(file.subarray(end + 1))
  let at = 0
  const take = (Class, length) => {
    at += length
    return numbersOf(Class, payload.subarray(at - length, at))
  }
  return JSON.parse(file.subarray(0, end).toString()).cases.map((one) => {
    const components = Object.fromEntries(
      Object.entries(one.components).map(([role, { dtype, bytes }]) => {
        return [role, { dtype, data: take(DTYPES[dtype][0], bytes) }]
      }),
    )
    return { ...one, components, expected: take(Float32Array, one.elements * 4) }
  })
}

/** The number of values with different bits; all NaN are equal. */
export function differing(found, expected) {
  const bits = (floats) => new Uint32Array(floats.buffer, floats.byteOffset, floats.length)
  const [a, b] = [bits(found), bits(expected)]
  let count = Math.abs(a.length - b.length)
  for (let i = 0; i < b.length; i++) {
    if (a[i] !== b[i] && !(Number.isNaN(found[i]) && Number.isNaN(expected[i]))) count++
  }
  return count
}
