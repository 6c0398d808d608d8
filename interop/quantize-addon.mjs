// Quantizes a file of float32 by the package: `quantize-addon.mjs ROW SOURCE IMPORTANCE FOLDER TYPE...`. Rows have ROW elements, IMPORTANCE
// is a file of as many float32, and `+` before a type asks for it. Writes the blocks of the n-th type to FOLDER/n.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { convert, open, saveFile } from 'ztensor'

const [row, source, importance, folder, ...types] = process.argv.slice(2)
const NAME = 'weight'
const path = join(folder, 'source.safetensors')
const target = join(folder, 'quantized.gguf')
const matrix = join(folder, 'imatrix.dat')

const floats = new Float32Array(readFileSync(source).buffer)
await saveFile(path, { [NAME]: { data: floats, shape: [floats.length / row, Number(row)] } }, { overwrite: true })

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

for (const [at, type] of types.entries()) {
  const plain = type.replace('+', '')
  await convert(path, target, {
    overwrite: true,
    quantize: { '*': plain },
    ...(plain === type ? {} : { imatrix: matrix }),
  })
  const file = await open(target)
  const { offset, byteLength } = file.tensor(NAME).components.get('data')
  file.close()
  writeFileSync(join(folder, String(at)), readFileSync(target).subarray(offset, offset + byteLength))
}
