// node values.mjs: opens every file in ZTENSOR_FIXTURES with the package `ztensor` that is installed in this file's folder, and prints, as
// one JSON object, the values that must be the same on every machine: names, dtypes, shapes, digests of the values, and the bytes of a conversion.
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { endianness, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { convert, open } from 'ztensor'

const fixtures = process.env.ZTENSOR_FIXTURES
const scratch = mkdtempSync(join(tmpdir(), 'ztensor-values-'))
const swaps = { 2: 'swap16', 4: 'swap32', 8: 'swap64' }
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** A digest of values as little-endian bytes. */
function digest(values) {
  const bytes = Buffer.from(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
  const swap = endianness() === 'BE' ? swaps[values.BYTES_PER_ELEMENT] : undefined
  return sha256(swap === undefined ? bytes : bytes[swap]())
}

/** The result, or the code of the error. */
async function outcome(work) {
  try {
    return await work()
  } catch (error) {
    return error.code ?? String(error)
  }
}

async function valuesOf(path) {
  const file = await open(path)
  const tensors = {}
  for (const [name, tensor] of file) {
    const { dtype, shape, layout } = tensor
    const values = await outcome(async () => digest(await tensor.load()))
    tensors[name] = {
      dtype,
      shape,
      layout,
      values,
      floats: await outcome(async () => digest(await tensor.toFloat32())),
    }
  }
  file.close()
  const written = join(scratch, 'written.zt')
  const converted = await outcome(async () => {
    await convert(path, written, { skip: true, overwrite: true })
    return sha256(readFileSync(written))
  })
  return { tensors, converted }
}

const all = {}
const files = readdirSync(fixtures, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
for (const path of files.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).sort())
  if (!/\.(md|py|json|cc)$/.test(path)) all[path.slice(fixtures.length)] = await outcome(() => valuesOf(path))
rmSync(scratch, { recursive: true, force: true })
console.log(JSON.stringify(all, (_, value) => (typeof value === 'bigint' ? String(value) : value)))
