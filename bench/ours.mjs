// The work through the package.
import { convert, open, openSync } from 'ztensor'

export function justOpen(path) {
  const file = openSync(path)
  const { size } = file
  file.close()
  return size
}

export function list(path, options) {
  const file = openSync(path, options)
  let seen = 0
  for (const tensor of file.values()) seen += tensor.name.length + Math.sign(tensor.dtype.length) + tensor.shape.length
  file.close()
  return seen
}

export function touch(path) {
  const file = openSync(path)
  let sum = 0
  for (const { data } of file.values()) sum += touchPages(data)
  file.close()
  return sum
}

/** An element of each page. */
export function touchPages(array) {
  const step = 4096 / array.BYTES_PER_ELEMENT
  let sum = 0
  for (let at = 0; at < array.length; at += step) sum += array[at]
  return sum
}

export async function load(path, options) {
  const file = await open(path, options)
  const loaded = await file.load()
  file.close()
  return loaded.size
}

/** Verifies each digest. Throws if one fails. */
export async function verify(path) {
  const file = await open(path)
  const { ok, checked } = await file.verify()
  file.close()
  if (!ok || checked === 0) throw new Error(`${path} does not verify`)
}

export async function widen(path) {
  const file = await open(path)
  const floats = await file.tensor('w.0').load({ as: 'float32' })
  file.close()
  return floats.length
}

export async function stats(path, options) {
  const file = await open(path)
  const { count } = await file.tensor('model.embed_tokens.weight').stats(options)
  file.close()
  return count
}

export function sliceColumns(path) {
  const file = openSync(path)
  const tensor = file.tensor('model.embed_tokens.weight')
  const { data } = tensor.slice([null, [0, tensor.shape[1] / 2]])
  const last = data[data.length - 1]
  file.close()
  return last
}

const elements = ({ shape }) => shape.reduce((product, length) => product * length, 1)
let buffer

/** Loads one tensor after the other into the same allocated buffer. */
async function loadEach(path, ArrayOf, options) {
  const file = await open(path)
  const most = Math.max(...[...file.values()].map(elements))
  buffer ??= new Uint8Array(4 * most).fill(1).buffer
  let seen = 0
  for (const tensor of file.values()) {
    const into = new ArrayOf(buffer, 0, elements(tensor))
    seen += (await tensor.load({ ...options, into })).length
  }
  file.close()
  return seen
}

export const loadInto = (path) => loadEach(path, Uint16Array)
export const widenInto = (path) => loadEach(path, Float32Array, { as: 'float32' })

/** `options` in JSON. */
export async function write(source, target, options) {
  await convert(source, target, { overwrite: true, ...JSON.parse(options) })
}
