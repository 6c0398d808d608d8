// Quantizes files of float32 by the package: `quantize-addon.mjs ROW IMPORTANCE FOLDER TYPE...`. Rows have ROW elements, IMPORTANCE is a file
// of as many float32, and `+` before a type uses it. For the N-th type it writes the blocks of FOLDER/N.source to FOLDER/N.blocks, and
// the numbers of rows of FOLDER/N.rejected that are not rejected to FOLDER/N.accepted.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { convert, open, saveFile } from 'ztensor'

const [row, importance, folder, ...types] = process.argv.slice(2)
const NAME = 'weight'
const path = join(folder, 'source.safetensors')
const target = join(folder, 'quantized.gguf')
const matrix = join(folder, 'imatrix.dat')

/** The older format of llama-imatrix: the number of tensors, then of each its name, its number of runs, and the sums. */
const int32 = (value) => Buffer.from(Int32Array.of(value).buffer)
writeFileSync(
  matrix,
  Buffer.concat(
    [1, NAME.length, NAME, 1, Number(row), readFileSync(importance)].map((part) =>
      typeof part === 'number' ? int32(part) : Buffer.from(part),
    ),
  ),
)

/** The blocks of rows. */
async function quantized(data, type) {
  await saveFile(path, { [NAME]: { data, shape: [data.length / row, Number(row)] } }, { overwrite: true })
  const plain = type.replace('+', '')
  await convert(path, target, {
    overwrite: true,
    checkpoint: false,
    quantize: { '*': plain },
    ...(plain === type ? {} : { imatrix: matrix }),
  })
  const file = await open(target)
  const { offset, byteLength } = file.tensor(NAME).components.get('data')
  file.close()
  return readFileSync(target).subarray(offset, offset + byteLength)
}

async function isRejected(data, type) {
  try {
    await quantized(data, type)
    return false
  } catch (error) {
    if (error.code !== 'ZT_BAD_DTYPE' || error.tensor !== NAME) throw error
    return true
  }
}

for (const [at, type] of types.entries()) {
  const part = (what) => join(folder, `${at}.${what}`)
  const floats = (what) => new Float32Array(new Uint8Array(readFileSync(part(what))).buffer)
  const rejected = floats('rejected')
  const accepted = []
  for (let number = 0; number < rejected.length / row; number++) {
    // Two rows, because one is a vector, which is not quantized.
    const data = rejected.slice(number * row, (number + 1) * row)
    if (!(await isRejected(Float32Array.of(...data, ...data), type))) accepted.push(number)
  }
  writeFileSync(part('accepted'), JSON.stringify(accepted))
  writeFileSync(part('blocks'), await quantized(floats('source'), type))
}
